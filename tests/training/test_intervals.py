"""When the host acts."""

from electra_tf.training import intervals as intervals_lib


def test_due_at_multiples_and_at_the_end():
    due = [s for s in range(1, 12) if intervals_lib.is_due(s, 4, 11)]
    assert due == [4, 8, 11]
    assert not intervals_lib.is_due(4, 0, 4)


def test_the_loop_stops_wherever_the_host_must_act():
    intervals = intervals_lib.Intervals(
        total=23, steps_per_loop=6, log=5, evaluate=0, save=8
    )
    stops, step = [], 0
    while step < 23:
        step += intervals.num_next_steps(step)
        stops.append(step)
    assert stops == [5, 8, 10, 15, 16, 20, 23]
