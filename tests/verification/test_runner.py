"""The run over a whole reference folder, and the command."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from electra_tf.verification import runner

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(golden, tmp_path):
    """A reference folder of other names, with statistics of masking alone."""
    folder = tmp_path / "any_name"
    shutil.copytree(golden / "masking", folder / "masking")
    tokens = [f"w{i}" for i in range(104)]
    tokens[0] = "[PAD]"
    tokens[100:104] = ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    (folder / "tokenization").mkdir()
    (folder / "tokenization" / "vocab.txt").write_text("\n".join(tokens) + "\n")
    line = {"text": "w1"} | dict.fromkeys(
        ("ids_lower", "ids_lower_keep_accents", "ids_cased"), [1]
    )
    (folder / "tokenization" / "lines.jsonl").write_text(json.dumps(line))
    return folder


def _misses(results):
    return [f"{r.kind}: {r.case}" for r in results if not r.passed]


def test_kinds_are_found_and_others_skipped_by_name(folder):
    (folder / "something_else").mkdir()
    cases = []
    results = runner.verify(folder, on_case=cases.append)
    assert _misses(results) == []
    skipped = {r.kind: r.skipped_reason for r in results if r.skipped_reason}
    assert skipped == {
        "examples": "no such folder",
        "optimizer": "no such folder",
        "forward": "no such folder",
        "flops": "no such folder",
        "finetuning": "no such folder",
        "huggingface": "no such folder",
        "something_else": "no kind of that name",
    }
    assert "tokenization/lines, ids_cased" in cases


def test_a_missing_file_is_a_miss_and_stops_nothing_else(folder):
    (folder / "masking" / "sample.npz").unlink()
    results = runner.verify(folder)
    misses = _misses(results)
    assert len(misses) == 3
    assert all("sample.npz" in miss for miss in misses)
    passed = [r.kind for r in results if r.passed and not r.skipped_reason]
    assert passed == ["tokenization"] * 3 + ["masking"]


def test_a_damaged_file_is_a_miss_that_names_it(folder):
    path = folder / "masking" / "sample.npz"
    path.write_bytes(path.read_bytes()[:200])
    misses = _misses(runner.verify(folder, ["masking"]))
    assert len(misses) == 3
    assert all("sample.npz" in miss for miss in misses)


def test_files_that_the_folder_lists_but_lacks_are_misses(folder):
    manifest = "0123  ./masking/sample.npz\n0123  ./forward/x/gradients.npz\n"
    (folder / runner.MANIFEST).write_text(manifest)
    (miss,) = _misses(runner.verify(folder, ["forward"]))
    assert "forward/x/gradients.npz" in miss
    assert _misses(runner.verify(folder, ["masking"])) == []


def test_settings_that_do_not_go_together_are_a_miss(golden, tmp_path):
    source = golden / "reference" / "forward" / "d_tied"
    target = tmp_path / "forward" / "some_electric"
    shutil.copytree(source, target)
    info = json.loads((target / "info.json").read_text())
    info["pretraining_config"]["electric_objective"] = True
    (target / "info.json").write_text(json.dumps(info))
    (miss,) = _misses(runner.verify(tmp_path, ["forward"]))
    assert "some_electric: ConfigError" in miss
    assert "two_tower_generator" in miss


def test_a_configuration_with_an_unknown_setting_is_a_miss(golden, tmp_path):
    source = golden / "reference" / "forward" / "d_tied"
    target = tmp_path / "forward" / "mistyped"
    shutil.copytree(source, target)
    info = json.loads((target / "info.json").read_text())
    info["pretraining_config"]["learning_rat"] = 1.0
    (target / "info.json").write_text(json.dumps(info))
    (miss,) = _misses(runner.verify(tmp_path, ["forward"]))
    assert "mistyped" in miss
    assert "learning_rat" in miss


@pytest.mark.parametrize(
    ("name", "only", "pattern"),
    [
        ("nowhere", [], "nowhere, not a folder"),
        (".", [], "without any"),
        ("any_name", ["masks"], "Received: masks"),
    ],
)
def test_what_is_no_reference_is_one_clear_error(folder, name, only, pattern):
    with pytest.raises(runner.ReferenceFolderError, match=pattern):
        runner.verify(folder.parent / name, only)


def _run_script(*arguments):
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.run(
        [sys.executable, REPOSITORY / "scripts/verify_golden.py", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )


def test_the_command_exits_with_1_on_a_miss_and_prints_the_table(folder):
    (folder / "tokenization" / "lines.jsonl").write_text(
        '{"text": "w1", "ids_lower": [2], "ids_lower_keep_accents": [1], '
        '"ids_cased": [1]}\n'
    )
    done = _run_script(f"--golden_dir={folder}", "--only=tokenization")
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == [
        "what", "cases", "largest", "error", "tolerance", "verdict",
    ]  # fmt: skip
    assert [line.split()[-1] for line in lines[1:4]] == ["MISS", "pass", "pass"]
    assert lines[4] == "3 compared, 1 missed, 0 skipped"


def test_the_command_exits_with_2_where_there_is_no_folder(tmp_path):
    done = _run_script(f"--golden_dir={tmp_path / 'nowhere'}")
    assert done.returncode == 2
    assert "nowhere" in done.stderr


@pytest.mark.parametrize(
    "kind", ["tokenization", "examples", "masking", "forward", "flops"]
)
def test_every_reference_of_the_full_folder_is_met(oracles, kind):
    results = runner.verify(oracles, [kind])
    assert _misses(results) == []
    assert any(result.skipped_reason is None for result in results)
    if kind == "forward":
        skipped = [r for r in results if r.skipped_reason is not None]
        assert all("un-summed" in r.skipped_reason for r in skipped)
        assert len(skipped) <= 1
