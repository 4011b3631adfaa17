"""A trial learns, can be cut anywhere, and does not care for replicas."""

import dataclasses
import json

import numpy as np
import pytest

from electra_tf import errors
from electra_tf.finetuning.trials import session as session_lib
from electra_tf.finetuning.trials import trial as trial_lib
from electra_tf.processes import stopping
from electra_tf.training import checkpoints
from electra_tf.training import reporting
from tests.finetuning import little_task


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return little_task.write_files(tmp_path_factory.mktemp("little") / "data")


def _run(request, stop=None):
    session = session_lib.Session(request)
    trial = session.start(1)
    result = trial_lib.run_trial(trial, stop or stopping.StopRequest())
    return trial, result


def _weights(folder):
    return checkpoints.load_tensors(checkpoints.latest(folder), "model")


@pytest.fixture(scope="module")
def finished(data, pretrained_dir, tmp_path_factory):
    output = tmp_path_factory.mktemp("uncut") / "out"
    request = little_task.build_request(data, pretrained_dir, output)
    trial, result = _run(request)
    return request, trial, result


def test_a_word_that_decides_is_learned(finished):
    _, trial, result = finished
    assert result.scores["own"]["dev"].metrics["accuracy"] > 90
    assert not result.scores["own"]["dev"].is_degenerate
    lines = reporting.read_lines(trial.folder / "metrics.jsonl")
    assert lines[-1]["loss"] < 0.7 * lines[0]["loss"]
    assert result.num_steps == 24


def test_all_of_the_encoder_is_restored_and_said_so(finished):
    _, trial, result = finished
    count = len(trial.model.encoder.variables)
    start = f"{count} of {count} encoder variables restored from "
    assert result.origin.startswith(start)


class _StopAfter(stopping.StopRequest):
    """Asks to stop once training has logged so many steps."""

    def __init__(self, path, steps):
        super().__init__()
        self._path, self._steps = path, steps

    @property
    def signal_name(self):
        lines = reporting.read_lines(self._path)
        return "SIGTERM" if lines and lines[-1]["step"] >= self._steps else ""

    @signal_name.setter
    def signal_name(self, value):
        del value


def test_a_trial_that_was_cut_ends_with_the_same_bits(
    finished, data, pretrained_dir, tmp_path
):
    request = little_task.build_request(data, pretrained_dir, tmp_path / "out")
    folder = request.folder(1)
    stop = _StopAfter(folder / "metrics.jsonl", 8)
    _, result = _run(request, stop)
    assert result is None
    assert checkpoints.step_of(checkpoints.latest(folder)) < 24
    _, result = _run(request)
    uncut = finished[1].folder
    for name, value in _weights(uncut).items():
        np.testing.assert_array_equal(_weights(folder)[name], value)
    assert result.scores == finished[2].scores

    def logged(path):
        lines = reporting.read_lines(path / "metrics.jsonl")
        return [{**line, "timing": None} for line in lines]

    assert logged(folder) == logged(uncut)


def test_a_trial_that_is_done_is_only_read(finished):
    request, trial, result = finished
    before = (trial.folder / "results.json").stat().st_mtime_ns
    _, again = _run(request)
    assert again == result
    assert (trial.folder / "results.json").stat().st_mtime_ns == before


def test_other_settings_or_data_are_refused(finished, data, tmp_path):
    request, trial, _ = finished
    other = dataclasses.replace(
        request.settings,
        optimizer=dataclasses.replace(
            request.settings.optimizer, learning_rate=1.0
        ),
    )
    with pytest.raises(errors.ModelError, match="learning_rate was"):
        _run(dataclasses.replace(request, settings=other))
    with pytest.raises(errors.ModelError, match="random weights"):
        _run(dataclasses.replace(request, is_random=True))
    own = dataclasses.replace(request.settings.own, dev_file="/nowhere.csv")
    other = dataclasses.replace(request.settings, own=own)
    with pytest.raises(errors.ModelError, match="dev_file was"):
        _run(dataclasses.replace(request, settings=other))


def test_weights_of_another_run_of_the_same_name_are_refused(
    finished, settings, loaded, tmp_path
):
    from tests.finetuning.conftest import write_run

    request, _, _ = finished
    for variable in loaded.encoder.variables[:1]:
        variable.assign(variable + 1.0)
    other = write_run(tmp_path / "model", settings, loaded.encoder.variables)
    assert other.name == request.pretrained_dir.name
    with pytest.raises(errors.ModelError, match="source was"):
        _run(dataclasses.replace(request, pretrained_dir=other))


def test_a_start_that_failed_claims_nothing(data, pretrained_dir, tmp_path):
    request = little_task.build_request(data, pretrained_dir, tmp_path / "out")
    session_lib.Session(request).start(1)
    assert (request.folder(1) / "config.json").exists()
    again = little_task.build_request(
        data, pretrained_dir, tmp_path / "out", {"train_batch_size": 16}
    )
    trial = session_lib.Session(again).start(1)
    described = json.loads((trial.folder / "config.json").read_text())
    assert described["settings"]["training"]["train_batch_size"] == 16


def test_dev_data_are_looked_at_before_training(pretrained_dir, tmp_path):
    files = little_task.write_files(tmp_path / "data")
    (files / "dev.csv").write_text("text,label\nthe cat,ugly\n")
    request = little_task.build_request(files, pretrained_dir, tmp_path / "out")
    with pytest.raises(ValueError, match=r"dev\.csv, line 2.*'ugly'"):
        _run(request)
    assert not (request.folder(1) / "metrics.jsonl").exists()


def _without_dev(request):
    own = dataclasses.replace(request.settings.own, dev_file="")
    settings = dataclasses.replace(request.settings, own=own)
    return dataclasses.replace(
        request, settings=settings, actions=("train", "predict")
    )


def test_without_dev_data_a_task_is_learned_and_predicted(
    data, pretrained_dir, tmp_path
):
    from electra_tf.finetuning import finetune

    request = little_task.build_request(data, pretrained_dir, tmp_path / "out")
    finetune.finetune(_without_dev(request))
    predicted = tmp_path / "out" / "predictions" / "own"
    assert (predicted / "test_predictions.tsv").exists()
    evaluating = little_task.build_request(
        data, pretrained_dir, tmp_path / "other", {"eval_steps": 4}
    )
    with pytest.raises(ValueError, match="eval_steps. needs dev data"):
        _run(_without_dev(evaluating))


def test_changed_rows_are_refused_on_resume(data, pretrained_dir, tmp_path):
    files = little_task.write_files(tmp_path / "data")
    request = little_task.build_request(files, pretrained_dir, tmp_path / "out")
    stop = _StopAfter(request.folder(1) / "metrics.jsonl", 8)
    assert _run(request, stop)[1] is None
    # One label alone is another.
    text = (files / "train.csv").read_text()
    (files / "train.csv").write_text(text.replace(",good", ",bad", 1))
    with pytest.raises(errors.ModelError, match="other rows"):
        _run(request)


def test_random_weights_are_said_to_be_random(data, pretrained_dir, tmp_path):
    request = little_task.build_request(
        data, pretrained_dir, tmp_path / "out", is_random=True
    )
    trial = session_lib.Session(request).start(1)
    assert "0 of" in trial.loaded.origin and "random" in trial.loaded.origin


def test_early_stopping_takes_the_best_weights(data, pretrained_dir, tmp_path):
    training = {
        "num_train_epochs": 30.0,
        "eval_steps": 4,
        "early_stopping_patience": 2,
    }
    request = little_task.build_request(
        data, pretrained_dir, tmp_path / "out", training
    )
    trial, result = _run(request)
    lines = reporting.read_lines(trial.folder / "metrics.jsonl")
    found = {
        line["step"]: line["score"]
        for line in lines
        if line["split"] == "validation"
    }
    best = max(found.values())
    first_best = min(step for step, score in found.items() if score == best)
    assert max(found) == first_best + 8 < 240
    assert result.scores["own"]["dev"].metrics["accuracy"] == best
    kept = checkpoints.best(trial.folder)
    assert checkpoints.step_of(kept) == first_best
    # Asked again, it is done, and says the same.
    (trial.folder / "results.json").unlink()
    _, again = _run(request)
    assert again.scores == result.scores


def test_early_stopping_by_an_error_takes_the_least(
    data, pretrained_dir, tmp_path
):
    for split in ("train", "dev"):
        text = (data / f"{split}.csv").read_text()
        numbers = text.replace(",good", ",1").replace(",bad", ",0")
        (tmp_path / f"{split}.csv").write_text(numbers)
    training = {
        "num_train_epochs": 3.0, "eval_steps": 4, "early_stopping_patience": 9,
    }  # fmt: skip
    settings = little_task.build_settings(tmp_path, **training)
    own = dataclasses.replace(
        settings.own, kind="regression", metric="mse", test_file=""
    )
    settings = dataclasses.replace(settings, own=own)
    trial, result = _run(
        session_lib.Request(settings, tmp_path / "out", pretrained_dir)
    )
    errors = [
        line["own/dev/mse"]
        for line in reporting.read_lines(trial.folder / "metrics.jsonl")
        if line["split"] == "validation"
    ]
    assert min(errors) < max(errors)
    assert result.scores["own"]["dev"].metrics["mse"] == min(errors)


def _without_dropout(settings):
    encoder = dataclasses.replace(
        settings.encoder,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return dataclasses.replace(settings, encoder=encoder)


def test_two_replicas_train_as_one(
    data, loaded, settings, tmp_path, monkeypatch
):
    from electra_tf.modeling import task_heads
    from tests.finetuning.conftest import write_run

    monkeypatch.setattr(task_heads, "DROPOUT_PROB", 0.0)
    run = write_run(
        tmp_path / "model", _without_dropout(settings), loaded.encoder.variables
    )
    weights, scores = [], []
    for strategy in ("one_device", "mirrored"):
        request = little_task.build_request(
            data, run, tmp_path / strategy, {"strategy": strategy}
        )
        trial, result = _run(request)
        weights.append(_weights(trial.folder))
        scores.append(result.scores)
    assert scores[0] == scores[1]
    for name, value in weights[0].items():
        np.testing.assert_allclose(weights[1][name], value, atol=2e-4)


def test_a_trained_trial_predicts_without_its_training_data(finished, tmp_path):
    request, trial, _ = finished
    own = dataclasses.replace(
        request.settings.own,
        train_file="/nowhere/train.csv",
        dev_file="",
    )
    settings = dataclasses.replace(request.settings, own=own)
    moved = dataclasses.replace(
        request, settings=settings, pretrained_dir=None, actions=("predict",)
    )
    loaded = session_lib.Session(moved).load(1)
    predictions = loaded.predict("own", "test")
    expected = trial.predict("own", "test")
    np.testing.assert_array_equal(predictions.classes, expected.classes)
    np.testing.assert_allclose(
        predictions.probabilities, expected.probabilities, atol=1e-6
    )
    described = json.loads((trial.folder / "config.json").read_text())
    assert described["labels"] == {"own": ["bad", "good"]}
