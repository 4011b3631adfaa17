"""Sentences become rows; every label stays with its word."""

import numpy as np
import pytest

from electra_tf.finetuning import features as features_lib
from electra_tf.finetuning import tasks
from electra_tf.text import tokenizer as tokenizer_lib
from tests.finetuning.conftest import VOCABULARY

PAD, UNK, CLS, SEP = (
    VOCABULARY.id_of(token) for token in ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
)
THE, UN, ABLE, CAT, SAT = (
    VOCABULARY.id_of(token) for token in ("the", "un", "##able", "cat", "sat")
)


@pytest.fixture(scope="module")
def tokenizer():
    return tokenizer_lib.Tokenizer(VOCABULARY)


def _build(tokenizer, kind, texts, labels, length):
    examples = tasks.Examples(tuple(texts), tuple(labels))
    return features_lib.build_features(examples, kind, tokenizer, length)


def test_a_sentence_stands_between_its_special_tokens(tokenizer):
    # The second one is cut after four pieces, the third one has none.
    features = _build(
        tokenizer,
        tasks.CLASSIFICATION,
        [("The cat",), ("cat unable sat cat",), ("\x00",)],
        [(1,), (0,), (1,)],
        length=6,
    )
    assert features.input_ids.tolist() == [
        [CLS, THE, CAT, SEP, PAD, PAD],
        [CLS, CAT, UN, ABLE, SAT, SEP],
        [CLS, UNK, SEP, PAD, PAD, PAD],
    ]
    assert features.input_mask.tolist() == [
        [1, 1, 1, 1, 0, 0],
        [1, 1, 1, 1, 1, 1],
        [1, 1, 1, 0, 0, 0],
    ]
    assert not features.segment_ids.any()
    assert features.labels.tolist() == [[1], [0], [1]]
    assert features.label_positions.tolist() == [[0], [0], [0]]
    assert features.label_mask.tolist() == [[1], [1], [1]]
    assert features.input_ids.dtype == features.labels.dtype == np.int32


def test_a_tag_stands_at_the_first_piece_of_its_word(tokenizer):
    features = _build(
        tokenizer,
        tasks.TAGGING,
        [("The", "unable", "cat"), ("\x00", "sat")],
        [(7, 8, 9), (3, 4)],
        length=8,
    )
    assert features.input_ids.tolist() == [
        [CLS, THE, UN, ABLE, CAT, SEP, PAD, PAD],
        [CLS, UNK, SAT, SEP, PAD, PAD, PAD, PAD],
    ]
    assert features.label_positions.tolist() == [[1, 2, 4], [1, 2, 0]]
    assert features.labels.tolist() == [[7, 8, 9], [3, 4, 0]]
    assert features.label_mask.tolist() == [[1, 1, 1], [1, 1, 0]]
    assert len(features.cut_off_labels) == 0


def test_words_beyond_the_row_are_counted_not_forgotten(tokenizer):
    # Of `unable` the first piece fits, of `cat` none.
    features = _build(
        tokenizer,
        tasks.TAGGING,
        [("the", "unable", "cat"), ("sat",)],
        [(7, 8, 9), (3,)],
        length=4,
    )
    assert features.input_ids.tolist() == [
        [CLS, THE, UN, SEP],
        [CLS, SAT, SEP, PAD],
    ]
    assert features.label_positions.tolist() == [[1, 2], [1, 0]]
    assert features.labels.tolist() == [[7, 8], [3, 0]]
    assert features.label_mask.tolist() == [[1, 1], [1, 0]]
    assert features.cut_off_labels.tolist() == [9]


def test_a_word_in_the_place_of_the_last_token_is_cut_off(tokenizer):
    features = _build(
        tokenizer, tasks.TAGGING, [("the", "unable", "cat")], [(7, 8, 9)], 5
    )
    assert features.input_ids.tolist() == [[CLS, THE, UN, ABLE, SEP]]
    assert features.label_positions.tolist() == [[1, 2]]
    assert features.cut_off_labels.tolist() == [9]


def test_a_batch_leaves_out_columns_of_padding(tokenizer):
    features = _build(
        tokenizer,
        tasks.CLASSIFICATION,
        [("cat",), ("the cat sat",), ("cat cat",)],
        [(0,), (1,), (1,)],
        length=12,
    )
    batch = features.batch(np.array([2, 0]), length_multiple=3)
    assert batch["input_ids"].tolist() == [
        [CLS, CAT, CAT, SEP, PAD, PAD],
        [CLS, CAT, SEP, PAD, PAD, PAD],
    ]
    assert batch["labels"].tolist() == [[1], [0]]
    assert set(batch) == set(features_lib.BATCH_SIGNATURE)
    widest = features.batch(np.array([1]), length_multiple=32)
    assert widest["input_ids"].shape == (1, 12)


def test_inference_sees_every_row_once(tokenizer):
    features = _build(
        tokenizer,
        tasks.CLASSIFICATION,
        [("cat " * count,) for count in (5, 1, 3, 2, 4)],
        [(count,) for count in (5, 1, 3, 2, 4)],
        length=12,
    )
    batches = list(features.batches_by_length(2))
    assert [b["labels"][:, 0].tolist() for b in batches] == [
        [1, 2],
        [3, 4],
        [5],
    ]
    assert [b["input_ids"].shape[1] for b in batches] == [4, 6, 7]


def test_a_row_without_room_for_text_is_refused(tokenizer):
    with pytest.raises(ValueError, match="at least 3"):
        _build(tokenizer, tasks.CLASSIFICATION, [("cat",)], [(0,)], length=2)
