"""Byte offsets lead from a piece back to its word in the text as given."""

import json
import random

import pytest
import tensorflow as tf

from electra_tf.text.normalization import Normalizer
from electra_tf.text.tokenizer import Tokenizer
from electra_tf.text.vocabulary import SPECIAL_TOKENS
from electra_tf.text.vocabulary import TokenizerSettings
from electra_tf.text.vocabulary import Vocabulary

SETTINGS = [
    TokenizerSettings(),
    TokenizerSettings(strip_accents=False),
    TokenizerSettings(do_lower_case=False),
]


def _slices(tokenizer: Tokenizer, text: bytes) -> list[bytes]:
    """Returns the stretch of the text that each piece's word covers."""
    _, starts, ends = tokenizer.tokenize_with_offsets(tf.constant([text]))
    pairs = zip(starts.to_list()[0], ends.to_list()[0], strict=True)
    return [text[start:end] for start, end in pairs]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(
        Vocabulary((*SPECIAL_TOKENS, "caf", "##e", "un", "##seen", "."))
    )


@pytest.mark.parametrize(
    ("text", "slices"),
    [
        # Both pieces of a word have the word's offsets.
        ("unseen cafe.", ["unseen", "unseen", "cafe", "cafe", "."]),
        ("  UNSEEN\t", ["UNSEEN", "UNSEEN"]),
        # Accents that are stripped belong to the word, in either form,
        ("CAF\xc9.", ["CAF\xc9", "CAF\xc9", "."]),
        ("cafe\u0301.", ["cafe\u0301", "cafe\u0301", "."]),
        (".\u0301x", [".\u0301", "x"]),
        # not so those that stand before it,
        ("\u0301un", ["un"]),
        ("\u4e2d\u0301un", ["\u4e2d", "un"]),
        # nor characters that vanish around it; inside they stay.
        ("\u200bun\xadseen\ufeff .", ["un\xadseen", "un\xadseen", "."]),
        ("\u4e2d\u6587", ["\u4e2d", "\u6587"]),
        ("\U0001f600 un", ["\U0001f600", "un"]),
        ("\ud55c \u2260.", ["\ud55c", "\u2260", "."]),
        # Marks of class 224 and 9, both spacing, change places in their word.
        ("un\u302e\u1baa.", ["un\u302e\u1baa", "."]),
        (" \u0301 ", []),
    ],
)
def test_the_offsets_cut_out_the_word(tokenizer, text, slices):
    found = _slices(tokenizer, text.encode())
    assert [piece.decode() for piece in found] == slices


def test_invalid_bytes_shift_nothing(tokenizer):
    assert _slices(tokenizer, b"\xff\xfeun\xe2\x82 \xc0caf\xc3\xa9.\xf0") == [
        b"un",
        b"caf\xc3\xa9",
        b"caf\xc3\xa9",
        b".",
    ]


def _noisy_texts(golden) -> list[bytes]:
    """The golden lines, some of them with bytes knocked out."""
    path = golden / "tokenization" / "tokenization.jsonl"
    with open(path, encoding="ascii", newline="\n") as stream:
        texts = [json.loads(line)["text"].encode() for line in stream]
    rng = random.Random(0)
    for text in list(texts):
        if text:
            place = rng.randrange(len(text))
            texts.append(text[:place] + b"\xe9" + text[place + 1 :])
    return texts


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_slice_alone_gives_the_same_word(golden, settings):
    # Except where a sigma is final: that depends on what stands around.
    normalizer = Normalizer(settings)
    texts = [t for t in _noisy_texts(golden) if "\u03a3".encode() not in t]
    words = normalizer.split(tf.constant(texts))
    owners = words.text_splits.numpy()
    slices = []
    for number, text in enumerate(texts):
        for word in range(owners[number], owners[number + 1]):
            slices.append(text[words.starts[word] : words.ends[word]])
    alone = normalizer.split(tf.constant(slices))
    assert alone.words.numpy().tolist() == words.words.numpy().tolist()
