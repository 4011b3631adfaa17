"""Tagging references, whole and damaged."""

import json
import pathlib
import shutil

import numpy as np
import pytest

from electra_tf.verification import finetuning_tagging
from electra_tf.verification import reference


@pytest.fixture
def folder(golden):
    return golden / "reference" / "finetuning" / "tagging"


@pytest.fixture
def copy(folder, tmp_path):
    return pathlib.Path(shutil.copytree(folder, tmp_path / "tagging"))


def _check(folder, only=""):
    cases = finetuning_tagging.list_cases(folder)
    return [check() for name, check in cases if only in name]


def _change(path, name, value):
    arrays = dict(np.load(path))
    arrays[name].flat[1] = value
    np.savez(path, **arrays)


def _edit(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_the_references_that_travel_with_the_project_pass(folder):
    results = _check(folder)
    assert len(results) == 9
    assert all(result.passed for result in results), results


def test_the_full_references_pass(oracles):
    results = _check(oracles / "finetuning" / "tagging")
    assert len(results) == 9
    assert all(result.passed for result in results), results


@pytest.mark.parametrize(
    ("file", "array"),
    [
        ("features_dev.npz", "input_ids"),
        ("features_dev.npz", "labels"),
        ("features_dev.npz", "labels_mask"),
        ("features_dev.npz", "labeled_positions"),
        ("head_chunk.npz", "out/logits"),
        ("head_chunk.npz", "out/loss"),
    ],
)
def test_a_wrong_number_is_a_miss_that_names_its_array(copy, file, array):
    _change(copy / file, array, 77)
    (result,) = _check(copy, file.removesuffix(".npz"))
    assert not result.passed
    assert array.removeprefix("out/") in result.case


@pytest.mark.parametrize(
    ("case", "file", "change"),
    [
        ("spans", "spans", lambda cases: cases[3]["bieo"].reverse()),
        ("spans", "spans", lambda cases: cases[0]["spans"].append([0, 0, "A"])),
        ("mapping", "tagging", lambda i: i["label_mapping"].update(X=99)),
        ("alignment", "tagging", lambda i: i["alignment"][4]["pieces"].pop(1)),
        ("examples", "tagging", lambda i: i["examples"]["test"].pop()),
        ("examples", "tagging", lambda i: i["n_examples"].update(train=3)),
        (
            "scores",
            "tagging",
            lambda i: i["dev_scores"]["entity_f1"].update(f1=50.0),
        ),
        (
            "features_train",
            "tagging",
            lambda i: i["examples_that_overflow"].update(train=[0, 18]),
        ),
    ],
)
def test_a_wrong_value_is_a_miss(copy, case, file, change):
    _edit(copy / f"{file}.json", change)
    (result,) = _check(copy, case)
    assert not result.passed


def test_a_missing_file_stops_no_other_case(copy):
    (copy / "spans.json").unlink()
    (copy / "features_test.npz").write_bytes(b"PK damaged")
    results, errors = [], []
    for _, check in finetuning_tagging.list_cases(copy):
        try:
            results.append(check())
        except (FileNotFoundError, reference.ReferenceFileError) as error:
            errors.append(str(error))
    assert len(results) == 7
    assert all(result.passed for result in results)
    assert "spans.json" in errors[0]
    assert "features_test.npz" in errors[1]
