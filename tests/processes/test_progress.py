"""Progress lines as a log shows them."""

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
