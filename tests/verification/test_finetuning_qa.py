"""Comparison of question answering with reference files."""

import json
import shutil

import numpy as np
import pytest

from electra_tf.verification import finetuning_qa
from electra_tf.verification import reference
from electra_tf.verification.report import CheckResult

HEAD = "head_train_joint_simple_answerable"
FEATURES = "features_squadv1.json"
POSTPROCESSING = "postprocess_joint_v2"


@pytest.fixture(scope="session")
def stored(golden):
    return golden / "reference" / "finetuning" / "qa"


@pytest.fixture
def folder(stored, tmp_path):
    """A copy to spoil."""
    target = tmp_path / "finetuning" / "qa"
    shutil.copytree(stored, target, ignore=shutil.ignore_patterns("*.py"))
    return target


def _check(folder, name):
    results = dict(finetuning_qa.list_cases(folder))[name]()
    return [results] if isinstance(results, CheckResult) else results


def _passes(folder, name):
    return all(result.passed for result in _check(folder, name))


def _edit(path, change):
    content = json.loads(path.read_text("utf-8"))
    change(content)
    path.write_text(json.dumps(content), "utf-8")


def _edit_head(folder, **options):
    def change(content):
        for head in content:
            if f"head_{head['tag']}" == HEAD:
                head.update(options)

    _edit(folder / "heads.json", change)


def _edit_array(path, name, change):
    with np.load(path) as file:
        arrays = dict(file)
    change(arrays[name])
    np.savez(path, **arrays)


def test_all_stored_numbers_are_met(stored):
    cases = dict(finetuning_qa.list_cases(stored))
    assert list(cases) == [
        "features_train_squadv1",
        "features_eval_squadv1",
        "head_predict_independent_no_answerable",
        "head_train_joint_simple_answerable",
        "postprocess_joint_v2",
        "final_text",
        "evaluation",
        "normalized_answers",
    ]
    for name in cases:
        results = _check(stored, name)
        assert results and all(result.passed for result in results), name


def test_every_number_of_the_full_folder_is_met(oracles):
    folder = oracles / "finetuning" / "qa"
    cases = dict(finetuning_qa.list_cases(folder))
    assert len(cases) >= 6 + 6 + 4 + 4
    for name in cases:
        results = _check(folder, name)
        assert results and all(result.passed for result in results), name


@pytest.mark.parametrize(
    ("split", "name", "row"),
    [
        ("train", "input_ids", 3),
        ("train", "start_positions", 0),
        ("train", "end_positions", 0),
        ("train", "is_impossible", 1),
        ("train", "eid", 2),
        ("eval", "segment_ids", 4),
        ("eval", "word_of_token", 5),
        ("eval", "is_max_context", 5),
    ],
)
def test_another_number_in_the_features_is_a_miss(folder, split, name, row):
    def change(array):
        array[row] += 1

    path = folder / f"features_{split}_squadv1.npz"
    _edit_array(path, name, change)
    (result,) = _check(folder, path.stem)
    assert not result.passed
    assert f"worst: {name}" in result.case


@pytest.mark.parametrize(
    ("field", "value"),
    [("start_word", 9), ("answer", "x"), ("n_words", 1), ("n_features", 9)],
)
def test_another_example_is_a_miss(folder, field, value):
    def change(content):
        content["examples"][1][field] = value

    _edit(folder / FEATURES, change)
    assert not _passes(folder, "features_train_squadv1")
    assert _passes(folder, "features_eval_squadv1")


@pytest.mark.parametrize(
    ("key", "value"),
    [("doc_stride", 7), ("max_query_length", 3), ("n_eval_features", 1)],
)
def test_another_setting_is_a_miss(folder, key, value):
    _edit(folder / FEATURES, lambda content: content.update({key: value}))
    assert not _passes(folder, "features_eval_squadv1")


def test_a_question_that_was_not_dropped_is_a_miss(folder):
    _edit(folder / FEATURES, lambda content: content["dropped_ids"].pop())
    (result,) = _check(folder, "features_train_squadv1")
    assert "worst: dropped_ids" in result.case


@pytest.mark.parametrize(
    "name",
    ["loss", "start_logits", "end_logits", "answerable_logit",
     "start_top_log_probs", "start_top_index"],
)  # fmt: skip
def test_another_number_of_a_head_is_a_miss(folder, name):
    def change(array):
        array.flat[0] += 1

    _edit_array(folder / f"{HEAD}.npz", f"out/{name}", change)
    (result,) = _check(folder, HEAD)
    assert not result.passed
    assert f"worst: {name}" in result.case


def test_another_weight_of_the_classifier_is_a_miss(folder):
    _edit_head(folder, answerable_weight=0.7)
    (result,) = _check(folder, HEAD)
    assert "worst: loss" in result.case


def test_other_variables_than_the_heads_are_an_error(folder):
    _edit_head(folder, answerable_classifier=False)
    with pytest.raises(reference.ReferenceFileError, match="dense_2/kernel"):
        _check(folder, HEAD)


@pytest.mark.parametrize("key", ["predictions", "null_odds"])
def test_another_prediction_is_a_miss(folder, key):
    def change(content):
        first = next(iter(content[key]))
        content[key][first] = 7.0 if key == "null_odds" else "x"

    _edit(folder / f"{POSTPROCESSING}.json", change)
    results = _check(folder, POSTPROCESSING)
    assert [result.passed for result in results].count(False) == 1
    assert any(f"worst: {key}" in result.case for result in results)


@pytest.mark.parametrize("field", ["text", "probability", "end_logit"])
def test_another_n_best_entry_is_a_miss(folder, field):
    def change(content):
        entry = next(iter(content["nbest"].values()))[1]
        entry[field] = "x" if field == "text" else entry[field] + 0.01

    _edit(folder / f"{POSTPROCESSING}.json", change)
    assert not _passes(folder, POSTPROCESSING)


@pytest.mark.parametrize("name", ["final_text", "normalized_answers"])
def test_another_text_is_a_miss(folder, name):
    key = "result" if name == "final_text" else "normalized"
    _edit(folder / f"{name}.json", lambda cases: cases[2].update({key: "x"}))
    assert not _passes(folder, name)


@pytest.mark.parametrize(
    ("key", "field"),
    [("results_v1", "f1"), ("results_mrqa_skip", "exact_match"),
     ("results_mrqa_noskip", "f1"), ("raw_f1", "h001")],
)  # fmt: skip
def test_another_score_is_a_miss(folder, key, field):
    def change(content):
        content[key][field] += 1e-6

    _edit(folder / "evaluation.json", change)
    assert not _passes(folder, "evaluation")


def test_another_score_of_2_0_is_a_miss(folder):
    def change(content):
        content["results_v2"]["1.0"]["best_f1_thresh"] += 1e-6

    _edit(folder / "evaluation.json", change)
    (result,) = _check(folder, "evaluation")
    assert "worst: v2 1.0" in result.case


@pytest.mark.parametrize(
    "name", [FEATURES, "features_eval_squadv1.npz", f"{POSTPROCESSING}.npz"]
)
def test_a_missing_file_is_an_error_of_its_case_alone(folder, name):
    (folder / name).unlink()
    cases = dict(finetuning_qa.list_cases(folder))
    broken = []
    for case in cases:
        try:
            assert _passes(folder, case)
        except FileNotFoundError as error:
            assert name in str(error)
            broken.append(case)
    assert broken
    assert all(name.split("_")[0] in case for case in broken)
