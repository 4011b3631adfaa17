"""Tables of Unicode 14; words by the original's rules, and their places."""

import unicodedata

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.text.normalization import load_character_properties
from electra_tf.text.tokenizer import Tokenizer
from electra_tf.text.vocabulary import SPECIAL_TOKENS
from electra_tf.text.vocabulary import Vocabulary
from tests.text import unicode_tables


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
    found = _slices(tokenizer, b"\xff\xfeun\xe2\x82 \xc0caf\xc3\xa9.\xf0")
    assert found == b"un caf\xc3\xa9 caf\xc3\xa9 .".split()


@pytest.mark.skipif(
    unicodedata.unidata_version != unicode_tables.UNICODE_VERSION,
    reason="this Python's unicodedata is not Unicode 14",
)
def test_the_file_holds_what_python_says():
    expected = unicode_tables.compute_tables()
    found = load_character_properties()
    assert set(expected) == set(found._fields)
    for name in ("lower", "decomposition"):
        images = {
            chr(code): "".join(map(chr, image))
            for code, image in getattr(found, name).items()
        }
        assert images == dict(expected.pop(name).tolist())
    for name, values in expected.items():
        np.testing.assert_array_equal(getattr(found, name), values, name)
