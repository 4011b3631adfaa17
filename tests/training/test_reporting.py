"""What a run tells, and what stays of it after a kill."""

import json
import re

import pytest
import tensorflow as tf

from electra_tf.training import reporting
from tests import full_disk

METRICS = {"loss": 2.5, "disc_auc": 0.75}
TIMING = {"tokens_per_second": 1000.0}


def _written(model_dir):
    return reporting.read_lines(model_dir / "metrics.jsonl")


def _write_steps(model_dir, steps, first_step=0):
    with reporting.RunReport(model_dir, first_step, 100) as report:
        for step in steps:
            report.write("train", step, METRICS, TIMING)
            report.write("validation", step, METRICS)


def test_a_line_holds_step_split_metrics_and_times_apart(tmp_path):
    _write_steps(tmp_path, [5])
    assert _written(tmp_path) == [
        {"step": 5, "split": "train", **METRICS, "timing": TIMING},
        {"step": 5, "split": "validation", **METRICS},
    ]


def test_lines_after_the_checkpoint_are_made_again(tmp_path):
    _write_steps(tmp_path, [5, 10, 15])
    _write_steps(tmp_path, [12, 17], first_step=10)
    assert [line["step"] for line in _written(tmp_path)] == [
        *(5, 5, 10, 10, 12, 12, 17, 17)
    ]


@pytest.mark.parametrize("num_lost", [1, 2, 30])
def test_a_line_that_a_kill_cut_short_is_dropped(num_lost, tmp_path):
    _write_steps(tmp_path, [5, 10])
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-num_lost])
    _write_steps(tmp_path, [15], first_step=10)
    expected = [5, 5, 10, 15, 15] if num_lost > 1 else [5, 5, 10, 10, 15, 15]
    assert [line["step"] for line in _written(tmp_path)] == expected


def test_rewriting_changes_no_digit(tmp_path):
    path = tmp_path / "metrics.jsonl"
    numbers = {"loss": 0.1 + 0.2, "rate": 1e-7 / 3, "count": 3}
    with reporting.RunReport(tmp_path, 0, 9) as report:
        report.write("train", 1, numbers)
    before = path.read_bytes()
    reporting.drop_lines_after(path, 1)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir() if "partial" in p.name] == []


def test_what_is_not_a_number_is_never_written(tmp_path):
    with (
        reporting.RunReport(tmp_path, 0, 9) as report,
        pytest.raises(ValueError, match="JSON"),
    ):
        report.write("train", 1, {"loss": float("nan")})
    assert not (tmp_path / "metrics.jsonl").exists()


def test_only_the_chief_writes_and_speaks(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with reporting.RunReport(None, 0, 9) as report:
        report.write("train", 1, METRICS)
        report.say("hello")
    assert capsys.readouterr().out == ""
    assert list(tmp_path.iterdir()) == []


def test_the_console_shows_a_table_with_the_time_left(
    tmp_path, capsys, monkeypatch
):
    times = iter([100.0, 130.0])
    monkeypatch.setattr(reporting.time, "monotonic", lambda: next(times))
    with reporting.RunReport(tmp_path, 0, 100) as report:
        report.write("train", 10, METRICS, TIMING)
        report.write("train", 20, METRICS, TIMING)
    lines = capsys.readouterr().out.splitlines()
    # 30 s for 10 steps, none of it for tracing; 80 steps are left.
    assert [" ".join(line.split()) for line in lines] == [
        "step/total left loss auc tok/s % peak",
        "train 10/100 - 2.500 0.750 1,000",
        "train 20/100 0:04:00 2.500 0.750 1,000",
    ]


def test_what_has_no_column_needs_no_new_heading(tmp_path, capsys):
    with reporting.RunReport(tmp_path, 0, 100) as report:
        report.write("train", 10, METRICS, TIMING)
        report.write("validation", 10, METRICS | {"unigram_accuracy": 0.1})
    assert capsys.readouterr().out.count("step/total") == 1


def test_tensorboard_has_every_number_at_its_step(tmp_path):
    _write_steps(tmp_path, [5, 10])
    for split, names in (
        ("train", {*METRICS, *TIMING}),
        ("validation", set(METRICS)),
    ):
        files = list((tmp_path / "tensorboard" / split).iterdir())
        found = {}
        for event in tf.compat.v1.train.summary_iterator(str(files[0])):
            for value in event.summary.value:
                number = float(tf.make_ndarray(value.tensor))
                found[event.step, value.tag] = number
        assert set(found) == {(s, n) for s in (5, 10) for n in names}
        assert found[10, "disc_auc"] == 0.75


def test_a_full_disk_names_the_file_and_the_remedy(tmp_path):
    path = tmp_path / "metrics.jsonl"
    report = reporting.RunReport(tmp_path, 0, 100)
    report.write("train", 5, METRICS)
    message = re.escape(f"{path} could not be written") + ".*same command"
    with (
        full_disk.largest_file(path.stat().st_size + 20),
        pytest.raises(OSError, match=message),
    ):
        report.write("train", 10, METRICS)
    with (
        full_disk.largest_file(20),
        pytest.raises(OSError, match=message),
    ):
        reporting.RunReport(tmp_path, 5, 100)
    # Half a line is on the disk; the next start drops it.
    _write_steps(tmp_path, [10], first_step=5)
    assert [json.loads(t)["step"] for t in path.read_text().splitlines()] == [
        *(5, 10, 10)
    ]
