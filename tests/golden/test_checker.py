"""A wrong number is a miss, and what is unknown is skipped."""

import json
import math
import shutil
import types

import numpy as np
import pytest

from tests import script_modules
from tests.formats import tiny_models
from tests.golden import comparison
from tests.golden import runner


@pytest.fixture
def folder(golden, tmp_path):
    shutil.copytree(golden / "masking", tmp_path / "masking")
    tokens = (tmp_path / "masking" / "vocab.txt").read_text()
    (tmp_path / "tokenization").mkdir()
    (tmp_path / "tokenization" / "vocab.txt").write_text(f"{tokens}w\n")
    _write_ids(tmp_path, 104)
    return tmp_path


def _write_ids(folder, number):
    """One text of one token, whose id in one mode is `number`."""
    modes = ("ids_lower", "ids_lower_keep_accents")
    case = {"text": "w", "ids_cased": [number]} | dict.fromkeys(modes, [104])
    path = folder / "tokenization" / "lines.jsonl"
    path.write_text(json.dumps(case) + "\n")


def _run(folder, *only):
    cases = runner.list_cases(folder, only)
    return [line for case in cases for line in case.run()]


def _misses(lines):
    return [line.cells()[0] for line in lines if not line.passed]


def test_what_is_right_passes_and_unknown_kinds_are_skipped_by_name(folder):
    (folder / "something_else").mkdir()
    lines = _run(folder)
    assert _misses(lines) == []
    skipped = {line.kind: line.skipped for line in lines if line.skipped}
    assert skipped["something_else"] == "no kind of that name"
    assert skipped["forward"] == "no such folder"
    compared = {line.kind for line in lines} - {*skipped}
    assert compared == {"masking", "tokenization"}


def test_a_file_that_cannot_be_read_is_a_miss_of_its_cases_alone(folder):
    path = folder / "masking" / "sample.npz"
    cut_off = path.read_bytes()[:200]
    path.unlink()
    for _ in ("missing", "cut off"):
        lines = _run(folder)
        assert ["sample.npz" in miss for miss in _misses(lines)] == [True] * 3
        passed = [n.kind for n in lines if n.passed and not n.skipped]
        assert passed == ["tokenization"] * 3 + ["masking"]
        path.write_bytes(cut_off)


def test_a_file_of_the_manifest_that_is_absent_is_a_miss(folder):
    manifest = "0123  ./masking/sample.npz\n0123  ./forward/x/gradients.npz\n"
    (folder / runner.MANIFEST).write_text(manifest)
    (miss,) = _misses(_run(folder))
    assert "forward/x/gradients.npz" in miss


def test_wrong_missing_and_unknown_arrays_are_misses(golden, tmp_path):
    target = tmp_path / "forward" / "i_mlm_only"
    shutil.copytree(golden / "forward" / "i_mlm_only", target)
    arrays = dict(np.load(target / "outputs.npz"))
    del arrays["mlm_preds"]
    arrays["something_new"] = np.zeros(2, np.int32)
    arrays["gen_layer_outputs"].flat[5] += 1e-4
    np.savez(target / "outputs.npz", **arrays)
    edits = {"max_predictions_per_seq": 77, "gradient_global_norm_dense": 1.0}
    tiny_models.change_json(target / "info.json", **edits)
    misses = _misses(_run(tmp_path))
    assert sorted(miss.split(", ", 1)[1] for miss in misses) == [
        "gradient norm (worst: norm)",
        "hyperparameters and variables (worst: N)",
        "ids, positions, labels (worst: mlm_preds on one side only)",
        "masks and generator (worst: gen_layer_outputs)",
    ]


def test_the_command_prints_the_table_and_exits_with_1_on_a_miss(
    folder, capsys, monkeypatch
):
    _write_ids(folder, 101)
    script = script_modules.load("verify_golden")
    flags = types.SimpleNamespace(golden_dir=folder, only=["tokenization"])
    monkeypatch.setattr(script, "FLAGS", flags)
    assert script.main() == 1
    heading, *lines, total = capsys.readouterr().out.splitlines()
    assert heading.split()[:3] == ["what", "cases", "largest"]
    assert [line.split()[-1] for line in lines] == ["pass", "pass", "MISS"]
    assert "lines, ids_cased (worst: line 1)" in lines[-1]
    assert total == "3 compared, 1 missed, 0 skipped"


def test_measures_have_different_units_and_refuse_shapes_and_nan():
    for measure, error in (
        (comparison.allclose_error, 0.25),
        (comparison.absolute_error, 4),
        (comparison.relative_error, 0.5),
        (comparison.scaled_error, 0.04),
        (comparison.count_unequal, 2),
    ):
        assert measure(np.array([1.5, 104.0]), np.array([1.0, 100.0])) == error
        array = np.array([1.0, -math.inf, 0.0])
        assert measure(array, array) == 0
        assert measure(array[:2], array) == math.inf
        assert measure(np.array([1.0, math.nan, 0.0]), array) > 0
