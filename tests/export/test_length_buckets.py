import numpy as np
import pytest
import tensorflow as tf

from electra_tf.export import saved_model
from electra_tf.export.models import length_buckets
from electra_tf.export.models import pretrained
from electra_tf.text import tokenizer as tokenizer_lib
from tests.export import conftest

TEXTS = [
    "the cat sat on the mat , the dog sat on the table .",
    "",
    "cat",
    "unaffable dogs , items in a café !",
    "the number of items",
    "dog",
]
OUTPUTS = {
    "numbers": length_buckets.OutputSpec(tf.int32),
    "doubled": length_buckets.OutputSpec(tf.int32, (None, None), True, -1),
}


def read(lengths, max_tokens):
    """The answers for rows of numbers, and the rows."""
    lengths = np.array(lengths, np.int32)
    num_columns = int(lengths.max(initial=1)) + 2
    rows = tf.constant(np.arange(len(lengths) * num_columns).reshape(
        len(lengths), num_columns
    ), tf.int32)  # fmt: skip

    def compute_rows(rows_of_bucket):
        return {
            "numbers": rows_of_bucket.chosen,
            "doubled": 2 * rows_of_bucket.trim(rows),
        }

    @tf.function
    def compute(lengths):
        return length_buckets.compute(
            compute_rows, lengths, num_columns, OUTPUTS, max_tokens
        )

    answers = compute(tf.constant(lengths))
    return {k: v.numpy() for k, v in answers.items()}, rows.numpy()


@pytest.mark.parametrize("max_tokens", [1, 7, 16, 1000])
def test_answers_come_back_in_order_whatever_the_buckets(max_tokens):
    lengths = np.random.default_rng(max_tokens).integers(1, 9, 23)
    answers, rows = read(lengths, max_tokens)
    np.testing.assert_array_equal(answers["numbers"], np.arange(23))
    assert answers["doubled"].shape == rows.shape
    for row, length, doubled in zip(
        rows, lengths, answers["doubled"], strict=True
    ):
        np.testing.assert_array_equal(doubled[:length], 2 * row[:length])
        # What the bucket did not have either is padding.
        is_padding = doubled == -1
        np.testing.assert_array_equal(doubled[~is_padding],
                                      2 * row[~is_padding])  # fmt: skip
        assert is_padding[-2:].all()


@pytest.mark.parametrize("max_tokens", [1, 7, 16, 1000])
def test_buckets_hold_every_row_once_and_no_more_than_they_may(max_tokens):
    lengths = np.random.default_rng(max_tokens).integers(1, 9, 23)
    buckets = length_buckets.split(tf.constant(lengths, tf.int32), max_tokens)
    order, begins, ends, longest = (part.numpy() for part in buckets)
    assert sorted(order) == list(range(23))
    assert begins[0] == 0
    assert ends[-1] == 23
    np.testing.assert_array_equal(begins[1:], ends[:-1])
    for begin, end, length in zip(begins, ends, longest, strict=True):
        assert length == max(lengths[order[begin:end]])
        assert end == begin + 1 or (end - begin) * length <= max_tokens
        # One more row would have been too many.
        assert end == 23 or (end - begin + 1) * length > max_tokens
    assert list(longest) == sorted(longest, reverse=True)


def test_batch_without_rows_is_answered():
    answers, _ = read([], 16)
    assert answers["numbers"].shape == (0,)
    assert answers["doubled"].shape == (0, 3)


def test_columns_are_counted_up_to_the_last_token():
    mask = tf.constant([[1, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]])
    assert length_buckets.count_columns(mask).numpy().tolist() == [3, 1, 4]
    assert length_buckets.count_columns(mask[:, :0]).numpy().tolist() == [
        1,
        1,
        1,
    ]
    assert length_buckets.count_columns(mask[:0]).numpy().tolist() == []


def assert_buckets_are_invisible(module, signature, **inputs):
    expected = module.run(signature, **inputs)
    module.tokens_per_bucket = 20
    received = tf.function(module.run)(signature, **inputs)
    conftest.assert_close(received, expected, 2e-5)


@pytest.mark.parametrize("family", ["score", "features"])
def test_buckets_are_invisible_in_answers_of_a_detector(tiny_run, family):
    module = pretrained.DetectorModule(
        tiny_run.discriminator,
        tokenizer_lib.Tokenizer(tiny_run.vocabulary),
    )
    texts = tf.constant(TEXTS)
    assert_buckets_are_invisible(module, f"{family}_text", texts=texts)
    rows = module.run("score_text", texts=texts)
    assert_buckets_are_invisible(
        module,
        f"{family}_ids",
        input_ids=rows["input_ids"],
        input_mask=rows["input_mask"],
        segment_ids=rows["input_mask"],
    )


@pytest.mark.parametrize("task", ["chunking", "squad2"])
def test_buckets_are_invisible_in_answers_of_a_task(tiny_trial, task):
    module = saved_model.load_task(tiny_trial.folder, task).module
    texts = tf.constant(TEXTS)
    if task == "chunking":
        assert_buckets_are_invisible(module, "tag_text", texts=texts)
        ids = tf.constant([[2, 5, 6, 3, 0, 0], [2, 5, 6, 7, 8, 3]])
        assert_buckets_are_invisible(
            module,
            "tag_ids",
            input_ids=ids,
            input_mask=tf.cast(ids > 0, tf.int32),
            segment_ids=tf.zeros_like(ids),
            # One of them is padding.
            word_positions=tf.constant([[1, 2], [1, 4]]),
        )
    else:
        assert_buckets_are_invisible(
            module, "answer_text", questions=texts[::-1], contexts=texts
        )
