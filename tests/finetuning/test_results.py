"""Scores of several trials, and of a benchmark's tasks, become one table."""

import json
import pathlib

import pytest

from electra_tf import errors
from electra_tf.config import finetuning as finetuning_config
from electra_tf.finetuning import finetune
from electra_tf.finetuning import results
from electra_tf.finetuning import trial as trial_lib
from tests import tiny


def _write(folder, *trials):
    """Writes a finished trial for each task-to-dev-score."""
    for number, scores in enumerate(trials, 1):
        path = folder / f"trial_{number:02d}"
        path.mkdir(parents=True)
        splits = {task: {"dev": score} for task, score in scores.items()}
        result = trial_lib.TrialResult(
            seed=number, scores=splits,
            metrics={"mood": "accuracy", "size": "mse"}, num_steps=99,
            origin="31 of 31", seconds=1.5, device="1 x CPU",
            versions={"tensorflow": "2.20.0"},
        )  # fmt: skip
        trial_lib.write_result(path, result)


def _mood(accuracy):
    # Counts and thresholds are no scores.
    metrics = {"f1": 50.0, "accuracy": accuracy, "total": 9.0, "f1_thresh": 1.0}
    return {"mood": trial_lib.Score(metrics, is_degenerate=accuracy == 50.0)}


def _size(error):
    return {"size": trial_lib.Score({"mse": error}, False, ("mse",))}


def test_median_mean_spread_and_best_are_those_of_the_trials(tmp_path):
    _write(tmp_path, *map(_mood, (80.0, 84.0, 90.0, 50.0)))
    summary = results.summarize(tmp_path)
    numbers = summary.scores["mood"]["dev"]["accuracy"]
    assert numbers.spread == pytest.approx(17.8138, abs=1e-4)
    assert (numbers.worst, numbers.degenerate) == (50.0, (3,))
    assert summary.best_trial == 3
    # A line for each metric; what is stuck is marked.
    assert summary.format_table().split("\n") == [
        "task  split  metric    median   mean     sd   best  trials",
        "mood  dev    accuracy   82.00  76.00  17.81  90.00  "
        "80.00 84.00 90.00 50.00*",
        "mood  dev    f1         50.00  50.00   0.00  50.00  "
        "50.00 50.00 50.00 50.00*",
        "* The model says the same of every example: it learned nothing. Try "
        "another seed, a lower rate or a longer warm-up.",
    ]


def test_of_errors_the_least_is_the_best(tmp_path):
    _write(tmp_path, *map(_size, (0.021, 0.0123, 0.034)))
    summary = results.summarize(tmp_path)
    assert summary.best_trial == 2
    numbers = summary.scores["size"]["dev"]["mse"]
    assert (numbers.best, numbers.worst) == (0.0123, 0.034)
    shown = "0.0210 0.0224 0.0109 0.0123 0.0210 0.0123 0.0340"
    line = summary.format_table().split("\n")[1]
    assert line.split()[3:] == shown.split()
    # Files of earlier versions do not say that less is better.
    for path in tmp_path.glob("*/results.json"):
        content = json.loads(path.read_text())
        del content["scores"]["size"]["dev"]["lower_is_better"]
        path.write_text(json.dumps(content))
    assert results.summarize(tmp_path).best_trial == 2


def _request(names, data_dir, output_dir, pretrained_dir=None, **options):
    training = options.pop("training", {})
    settings = finetuning_config.FinetuningConfig(
        task=finetuning_config.TaskConfig(names=names, data_dir=str(data_dir)),
        training=finetuning_config.FinetuningTrainingConfig(
            num_train_epochs=0.5, deterministic=False, **training
        ),
    )
    model = pretrained_dir or pathlib.Path("model")
    return finetune.Request(settings, output_dir, model, **options)


def test_glue_is_eight_tasks_and_some_can_be_named():
    assert results.benchmark_tasks("glue") == (
        "cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte",
    )  # fmt: skip
    assert results.benchmark_tasks("glue:rte, sst") == ("rte", "sst2")
    assert results.benchmark_tasks("cola,sst2") == ()
    for some in ("wnli", "rte,rte", "sst,sst2", ""):
        with pytest.raises(errors.ConfigError, match="different tasks"):
            results.benchmark_tasks(f"glue:{some}")


def test_missing_files_are_named_at_once_with_the_tasks_that_are_there(
    tasks_dir, tmp_path
):
    request = _request("glue", tasks_dir, tmp_path / "out")
    missing = r"MRPC \(train, dev\), .*MNLI \(train, dev_matched, dev_mis"
    message = f"{missing}.*names=glue:cola,sst2,stsb$"
    with pytest.raises(FileNotFoundError, match=message):
        finetune.finetune(request)
    for options, message in (
        ({"splits": ("test",), "actions": ("predict",)}, "--splits=test"),
        ({"training": {"strategy": "multi_worker"}}, "one host"),
    ):
        request = _request("glue", tasks_dir, tmp_path / "out", **options)
        with pytest.raises(errors.ConfigError, match=message):
            finetune.finetune(request)
    assert not (tmp_path / "out").exists()


def _line(title, majority, *values, stuck=None):
    scores = [
        trial_lib.Score({"accuracy": value}, value == stuck) for value in values
    ]
    numbers = results.summarize_split(scores, "accuracy")["accuracy"]
    return results.Line(title, "dev", "accuracy", majority, numbers)


def test_the_table_has_medians_spread_guesses_and_the_average_of_medians():
    cola = _line("CoLA", 0.0, 50.0, 60.0, 70.0)
    rte = _line("RTE", 52.71, 80.0, 52.71, stuck=52.71)
    report = results.build_report([cola, rte])
    # The mean of 60 and 66.355.
    assert report.average == pytest.approx(63.1775)
    lines = report.format_table().split("\n")
    assert [" ".join(line.split()) for line in lines[:4]] == [
        "task split metric majority median mean sd best trials",
        "CoLA dev accuracy 0.00 60.00 60.00 10.00 70.00 3",
        "RTE dev accuracy 52.71 66.36 66.36 19.30 80.00 2, 1 *",
        "average 63.18",
    ]
    assert lines[1].index("60.00") == lines[3].index("63.18")
    assert lines[4] == (
        "The average is that of the medians without SST-2, MRPC, STS-B, QQP, "
        "MNLI, QNLI: not the one that papers report."
    )
    titles = ("CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI", "QNLI", "RTE")
    report = results.build_report([_line(title, 0.0, 80.0) for title in titles])
    assert report.format_table().endswith("is that of the medians.")


@tiny.eagerly()
def test_every_task_has_a_folder_a_head_and_predictions_of_its_own(
    tasks_dir, pretrained_dir, tmp_path
):
    output, actions = tmp_path / "out", ("train", "eval", "predict")
    request = _request(
        "glue:sst2,cola", tasks_dir, output, pretrained_dir, actions=actions
    )
    report = finetune.finetune(request)
    assert (output / "cola/predictions/cola/dev_predictions.tsv").is_file()
    trial = trial_lib.read_description(output / "sst2" / "trial_01")
    assert trial.settings.task.names == "sst2" and set(trial.labels) == {"sst2"}
    first, second = report.lines
    assert (first.title, second.title) == ("SST-2", "CoLA")
    own = results.summarize(output / "sst2").scores["sst2"]["dev"]["accuracy"]
    assert first.numbers == own
    text = (tasks_dir / "glue_data/SST-2/dev.tsv").read_text()
    positive = text.count("\t1\n")
    assert first.majority == 100 * max(positive, 40 - positive) / 40
    assert second.majority == 0.0
    content = json.loads((output / "results.json").read_text())
    assert content["average"] == report.average
    assert content["settings"]["task"]["names"] == "glue:sst2,cola"
