"""Scores of several trials become one table, and say what went wrong."""

import dataclasses
import json

import pytest

from electra_tf import errors
from electra_tf.config import finetuning as finetuning_config
from electra_tf.finetuning import results
from electra_tf.finetuning import trial as trial_lib

_RESULT = trial_lib.TrialResult(
    seed=1,
    scores={},
    metrics={"mood": "accuracy", "size": "mse"},
    num_steps=3,
    origin="31 of 31",
    seconds=1.5,
    device="1 x CPU",
    versions={"tensorflow": "2.20.0"},
)


def _write(folder, *trials):
    """Writes a finished trial for each task-to-dev-score."""
    for number, scores in enumerate(trials, 1):
        path = folder / f"trial_{number:02d}"
        path.mkdir(parents=True)
        splits = {task: {"dev": score} for task, score in scores.items()}
        result = dataclasses.replace(_RESULT, seed=number, scores=splits)
        trial_lib.write_result(path, result)


def _mood(accuracy):
    metrics = {"f1": 50.0, "accuracy": accuracy}
    return {"mood": trial_lib.Score(metrics, is_degenerate=accuracy == 50.0)}


def _size(error):
    return {"size": trial_lib.Score({"mse": error}, False, ("mse",))}


@pytest.fixture
def folder(tmp_path):
    _write(tmp_path, *map(_mood, (80.0, 84.0, 90.0, 50.0)))
    return tmp_path


def test_median_mean_spread_and_best_are_those_of_the_trials(folder):
    summary = results.summarize(folder)
    scores = summary.scores["mood"]["dev"]
    assert list(scores) == ["accuracy", "f1"]
    numbers = scores["accuracy"]
    assert numbers.values == (80.0, 84.0, 90.0, 50.0)
    assert (numbers.median, numbers.mean) == (82.0, 76.0)
    assert numbers.spread == pytest.approx(17.8138, abs=1e-4)
    assert (numbers.best, numbers.worst) == (90.0, 50.0)
    assert numbers.degenerate == (3,)
    assert (
        summary.best_trial
        == results.best_trial(results.read_trials(folder))
        == 3
    )


def test_the_table_has_a_line_for_each_metric_and_marks_what_is_stuck(folder):
    lines = results.summarize(folder).format_table().split("\n")
    assert lines == [
        "task  split  metric    median   mean     sd   best  trials",
        "mood  dev    accuracy   82.00  76.00  17.81  90.00  "
        "80.00 84.00 90.00 50.00*",
        "mood  dev    f1         50.00  50.00   0.00  50.00  "
        "50.00 50.00 50.00 50.00*",
        "* The model says the same of every example: it learned nothing. Try "
        "another seed, a lower rate or a longer warm-up.",
    ]


def test_files_hold_the_settings_and_every_trial(folder):
    settings = finetuning_config.FinetuningConfig()
    summary = results.summarize(folder)
    results.write(folder, summary, settings)
    content = json.loads((folder / "results.json").read_text())
    assert content["settings"]["training"]["train_batch_size"] == 32
    assert [trial["seed"] for trial in content["trials"]] == [1, 2, 3, 4]
    best = content["scores"]["mood"]["dev"]["accuracy"]["best"]
    assert (best, content["best_trial"]) == (90.0, 3)
    table = f"{summary.format_table()}\n"
    assert (folder / "results.txt").read_text() == table


def test_of_errors_the_least_is_the_best(tmp_path):
    _write(tmp_path, *map(_size, (0.021, 0.0123, 0.034)))
    summary = results.summarize(tmp_path)
    assert summary.best_trial == 2
    numbers = summary.scores["size"]["dev"]["mse"]
    assert (numbers.best, numbers.worst) == (0.0123, 0.034)
    assert summary.format_table().split("\n")[1].split()[3:] == [
        "0.0210", "0.0224", "0.0109", "0.0123", "0.0210", "0.0123", "0.0340",
    ]  # fmt: skip
    # Files of earlier versions do not say that less is better.
    for path in tmp_path.glob("*/results.json"):
        content = json.loads(path.read_text())
        del content["scores"]["size"]["dev"]["lower_is_better"]
        path.write_text(json.dumps(content))
    assert results.best_trial(results.read_trials(tmp_path)) == 2


def test_the_first_split_decides(tmp_path):
    better = _mood(80.0)["mood"], _mood(70.0)["mood"]
    for number, pair in ((1, better), (2, better[::-1])):
        folder = tmp_path / f"trial_{number:02d}"
        folder.mkdir()
        splits = dict(zip(("matched", "mismatched"), pair, strict=True))
        result = dataclasses.replace(_RESULT, scores={"mood": splits})
        trial_lib.write_result(folder, result)
    assert results.best_trial(results.read_trials(tmp_path)) == 1


def test_scores_on_test_data_stand_apart_and_say_whose_they_are(folder):
    score = trial_lib.Score({"f1": 9.0, "accuracy": 70.0}, is_degenerate=True)
    test = {"mood": {"test": score}}
    summary = dataclasses.replace(results.summarize(folder), test=test)
    assert summary.format_table().split("\n")[3:7] == [
        "",
        "On test data, trial 3, the best on dev:",
        "mood  test  accuracy  70.00  *",
        "mood  test  f1         9.00  *",
    ]


def test_other_folders_are_no_trials(folder, tmp_path):
    (folder / "trial_01").rename(folder / "trial_01_old")
    assert list(results.read_trials(folder)) == [2, 3, 4]
    with pytest.raises(FileNotFoundError, match="finished trial"):
        results.summarize(folder / "trial_01_old")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"metrics": None}, "metrics"),
        ({"metrics": {"mood": "rouge"}}, "mood.dev"),
        ({"colour": 3}, "colour"),
    ],
    ids=str,
)
def test_a_result_of_another_form_is_refused_by_name(folder, change, field):
    path = folder / "trial_02" / "results.json"
    content = json.loads(path.read_text()) | change
    path.write_text(json.dumps(content))
    name = r"trial_02/results\.json.*"
    with pytest.raises(errors.ModelError, match=name + field):
        results.summarize(folder)
    path.write_text(json.dumps(content)[:-20])
    with pytest.raises(errors.ModelError, match=name + "must hold a JSON"):
        results.summarize(folder)
