"""Exports of classification and regression say what the trainer says."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.tasks.sentences.task import Example
from tests.export import conftest
from tests.export import finetuned_tiny

TEXTS = [
    "The cat sat on the mat.",
    "",
    "Unaffable cats, in a CAFÉ… 東京!",
    "the number of items in the table of the cat on the mat " * 3,
    "  where\tis the dog?",
]
PAIRS = [
    "a dog sat",
    "the table",
    "",
    "who? " * 20,
    "the cat of the dog in the café of smithson, unaffable " * 4,
]


@pytest.fixture(scope="module")
def load(task_exports):
    return lambda name: conftest.load(task_exports(name))


def _encode(texts):
    return np.array([text.encode() for text in texts], object)


def _examples(texts, pairs=None):
    pairs = pairs or [None] * len(texts)
    return [
        Example(number, text, pair)
        for number, (text, pair) in enumerate(zip(texts, pairs, strict=True))
    ]


def test_labels_and_probabilities_are_the_trainers(load, tiny_trial):
    answer = load("sst2")("classify_text", texts=_encode(TEXTS))
    expected = tiny_trial.decode("sst2", _examples(TEXTS))
    np.testing.assert_allclose(
        answer["probabilities"], expected.probabilities, atol=1e-5
    )
    assert np.ptp(expected.probabilities[:, 0]) > 0.05
    np.testing.assert_array_equal(answer["label_index"], expected.classes)
    assert [label.decode() for label in answer["label"]] == [
        tiny_trial.prepared.tasks["sst2"].labels[c] for c in expected.classes
    ]


def test_pairs_are_packed_and_cut_as_in_training(load, tiny_trial):
    answer = load("mrpc")(
        "classify_pair_text",
        texts=_encode(TEXTS),
        text_pairs=_encode(PAIRS),
    )
    expected = tiny_trial.decode("mrpc", _examples(TEXTS, PAIRS))
    np.testing.assert_allclose(
        answer["probabilities"], expected.probabilities, atol=1e-5
    )
    assert answer["num_tokens"].max() == finetuned_tiny.LENGTH
    assert answer["num_truncated"][3] > 0
    assert answer["num_truncated"][0] == 0


def test_scores_are_in_the_tasks_own_range(load, tiny_trial):
    answer = load("stsb")(
        "regress_pair_text", texts=_encode(TEXTS), text_pairs=_encode(PAIRS)
    )
    expected = tiny_trial.decode("stsb", _examples(TEXTS, PAIRS))
    np.testing.assert_allclose(answer["score"], expected, atol=1e-4)
    assert np.ptp(expected) > 0.1


def test_one_text_alone_is_answered_as_in_a_batch(load):
    call = load("sst2")
    together = call("classify_text", texts=_encode(TEXTS))
    for number, text in enumerate(TEXTS):
        alone = call("classify_text", texts=_encode([text]))
        for name, values in alone.items():
            if values.dtype.kind == "f":
                np.testing.assert_allclose(
                    values[0], together[name][number], atol=1e-5
                )
            else:
                assert values[0] == together[name][number]


def test_ids_are_answered_as_their_text_whatever_the_padding(load):
    call = load("sst2")
    text = call("classify_text", texts=_encode(["the cat sat"]))
    row = [2, *(finetuned_tiny.VOCABULARY.id_of(w) for w in
                ("the", "cat", "sat")), 3]  # fmt: skip
    for length in (5, 11, 32):
        ids = np.zeros([1, length], np.int32)
        ids[0, :5] = row
        mask = (np.arange(length) < 5).astype(np.int32)[np.newaxis]
        answer = call(
            "classify_ids",
            input_ids=ids,
            input_mask=mask,
            segment_ids=np.zeros_like(ids),
        )
        np.testing.assert_allclose(
            answer["probabilities"], text["probabilities"], atol=1e-5
        )
        np.testing.assert_allclose(
            tf.nn.softmax(answer["logits"]), answer["probabilities"], atol=1e-6
        )


def test_no_texts_have_no_answers(load):
    none = np.array([], np.bytes_)
    answer = load("sst2")("classify_text", texts=none)
    assert answer["probabilities"].shape == (0, 2)
    assert answer["label"].shape == (0,)
    pair = load("stsb")("regress_pair_text", texts=none, text_pairs=none)
    assert pair["score"].shape == (0,)


def test_ids_and_pairs_that_cannot_be_are_refused(load):
    ids = np.full([1, 5], 7, np.int32)
    good = {"input_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)}
    call = load("sst2")
    with pytest.raises(tf.errors.InvalidArgumentError, match="`input_ids`"):
        call("classify_ids", input_ids=ids + 500, **good)
    long = np.full([1, 33], 7, np.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="32 positions"):
        call("classify_ids", input_ids=long, input_mask=long * 0,
             segment_ids=long * 0)  # fmt: skip
    with pytest.raises(tf.errors.InvalidArgumentError, match="`text_pairs`"):
        load("mrpc")("classify_pair_text", texts=_encode(["a", "b"]),
                     text_pairs=_encode(["a"]))  # fmt: skip
