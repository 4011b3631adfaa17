"""A whole run: exact resume, devices, phases, held-out data, wrong input."""

import json
import os
import pathlib
import signal

import matplotlib.image
import pytest
from tensorflow.python.framework import config as tf_config

from electra_tf import config
from electra_tf import errors
from electra_tf.pretraining import run
from electra_tf.training import checkpoints
from electra_tf.training import model_dir as model_dir_lib
from electra_tf.training import reporting
from electra_tf.training import step as step_lib
from tests import tiny
from tests import tiny_run


@pytest.fixture(scope="module", autouse=True)
def _leave_determinism_as_it_was():
    yield
    tf_config.disable_op_determinism()


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """105 and 21 examples; an epoch has 13 batches."""
    return tiny_run.write_dataset(tmp_path_factory.mktemp("data") / "dataset")


@pytest.fixture(autouse=True)
def _draw_nothing(request, monkeypatch):
    """Pictures cost as much as training; one test draws its own."""
    if "whole" not in request.fixturenames:
        monkeypatch.setattr(reporting, "draw_training_curves", lambda _: None)


class _Killed(BaseException):
    """Stands for kill -9: no handler of the package catches it."""


def _kill():
    raise _Killed


def _terminate():
    os.kill(os.getpid(), signal.SIGTERM)


def _at_write(monkeypatch, split, step, act):
    """Acts after a line of `metrics.jsonl` has been written."""
    write = reporting.RunReport.write

    def write_and_act(self, *arguments):
        write(self, *arguments)
        if arguments[:2] == (split, step):
            act()

    monkeypatch.setattr(reporting.RunReport, "write", write_and_act)


def _capture_run(monkeypatch):
    """The parts of the next run, as a list of one."""
    captured = []

    class Captured(run._Run):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            captured.append(self)

    monkeypatch.setattr(run, "_Run", Captured)
    return captured


def _whole_settings(dataset):
    # Chunks end at 4, 5, 6, 8, 10, 12, 15 and 16; the epoch after step 13.
    return tiny_run.build_settings(
        dataset,
        num_train_steps=16,
        log_steps=5,
        eval_steps=6,
        save_checkpoints_steps=4,
        keep_checkpoints=2,
    )


@pytest.fixture(scope="module")
def whole(dataset, tmp_path_factory):
    """The folder and the parts of a run that nothing interrupted."""
    model_dir = tmp_path_factory.mktemp("runs") / "whole"
    with pytest.MonkeyPatch.context() as monkeypatch:
        captured = _capture_run(monkeypatch)
        assert run.pretrain(_whole_settings(dataset), model_dir)
    return model_dir, captured[0]


def test_a_run_that_was_stopped_ends_with_the_same_bits(
    whole, dataset, tmp_path, monkeypatch
):
    settings, cut = _whole_settings(dataset), tmp_path / "cut"
    with monkeypatch.context() as patch:
        patch.setattr(reporting, "draw_training_curves", lambda _: None)
        _at_write(patch, "validation", 6, _terminate)
        assert not run.pretrain(settings, cut)
    # Between two logs and two saves.
    assert checkpoints.latest(cut).name == "step-00000006"
    assert run.pretrain(settings, cut)
    tiny_run.require_equal_runs(whole[0], cut)
    steps = [line["step"] for line in tiny_run.reproducible_metrics(cut)]
    assert steps == [5, 6, 10, 12, 15, 16, 16]


def test_everything_that_learns_survives_a_kill(dataset, tmp_path, monkeypatch):
    # The loss scale doubles after 4 good steps, so its count matters.
    defaults = (2.0**15, 4)
    scale = step_lib.LossScale
    monkeypatch.setattr(scale.__init__, "__defaults__", defaults)
    settings = tiny_run.replace(
        tiny_run.build_settings(
            dataset,
            num_train_steps=9,
            num_micro_batches=2,
            precision="float16",
            ema_decay=0.9,
            log_steps=4,
            eval_steps=0,
            save_checkpoints_steps=3,
        ),
        optimizer={"name": "lamb"},
    )
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert run.pretrain(settings, whole)
    with monkeypatch.context() as patch:
        _at_write(patch, "train", 8, _kill)
        with pytest.raises(_Killed):
            run.pretrain(settings, cut)
    assert checkpoints.latest(cut).name == "step-00000006"
    assert run.pretrain(settings, cut)
    tiny_run.require_equal_runs(whole, cut)
    saved = checkpoints.load_tensors(checkpoints.latest(cut), "loss_scale")
    lines = tiny_run.reproducible_metrics(cut)
    assert saved["value"] == lines[-1]["loss_scale"] < 2.0**15
    assert saved["num_good_steps"] > 0
    averages = checkpoints.load_tensors(checkpoints.latest(cut), "average")
    weights = checkpoints.load_tensors(checkpoints.latest(cut), "model")
    assert averages.keys() == weights.keys()
    assert any((averages[n] != weights[n]).any() for n in weights)


@pytest.fixture(scope="module")
def moved(dataset, tmp_path_factory):
    """A run on one device, and one that began on two; both without noise."""
    folder = tmp_path_factory.mktemp("moved")
    common = {"num_train_steps": 8, "log_steps": 4, "eval_steps": 4}
    common["save_checkpoints_steps"] = 8
    settings = tiny_run.build_settings(dataset, dropout=False, **common)
    both = tiny_run.replace(settings, training={"strategy": "mirrored"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reporting, "draw_training_curves", lambda _: None)
        assert run.pretrain(settings, folder / "one")
        with pytest.MonkeyPatch.context() as inner:
            _at_write(inner, "validation", 4, _terminate)
            captured = _capture_run(inner)
            assert not run.pretrain(both, folder / "two")
        yield folder, captured[0]
        del captured


def _lines_by_place(model_dir):
    lines = tiny_run.reproducible_metrics(model_dir)
    return {(line["split"], line["step"]): line for line in lines}


def test_a_run_moves_from_two_devices_to_one(moved, dataset):
    folder, _ = moved
    settings = tiny_run.build_settings(
        dataset,
        dropout=False,
        num_train_steps=8,
        log_steps=4,
        eval_steps=4,
        save_checkpoints_steps=8,
    )
    assert run.pretrain(settings, folder / "two")
    one, two = folder / "one", folder / "two"
    difference = tiny_run.largest_difference(
        checkpoints.latest(one), checkpoints.latest(two)
    )
    assert difference <= 1e-5
    assert set(_lines_by_place(one)) == set(_lines_by_place(two))


def test_evaluation_takes_as_many_batches_as_asked(whole, monkeypatch):
    model_dir, parts = whole
    last = _lines_by_place(model_dir)["validation", 16]
    losses = {}
    for wanted in (0, 1, 2, 3, 99):
        settings = tiny_run.replace(
            parts.settings, training={"num_eval_batches": wanted}
        )
        monkeypatch.setattr(parts, "settings", settings)
        losses[wanted] = parts.evaluate(16).metrics["loss"]
    assert losses[0] == losses[3] == losses[99] == last["loss"]
    assert len({losses[1], losses[2], losses[3]}) == 3


def test_the_best_checkpoint_is_known_and_kept(whole):
    model_dir, _ = whole
    lines = tiny_run.reproducible_metrics(model_dir)
    losses = {
        line["step"]: line["loss"]
        for line in lines
        if line["split"] == "validation"
    }
    best = min(losses, key=losses.get)
    assert checkpoints.best(model_dir).name == f"step-{best:08d}"
    state = checkpoints.load_state(checkpoints.latest(model_dir))
    assert state["best_loss"] == losses[best]
    assert state["position"] == {"epoch": 1, "batch": 3}


def test_the_summary_says_where_the_run_ended(whole):
    model_dir, _ = whole
    summary = json.loads((model_dir / "summary.json").read_text())
    lines = _lines_by_place(model_dir)
    assert summary["step"] == summary["num_train_steps"] == 16
    assert summary["device"] == "1 x CPU"
    for split in ("train", "validation"):
        last = dict(summary[split])
        last.pop("timing", None)
        assert last == lines[split, 16]
    best = checkpoints.best(model_dir)
    assert summary["best_checkpoint"] == best.name
    assert summary["train"]["timing"]["tokens_per_second"] > 0


def test_a_run_leaves_these_files_and_no_others(whole):
    model_dir, _ = whole
    assert sorted(path.name for path in model_dir.iterdir()) == [
        "checkpoints",
        "config.json",
        "metrics.jsonl",
        "summary.json",
        "tensorboard",
        "tokenizer_config.json",
        "training_curves.png",
        "vocab.txt",
    ]
    picture = matplotlib.image.imread(model_dir / "training_curves.png")
    assert picture.std() > 0.05
    assert config.from_json((model_dir / "config.json").read_text())


def _names(model_dir):
    paths = pathlib.Path(model_dir).rglob("*")
    return sorted(p for p in paths if "tensorboard" not in p.parts)


def _refused(settings, model_dir, error):
    """The message of a run that does not begin; it must leave nothing new."""
    before = _names(model_dir)
    with pytest.raises(error) as caught:
        run.pretrain(settings, model_dir)
    assert _names(model_dir) == before
    return str(caught.value)


def test_a_folder_of_other_settings_is_refused(whole, dataset):
    settings = tiny_run.replace(
        _whole_settings(dataset), optimizer={"learning_rate": 0.5}
    )
    message = _refused(settings, whole[0], errors.ModelError)
    assert "optimizer.learning_rate: 0.001, 0.5" in message


def test_other_examples_are_refused(whole, tmp_path):
    other = tiny_run.write_dataset(tmp_path / "other", seed=5)
    message = _refused(_whole_settings(other), whole[0], errors.ModelError)
    assert "trained on other examples" in message
    assert "init_from" in message


def test_a_disk_that_is_full_at_the_very_end_loses_nothing(
    whole, dataset, monkeypatch
):
    def fail(model_dir):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(reporting, "draw_training_curves", fail)
    message = _refused(_whole_settings(dataset), whole[0], OSError)
    assert "Step 16 is done and saved" in message
    assert "No space left" in message


@pytest.mark.parametrize("mistake", ["init_from", "vocab_size"])
def test_a_mistake_leaves_the_folder_free_for_the_next_try(
    mistake, dataset, tmp_path
):
    model_dir = tmp_path / "new"
    good = tiny_run.build_settings(dataset, num_train_steps=1)
    if mistake == "init_from":
        absent = str(tmp_path / "absent")
        bad = tiny_run.replace(good, training={"init_from": absent})
    else:
        bad = tiny_run.replace(good, encoder={"vocab_size": 30_522})
    with pytest.raises((OSError, ValueError), match="A model is|30,?522"):
        run.pretrain(bad, model_dir)
    model_dir_lib.check(model_dir, good, tiny.VOCABULARY)
