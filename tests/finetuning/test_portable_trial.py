"""Trials are models that travel, and travelled models are trials."""

import dataclasses

import numpy as np
import pytest

from electra_tf import errors
from electra_tf.export import conversion
from electra_tf.export import saved_model
from electra_tf.finetuning import finetune
from electra_tf.finetuning import portable_trial
from electra_tf.finetuning import trial as trial_lib
from electra_tf.formats import own_run
from tests import tiny
from tests.export import finetuned_tiny
from tests.finetuning import little_task
from tests.formats import tiny_models


def _write(folder, kind, **task):
    model = tiny_models.build(kind)
    changed = dataclasses.replace(model.task, **task)
    tensors = {
        path.replace(f"/{model.task.name}/", f"/{changed.name}/"): value
        for path, value in model.tensors.items()
    }
    model = dataclasses.replace(model, tensors=tensors, task=changed)
    return model, portable_trial.write_trial(model, folder)


@pytest.mark.parametrize("kind", tiny_models.FINETUNED)
def test_a_trial_reads_back_as_it_was_written(tmp_path, kind):
    model, written = _write(tmp_path, kind)
    tiny_models.require_same(written, model)
    assert own_run.is_trial(tmp_path)
    found = portable_trial.read_trial(tmp_path)
    tiny_models.require_same(found, model)
    assert found.step == 7


def test_a_range_and_a_label_with_a_comma_travel_along(tmp_path):
    _write(tmp_path / "trial", "hidden_regression")
    settings = trial_lib.read_description(tmp_path / "trial").settings
    assert (settings.own.min_value, settings.own.max_value) == (-10, 30)
    conversion.convert(tmp_path / "trial", "huggingface", tmp_path / "hf")
    conversion.convert(tmp_path / "hf", "electra_tf", tmp_path / "back")
    back = trial_lib.read_description(tmp_path / "back")
    assert back.settings == settings
    model, _ = _write(tmp_path / "own", "own")
    assert model.task.labels == ("good, or so", "bad")
    task = saved_model.load_task(tmp_path / "own").module.task
    assert task.labels == model.task.labels


@pytest.mark.parametrize(
    ("kind", "task"),
    [
        ("classification", {"name": "imdb"}),
        # Labels that the named task does not have.
        ("classification", {"labels": ("LABEL_0", "LABEL_1", "LABEL_2")}),
        # Values that are not scaled, as of Hugging Face's own models.
        ("regression", {"options": None}),
        # A name of a task of another kind.
        ("tagging", {"name": "mnli", "labels": ("a", "b", "c")}),
    ],
)
def test_a_task_that_is_not_of_the_catalog_becomes_ones_own(
    tmp_path, kind, task
):
    model, written = _write(tmp_path, kind, **task)
    # mnli and stsb read pairs, and so does what was one of them.
    is_pair = model.task.name in ("mnli", "stsb") and kind != "tagging"
    own = dataclasses.replace(model.task, name="own", has_pairs=is_pair)
    assert written.task == own
    found = portable_trial.read_trial(tmp_path)
    tiny_models.require_same(found, written)
    head = f"task_specific/{model.task.name}/dense/kernel"
    np.testing.assert_array_equal(
        found.tensors["task_specific/own/dense/kernel"], model.tensors[head]
    )


@tiny.eagerly()
def test_a_model_from_elsewhere_is_scored(tmp_path, ask, done):
    conversion.convert(done[0].folder(1), "huggingface", tmp_path / "hf")
    expected = trial_lib.read_result(done[0].folder(1)).scores
    request = dataclasses.replace(
        ask(), pretrained_dir=tmp_path / "hf", actions=("eval",)
    )
    for _ in range(2):
        summary = finetune.finetune(request)
        assert summary.trials[0].scores == expected
    assert saved_model.load_task(request.folder(1)).module.task.labels
    other = little_task.replace(request, "own", kind="regression")
    with pytest.raises(ValueError, match="own.py:classification"):
        finetune.finetune(other)


def test_one_task_of_several_is_taken(tmp_path):
    settings = finetuned_tiny.build_settings()
    trial = finetuned_tiny.write_trial(tmp_path / "trial", settings)
    with pytest.raises(ValueError, match="Received: no task.*--task=sst2"):
        portable_trial.read_trial(trial.folder)
    with pytest.raises(ValueError, match="Received: 'mnli'"):
        portable_trial.read_trial(trial.folder, "mnli")
    found = portable_trial.read_trial(trial.folder, "sst2")
    heads = {p for p in found.tensors if p.startswith("task_specific/")}
    assert heads == {v.path for v in trial.model.heads["sst2"].variables}
    assert len(found.notes) == 4
    portable_trial.write_trial(found, tmp_path / "again")
    again = portable_trial.read_trial(tmp_path / "again")
    tiny_models.require_same(again, found)


@pytest.mark.parametrize(
    "change",
    [
        {"encoder": {"colour": 3}},
        # Not the task's.
        {"labels": {"other": ["a"]}},
        {"labels": {"mnli": ["a", "b", "c"]}},
    ],
    ids=str,
)
def test_a_damaged_description_is_refused_by_name(tmp_path, change):
    _write(tmp_path, "classification")
    tiny_models.change_json(tmp_path / "config.json", **change)
    with pytest.raises(errors.ModelError, match=r"config\.json"):
        portable_trial.read_trial(tmp_path)
