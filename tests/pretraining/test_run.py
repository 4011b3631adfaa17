"""A whole run: exact resume, devices, phases, held-out data, wrong input."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal

import matplotlib.image
import numpy as np
import pytest
import tensorflow as tf

from electra_tf import config
from electra_tf import errors
from electra_tf.formats import own_run
from electra_tf.inputs import dataset as dataset_lib
from electra_tf.objectives import base
from electra_tf.pretraining import cost
from electra_tf.pretraining import diagnosis
from electra_tf.pretraining import run
from electra_tf.processes import locks
from electra_tf.training import checkpoints
from electra_tf.training import devices
from electra_tf.training import reporting
from electra_tf.training import step_state
from tests import tiny
from tests import tiny_run


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


def _cut(settings, model_dir, at, act, monkeypatch):
    """Trains until a line of `metrics.jsonl` is written, and acts then."""
    write = reporting.RunReport.write

    def write_and_act(self, *arguments):
        write(self, *arguments)
        if arguments[:2] == at:
            act()

    with monkeypatch.context() as patch:
        patch.setattr(reporting, "draw_training_curves", lambda _: None)
        patch.setattr(reporting.RunReport, "write", write_and_act)
        with contextlib.suppress(_Killed):
            assert not run.pretrain(settings, model_dir)
    return checkpoints.step_of(checkpoints.latest(model_dir))


def _lines_by_place(model_dir):
    lines = tiny_run.reproducible_metrics(model_dir)
    return {(line["split"], line["step"]): line for line in lines}


def _whole_settings(dataset):
    # Chunks end at 4, 5, 6, 8, 10, 12, 15 and 16; the epoch after step 13.
    return tiny_run.build_settings(
        dataset, num_train_steps=16, log_steps=5, eval_steps=6,
        save_checkpoints_steps=4, keep_checkpoints=2,
    )  # fmt: skip


@pytest.fixture(scope="module")
def whole(dataset, tmp_path_factory):
    """The folder and the parts of a run that nothing interrupted."""
    model_dir = tmp_path_factory.mktemp("runs") / "whole"
    captured = []

    class Captured(run._Run):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            captured.append(self)

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(run, "_Run", Captured)
        assert run.pretrain(_whole_settings(dataset), model_dir)
    return model_dir, captured[0]


def _require_same_bits(settings, tmp_path, monkeypatch, *cuts, whole=None):
    """Ends a run again that was cut, at each (place, act, its checkpoint)."""
    if whole is None:
        whole = tmp_path / "whole"
        assert run.pretrain(settings, whole)
    cut = tmp_path / "cut"
    for *event, step in cuts:
        assert _cut(settings, cut, *event, monkeypatch) == step
    assert run.pretrain(settings, cut)
    tiny_run.require_equal_runs(whole, cut)
    return cut


def test_a_run_that_was_stopped_ends_with_the_same_bits(
    whole, dataset, tmp_path, monkeypatch
):
    cut = _require_same_bits(
        _whole_settings(dataset),
        tmp_path,
        monkeypatch,
        # Between two logs and two saves; before the last evaluation.
        (("validation", 6), _terminate, 6),
        (("train", 16), _terminate, 16),
        # Where the evaluation that was owed is written, but not saved.
        (("validation", 16), _kill, 16),
        whole=whole[0],
    )
    steps = [line["step"] for line in tiny_run.reproducible_metrics(cut)]
    assert steps == [5, 6, 10, 12, 15, 16, 16]


def test_everything_that_learns_survives_a_kill(dataset, tmp_path, monkeypatch):
    # Two parts, side by side.
    monkeypatch.setattr(devices, "_CPU_TOKENS", 64)
    # The loss scale doubles after 3 good steps, so its count matters.
    scale = step_state.LossScale
    monkeypatch.setattr(scale.__init__, "__defaults__", (2.0**19, 3))
    settings = tiny_run.build_settings(
        dataset, num_train_steps=9, precision="float16", ema_decay=0.9,
        log_steps=4, eval_steps=0, save_checkpoints_steps=3,
    )  # fmt: skip
    settings = tiny.with_objective(settings, "mlm")
    settings = tiny_run.replace(settings, optimizer={"name": "lamb"})
    event = ("train", 8), _kill, 6
    cut = _require_same_bits(settings, tmp_path, monkeypatch, event)
    newest = checkpoints.latest(cut)
    saved = checkpoints.load_tensors(newest, "loss_scale")
    lines = tiny_run.reproducible_metrics(cut)
    assert saved["value"] == lines[-1]["loss_scale"] < 2.0**19
    assert saved["num_good_steps"] > 0
    averages = checkpoints.load_tensors(newest, "average")
    weights = checkpoints.load_tensors(newest, "model")
    assert averages.keys() == weights.keys()
    assert any((averages[n] != weights[n]).any() for n in weights)
    # As a kill between the last save and what it removes.
    stale = newest.with_name("step-00000001")
    shutil.copytree(newest, stale)
    assert run.pretrain(settings, cut)
    assert not stale.exists() and newest.exists()


def test_a_run_of_two_stages_resumes_at_its_switch(
    dataset, tmp_path, monkeypatch
):
    settings = tiny_run.build_settings(
        dataset, num_train_steps=6, log_steps=1, eval_steps=2,
        save_checkpoints_steps=4,
    )  # fmt: skip
    settings = tiny.with_objective(settings, "two_stage")
    # Stopped where stage one is still to be evaluated; killed in stage two.
    events = (("train", 4), _terminate, 4), (("train", 5), _kill, 4)
    cut = _require_same_bits(settings, tmp_path, monkeypatch, *events)
    lines = tiny_run.reproducible_metrics(cut)
    costs = [line["train_flops"] for line in lines if line["split"] == "train"]
    assert costs == sorted(set(costs))
    # The generator's loss of stage one, near 4, is far below 50 times that of
    # the discriminator; it must not count as the best.
    assert checkpoints.best(cut).name == "step-00000006"


@tiny.eagerly()
def test_rows_grow_within_a_run(dataset, tmp_path, monkeypatch):
    for length in (16, 20):
        tiny_run.write_dataset(tmp_path / f"rows_{length}", length=length)
    settings = tiny_run.build_settings(
        tmp_path / "rows_{length}", num_train_steps=7, log_steps=1,
        eval_steps=2, save_checkpoints_steps=3, train_batch_size=4,
        num_eval_batches=2,
    )  # fmt: skip
    settings = tiny_run.replace(
        tiny.with_objective(settings, "mlm"),
        encoder={"max_position_embeddings": 20},
        data={"phases": "16x8:3", "max_seq_length": 20},
    )
    # Stopped where the first phase ends; killed in the last one.
    events = (("validation", 3), _terminate, 3), (("train", 5), _kill, 4)
    cut = _require_same_bits(settings, tmp_path, monkeypatch, *events)
    lines = tiny_run.reproducible_metrics(cut)
    _, last = (phase.settings for phase in config.split_phases(settings))
    assert [line["step"] for line in lines[:5]] == [1, 2, 2, 3, 3]
    # The last phase reads its own dataset from the start: 4 x 4 rows.
    newest = checkpoints.load_state(checkpoints.latest(cut))
    assert newest["position"] == {"epoch": 0, "batch": 4}
    work = cost.Cost(base.resolve(last, tiny.VOCABULARY.size))
    costs = [line["train_flops"] for line in lines if line["split"] == "train"]
    np.testing.assert_allclose(np.diff(costs[3:]), work.step_flops())


@tiny.eagerly()
def test_disentangled_runs_and_those_on_their_samples_resume_with_the_same_bits(
    dataset, tmp_path, monkeypatch
):
    base = tiny_run.build_settings(
        dataset, num_train_steps=4, log_steps=1, eval_steps=0,
        save_checkpoints_steps=2,
    )  # fmt: skip
    settings, ends = tiny.with_objective(base, "disentangled"), []
    for name in ("disentangled", "fast_electra"):
        folder, event = tmp_path / name, (("train", 3), _kill, 2)
        cut = _require_same_bits(settings, folder, monkeypatch, event)
        ends.append(checkpoints.load_tensors(checkpoints.latest(cut), "model"))
        source = {
            "init_from": str(cut),
            "disentangled_embeddings": True,
            "untied_generator_embeddings": False,
        }
        settings = tiny.with_objective(base, "fast_electra")
        settings = tiny_run.replace(settings, generator=source)
    source, fast = ends
    for path in source:
        if path.startswith("generator"):
            np.testing.assert_array_equal(fast[path], source[path])


@tiny.eagerly()
def test_a_run_moves_from_two_devices_to_one(dataset, tmp_path, monkeypatch):
    settings = tiny_run.build_settings(
        dataset, num_train_steps=8, log_steps=4, eval_steps=4,
        save_checkpoints_steps=8,
    )  # fmt: skip
    settings = tiny.with_objective(settings, "mlm")
    both = tiny_run.replace(settings, training={"strategy": "mirrored"})
    one, two = tmp_path / "one", tmp_path / "two"
    assert run.pretrain(settings, one)
    assert _cut(both, two, ("validation", 4), _terminate, monkeypatch) == 4
    assert run.pretrain(settings, two)
    newest = checkpoints.latest(one), checkpoints.latest(two)
    assert tiny_run.largest_difference(*newest) <= 1e-5
    assert set(_lines_by_place(one)) == set(_lines_by_place(two))


@tiny.eagerly()
def test_a_longer_run_is_refused_until_it_is_told_how(
    dataset, tmp_path, capsys
):
    folder, own = tmp_path / "run", {"eval_steps": 0}
    short, long = (
        tiny_run.build_settings(dataset, num_train_steps=n, log_steps=n, **own)
        for n in (4, 8)
    )
    assert run.pretrain(short, folder)
    assert "--extend" in _refused(long, folder, errors.ModelError)
    assert run.pretrain(long, folder, may_extend=True)
    told = capsys.readouterr().out
    assert "changed (there, now): training.log_steps: 4, 8; training" in told
    assert "num_train_steps: 4, 8; the learning rate is now" in told
    lines = _lines_by_place(folder)
    assert {*lines} == {("train", 4), ("train", 8)}
    # The last update, number 7, by the schedule of a run of 8 steps.
    schedule = run.build_optimizer(long)._learning_rate
    assert lines["train", 8]["learning_rate"] == float(schedule(7)) > 0
    # Extended, it is that run; the shorter one is refused.
    assert run.pretrain(long, folder)
    assert "num_train_steps: 8, 4" in _refused(short, folder, errors.ModelError)


def test_evaluation_takes_as_many_batches_as_asked(whole, monkeypatch):
    model_dir, parts = whole
    losses = {}
    for wanted in (0, 1, 2, 3, 99):
        change = {"num_eval_batches": wanted}
        settings = tiny_run.replace(parts.settings, training=change)
        monkeypatch.setattr(parts, "settings", settings)
        losses[wanted] = parts.evaluate(16)[0]["loss"]
    last = _lines_by_place(model_dir)["validation", 16]
    assert losses[0] == losses[3] == losses[99] == last["loss"]
    assert len({losses[1], losses[2], losses[3]}) == 3


def test_what_a_run_leaves_says_where_it_ended(whole, dataset):
    model_dir, _ = whole
    assert {path.name for path in model_dir.iterdir()} == {
        "checkpoints", "config.json", "metrics.jsonl", "summary.json",
        "tensorboard", "tokenizer_config.json", "training_curves.png",
        "vocab.txt",
    }  # fmt: skip
    picture = matplotlib.image.imread(model_dir / "training_curves.png")
    assert picture.std() > 0.05
    assert config.freeze(json.loads((model_dir / "config.json").read_text()))
    lines = _lines_by_place(model_dir)
    losses = {n: line["loss"] for (s, n), line in lines.items() if s != "train"}
    best = min(losses, key=losses.get)
    assert checkpoints.best(model_dir).name == f"step-{best:08d}"
    state = checkpoints.load_state(checkpoints.latest(model_dir))
    assert state["best_loss"] == losses[best]
    assert state["position"] == {"epoch": 1, "batch": 3}
    summary = json.loads((model_dir / "summary.json").read_text())
    assert summary["step"] == summary["num_train_steps"] == 16
    assert summary["device"] == "1 x CPU"
    assert summary["best_checkpoint"] == f"step-{best:08d}"
    timing, counts = summary["train"].pop("timing"), []
    assert timing["tokens_per_second"] > 0
    # The tiny model's peak is far too low; what was reached counts.
    assert timing["share_of_peak"] <= 1.0
    names = {*timing, *summary["train"], *summary["validation"]}
    assert names <= tiny.DOCUMENTED_METRICS
    for split in ("train", "validation"):
        assert summary[split] == lines[split, 16]
        counts.append(np.load(dataset / split / "unigram_counts.npy"))
    baselines = dataset_lib.compute_baselines(*counts)
    assert baselines.items() <= summary["validation"].items()


def _refused(settings, model_dir, error):
    """The message of a run that does not begin; it must leave nothing new."""

    def names():
        paths = pathlib.Path(model_dir).rglob("*")
        return sorted(p for p in paths if "tensorboard" not in p.parts)

    before = names()
    with pytest.raises(error) as caught:
        run.pretrain(settings, model_dir)
    assert names() == before
    return str(caught.value)


def test_other_examples_are_refused(whole, tmp_path):
    other = tiny_run.write_dataset(tmp_path / "other", seed=5)
    message = _refused(_whole_settings(other), whole[0], errors.ModelError)
    assert re.search("trained on other examples.*init_from", message)


def test_a_checkpoint_of_numbers_that_are_not_finite_is_refused(
    whole, dataset, tmp_path
):
    folder = shutil.copytree(whole[0], tmp_path / "run")
    newest, variables = checkpoints.latest(folder), whole[1].saved_variables()
    state, name = checkpoints.load_state(newest), min(variables)
    variables[name] = tf.fill(variables[name].shape, np.nan)
    shutil.rmtree(newest)
    checkpoints.save(folder, state["step"], variables, state, keep=2)
    message = _refused(_whole_settings(dataset), folder, errors.ModelError)
    assert f"finite numbers. Received others in: {name}." in message


def test_means_of_replicas_need_the_same_number_of_them(whole, monkeypatch):
    newest, parts = checkpoints.latest(whole[0]), whole[1]
    state = checkpoints.load_state(newest) | {"num_replicas": 2}
    parts.resume(state, newest)
    monkeypatch.setattr(parts.model, "means_per_replica", True)
    message = "Received: 1, but 2 in .*step-"
    with pytest.raises(errors.ModelError, match=message):
        parts.resume(state, newest)


def test_a_disk_that_is_full_at_the_very_end_loses_nothing(
    whole, dataset, monkeypatch
):
    def fail(model_dir):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(reporting, "draw_training_curves", fail)
    message = _refused(_whole_settings(dataset), whole[0], OSError)
    assert re.search(r"summary\.json could not be written.*No space", message)


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ({"training": {"init_from": "/no/such/folder"}}, "A model is"),
        ({"encoder": {"vocab_size": 30_522}}, "30,?522"),
    ],
)
def test_a_mistake_leaves_the_folder_free_for_the_next_try(
    mistake, message, dataset, tmp_path
):
    good = tiny_run.build_settings(dataset, num_train_steps=1)
    with pytest.raises((OSError, ValueError), match=message):
        run.pretrain(tiny_run.replace(good, **mistake), tmp_path / "new")
    own_run.check(tmp_path / "new", good, tiny.VOCABULARY)


@tiny.eagerly()
def test_a_copy_of_another_shard_ends_the_run(dataset, tmp_path):
    own = shutil.copytree(dataset, tmp_path / "dataset")
    shards = sorted((own / "train").glob("pretrain_data*"))
    shutil.copy(shards[0], shards[2])
    settings = tiny_run.build_settings(own, num_train_steps=10**6)
    with pytest.raises(errors.DataError, match=f"{shards[2]} .*sha256"):
        run.pretrain(settings, tmp_path / "run")


@pytest.mark.parametrize(
    ("train", "held_out", "power", "accuracy", "entropy"),
    [
        # Of four held-out tokens one is the commonest of the training text, two
        # are a rare one and one is new, half an occurrence in eight.
        ([0, 0, 4, 2, 2, 0], [0, 0, 1, 2, 0, 1], 0.0, 0.25,
         np.log([2, 4, 4, 16]).mean()),
        # Seldom pieces twice as often as four times as frequent ones: of
        # 4 + 2 + 2 in training; held out 1/2 and 2.
        ([0, 8, 2, 2], [0, 1, 2, 0], 0.5, 0.2,
         (0.5 * np.log(2) + 2 * np.log(4)) / 2.5),
    ],
)  # fmt: skip
def test_held_out_text_is_measured_by_the_training_text_as_it_is_masked(
    train, held_out, power, accuracy, entropy
):
    counts = np.array(train), np.array(held_out)
    found = dataset_lib.compute_baselines(*counts, frequency_power=power)
    expected = {"unigram_accuracy": accuracy, "unigram_entropy": entropy}
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(("uniform", "num_warnings"), [(False, 1), (True, 0)])
def test_a_run_warns_once_of_a_loss_that_does_not_fall_or_rises_again(
    uniform, num_warnings, dataset, tmp_path, monkeypatch, capsys
):
    losses = [{"loss": x, "masked_loss": x} for x in (9.0, 2.0, 9.1, 9.5)]
    monkeypatch.setattr(run._Run, "measure", lambda *_: losses.pop(0))
    monkeypatch.setattr(run._Run, "_advance", lambda *given: given[-1] + 1)
    monkeypatch.setattr(diagnosis, "_PLATEAU_TOKENS", 1)
    settings = tiny_run.replace(
        tiny_run.build_settings(
            dataset, num_train_steps=4, eval_steps=1, deterministic=False
        ),
        generator={"uniform_generator": uniform, "generator_hidden_size": 0.25},
    )
    assert run.pretrain(settings, tmp_path / "model")
    printed = capsys.readouterr().out
    # Where nothing is learned, there is nothing to change.
    assert printed.count("unigram plateau") == num_warnings
    assert printed.count("rose to 9.10 nats, after it had been 2.00") == 1
    assert "rose to 9.50 nats" in printed.rpartition("summary.json")[2]
    assert "the most frequent token has an accuracy of" in printed
    assert "% full" not in printed  # Rows of 6 to 16 tokens.


def test_a_run_that_another_process_makes_is_refused(dataset, tmp_path):
    settings = tiny_run.build_settings(dataset)
    with (
        locks.hold(tmp_path / "run"),
        pytest.raises(BlockingIOError, match="run is in use by process"),
    ):
        run.pretrain(settings, tmp_path / "run")
