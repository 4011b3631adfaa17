"""What the tokenizer does with single characters."""

import re

import pytest

from electra_tf.text import character_table
from electra_tf.text.character_table import build_character_table
from electra_tf.text.character_table import compute_changes
from electra_tf.text.character_table import compute_flags
from electra_tf.text.character_table import long_run_pattern
from electra_tf.text.character_table import simple_text_pattern
from electra_tf.text.vocabulary import TokenizerSettings

LOWER = TokenizerSettings()
KEEP = TokenizerSettings(strip_accents=False)
CASED = TokenizerSettings(do_lower_case=False)


@pytest.mark.parametrize(
    ("characters", "flag"),
    [
        # Vertical tab, form feed, NEL, zero-width space, private use,
        # noncharacter, U+FFFD, NUL.
        (
            "\x0b\x0c\x85\u200b\ue000\uffff\ufffd\0",
            character_table.DROPPED,
        ),
        (" \t\n\r\xa0\u3000\u2028\u2029", character_table.BLANK),
        ("\u4e00\u3400\uf900\U00020000", character_table.IDEOGRAPH),
        ("\u0301\u20d0", character_table.MARK),
        ("!$+<=>^`|~\u2014\u3002\u060c", character_table.PUNCTUATION),
    ],
)
def test_characters_are_of_their_kind_and_no_other(characters, flag):
    kinds = (
        character_table.DROPPED
        | character_table.BLANK
        | character_table.IDEOGRAPH
        | character_table.MARK
        | character_table.PUNCTUATION
    )
    for character in characters:
        assert compute_flags()[ord(character)] & kinds == flag, ascii(character)


@pytest.mark.parametrize("character", "aZ0\xe9\u20ac\xa3\u2192\u3042\ud55c")
def test_letters_digits_and_symbols_have_no_flags(character):
    flags = compute_flags()[ord(character)]
    assert not flags & ~character_table.CASED


def test_changes_follow_the_settings():
    e_acute, capital = ord("\xe9"), ord("\xc9")
    assert compute_changes(CASED) == {}
    assert compute_changes(KEEP)[capital] == (e_acute,)
    assert e_acute not in compute_changes(KEEP)
    assert compute_changes(LOWER)[capital] == (ord("e"), 0x301)
    assert compute_changes(LOWER)[e_acute] == (ord("e"), 0x301)


@pytest.mark.parametrize("settings", [LOWER, KEEP, CASED])
def test_a_table_entry_leads_to_the_replacement(settings):
    table = build_character_table(settings)
    changes = compute_changes(settings)
    for code in [0x41, 0xC9, 0xD55C, 0x1D15E, 0x10FFFF, 0x61]:
        entry = table.entries[table.pages[code >> 8] + (code & 255)]
        number = entry >> character_table.CHANGE_SHIFT
        begin = table.change_starts[number]
        end = begin + table.change_lengths[number]
        images = tuple(table.change_values[begin:end].tolist())
        assert images == changes.get(code, (0,)), hex(code)
        assert (number > 0) == (code in changes), hex(code)


def test_table_entries_are_never_negative():
    assert build_character_table(LOWER).entries.min() >= 0


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
