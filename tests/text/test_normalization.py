"""Texts become words by the original's rules."""

import pytest
import tensorflow as tf

from electra_tf.text.normalization import Normalizer
from electra_tf.text.normalization import mark_positions
from electra_tf.text.vocabulary import TokenizerSettings

LOWER = TokenizerSettings()
KEEP = TokenizerSettings(strip_accents=False)
CASED = TokenizerSettings(do_lower_case=False)


@pytest.fixture(scope="module")
def split_words():
    """Text and settings to words."""
    normalizers = {s: Normalizer(s) for s in (LOWER, KEEP, CASED)}

    def split(text: str | bytes, settings: TokenizerSettings = LOWER):
        words = normalizers[settings].split(tf.constant([text]))
        return [word.decode() for word in words.words.numpy()]

    return split


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It's 3.5\u20ac!", ["it", "'", "s", "3", ".", "5\u20ac", "!"]),
        # Ideographs are words of their own, kana are not.
        ("\u4e2d\u6587ab\u3042\u3044", ["\u4e2d", "\u6587", "ab\u3042\u3044"]),
        # Vertical tab, form feed, NEL and zero-width space vanish ...
        ("a\x0bb\x0cc\x85d\u200be", ["abcde"]),
        # ... tab, line ends, no-break space and U+2028 separate.
        ("a\tb\nc\r\nd\xa0e\u2028f", ["a", "b", "c", "d", "e", "f"]),
        # Unassigned, private use, a noncharacter.
        ("a\u0378b\ue000c\uffffd", ["abcd"]),
        # A decomposition may be punctuation: U+2260 is "=" and a mark.
        ("a\u2260b\u1fefc", ["a", "=", "b", "`", "c"]),
        ("\u0130I\u0131", ["ii\u0131"]),
        ("Stra\xdfe \u1e9e \ufb01", ["stra\xdfe", "\xdf", "\ufb01"]),
        ("[CLS] [MASK]", ["[", "cls", "]", "[", "mask", "]"]),
        # A mark behind an ideograph is left alone and vanishes.
        ("\u4e2d\u0301x", ["\u4e2d", "x"]),
        ("\u0301 \u0301\u0301", []),
    ],
)
def test_lower_casing_and_stripping(split_words, text, words):
    assert split_words(text) == words


def test_a_word_ends_with_its_text():
    normalizer = Normalizer(KEEP)
    words = normalizer.split(tf.constant(["\u0391\u03a3", "\u0391", "a", ""]))
    assert words.words.numpy()[0].decode() == "\u03b1\u03c2"
    assert words.text_splits.numpy().tolist() == [0, 1, 2, 3, 3]


def test_spacing_marks_are_put_into_canonical_order(split_words):
    # U+302E (class 224) and U+1BAA (class 9) are spacing marks, so they stay.
    assert split_words("\u302e\u1baa") == ["\u302e\u1baa"[::-1]]
    # A mark of class 0 between them, though dropped, keeps them apart.
    assert split_words("\u302e\u20dd\u1baa") == ["\u302e\u20dd\u1baa"]
    assert split_words("\u302e\u0b3f\u1baa") == ["\u302e\u1baa"]
    assert split_words("\u302e\u1baa", CASED) == ["\u302e\u1baa"]


def test_invalid_bytes_are_dropped(split_words):
    text = b"a\xffb\xed\xa0\x80c \xe2\x82 d\xc0\x80e\xf4\x90\x80\x80"
    assert split_words(text) == ["abc", "de"]


def test_positions_beyond_the_size_are_left_out():
    marked = mark_positions(tf.constant([0, 2, 2, 5]), tf.constant(4))
    assert marked.numpy().tolist() == [True, False, True, False]
