"""Windows of long texts, against loops that spell the rules out."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.tasks import windows


def _split(totals, room, stride, least=1):
    totals = tf.constant(totals, tf.int64)
    rooms = tf.fill(tf.shape(totals), tf.constant(room, tf.int64))
    return windows.split(totals, rooms, tf.minimum(rooms, stride), least)


def _spans_by_loop(total, room, stride):
    start = 0
    while True:
        count = min(room, total - start)
        yield start, count
        if start + count == total:
            return
        start += min(count, stride)


def test_windows_are_those_of_a_loop():
    totals = [0, 1, 9, 10, 11, 40, 3]
    for room, stride in ((10, 5), (10, 50), (3, 1)):
        found = _split(totals, room, stride)
        expected = [
            (number, start, count)
            for number, total in enumerate(totals)
            for start, count in _spans_by_loop(total, room, stride)
        ]
        rows = zip(found.texts, found.starts, found.lengths, strict=True)
        assert [tuple(map(int, row)) for row in rows] == expected
        counts = np.bincount(found.texts, minlength=len(totals))
        assert found.counts.numpy().tolist() == counts.tolist()
        assert all(found.numbers[i] == 0 for i in found.splits[:-1])


def test_a_text_without_pieces_has_a_window_if_wanted():
    assert _split([0, 4], 3, 2).counts.numpy().tolist() == [1, 2]
    assert _split([0, 4], 3, 2, least=0).counts.numpy().tolist() == [0, 2]


def _best_by_loop(spans, piece):
    best, best_score = None, None
    for number, (start, length) in enumerate(spans):
        if start <= piece < start + length:
            score = min(piece - start, start + length - 1 - piece)
            score += 0.01 * length
            if best_score is None or score > best_score:
                best, best_score = number, score
    return best


@pytest.mark.parametrize(
    ("total", "room", "stride"),
    [
        *((total, 14, stride) for total in (40, 61, 63) for stride in (4, 5)),
        (63, 14, 1),
        (63, 14, 14),
        # Lengths that differ by more than a hundred outweigh a piece.
        (700, 314, 290),
    ],
)
def test_the_best_window_is_that_of_a_loop(total, room, stride):
    spans = list(_spans_by_loop(total, room, stride))
    assert len(spans) > 2
    found = _split([5, total], room, stride)
    pieces = tf.range(total, dtype=tf.int64)
    best = windows.find_best(found, tf.ones([total], tf.int64), pieces)
    assert best.numpy().tolist() == [
        _best_by_loop(spans, piece) for piece in range(total)
    ]


def test_windows_of_half_a_row_keep_the_order_of_pieces():
    for total in range(1, 90):
        for room in (3, 6, 10, 21):
            found = _split([total], room, (room + 1) // 2)
            pieces = tf.range(total, dtype=tf.int64)
            best = windows.find_best(found, tf.zeros([total], tf.int64), pieces)
            assert np.all(np.diff(best.numpy()) >= 0)
