"""Pieces of single words, against the rules spelt out one by one."""

import functools
import random
import unicodedata

import pytest
import tensorflow as tf

from electra_tf.tasks.tagging.words import WordRowBuilder
from electra_tf.text.tokenizer import Tokenizer
from electra_tf.text.vocabulary import SPECIAL_TOKENS
from electra_tf.text.vocabulary import TokenizerSettings
from electra_tf.text.vocabulary import Vocabulary
from tests.text import reference_tokenizer

TOKENS = (
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
def _tokenizer(settings):
    return Tokenizer(Vocabulary(TOKENS, settings))


def _split(words, settings=SETTINGS[0]):
    builder = WordRowBuilder(_tokenizer(settings), 8, cuts_early=False)
    data = [word.encode(errors="surrogatepass") for word in words]
    pieces, is_special = builder.split(tf.constant(data, tf.string))
    named = [[TOKENS[i] for i in row] for row in pieces.to_list()]
    return named, is_special.numpy().tolist()


def _expect(word, settings):
    """The rules without the one that sets ideographs apart."""
    vocabulary = Vocabulary(TOKENS, settings)
    numbers = {token: i for i, token in enumerate(TOKENS)}
    return [
        piece
        for part in reference_tokenizer.split_words(word, vocabulary)
        for piece in reference_tokenizer.split_pieces(part, numbers, vocabulary)
    ]


def test_ideographs_are_letters_like_any_other():
    pieces, _ = _split(["a東京", "東京", "東.京", "東 京", "東\u00ad京", "x東"])
    assert pieces == [
        ["a", "##東", "##京"],
        ["東京"],
        ["東", ".", "京"],
        ["東", "京"],
        ["東京"],
        ["[UNK]"],
    ]


def test_special_tokens_stand_for_themselves():
    words = ["[CLS]", "[SEP]", "[CLS\u200b]", "[MASK]", "[cls]", "a[CLS]"]
    pieces, is_special = _split(words)
    assert is_special == [True, True, True, False, False, False]
    assert pieces[:3] == [["[CLS]"], ["[SEP]"], ["[CLS]"]]
    assert pieces[4] == ["[", "c", "##l", "##s", "]"]


def test_words_of_control_characters_have_no_pieces():
    assert _split(["\u200b", "\u00ad", ""]) == ([[], [], []], [False] * 3)


def test_long_words_are_unknown():
    pieces, _ = _split(["ab" * 3, "ab" * 3 + "a", "東" * 6, "東" * 7])
    assert pieces == [
        ["ab", "##ab", "##ab"], ["[UNK]"], ["東", *["##東"] * 5], ["[UNK]"],
    ]  # fmt: skip


def test_lone_surrogates_vanish():
    assert _split(["a\ud800b", "東\ud800京"])[0] == [["ab"], ["東京"]]


def test_no_words_have_no_pieces():
    assert _split([]) == ([], [])


@pytest.mark.skipif(
    unicodedata.unidata_version != "14.0.0", reason="other Unicode tables"
)
@pytest.mark.parametrize("settings", SETTINGS)
def test_random_words_have_the_pieces_of_the_rules(settings, monkeypatch):
    monkeypatch.setattr(reference_tokenizer, "IDEOGRAPHS", ())
    rng = random.Random(4)
    characters = "aabBAéÉe\u0301\u0323.[]東東京京\uf900ΣΣσ \u00a0\u00ad\u200b"
    words = [
        "".join(rng.choices(characters, k=rng.randrange(1, 9)))
        for _ in range(600)
    ]
    pieces, _ = _split(words, settings)
    for word, ours in zip(words, pieces, strict=True):
        assert ours == _expect(word, settings), repr(word)
