"""Texts become rows; pairs are cut as one token at a time would be."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.tasks import rows as rows_lib
from tests.tasks.conftest import VOCABULARY

UNK, CLS, SEP = (VOCABULARY.id_of(t) for t in ("[UNK]", "[CLS]", "[SEP]"))
THE, UN, ABLE, CAT, SAT = (
    VOCABULARY.id_of(token) for token in ("the", "un", "##able", "cat", "sat")
)


def _pack(tokenizer, texts, pairs, length):
    ids, starts = rows_lib.pack_split(texts, pairs, tokenizer, length)
    return [row.tolist() for row in ids], starts.tolist()


def test_sentences_and_pairs_stand_between_special_tokens(tokenizer):
    rows, starts = _pack(
        tokenizer,
        ["The cat", "the", "", "\x00", "cat", "cat " * 5],
        [None, "unable", "sat", None, " \x00", "sat " * 2],
        8,
    )
    assert rows == [
        [CLS, THE, CAT, SEP],
        [CLS, THE, SEP, UN, ABLE, SEP],
        [CLS, SEP, SAT, SEP],
        [CLS, SEP],
        # A second text without pieces is none.
        [CLS, CAT, SEP],
        # What is too long is cut.
        [CLS] + [CAT] * 3 + [SEP] + [SAT] * 2 + [SEP],
    ]
    assert starts == [4, 3, 2, 2, 3, 5]
    assert _pack(tokenizer, [], [], 8) == ([], [])


def _cut_one_at_a_time(first, second, length):
    room = length - (3 if second else 2)
    while first + second > room:
        if first > second:
            first -= 1
        else:
            second -= 1
    return first, second


def test_cutting_equals_taking_one_token_at_a_time():
    generator = np.random.default_rng(3)
    for length in (5, 6, 7, 12, 33, 128):
        first = generator.integers(0, 2 * length, 400)
        second = generator.integers(0, 2 * length, 400)
        # Many near the edge, where ties and the rounding of halves decide.
        first[:200] //= 3
        second[100:300] //= 3
        second[::7] = 0
        kept = rows_lib.cut_pairs(
            tf.constant(first), tf.constant(second), length
        )
        ours = np.stack(kept, axis=1)
        pairs = zip(first, second, strict=True)
        theirs = [_cut_one_at_a_time(a, b, length) for a, b in pairs]
        np.testing.assert_array_equal(ours, theirs)


def test_chunks_join_into_one_split(tokenizer, monkeypatch):
    texts = ["cat " * (count % 5) for count in range(11)]
    pairs = ["sat " * (count % 3) or None for count in range(11)]
    whole = rows_lib.pack_split(texts, pairs, tokenizer, 9)
    monkeypatch.setattr(rows_lib, "_CHUNK", 4)
    parts = rows_lib.pack_split(texts, pairs, tokenizer, 9)
    np.testing.assert_array_equal(whole[0].values, parts[0].values)
    np.testing.assert_array_equal(whole[0].splits, parts[0].splits)
    np.testing.assert_array_equal(whole[1], parts[1])
    assert parts[0].values.dtype == parts[1].dtype == np.int32


def test_a_row_without_room_for_a_pair_is_refused(tokenizer):
    with pytest.raises(ValueError, match="at least 5"):
        rows_lib.pack_split(["cat"], [None], tokenizer, 4)
