"""The comparison with the original's counts of operations."""

import json

import pytest

from electra_tf.verification import flops
from electra_tf.verification import reference


@pytest.fixture
def stored(golden):
    path = golden / "reference" / "flops" / "flops.json"
    return json.loads(path.read_text(encoding="utf-8"))


def _check(tmp_path, sections):
    path = tmp_path / "counts.json"
    path.write_text(json.dumps(sections), encoding="utf-8")
    return flops.check_file(path)


def test_all_stored_numbers_are_met_and_measured_ones_skipped(golden):
    path = golden / "reference" / "flops" / "flops.json"
    results = flops.check_file(path)
    compared = [r for r in results if r.skipped_reason is None]
    assert [r.case for r in compared] == [
        "flops, components",
        "flops, electra",
        "flops, table",
    ]
    assert [r.num_cases for r in compared] == [6 * 7, 3, 11]
    assert all(r.passed for r in compared)
    skipped = [r.case for r in results if r.skipped_reason is not None]
    assert skipped == ["flops, table, elmo", "flops, table, xlnet"]


def test_every_number_of_the_full_folder_is_met(oracles):
    results = flops.check_file(oracles / "flops" / "flops.json")
    assert all(r.passed for r in results)
    assert sum(r.num_cases for r in results) >= 15 * 7 + 8 + 11


@pytest.mark.parametrize(
    "name",
    [
        "block",
        "embedding",
        "output",
        "binary",
        "infer",
        "train_256x1000",
        "train_256x1000_disc",
    ],
)
def test_one_component_off_by_1e_11_is_a_miss_of_that_name(
    stored, tmp_path, name
):
    stored["components"][3][name] *= 1 + 1e-11
    components, electra, *_ = _check(tmp_path, stored)
    assert not components.passed
    assert f"worst: 3: {name}" in components.case
    assert electra.passed


def test_another_hyperparameter_is_a_miss(stored, tmp_path):
    stored["components"][0]["args"]["s"] += 1
    stored["electra"][1]["args"]["tied_embeddings"] ^= True
    stored["table"]["bert_base"] = stored["table"]["bert_large"]
    results = _check(tmp_path, stored)
    missed = [r.case for r in results if not r.passed]
    assert [case.split(" (")[0] for case in missed] == [
        "counts, components",
        "counts, electra",
        "counts, table",
    ]
    assert "worst: 1" in missed[1]
    assert "worst: bert_base" in missed[2]


def test_a_model_without_hyperparameters_is_skipped_by_name(stored, tmp_path):
    stored["table"]["gpt4"] = "1e25"
    *_, last = _check(tmp_path, {"table": stored["table"]})
    assert last.case == "counts, table, gpt4"
    assert "no hyperparameters" in last.skipped_reason


@pytest.mark.parametrize(
    ("sections", "pattern"),
    [
        ({}, "Received: none"),
        ({"parts": []}, "Received: parts"),
        ({"components": [{"args": {"h": 8, "l": 1, "q": 2}}]}, None),
        ({"components": [{"args": {"h": 8, "q": 2}, "block": 1}]}, ": q"),
        ({"components": [{"args": {"h": 8, "l": 1}, "head": 1}]}, "'head'"),
        ({"components": [{"args": {"h": 8, "l": 1}, "train_8": 1}]}, "train_8"),
    ],
)
def test_what_is_unknown_is_named_and_nothing_compared_is_a_miss(
    tmp_path, sections, pattern
):
    if pattern is None:
        (result,) = _check(tmp_path, sections)
        assert not result.passed
        return
    with pytest.raises(reference.ReferenceFileError, match=pattern):
        _check(tmp_path, sections)
