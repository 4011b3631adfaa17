"""The whole of a fine-tuning: trials, a table, predictions."""

import contextlib
import dataclasses
import json
import os
import re
import shutil
import signal
import threading
import time

import pandas as pd
import pytest

from electra_tf import errors
from electra_tf.finetuning import finetune
from electra_tf.processes import locks
from tests import tiny
from tests.finetuning import little_task


def test_predictions_are_those_of_the_best_trial(done, data):
    request, summary = done
    folder = request.output_dir / "predictions" / "own"
    assert {path.name for path in folder.iterdir()} == {
        "dev_predictions.tsv", "dev_confusion.png", "test_predictions.tsv",
    }  # fmt: skip
    predicted = pd.read_csv(folder / "dev_predictions.tsv", sep="\t")["label"]
    right = predicted == pd.read_csv(data / "dev.csv")["label"]
    best = summary.scores["own"]["dev"]["accuracy"].best
    assert 100 * right.mean() == pytest.approx(best)


@tiny.eagerly()
def test_scores_on_other_data_are_shown_and_not_kept(done, data, tmp_path):
    request, summary = done
    output = shutil.copytree(request.output_dir, tmp_path / "out")
    request = dataclasses.replace(request, output_dir=output)
    paths = [*output.glob("results.json"), *output.glob("*/results.json")]
    before = [path.read_text() for path in paths]
    wrong = tmp_path / "wrong.csv"
    labels = {"good": "bad", "bad": "good"}
    rows = re.split(r"\b(good|bad)\b", (data / "dev.csv").read_text())
    wrong.write_text("".join(labels.get(part, part) for part in rows))
    asked = dataclasses.replace(request, pretrained_dir=None, actions=("eval",))
    assert finetune.finetune(asked).scores == summary.scores
    asked = little_task.replace(asked, "own", dev_file=str(wrong))
    found = finetune.finetune(asked)
    accuracy = found.scores["own"]["dev"]["accuracy"].values
    own = summary.scores["own"]["dev"]["accuracy"].values
    assert [100 - value for value in own] == pytest.approx(accuracy)
    assert len(paths) == 3
    assert "results.json keep" in found.format_table()
    assert [path.read_text() for path in paths] == before


@tiny.eagerly()
def test_a_labelled_test_file_is_scored_by_the_best_trial(done, data):
    request, summary = done
    assert not summary.test
    before = (request.folder(1) / "results.json").stat().st_mtime_ns
    # The dev file once more, so that the scores are known.
    scored = dataclasses.replace(request, actions=("train", "eval"))
    dev = str(data / "dev.csv")
    again = finetune.finetune(little_task.replace(scored, "own", test_file=dev))
    # Trials that are done are only read.
    assert (request.folder(1) / "results.json").stat().st_mtime_ns == before
    assert again.scores == summary.scores
    best = summary.trials[summary.best_trial - 1].scores["own"]["dev"]
    assert again.test == {"own": {"test": best}}
    table = (request.output_dir / "results.txt").read_text()
    assert f"On test data, trial {summary.best_trial}, the best on" in table


@tiny.eagerly()
def test_what_was_trained_is_told_by_the_content_of_files(
    done, tmp_path, capsys
):
    request, summary = done
    output = shutil.copytree(request.output_dir, tmp_path / "out")
    shutil.rmtree(output / "predictions")
    asked = dataclasses.replace(
        request, output_dir=output, actions=("train", "eval")
    )
    moved = little_task.write_files(tmp_path / "moved")
    paths = {f"{n}_file": str(moved / f"{n}.csv") for n in ("train", "dev")}
    again = little_task.replace(asked, "own", **paths)
    assert finetune.finetune(again).scores == summary.scores
    assert "Nothing to train" in capsys.readouterr().out
    # A test file without labels is predicted unasked.
    predicted = output / "predictions" / "own" / "test_predictions.tsv"
    assert len(predicted.read_text().splitlines()) == 9
    for name in ("dev", "train"):
        path = moved / f"{name}.csv"
        path.write_text(path.read_text().replace(",good", ",bad", 1))
        with pytest.raises(errors.ModelError, match=rf"{name} of own .{path}"):
            finetune.finetune(again)
    # Trials of earlier versions have no digests.
    for path in output.glob("trial_*/config.json"):
        old = json.loads(path.read_text())
        del old["data"]
        path.write_text(json.dumps(old))
    assert finetune.finetune(asked).scores == summary.scores
    with pytest.raises(errors.ModelError, match="own.train_file: "):
        finetune.finetune(again)


def test_a_split_that_was_asked_for_must_have_a_file(done):
    asked = dataclasses.replace(done[0], actions=("predict",), splits=("test",))
    moved = little_task.replace(asked, "own", test_file="/nowhere.csv")
    with pytest.raises(FileNotFoundError, match=r"nowhere\.csv"):
        finetune.finetune(moved)
    with pytest.raises(ValueError, match="splits of own.*tset"):
        finetune.finetune(dataclasses.replace(moved, splits=("tset",)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"actions": ("trian",)}, "--do=trian"),
        ({"num_trials": 0}, "num_trials"),
        ({"pretrained_dir": None}, "--pretrained_dir"),
        ({"num_parallel": 2, "training": {"strategy": "mirrored"}}, "one_dev"),
        ({"is_random": True, "checkpoint": "best"}, "no checkpoint"),
        ({"splits": ("test",)}, "--splits"),
        ({"actions": ("eval",), "num_parallel": 2}, "--parallel_trials"),
    ],
)
def test_what_cannot_be_done_is_refused(data, tmp_path, options, message):
    options = {"pretrained_dir": tmp_path} | options
    with pytest.raises(errors.ConfigError, match=message):
        little_task.build_request(data, output_dir=tmp_path, **options)


def test_a_trial_that_another_process_runs_is_refused(ask):
    request = ask()
    with (
        locks.hold(request.folder(1)),
        pytest.raises(BlockingIOError, match="trial_01 is in use by process"),
    ):
        finetune.finetune(request)


@pytest.mark.slow
def test_trials_side_by_side_survive_a_signal_and_are_those_one_after_another(
    done, ask, capsys
):
    request = ask(num_trials=2, num_parallel=2)

    def interrupt():
        logs = [request.folder(n) / "metrics.jsonl" for n in (1, 2)]
        while not any(log.exists() for log in logs):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=interrupt, daemon=True).start()
    with contextlib.suppress(errors.Stopped):
        assert finetune.finetune(request).scores == done[1].scores
    # Both processes have read the data; the terminal says it once.
    assert capsys.readouterr().out.count("; examples: ") == 1
    assert finetune.finetune(request).scores == done[1].scores
    logs = sorted((request.output_dir / "logs").iterdir())
    assert [log.name for log in logs] == ["trial_01.txt", "trial_02.txt"]


@pytest.mark.slow
def test_a_trial_that_fails_is_named_with_its_log(pretrained_dir, tmp_path):
    files = little_task.write_files(tmp_path / "data")
    (files / "dev.csv").write_text("text,label\nthe cat,ugly\n")
    request = little_task.build_request(
        files, pretrained_dir, tmp_path / "out", num_trials=2, num_parallel=2
    )
    message = r"2 of 2 trials failed.*'ugly'.*trial_01\.txt"
    with pytest.raises(ValueError, match=message):
        finetune.finetune(request)
