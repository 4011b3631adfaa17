"""The report of a run, and what a kill leaves of it."""

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


@pytest.mark.parametrize("num_lost", [0, 1, 2, 30])
def test_half_lines_and_those_after_the_checkpoint_are_dropped(
    num_lost, tmp_path
):
    _write_steps(tmp_path, [5, 10])
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[: -num_lost or None])
    _write_steps(tmp_path, [15], first_step=10)
    expected = [5, 5, 10, 15, 15] if num_lost > 1 else [5, 5, 10, 10, 15, 15]
    assert [line["step"] for line in _written(tmp_path)] == expected
    _write_steps(tmp_path, [7], first_step=5)
    assert [line["step"] for line in _written(tmp_path)] == [5, 5, 7, 7]


@pytest.mark.parametrize("damage", [b"\xff", b"[", b"\n"])
def test_a_damaged_line_is_named_and_the_others_stay(damage, tmp_path, caplog):
    _write_steps(tmp_path, [5, 10])
    path = tmp_path / "metrics.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = damage + lines[1][1:]
    path.write_bytes(b"".join(lines))
    _write_steps(tmp_path, [15], first_step=10)
    assert f"{path}: line 2 is damaged" in caplog.text
    caplog.clear()
    assert [n["step"] for n in _written(tmp_path)] == [5, 10, 10, 15, 15]
    assert caplog.text == ""


def test_the_first_lines_come_after_seconds_until_the_log_has_its_own(
    tmp_path, capsys, clock
):
    with reporting.RunReport(tmp_path, 0, 100) as report:
        due = []
        # The first step traces for 7 s; then each takes 1 s.
        for step, now in enumerate(range(7, 60), 1):
            clock[0] = float(now)
            if report.advance(step):
                due.append(step)
                report.print("train", step, METRICS)
        # The second step's; 5 and 15 seconds later; not yet 45.
        assert due == [2, 7, 22]
        report.write("train", 53, METRICS)
        clock[0] += 1000
        assert not report.advance(54)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "The first step took 7.0 s."
    # 98 steps of a second are left.
    assert lines[2].split()[:3] == ["train", "2/100", "0:01:38"]
    assert lines[-1].split()[:2] == ["train", "53/100"]
    assert [line["step"] for line in _written(tmp_path)] == [53]


def test_the_log_and_tensorboard_have_every_number_at_its_step(tmp_path):
    _write_steps(tmp_path, [5, 10])
    assert _written(tmp_path)[2:] == [
        {"step": 10, "split": "train", **METRICS, "timing": TIMING},
        {"step": 10, "split": "validation", **METRICS},
    ]
    for split, own in (("train", METRICS | TIMING), ("validation", METRICS)):
        (file,) = (tmp_path / "tensorboard" / split).iterdir()
        numbers = {
            (event.step, value.tag): float(tf.make_ndarray(value.tensor))
            for event in tf.compat.v1.train.summary_iterator(str(file))
            for value in event.summary.value
        }
        assert numbers == {(s, n): own[n] for s in (5, 10) for n in own}


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
    with full_disk.largest_file(20), pytest.raises(OSError, match=message):
        reporting.RunReport(tmp_path, 5, 100)
    # Half a line is on the disk; the next start drops it.
    _write_steps(tmp_path, [10], first_step=5)
    lines = map(json.loads, path.read_text().splitlines())
    assert [line["step"] for line in lines] == [5, 10, 10]
    # A file where a folder should be.
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "tensorboard").write_text("")
    with pytest.raises(OSError, match="tensorboard/train could not be written"):
        reporting.RunReport(tmp_path / "run", 0, 100)


TRAIN = {
    "loss": 37.1739, "gen_loss": 9.91, "masked_accuracy": 0.029,
    "disc_loss": 0.6652, "disc_precision": 0.1538, "disc_auc": 0.5082,
    "gradient_norm": 39.622, "learning_rate": 5e-4,
    "tokens_per_second": 123456.7, "share_of_peak": 0.4561,
    "seconds_per_step": 0.5,
}  # fmt: skip
HELD_OUT = {"loss": 37.1739, "disc_auc": 0.5082}


def test_a_worked_example():
    table = reporting.Table(1_000, set(TRAIN))
    heading, train = table.lines("train", 100, None, TRAIN)
    (held_out,) = table.lines("validation", 100, 90_061, HELD_OUT)
    # The heading comes again every 20 lines.
    counts = [len(table.lines("train", i, 0, TRAIN)) for i in range(2, 41)]
    assert [i for i, count in enumerate(counts, 2) if count == 2] == [20, 40]
    assert heading == (
        "     step/total      left    loss    gen masked   disc  prec   auc"
        "    grad       lr     tok/s % peak"
    )
    assert train == (
        "train  100/1000         -  37.174  9.910  0.029 0.6652 0.154 0.508"
        "   39.62 5.00e-04   123,457   45.6"
    )
    assert held_out == (
        "valid  100/1000  1d 01:01  37.174                            0.508"
    )
    # Where there is no room the least important are left out.
    narrow = reporting.Table(1_000, set(TRAIN), width=50)
    assert narrow.lines("train", 100, None, TRAIN)[0] == (
        "     step/total      left    loss    gen     tok/s"
    )
