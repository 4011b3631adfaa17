"""Sentence tasks against reference files, whole, changed and damaged."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from electra_tf import finetuning_config
from electra_tf.verification import finetuning_classification as check
from electra_tf.verification import reference

PART = "finetuning/classification"


def _run(folder):
    """Every case's results, by name."""
    return {name: run() for name, run in check.list_cases(folder)}


def _run_one(folder, case):
    return dict(check.list_cases(folder))[case]()


@pytest.fixture
def folder(golden, tmp_path):
    """A copy of the stored part that may be changed."""
    shutil.copytree(golden / "reference/finetuning", tmp_path / "finetuning")
    return tmp_path / PART


def _change_json(path, change):
    content = json.loads(path.read_text("utf-8"))
    change(content)
    path.write_text(json.dumps(content), "utf-8")


def test_the_stored_part_is_met(golden):
    results = _run(golden / "reference" / PART)
    assert [r for r in results.values() if not r.passed] == []
    assert sum(result.num_cases for result in results.values()) > 170


def test_the_full_reference_is_met(oracles):
    results = _run(oracles / PART)
    assert [r for r in results.values() if not r.passed] == []
    tasks = {name.split()[0] for name in results}
    assert {"cola", "sst", "mrpc", "sts", "qqp", "mnli", "qnli", "rte"} <= tasks


def test_settings_come_from_the_files(folder):
    # Other lengths of rows would be other rows.
    _change_json(
        folder / "examples.json", lambda c: c.update(max_seq_length=47)
    )
    assert not _run_one(folder, "sts dev").passed


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [("eid", 3, 1), ("text_a", "x", 1), ("text_b", "x", 1), ("label", "1", 1)],
)
def test_one_wrong_example_is_a_miss(folder, key, value, error):
    def change(content):
        split = content["tasks"]["cola"]["splits"]["train"]
        split["examples"][0][key] = value

    _change_json(folder / "examples.json", change)
    result = _run_one(folder, "cola train")
    assert result.largest_error == error
    assert "example" in result.case


def test_a_bad_line_too_many_is_a_miss(folder):
    path = folder / "tsv" / "qqp" / "dev.tsv"
    path.write_text(path.read_text("utf-8") + "one\tmore\n", "utf-8")
    result = _run_one(folder, "qqp dev")
    assert not result.passed
    assert "bad lines" in result.case


@pytest.mark.parametrize(
    ("case", "name"),
    [
        ("mrpc train", "input_ids"),
        ("mrpc train", "segment_ids"),
        ("mrpc train", "labels"),
        ("qqp dev", "eid"),
        ("sts dev", "labels"),
        ("sst test", "input_mask"),
    ],
)
def test_one_wrong_number_of_a_row_is_a_miss(folder, case, name):
    path = folder / f"{case.replace(' ', '_')}.npz"
    arrays = dict(np.load(path))
    arrays[name].flat[1] += 1
    np.savez(path, **arrays)
    result = _run_one(folder, case)
    assert not result.passed
    assert name in result.case


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("head_mnli.npz", "out/logits"),
        ("head_mnli.npz", "out/loss"),
        ("head_mnli.npz", "weights/task_specific/mnli/dense/bias"),
        ("head_sts.npz", "out/predictions"),
        ("head_sts.npz", "out/targets"),
    ],
)
def test_a_wrong_output_of_a_head_is_a_miss(folder, file, name):
    arrays = dict(np.load(folder / file))
    arrays[name] = arrays[name] + np.float32(1e-3)
    np.savez(folder / file, **arrays)
    assert not check.check_head(folder / file).passed


def test_the_originals_f1_and_the_right_one_are_both_compared(folder):
    for group in ("f1_binary_as_in_original", "extra_not_from_original"):
        content = json.loads((folder / "metrics.json").read_text())
        assert group in content
        content[group]["recall"] += 0.01
        (folder / "metrics.json").write_text(json.dumps(content))
        result = check.check_metrics(folder)
        assert not result.passed
        assert "recall" in result.case


def test_an_unknown_metric_is_named(folder):
    _change_json(folder / "metrics.json", lambda c: c.update(new={"a": 1}))
    with pytest.raises(reference.ReferenceFileError, match="'new'"):
        check.check_metrics(folder)


def test_other_epochs_are_a_miss(folder):
    def change(content):
        content["tasks"]["sts"]["num_train_epochs"] = 3

    _change_json(folder / "examples.json", change)
    assert _run_one(folder, "epochs").largest_error == 7


def test_a_missing_file_is_named_and_stops_no_other_case(folder):
    (folder / "mrpc_train.npz").unlink()
    cases = dict(check.list_cases(folder))
    with pytest.raises(FileNotFoundError, match=r"mrpc_train\.npz"):
        cases["mrpc train"]()
    assert cases["qqp dev"]().passed


def test_rates_are_compared_where_settings_are_given(folder):
    path = folder.parent / check.HYPERPARAMETERS
    small = finetuning_config.FinetuningConfig()
    rates = {"learning_rate": 5e-5, "layerwise_lr_decay": 0.9}
    large = dataclasses.replace(
        small, optimizer=dataclasses.replace(small.optimizer, **rates)
    )
    sizes = {"small": small, "base": small, "large": large}
    result = check.check_defaults(path, sizes)
    assert result.passed
    assert result.num_cases > check.check_defaults(path).num_cases
    assert not check.check_defaults(path, sizes | {"large": small}).passed
