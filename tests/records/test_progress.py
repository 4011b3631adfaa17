"""Progress lines as a log shows them."""

import pytest

from electra_tf.records import progress
from electra_tf.records.progress import ProgressLine


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test moves."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_log_has_rate_and_time_left_every_ten_seconds(clock, capsys):
    with ProgressLine("Building", 1000, "tokens") as line:
        clock[0] += 5  # processes are starting
        line.advance(0, 0)
        for _ in range(6):
            clock[0] += 4
            line.advance(100, 5000)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "Building: 30 %, 15,000 tokens, 1,250/s, 0:28 left",
        "Building: 60 %, 30,000 tokens, 1,250/s, 0:16 left",
    ]


def test_end_is_logged_unless_it_failed(clock, capsys):
    with ProgressLine("Building", 10, "tokens") as line:
        line.advance(0, 0)
        clock[0] += 2
        line.advance(10, 8)
    assert capsys.readouterr().err == "Building: 100 %, 8 tokens, 4/s\n"
    with pytest.raises(ValueError), ProgressLine("Building", 10, "tokens"):
        raise ValueError
    assert capsys.readouterr().err == ""


def test_hours_are_shown(clock, capsys):
    with ProgressLine("Building", 10_000, "tokens") as line:
        line.advance(0, 0)
        clock[0] += 11
        line.advance(10, 1)
    assert "3:03:09 left" in capsys.readouterr().err
