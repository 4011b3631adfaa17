"""Rows of sentences, against the original's rules, one word at a time."""

import random

import numpy as np
import pytest

from electra_tf.tasks.tagging import alignment
from electra_tf.text.tokenizer import Tokenizer
from electra_tf.text.vocabulary import SPECIAL_TOKENS
from electra_tf.text.vocabulary import Vocabulary

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, "a", "##b", "c", "."))
TOKENIZER = Tokenizer(VOCABULARY)
# Words, and the pieces that each of them has.
PIECES = {
    "a": ["a"],
    "abb": ["a", "##b", "##b"],
    "c.a": ["c", ".", "a"],
    "\u200b": [],
    "[CLS]": ["[CLS]"],
    "a" + "b" * 9: ["a", *["##b"] * 9],
}


def _align(sentence, length, cuts_early=True):
    found = alignment.align([sentence], TOKENIZER, length, cuts_early)
    tokens = [VOCABULARY.tokens[i] for i in found.ids[0]]
    return tokens, found.positions[0].tolist(), found.words[0].tolist()


def _expect(sentence, length, cuts_early):
    """What the rules say; None where the original stops."""
    tokens, positions, words = ["[CLS]"], [], []
    is_whole = True
    if cuts_early and len(sentence) + 3 > length:
        return ["[SEP]"], [], []
    for index, word in enumerate(sentence):
        if cuts_early and len(sentence) + 2 + len(tokens) + 1 > length:
            break
        if word != "[CLS]":
            positions.append(len(tokens))
            words.append(index)
        tokens += PIECES[word]
    if len(tokens) + 1 > length:
        tokens = tokens[: length - 1]
        is_whole = False
    kept = [p for p in positions if is_whole or p < length - 1]
    return [*tokens, "[SEP]"], kept, words[: len(kept)]


def test_a_word_is_looked_at_where_its_first_piece_is():
    assert _align(["abb", "a", "c.a"], 16) == (
        ["[CLS]", "a", "##b", "##b", "a", "c", ".", "a", "[SEP]"],
        [1, 4, 5],
        [0, 1, 2],
    )


def test_a_word_without_pieces_is_looked_at_where_the_next_one_begins():
    assert _align(["\u200b", "a", "\u200b"], 16) == (
        ["[CLS]", "a", "[SEP]"], [1, 1, 2], [0, 1, 2],
    )  # fmt: skip


def test_special_words_are_not_tagged_and_others_keep_their_numbers():
    assert _align(["a", "[CLS]", "c.a"], 16)[1:] == ([1, 3], [0, 2])


def test_long_sentences_are_cut_early_down_to_a_lone_end():
    sentence = ["abb"] * 5
    # Before a word: 5 words, 2 ends, the tokens so far, and one more.
    assert _align(sentence, 9) == (
        ["[CLS]", "a", "##b", "##b", "[SEP]"], [1], [0],
    )  # fmt: skip
    assert _align(sentence, 8)[0] == ["[CLS]", "[SEP]"]
    assert _align(sentence, 7)[0] == ["[SEP]"]


def test_rows_are_filled_if_not_cut_early():
    tokens, positions, _ = _align(["abb"] * 5, 9, cuts_early=False)
    assert len(tokens) == 9
    assert tokens[-1] == "[SEP]"
    assert positions == [1, 4, 7]


def test_a_word_that_is_too_long_after_all_is_cut():
    tokens, positions, words = _align(["a", "a" + "b" * 9], 8)
    assert tokens == ["[CLS]", "a", "a", *["##b"] * 4, "[SEP]"]
    assert (positions, words) == ([1, 2], [0, 1])


@pytest.mark.parametrize("cuts_early", [True, False])
def test_random_sentences_are_as_the_rules_say(cuts_early):
    rng = random.Random(5)
    sentences = [
        rng.choices(list(PIECES), k=rng.randrange(1, 14)) for _ in range(400)
    ]
    length = 16
    found = alignment.align(sentences, TOKENIZER, length, cuts_early)
    for row, sentence in enumerate(sentences):
        tokens = [VOCABULARY.tokens[i] for i in found.ids[row]]
        ours = tokens, found.positions[row].tolist(), found.words[row].tolist()
        assert ours == _expect(sentence, length, cuts_early), sentence
    assert found.ids.lengths.max() == length
    assert np.all(found.positions.lengths == found.words.lengths)


def test_there_may_be_no_sentences():
    found = alignment.align([], TOKENIZER, 8)
    assert len(found.ids) == len(found.words) == 0
