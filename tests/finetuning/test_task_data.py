"""Which rows a step takes, and how they are padded."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.finetuning import task_data
from electra_tf.modeling import task_heads
from electra_tf.tasks import rows as rows_lib

LABEL = {"label": task_heads.Column()}
TAGS = {"tags": task_heads.Column(is_ragged=True)}


def _rows(lengths, starts=None, **columns):
    return rows_lib.EncodedRows(
        rows_lib.Ragged.join([tf.ragged.range(10, np.int32(lengths) + 10)]),
        segment_starts=np.array(starts or lengths, np.int32),
        examples=np.arange(len(lengths), dtype=np.int32),
        **columns,
    )


def _labelled(lengths, starts=None):
    rows = _rows(lengths, starts, columns={"label": np.arange(len(lengths))})
    return task_data.RowTable({"cola": rows}, {"cola": LABEL})


def test_a_batch_is_padded_and_its_masks_follow_from_the_lengths():
    batch = _labelled([3, 5], [3, 3]).batch(tf.constant([1, 0]), 6)
    found = {name: value.numpy().tolist() for name, value in batch.items()}
    assert found == {
        "input_ids": [[10, 11, 12, 13, 14, 0], [10, 11, 12, 0, 0, 0]],
        "input_mask": [[1, 1, 1, 1, 1, 0], [1, 1, 1, 0, 0, 0]],
        "segment_ids": [[0, 0, 0, 1, 1, 0], [0, 0, 0, 0, 0, 0]],
        "task_id": [0, 0],
        "cola/label": [1, 0],
    }
    assert {t.dtype for t in batch.values()} == {tf.int32}


def test_rows_of_another_task_have_zeros_or_nothing():
    one = _rows([3, 4], columns={"label": np.array([5, 6], np.int32)})
    tags = rows_lib.Ragged.join([tf.ragged.constant([[7, 8]])])
    two = _rows([2], ragged={"tags": tags})
    table = task_data.RowTable(
        {"one": one, "two": two}, {"one": LABEL, "two": TAGS}
    )
    batch = table.batch(tf.constant([2, 1, 0]), 8)
    assert batch["task_id"].numpy().tolist() == [1, 0, 0]
    assert batch["one/label"].numpy().tolist() == [0, 6, 5]
    tags = batch["two/tags"].numpy()
    assert tags.tolist() == [[7, 8, *[0] * 6], [0] * 8, [0] * 8]


def test_every_row_comes_once_an_epoch():
    lengths = np.random.default_rng(0).integers(3, 60, size=70)
    mixed, other, grouped = (
        task_data.order_for_training(lengths, 7, 30, seed, is_grouped).rows
        for seed, is_grouped in ((1, False), (2, False), (1, True))
    )
    for epoch in mixed.reshape(3, 70):
        assert sorted(epoch) == list(range(70))
    assert mixed.tolist() != other.tolist()
    # A window of the grouping holds all three epochs.
    assert grouped.shape == (30, 7)
    assert np.bincount(grouped.ravel()).tolist() == [3] * 70


@pytest.mark.parametrize(
    ("row_lengths", "rows", "lengths"),
    [
        # Padded to the longest of the batch, rounded up to eights.
        ([9, 3, 8, 17], [[1, 2], [0, 3]], [8, 17]),
        # No longer than the longest row of all.
        ([3, 18, 20, 4], [[0, 3], [1, 2]], [8, 20]),
        # The last batch is filled with its last row.
        ([5, 4, 6], [[1, 0], [2, 2]], [6, 6]),
    ],
)
def test_rows_are_predicted_by_length(row_lengths, rows, lengths):
    order = task_data.order_for_prediction(np.array(row_lengths), 2)
    assert order.rows.tolist() == rows
    assert order.lengths.tolist() == lengths


# Of so many pipelines this one, and the replicas of all.
_context = tf.distribute.InputContext


def test_replicas_share_the_rows_of_a_global_batch():
    table = _labelled([3, 9, 4, 5, 6, 3, 8, 4])
    order = task_data.order_for_training(table.row_lengths, 4, 4, 1)

    def labels(*place):
        batches = task_data.build_training_dataset(table, order, *place)
        return [batch["cola/label"].numpy().tolist() for batch in batches]

    alone = labels(0, None)
    assert alone == order.rows.tolist()
    # Two replicas of one worker take turns.
    local = labels(0, _context(1, 0, 2))
    turns = zip(local[::2], local[1::2], strict=True)
    assert [a + b for a, b in turns] == alone
    # Two workers with one replica each.
    first, second = (labels(0, _context(2, place, 2)) for place in (0, 1))
    assert [a + b for a, b in zip(first, second, strict=True)] == alone
    assert labels(3, _context(1, 0, 2)) == local[6:]


def test_steps_are_whole_batches_of_an_epoch_times_epochs():
    for num_rows, epochs, steps in ((99, 1.5, 4), (31, 1, 1), (20, 3.0, 2)):
        assert task_data.num_steps(num_rows, 32, epochs) == steps
