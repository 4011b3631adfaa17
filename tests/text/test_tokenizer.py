"""Ids equal to the original's and to a second reading of its rules."""

import dataclasses
import random
import unicodedata

import pytest
import tensorflow as tf

from electra_tf import errors
from electra_tf.text.tokenizer import Tokenizer
from electra_tf.text.vocabulary import SPECIAL_TOKENS
from electra_tf.text.vocabulary import TokenizerSettings
from electra_tf.text.vocabulary import Vocabulary
from tests.text import reference_tokenizer


def _tokenizer(*tokens: str, **settings) -> Tokenizer:
    return Tokenizer(
        Vocabulary(SPECIAL_TOKENS + tokens, TokenizerSettings(**settings))
    )


def _pieces(tokenizer: Tokenizer, text: str | bytes) -> list[str]:
    """Tokens of one text; both ways of asking for them must agree."""
    texts = tf.constant([text])
    ids = tokenizer.tokenize(texts).to_list()
    assert tokenizer.tokenize_with_offsets(texts)[0].to_list() == ids
    return [tokenizer.vocabulary.tokens[i] for i in ids[0]]


def test_tokens_that_no_word_can_hold_do_no_harm():
    # The library refuses "\0" and tokens of more than 256 bytes.
    odd = ["a b", "\0", "##\0", "##", "don't", "..", "##.", "\u4e2d\u6587"]
    odd += ["[X]", "[12]", "###", "\u200b", "b\u200b", "x" * 300, "##\u4e2d"]
    tokenizer = _tokenizer("a", "##a", "b", ".", "#", *odd)
    assert _pieces(tokenizer, "aa a b ## .. \u4e2d") == (
        ["a", "##a", "a", "b", "#", "#", ".", ".", "[UNK]"]
    )


def test_tokens_that_the_library_cannot_use_are_refused():
    with pytest.raises(errors.DataError, match="line 6.*256 bytes"):
        _tokenizer("\u0436" * 129)
    with pytest.raises(errors.DataError, match="only its 5 special tokens"):
        _tokenizer()


_unicode_14 = pytest.mark.skipif(
    unicodedata.unidata_version != "14.0.0",
    reason="the rules are spelt out with Python 3.11's Unicode 14",
)
MODES = {
    "lower": TokenizerSettings(),
    "keep_accents": TokenizerSettings(strip_accents=False),
    "cased": TokenizerSettings(do_lower_case=False),
    "short_words": TokenizerSettings(max_word_length=5),
}
# Final sigma, characters that grow or shrink, that look blank, that are
# reordered, that decompose into punctuation; half-blanks of other libraries.
TRICKY = (
    "\u03a3\u03c3\u03c2\u0130\u0131\xdf\u1e9e\u017f\u0345\u02b0\xad\u200d"
    "\u200b\ufeff\ufffd\0\u2028\u2029\x85\x0b\x0c\x1c\xa0\u3000\u1fef\u037e"
    "\u2260\u226e\u0340\u0344\u0f73\U0001d15e\u302e\u302f\u1715\u1734\u180e"
    "\u1baa\u0301\u0323\u0b3f\u20dd\u4e2d\uf900\ud55c\U0001f600\u0378"
)
BLOCKS = [
    (0x20, 0x80), (0x20, 0x80), (0x20, 0x80), (0x80, 0x250), (0x300, 0x370),
    (0x370, 0x400), (0x400, 0x530), (0x590, 0x700), (0x900, 0xE00),
    (0xE00, 0x1000), (0x1100, 0x1200), (0x1B00, 0x1C00), (0x1E00, 0x2100),
    (0x2190, 0x2300), (0x3000, 0x3100), (0x4E00, 0x4F00), (0xAC00, 0xAE00),
    (0xF900, 0xFB50), (0xFE00, 0x10000), (0x10400, 0x10450),
    (0x11900, 0x11A00), (0x1D160, 0x1D1B0), (0x1E900, 0x1E960),
    (0x1F300, 0x1F650),
]  # fmt: skip
LONG_UNITS = ["a", "\xe9", "\xdf", "\u03a3", "\ud55c", "e\u0301", "\u0390"]
BROKEN = [b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xff", b"\xe2"]


def _vocabulary_of(texts: list[bytes], mode: str) -> Vocabulary:
    """Every character of the texts in every form, alone and continuing."""
    characters = set("".join(t.decode(errors="ignore") for t in texts))
    forms = set()
    for character in characters:
        lowered = character.lower()
        forms |= {character, *lowered, *unicodedata.normalize("NFD", lowered)}
    forms -= set("\n\r\t ")
    continued = [
        f"##{f}" for f in sorted(forms) if not "\u4e00" <= f < "\uac00"
    ]
    return Vocabulary(
        (*SPECIAL_TOKENS, *sorted(forms), *continued), MODES[mode]
    )


def _check(vocabulary: Vocabulary, texts: list[bytes]) -> None:
    tokenizer = Tokenizer(vocabulary)
    ids = tokenizer.tokenize(tf.constant(texts)).to_list()
    exact = tokenizer.tokenize_with_offsets(tf.constant(texts))[0].to_list()
    numbers = {token: i for i, token in enumerate(vocabulary.tokens)}
    for text, *ours in zip(texts, ids, exact, strict=True):
        expected = reference_tokenizer.tokenize(text, numbers, vocabulary)
        assert ours == [expected] * 2, text


@_unicode_14
@pytest.mark.parametrize(
    "mode",
    [
        "lower",
        pytest.param("keep_accents", marks=pytest.mark.slow),
        pytest.param("cased", marks=pytest.mark.slow),
    ],
)
def test_every_assigned_character_follows_the_rules(mode):
    # Neighbours share a line.
    codes = [
        code
        for code in range(0x110000)
        if not unicodedata.category(chr(code)).startswith("C")
    ]
    groups = [codes[i : i + 16] for i in range(0, len(codes), 16)]
    texts = [
        " ".join(f"b{chr(c)}A{chr(c)}" for c in group).encode()
        for group in groups
    ]
    _check(_vocabulary_of(texts, mode), texts)


@_unicode_14
@pytest.mark.parametrize("mode", MODES)
def test_random_texts_follow_the_rules(mode):
    rng = random.Random(mode)
    texts = [_random_text(rng) for _ in range(1000)]
    vocabulary = _vocabulary_of(texts, mode)
    kept = [
        token
        for token in vocabulary.tokens
        if token in SPECIAL_TOKENS or rng.random() < 0.9
    ]
    _check(dataclasses.replace(vocabulary, tokens=tuple(kept)), texts)


def _random_text(rng: random.Random) -> bytes:
    kind = rng.random()
    if kind < 0.1:
        unit = rng.choice(LONG_UNITS)
        num_units = rng.choice([50, 51, 66, 67, 100, 101, 199, 200, 201])
        text = rng.choice(["", ". ", "x "]) + unit * num_units + ".b"
    elif kind < 0.4:
        text = "".join(rng.choice("aA\u03a3\u03c3. \u0301'\xad\u02b01\u4e2d")
                       for _ in range(rng.randrange(14)))  # fmt: skip
    elif kind < 0.6:
        block = rng.choice(BLOCKS)
        text = "".join(_random_character(rng, block) for _ in range(20))
    else:
        text = "".join(
            rng.choice(TRICKY)
            if rng.random() < 0.25
            else _random_character(rng, rng.choice(BLOCKS))
            for _ in range(rng.randrange(40))
        )
    encoded = text.encode()
    if rng.random() < 0.15:
        place = rng.randrange(len(encoded) + 1)
        broken = rng.choice(BROKEN)
        encoded = encoded[:place] + broken + encoded[place + 1 :]
    return encoded


def _random_character(rng: random.Random, block: tuple[int, int]) -> str:
    return " " if rng.random() < 0.15 else chr(rng.randrange(*block))
