"""Progress lines as a log shows them."""

import pytest

from electra_tf.processes import progress
from electra_tf.processes.progress import WorkProgress


def test_log_has_rate_and_time_left_every_ten_seconds(clock, capsys):
    with WorkProgress("Building", 1000, "tokens") as line:
        clock[0] += 5  # processes are starting
        line.advance(0, 0)
        for _ in range(6):
            clock[0] += 4
            line.advance(100, 5000)
    assert capsys.readouterr().err.splitlines() == [
        "Building: 30 %, 15,000 tokens, 1,250/s, 0:00:28 left",
        "Building: 60 %, 30,000 tokens, 1,250/s, 0:00:16 left",
        # Sizes are estimates; what has ended is complete.
        "Building: 100 %, 30,000 tokens, 1,250/s",
    ]


def test_what_failed_has_no_line_of_its_end(capsys):
    with pytest.raises(ValueError), WorkProgress("Building", 10, "tokens"):
        raise ValueError
    assert capsys.readouterr().err == ""


def test_durations_read_like_a_clock():
    texts = map(progress.format_time, (None, 0.4, 86_399.7))
    assert [*texts] == ["-", "0:00:00", "1d 00:00"]
