"""Which texts take the fast path; `test_tokenizer_rules` has the rest."""

import re

import pytest

from electra_tf.text.character_table import long_run_pattern
from electra_tf.text.character_table import simple_text_pattern
from electra_tf.text.vocabulary import TokenizerSettings

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


def test_with_a_tiny_limit_every_text_may_hold_a_long_word():
    pattern = long_run_pattern(TokenizerSettings(max_word_length=3))
    assert re.fullmatch(pattern, "\u4e2d")
