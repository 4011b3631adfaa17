"""Buckets of rows change the speed of an export, and no answer."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.export import saved_model
from electra_tf.export.models import length_buckets
from tests.export import conftest

TEXTS = [
    "the cat sat on the mat , the dog sat on the table .",
    "",
    "cat",
    "unaffable dogs , items in a café !",
    "the number of items",
    "dog",
]


def read(lengths, max_tokens):
    """The answers for rows of numbers, and the rows."""
    lengths = np.array(lengths, np.int32)
    num_columns = int(lengths.max()) + 2
    shape = len(lengths), num_columns
    rows = tf.constant(np.arange(np.prod(shape)).reshape(shape), tf.int32)

    @tf.function(autograph=False)
    def compute(lengths):
        return length_buckets.compute(
            lambda c: {"numbers": c.chosen, "doubled": 2 * c.trim(rows)},
            *(lengths, num_columns, {"doubled": -1}, max_tokens),
        )

    answers = compute(tf.constant(lengths))
    return {k: v.numpy() for k, v in answers.items()}, rows.numpy()


@pytest.mark.parametrize("max_tokens", [1, 7, 16, 1000])
def test_answers_come_back_in_order_whatever_the_buckets(max_tokens):
    lengths = np.random.default_rng(max_tokens).integers(1, 9, 23)
    answers, rows = read(lengths, max_tokens)
    np.testing.assert_array_equal(answers["numbers"], np.arange(23))
    doubled = answers["doubled"]
    # What the bucket did not have either is padding.
    is_padding = doubled == -1
    np.testing.assert_array_equal(doubled[~is_padding], 2 * rows[~is_padding])
    assert is_padding[:, -2:].all()
    assert not is_padding[np.arange(rows.shape[1]) < lengths[:, None]].any()


def test_a_bucket_ends_with_the_row_that_reaches_a_multiple_of_its_tokens():
    parts = length_buckets.split(tf.constant([2, 8, 5, 1, 4]), num_tokens=8)
    order, begins, ends, longest = (part.numpy().tolist() for part in parts)
    assert order == [1, 2, 4, 0, 3]
    assert list(zip(begins, ends, longest, strict=True)) == [
        (0, 1, 8), (1, 3, 5), (3, 5, 2),
    ]  # fmt: skip


def assert_buckets_are_invisible(module, signature, **inputs):
    module.tokens_per_bucket = 0
    expected = module.run(signature, **inputs)
    module.tokens_per_bucket = 20
    received = tf.function(module.run, autograph=False)(signature, **inputs)
    conftest.assert_close(received, expected, 2e-5)


@pytest.mark.parametrize("signature", ["score_text", "features_ids"])
def test_buckets_are_invisible_in_answers_of_a_detector(tiny_run, signature):
    module = conftest.build_module(tiny_run)
    inputs = {"texts": tf.constant(TEXTS)}
    if signature == "features_ids":
        rows = module.run("score_text", **inputs)
        inputs = {k: rows[k] for k in ("input_ids", "input_mask")}
        inputs["segment_ids"] = rows["input_mask"]
    assert_buckets_are_invisible(module, signature, **inputs)


def test_buckets_are_invisible_in_answers_of_tasks(tiny_trial):
    texts = tf.constant(TEXTS)
    tagger = saved_model.load_task(tiny_trial.folder, "chunking").module
    rows = conftest.as_ids([[2, 5, 6, 3], [2, 5, 6, 7, 8, 3]])
    # One of them is padding.
    rows["word_positions"] = [[1, 4], [1, 2]]
    inputs = {name: tf.constant(value) for name, value in rows.items()}
    assert_buckets_are_invisible(tagger, "tag_ids", **inputs)
    reader = saved_model.load_task(tiny_trial.folder, "squad2").module
    assert_buckets_are_invisible(
        reader, "answer_text", questions=texts[::-1], contexts=texts
    )
