"""Buckets of rows change the speed of an export, and no answer."""

import pytest
import tensorflow as tf

from electra_tf.export import saved_model
from tests.export import conftest

TEXTS = [
    "the cat sat on the mat , the dog sat on the table .",
    "",
    "cat", "unaffable dogs , items in a café !", "the number of items", "dog",
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
