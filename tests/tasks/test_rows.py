"""Words, windows and pairs of texts, against loops that spell rules out."""

import re

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.tasks import rows as rows_lib
from tests.tasks.conftest import VOCABULARY


def _split_words(texts, parted_at=rows_lib.QUESTION_BLANKS):
    data = [t if isinstance(t, bytes) else t.encode() for t in texts]
    found = rows_lib.split_words(tf.constant(data, tf.string), parted_at)
    return [part.to_list() for part in found]


def test_words_of_contexts_end_at_five_blanks_and_no_others():
    text = " a\tb\r\nc\u202fd\u00a0e  \u2028f"
    assert _split_words(["", "a", "\n\t "])[0] == [[], [b"a"], []]
    words, starts, ends = _split_words([text, "b"])
    expected = ["a", "b", "c", "d\u00a0e", "\u2028f"]
    assert words == [[word.encode() for word in expected], [b"b"]]
    assert (starts[1], ends[1]) == ([0], [1])
    for word, start, end in zip(words[0], starts[0], ends[0], strict=True):
        assert text.encode()[start:end] == word


CLS, SEP = VOCABULARY.cls_id, VOCABULARY.sep_id
THE, UN, ABLE, CAT, SAT = (
    VOCABULARY.id_of(token) for token in ("the", "un", "##able", "cat", "sat")
)


def _pack(tokenizer, texts, pairs, length):
    numbers = np.arange(len(texts))
    packed = rows_lib.pack_split(texts, pairs, tokenizer, length, numbers, {})
    ids = [row.tolist() for row in packed.ids]
    return ids, packed.segment_starts.tolist(), packed.num_truncated.tolist()


def test_sentences_and_pairs_stand_between_special_tokens(tokenizer):
    texts = ["The cat", "the", "", "\x00", "cat", "cat " * 5]
    pairs = [None, "unable", "sat", None, " \x00", "sat " * 2]
    rows, starts, cut = _pack(tokenizer, texts, pairs, 8)
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
    assert cut == [0, 0, 0, 0, 0, 2]
    assert _pack(tokenizer, [], [], 8) == ([], [], [])


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
        both = tf.constant(first), tf.constant(second)
        ours = np.stack(rows_lib.cut_pairs(*both, length), axis=1)
        pairs = zip(first, second, strict=True)
        theirs = [_cut_one_at_a_time(a, b, length) for a, b in pairs]
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("num_truncated", "num_positions", "told"),
    [
        ([0, 0], 512, "4 in the median, 5 at most; nothing is cut off."),
        ([0, 90], 512, "rows (50.0%) is cut off. .*max_seq_length=128"),
        ([0, 90], 5, "no more than 5 positions: split the texts"),
    ],
)
def test_cut_off_and_unknown_are_told(num_truncated, num_positions, told):
    values = np.array([2, 7, 3, 2, 1, 8, 9, 3], np.int32)
    ids = rows_lib.Ragged(values, np.array([0, 3, 8]))
    rows = rows_lib.EncodedRows(
        ids, *np.array([[3, 5], [0, 1]]), num_truncated=np.array(num_truncated)
    )
    (line,) = rows_lib.describe_tokens([rows], num_positions, unk_id=1)
    assert re.search(told.replace("(", r"\(").replace(")", r"\)"), line)
    assert line.endswith("12.5% are [UNK]: the vocabulary is of other texts.")
    (line,) = rows_lib.describe_tokens([rows], num_positions, unk_id=99)
    assert "[UNK]" not in line
