"""Rows of sentences and pieces of words, against rules spelt out one by one."""

import functools
import random

import pytest
import tensorflow as tf

from electra_tf.tasks.tagging import words as words_lib
from electra_tf.text.tokenizer import Tokenizer
from electra_tf.text.vocabulary import SPECIAL_TOKENS
from electra_tf.text.vocabulary import TokenizerSettings
from electra_tf.text.vocabulary import Vocabulary

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, "a", "##b", "c", "."))
TOKENIZER = Tokenizer(VOCABULARY)
PLACES = "word_positions"
# Words, and the pieces that each of them has.
PIECES = {
    "a": ["a"],
    "abb": ["a", "##b", "##b"],
    "c.a": ["c", ".", "a"],
    "\u200b": [],
    "[CLS]": ["[CLS]"],
    "a" + "b" * 9: ["a", *["##b"] * 9],
}


def test_a_long_sentence_becomes_rows_that_overlap():
    found = words_lib.build_rows([["abb"] * 5], TOKENIZER, 9, cuts_early=False)
    assert found.examples.tolist() == [0, 0, 0]
    assert [len(row) for row in (found.ids[i] for i in range(3))] == [9, 9, 9]
    # Pieces 0 to 6, 4 to 10 and 8 to 14; a word is where it has most context.
    words, places = found.details, found.ragged[PLACES]
    assert [words[n].tolist() for n in range(3)] == [[0, 1], [2, 3], [4]]
    assert [places[n].tolist() for n in range(3)] == [[1, 4], [3, 6], [5]]


def test_a_row_with_more_words_than_tokens_is_repeated():
    sentence = ["\u200b", "a", *["\ufe0f"] * 5, "abb"]
    found = words_lib.build_rows([["c"], sentence], TOKENIZER, 9, False)
    # Six tokens, eight words: no list of a row is longer than the row.
    assert found.examples.tolist() == [0, 1, 1]
    assert found.ids.lengths.tolist() == [3, 6, 6]
    assert found.details[1].tolist() == [0, 1, 2, 3, 4, 5]
    assert found.details[2].tolist() == [6, 7]
    assert found.ragged[PLACES][1].tolist() == [1, 1, 2, 2, 2, 2]
    assert found.ragged[PLACES][2].tolist() == [2, 2]


@pytest.mark.parametrize("length", [5, 16])
def test_every_word_of_a_long_sentence_is_looked_at_once(length):
    rng = random.Random(5)
    sizes = [rng.randrange(1, 14) for _ in range(400)]
    sentences = [rng.choices(list(PIECES), k=size) for size in sizes]
    found = words_lib.build_rows(sentences, TOKENIZER, length, cuts_early=False)
    seen = [[] for _ in sentences]
    for row, number in enumerate(found.examples):
        sentence = sentences[number]
        seen[number] += found.details[row].tolist()
        for place, index in zip(
            found.ragged[PLACES][row], found.details[row], strict=True
        ):
            # Without pieces: where the next word that has some begins.
            left = [p for word in sentence[index:] for p in PIECES[word]]
            expected = left[0] if left else "[SEP]"
            assert VOCABULARY.tokens[found.ids[row][place]] == expected
    for sentence, numbers in zip(sentences, seen, strict=True):
        tagged = [i for i, word in enumerate(sentence) if word != "[CLS]"]
        assert numbers == tagged
    assert found.ids.lengths.max() == length


PIECE_TOKENS = (
    *SPECIAL_TOKENS,
    *("a", "##a", "b", "##b", "ab", "##ab", "e", "##e", ".", "[", "]"),
    *("東", "京", "##東", "##京", "東京", "豈", "##豈", "c", "##l", "##s"),
    *("σ", "##σ", "ς", "##ς", "É", "##É", "é", "##é"),
)
SETTINGS = (
    TokenizerSettings(max_word_length=6),
    TokenizerSettings(strip_accents=False),
    TokenizerSettings(do_lower_case=False),
)


@functools.cache
def _tokenizer_of(settings):
    return Tokenizer(Vocabulary(PIECE_TOKENS, settings))


def _split_words(words, settings=SETTINGS[0]):
    builder = words_lib.WordRowBuilder(
        _tokenizer_of(settings), 8, cuts_early=False
    )
    data = [word.encode(errors="surrogatepass") for word in words]
    pieces, is_special = builder.split(tf.constant(data, tf.string))
    named = [[PIECE_TOKENS[i] for i in row] for row in pieces.to_list()]
    return named, is_special.numpy().tolist()


def test_special_tokens_stand_for_themselves():
    words = ["[CLS]", "[SEP]", "[CLS\u200b]", "[MASK]", "[cls]", "a[CLS]"]
    pieces, is_special = _split_words(words)
    assert is_special == [True, True, True, False, False, False]
    assert pieces[:3] == [["[CLS]"], ["[SEP]"], ["[CLS]"]]
    assert pieces[4] == ["[", "c", "##l", "##s", "]"]
    # Lone surrogates vanish.
    assert _split_words(["a\ud800b", "東\ud800京"])[0] == [["ab"], ["東京"]]


def _split_text(text, splits_punctuation=False):
    found = words_lib.split_text(tf.constant([text]), splits_punctuation)
    return [word.decode() for word in found.words[0].numpy()]


def test_punctuation_is_split_off_the_ends_of_words():
    text = """He said: "O'Neil (U.S.) paid $10.50 -- well-known...?!" \xff\t."""
    parts = """He said : " O'Neil ( U.S . ) paid $ 10.50 -- well-known """
    parts += '... ? ! " \xff .'
    assert _split_text(text) == text.split()
    assert _split_text(text, True) == parts.split()
    for blank in ("", " \n "):
        assert _split_text(blank, True) == []


def test_a_training_file_tells_whether_punctuation_is_apart():
    for text, expected in (
        ("Mr. Cat sat . Mr. Dog ran , too .", True),
        # As many are not more.
        ("Mr. Cat sat .", False),
        ("The cat sat. It ran, too. -", False),
        ("", False),
    ):
        assert words_lib.find_splits(text.split())[0] == expected
