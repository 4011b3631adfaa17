"""The tables are those of Unicode 14, and say what takes the fast path."""

import re
import unicodedata

import numpy as np
import pytest

from electra_tf.text.character_table import load_character_properties
from electra_tf.text.character_table import long_run_pattern
from electra_tf.text.character_table import simple_text_pattern
from electra_tf.text.vocabulary import TokenizerSettings
from tests.text import unicode_tables

LOWER = TokenizerSettings()
KEEP = TokenizerSettings(strip_accents=False)
CASED = TokenizerSettings(do_lower_case=False)


@pytest.mark.parametrize(
    ("settings", "simple", "not_simple"),
    [
        (LOWER, "Caf\xe9 \u4e2d\u2014", "\u03a3 \u0416 \xad \x0b \x00 \ufffd"),
        (KEEP, "Cafe caf\xe9", "\xc9 \u03a3 \u0130"),
        (CASED, "\xc9\u03a3\u0416\u0130", "\u200b \u2028 \U0001fae8"),
    ],
)
def test_simple_texts_are_told_from_others(settings, simple, not_simple):
    pattern = re.compile(simple_text_pattern(settings))
    assert pattern.fullmatch(simple)
    for character in not_simple.split(" "):
        assert not pattern.fullmatch(character), ascii(character)


def test_a_long_run_is_a_quarter_of_the_limit_without_a_break():
    pattern = re.compile(long_run_pattern(LOWER))
    assert pattern.fullmatch("x " + "\xdf" * 51 + " x")
    assert not pattern.fullmatch("x " + "\xdf" * 50 + " x")
    assert not pattern.fullmatch("ab.c-" * 60)
    assert not pattern.fullmatch("\u4e2d" * 300)
    # With a tiny limit every text may hold one.
    tiny = long_run_pattern(TokenizerSettings(max_word_length=3))
    assert re.fullmatch(tiny, "\u4e2d")


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
