"""All tasks of a benchmark by one command: a model each, one table."""

import json
import pathlib

import pytest

from electra_tf import errors
from electra_tf.config import finetuning as finetuning_config
from electra_tf.finetuning import finetune
from electra_tf.finetuning import results
from electra_tf.finetuning import trial as trial_lib

_MODEL = pathlib.Path("model")


def _request(names, data_dir, output_dir, pretrained_dir=_MODEL, **options):
    training = options.pop("training", {})
    settings = finetuning_config.FinetuningConfig(
        task=finetuning_config.TaskConfig(names=names, data_dir=str(data_dir)),
        training=finetuning_config.FinetuningTrainingConfig(
            num_train_epochs=0.5, deterministic=False, **training
        ),
    )
    return finetune.Request(settings, output_dir, pretrained_dir, **options)


def test_glue_is_eight_tasks_and_some_can_be_named():
    assert results.benchmark_tasks("glue") == (
        "cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte",
    )  # fmt: skip
    assert results.benchmark_tasks("glue:rte, sst") == ("rte", "sst2")
    assert results.benchmark_tasks("cola,sst2") == ()


@pytest.mark.parametrize("some", ["wnli", "rte,rte", "sst,sst2", ""])
def test_what_is_no_task_of_glue_is_refused(some):
    with pytest.raises(errors.ConfigError, match="different tasks"):
        results.benchmark_tasks(f"glue:{some}")


def test_missing_files_are_named_at_once_with_the_tasks_that_are_there(
    tasks_dir, tmp_path
):
    request = _request("glue", tasks_dir, tmp_path / "out")
    with pytest.raises(
        FileNotFoundError,
        match=r"MRPC \(train, dev\), .*MNLI \(train, dev_matched, dev_mis.*"
        "names=glue:cola,sst2$",
    ):
        finetune.finetune(request)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"splits": ("test",), "actions": ("predict",)}, "--splits=test"),
        ({"training": {"strategy": "multi_worker"}}, "one host"),
    ],
)
def test_what_tasks_cannot_share_is_refused(
    tasks_dir, tmp_path, options, message
):
    request = _request("glue:cola", tasks_dir, tmp_path, **options)
    with pytest.raises(errors.ConfigError, match=message):
        finetune.finetune(request)


def _line(title, majority, *values, stuck=None):
    scores = [
        trial_lib.Score({"accuracy": value}, value == stuck) for value in values
    ]
    numbers = results.summarize_split(scores, "accuracy")["accuracy"]
    return results.Line(title, "dev", "accuracy", majority, numbers)


def test_the_table_has_medians_spread_guesses_and_the_average_of_medians():
    report = results.build_report(
        [
            _line("CoLA", 0.0, 50.0, 60.0, 70.0),
            _line("RTE", 52.71, 80.0, 52.71, stuck=52.71),
        ]
    )
    # The mean of 60 and 66.355.
    assert report.average == pytest.approx(63.1775)
    lines = report.format_table().split("\n")
    assert [line.split() for line in lines[:4]] == [
        ["task", "split", "metric", "majority", "median", "mean", "sd",
         "best", "trials"],
        ["CoLA", "dev", "accuracy", "0.00", "60.00", "60.00", "10.00",
         "70.00", "3"],
        ["RTE", "dev", "accuracy", "52.71", "66.36", "66.36", "19.30",
         "80.00", "2,", "1", "*"],
        ["average", "63.18"],
    ]  # fmt: skip
    assert lines[1].index("60.00") == lines[3].index("63.18")
    assert lines[4] == (
        "The average is that of the medians without SST-2, MRPC, STS-B, QQP, "
        "MNLI, QNLI: not the one that papers report."
    )
    assert lines[5].startswith("* The model says the same")


def test_the_average_of_all_eight_needs_no_word():
    titles = ("CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI", "QNLI", "RTE")
    report = results.build_report([_line(title, 0.0, 80.0) for title in titles])
    assert report.missing == ()
    last = report.format_table().split("\n")[-1]
    assert last == "The average is that of the medians."


def test_every_task_has_a_folder_a_head_and_predictions_of_its_own(
    tasks_dir, pretrained_dir, tmp_path
):
    output = tmp_path / "out"
    request = _request(
        "glue:sst2,cola", tasks_dir, output, pretrained_dir,
        actions=("train", "eval", "predict"),
    )  # fmt: skip
    report = finetune.finetune(request)
    assert (output / "cola/predictions/cola/dev_predictions.tsv").is_file()
    trial = trial_lib.read_description(output / "sst2" / "trial_01")
    assert trial.settings.task.names == "sst2" and set(trial.labels) == {"sst2"}
    first, second = report.lines
    assert (first.title, second.title) == ("SST-2", "CoLA")
    own = results.summarize(output / "sst2").scores["sst2"]["dev"]["accuracy"]
    assert first.numbers == own
    lines = (tasks_dir / "glue_data/SST-2/dev.tsv").read_text().split("\n")
    positive = sum(line.endswith("\t1") for line in lines)
    assert first.majority == 100 * max(positive, 40 - positive) / 40
    assert second.majority == 0.0
    content = json.loads((output / "results.json").read_text())
    assert content["average"] == report.average
    assert content["settings"]["task"]["names"] == "glue:sst2,cola"
    table = (output / "results.txt").read_text()
    assert table == report.format_table() + "\n"
