"""A trial learns, can be cut anywhere, and does not care for replicas."""

import dataclasses
import json

import numpy as np
import pytest

from electra_tf import errors
from electra_tf.finetuning import finetune
from electra_tf.finetuning import model as model_lib
from electra_tf.finetuning import trial as trial_lib
from electra_tf.processes import stopping
from electra_tf.training import checkpoints
from electra_tf.training import reporting
from tests import tiny
from tests.finetuning import little_task
from tests.finetuning.conftest import write_run


def _weights(folder):
    return checkpoints.load_tensors(checkpoints.latest(folder), "model")


def _lines(trial, split="train"):
    lines = reporting.read_lines(trial.folder / "metrics.jsonl")
    return [line for line in lines if line["split"] == split]


@pytest.fixture(scope="module")
def finished(done):
    """The first of the trials, as it was left."""
    actions = ("train", "eval")
    request = dataclasses.replace(done[0], num_trials=1, actions=actions)
    trial = finetune.Session(request).load(1)
    return request, trial, trial_lib.read_result(trial.folder)


def test_a_word_that_decides_is_learned(finished):
    _, trial, result = finished
    assert result.scores["own"]["dev"].metrics["accuracy"] > 90
    assert not result.scores["own"]["dev"].is_degenerate
    first, *_, last = _lines(trial)
    assert last["loss"] < 0.7 * first["loss"]
    assert result.num_steps == 24
    assert "encoder variables restored from " in result.origin


def test_operations_are_those_of_the_products_and_of_attention(finished):
    _, trial, result = finished
    weights = trial.model.encoder.trainable_variables
    # Two for each weight of a product forward, four backward.
    a_token = 6 * sum(
        np.prod(v.shape) for v in weights if v.path.endswith("/kernel")
    )
    num_tokens = 3 * trial.prepared.rows("own", "train").lengths.sum()
    assert a_token * num_tokens < result.flops < 1.5 * a_token * num_tokens
    assert result.num_weights == trial.model.count_params()


def test_dev_is_scored_each_epoch_and_its_predictions_are_written(finished):
    _, trial, result = finished
    lines = _lines(trial, "validation")
    # 64 rows in batches of 8; dev has 24, a score of all costs an epoch's
    # rows, so every second epoch is scored, and the last step.
    assert [line["step"] for line in lines] == [16, 24]
    score = result.scores["own"]["dev"].metrics["accuracy"]
    assert lines[-1]["score"] == lines[-1]["own/dev/accuracy"] == score
    names = {n.split("/")[-1] for line in lines + _lines(trial) for n in line}
    assert names <= tiny.DOCUMENTED_METRICS
    path = trial.folder / "predictions" / "own_dev.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    right = [row["prediction"] == row["label"] for row in rows]
    assert 100 * sum(right) / len(rows) == score and rows[0]["text"]


@pytest.mark.parametrize("is_evaluating", [False, True])
def test_a_trial_that_was_cut_ends_with_the_same_bits(
    finished, ask, monkeypatch, is_evaluating
):
    request = ask()
    folder, stop = request.folder(1), little_task.StopAfter(request)
    if is_evaluating:
        stop, predict = stopping.StopRequest(), model_lib.Predictor.predict

        def stop_and_predict(*arguments):
            stop.signal_name = "SIGTERM"
            return predict(*arguments)

        monkeypatch.setattr(model_lib.Predictor, "predict", stop_and_predict)
    assert little_task.run(request, stop)[1] is None
    monkeypatch.undo()
    assert checkpoints.step_of(checkpoints.latest(folder)) < 24
    lines = reporting.read_lines(folder / "metrics.jsonl")
    assert not any("score" in line for line in lines)
    trial, result = little_task.run(request)
    _, uncut, expected = finished
    weights = _weights(folder)
    for name, value in _weights(uncut.folder).items():
        np.testing.assert_array_equal(weights[name], value)
    assert result.scores == expected.scores
    cut, whole = (
        [line | {"timing": None} for line in _lines(own)]
        for own in (trial, uncut)
    )
    assert cut == whole


def test_other_settings_data_or_weights_are_refused(
    finished, settings, loaded, tmp_path
):
    request, _, _ = finished
    for variable in loaded.encoder.variables[:1]:
        variable.assign(variable + 1.0)
    other = write_run(tmp_path / "model", settings, loaded.encoder.variables)
    # It is called alike.
    assert other.name == request.pretrained_dir.name
    replace = little_task.replace
    for changed, message in (
        (replace(request, "optimizer", learning_rate=1.0), "rate: 0.005, 1.0"),
        (replace(request, "own", max_choices=4), "own.max_choices: "),
        (dataclasses.replace(request, pretrained_dir=other), "source: "),
    ):
        with pytest.raises(errors.ModelError, match=message):
            little_task.run(changed)


@tiny.eagerly()
def test_changed_rows_are_refused_on_resume(pretrained_dir, tmp_path):
    files = little_task.write_files(tmp_path / "data")
    request = little_task.build_request(files, pretrained_dir, tmp_path / "out")
    assert little_task.run(request, little_task.StopAfter(request))[1] is None
    # One label alone is another.
    text = (files / "train.csv").read_text()
    (files / "train.csv").write_text(text.replace(",good", ",bad", 1))
    with pytest.raises(errors.ModelError, match=r"train of own .*train\.csv"):
        little_task.run(request)
    # Trials of earlier versions have no digests.
    path = request.folder(1) / "config.json"
    old = json.loads(path.read_text())
    del old["data"]
    path.write_text(json.dumps(old))
    with pytest.raises(errors.ModelError, match="other rows"):
        little_task.run(request)
    # Dev data are looked at before anything is trained.
    (files / "dev.csv").write_text("text,label\nthe cat,ugly\n")
    with pytest.raises(ValueError, match=r"dev\.csv, line 2.*'ugly'"):
        little_task.run(dataclasses.replace(request, output_dir=tmp_path / "a"))
    frozen = little_task.replace(request, "training", frozen_layers=99)
    with pytest.raises(ValueError, match=r"frozen_layers.*at most .*Received"):
        little_task.run(dataclasses.replace(frozen, output_dir=tmp_path / "a"))
    assert not (tmp_path / "a").exists()
    without = dataclasses.replace(request, output_dir=tmp_path / "b")
    without = little_task.replace(without, "own", dev_file="")
    asked = little_task.replace(without, "training", eval_steps=4)
    with pytest.raises(ValueError, match="patience. need dev"):
        little_task.run(asked)


def test_a_start_that_failed_claims_nothing(ask):
    request = ask(is_random=True)
    trial = finetune.Session(request).start(1)
    assert "0 of" in trial.loaded.origin and "random" in trial.loaded.origin
    # As after a kill between the files of a claim.
    (request.folder(1) / "vocab.txt").unlink()
    again = little_task.replace(request, "training", train_batch_size=16)
    trial = finetune.Session(again).start(1)
    described = trial_lib.read_description(trial.folder)
    assert described.settings.training.train_batch_size == 16
    assert described.source == "random weights"


def test_early_stopping_takes_the_best_weights(ask):
    training = {"num_train_epochs": 30.0, "eval_steps": 4}
    request = ask(training | {"early_stopping_patience": 2})
    trial, result = little_task.run(request)
    lines = _lines(trial, "validation")
    found = {line["step"]: line["score"] for line in lines}
    best = max(found.values())
    first_best = min(step for step, score in found.items() if score == best)
    assert max(found) == first_best + 8 < 240
    assert result.scores["own"]["dev"].metrics["accuracy"] == best
    kept = checkpoints.best(trial.folder)
    assert checkpoints.step_of(kept) == first_best
    (trial.folder / "results.json").unlink()
    _, again = little_task.run(request)
    assert again.scores == result.scores


def test_two_replicas_train_as_one(finished, ask):
    _, alone, expected = finished
    trial, result = little_task.run(ask({"strategy": "mirrored"}))
    assert result.scores == expected.scores
    weights = _weights(trial.folder)
    for name, value in _weights(alone.folder).items():
        np.testing.assert_allclose(weights[name], value, atol=2e-4)


def test_a_trained_trial_predicts_without_its_training_data(finished):
    request, trial, _ = finished
    moved = dataclasses.replace(
        little_task.replace(request, "own", train_file="/no.csv", dev_file=""),
        pretrained_dir=None,
        actions=("predict",),
    )
    predictions = finetune.Session(moved).load(1).predict("own", "test")
    expected = trial.predict("own", "test")
    np.testing.assert_array_equal(predictions.classes, expected.classes)
    np.testing.assert_allclose(
        predictions.probabilities, expected.probabilities, atol=1e-6
    )
    described = trial_lib.read_description(trial.folder)
    assert described.labels == {"own": ("bad", "good")}
