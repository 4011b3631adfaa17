"""Scores of several trials become one table, and say what went wrong."""

import dataclasses
import json

import pytest

from electra_tf import errors
from electra_tf.config import finetuning as finetuning_config
from electra_tf.finetuning import results
from electra_tf.finetuning import trial_dir


def _write_trial(folder, number, accuracy, is_degenerate=False, **others):
    path = folder / f"trial_{number:02d}"
    path.mkdir(parents=True)
    score = trial_dir.Score({"f1": 50.0, "accuracy": accuracy}, is_degenerate)
    trial_dir.write_result(
        path,
        trial_dir.TrialResult(
            seed=number,
            scores={"mood": {"dev": score, **others}},
            metrics={"mood": "accuracy"},
            num_steps=3,
            origin="31 of 31",
            seconds=1.5,
            device="1 x CPU",
            versions={"tensorflow": "2.20.0"},
        ),
    )


@pytest.fixture
def folder(tmp_path):
    for number, accuracy in enumerate((80.0, 84.0, 90.0, 50.0), 1):
        _write_trial(tmp_path, number, accuracy, accuracy == 50.0)
    return tmp_path


def test_median_mean_spread_and_best_are_those_of_the_trials(folder):
    scores = results.summarize(folder).scores["mood"]["dev"]
    assert list(scores) == ["accuracy", "f1"]
    numbers = scores["accuracy"]
    assert numbers.values == (80.0, 84.0, 90.0, 50.0)
    assert (numbers.median, numbers.mean) == (82.0, 76.0)
    assert numbers.spread == pytest.approx(17.8138, abs=1e-4)
    assert (numbers.best, numbers.worst) == (90.0, 50.0)
    assert numbers.degenerate == (3,)


def test_the_table_has_a_line_for_each_metric_and_marks_what_is_stuck(folder):
    lines = results.format_table(results.summarize(folder)).split("\n")
    assert lines[0].split() == [
        "task", "split", "metric", "median", "mean", "sd", "best", "trials",
    ]  # fmt: skip
    assert lines[1].split() == [
        "mood", "dev", "accuracy", "82.00", "76.00", "17.81", "90.00",
        "80.00", "84.00", "90.00", "50.00*",
    ]  # fmt: skip
    assert lines[2].split()[2] == "f1"
    assert lines[3].startswith("* The model says the same of every example")
    starts = {line.index(cell) for line, cell in zip(
        lines[:3], ("trials", "80.00 84.00", "50.00 50.00"), strict=True
    )}  # fmt: skip
    assert len(starts) == 1


def test_files_hold_the_settings_and_every_trial(folder):
    settings = finetuning_config.FinetuningConfig()
    summary = results.summarize(folder)
    table = results.format_table(summary)
    results.write(folder, dataclasses.asdict(summary), table, settings)
    content = json.loads((folder / "results.json").read_text())
    assert content["settings"]["training"]["train_batch_size"] == 32
    assert [trial["seed"] for trial in content["trials"]] == [1, 2, 3, 4]
    best = content["scores"]["mood"]["dev"]["accuracy"]["best"]
    assert (best, content["best_trial"]) == (90.0, 3)
    assert (folder / "results.txt").read_text() == table + "\n"


def test_the_best_trial_is_that_of_the_deciding_metric(folder):
    assert results.best_trial(folder) == 3


def _write_errors(folder, *errors):
    for number, error in enumerate(errors, 1):
        path = folder / f"trial_{number:02d}"
        path.mkdir()
        score = trial_dir.Score({"mse": error}, False, ("mse",))
        trial_dir.write_result(
            path,
            trial_dir.TrialResult(
                1, {"size": {"dev": score}}, {"size": "mse"}, 3, "", 1.0, "", {}
            ),
        )


def test_of_errors_the_least_is_the_best(tmp_path):
    _write_errors(tmp_path, 0.021, 0.0123, 0.034)
    assert results.best_trial(tmp_path) == 2
    summary = results.summarize(tmp_path)
    numbers = summary.scores["size"]["dev"]["mse"]
    assert (numbers.best, numbers.worst) == (0.0123, 0.034)
    assert results.format_table(summary).split("\n")[1].split()[3:] == [
        "0.0210", "0.0224", "0.0109", "0.0123", "0.0210", "0.0123", "0.0340",
    ]  # fmt: skip


def test_results_that_do_not_tell_the_direction_are_read(folder):
    path = folder / "trial_02" / "results.json"
    content = json.loads(path.read_text())
    del content["scores"]["mood"]["dev"]["lower_is_better"]
    path.write_text(json.dumps(content))
    assert results.best_trial(folder) == 3


def test_scores_on_test_data_stand_apart_and_say_whose_they_are(folder):
    score = trial_dir.Score({"f1": 9.0, "accuracy": 70.0}, is_degenerate=True)
    test = {"mood": {"test": score}}
    summary = dataclasses.replace(results.summarize(folder), test=test)
    lines = results.format_table(summary).split("\n")
    assert lines[3:7] == [
        "",
        "On test data, trial 3, the best on dev:",
        "mood  test  accuracy  70.00  *",
        "mood  test  f1         9.00  *",
    ]


def test_without_any_score_the_first_trial_is_taken(tmp_path):
    for number in (1, 2):
        path = tmp_path / f"trial_{number:02d}"
        path.mkdir()
        trial_dir.write_result(
            path,
            trial_dir.TrialResult(
                1, {"mood": {}}, {"mood": "accuracy"}, 3, "", 1.0, "", {}
            ),
        )
    assert results.best_trial(tmp_path) == 1
    assert results.summarize(tmp_path).scores == {"mood": {}}


def test_other_folders_are_no_trials(folder):
    (folder / "trial_01").rename(folder / "trial_01_old")
    assert list(results.read_trials(folder)) == [2, 3, 4]


def test_a_single_trial_has_no_spread(tmp_path):
    _write_trial(tmp_path, 7, 61.5)
    numbers = results.summarize(tmp_path).scores["mood"]["dev"]
    assert numbers["accuracy"].spread == 0.0
    assert numbers["accuracy"].median == 61.5
    assert results.best_trial(tmp_path) == 7


def test_a_folder_without_a_finished_trial_is_refused(tmp_path):
    (tmp_path / "trial_01").mkdir()
    with pytest.raises(FileNotFoundError, match="finished trial"):
        results.summarize(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"metrics": None},
        {"metrics": {}},
        {"metrics": {"mood": "rouge"}},
        {"scores": []},
        {"scores": {"mood": {"dev": {"metrics": {}}}}},
        {"scores": {"mood": {"dev": 5}}},
        {"colour": 3},
    ],
    ids=str,
)
def test_a_result_of_another_form_is_refused_by_name(folder, change):
    path = folder / "trial_02" / "results.json"
    content = json.loads(path.read_text()) | change
    path.write_text(json.dumps(content))
    with pytest.raises(
        errors.ModelError, match=r"trial_02/results\.json must be"
    ):
        results.summarize(folder)
    path.write_text(json.dumps(content)[:-20])
    with pytest.raises(errors.ModelError, match="must hold a JSON"):
        results.summarize(folder)
