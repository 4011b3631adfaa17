"""Tables of how the tokenizer treats each code point.

The original asks Python's `unicodedata`, which changes with the version of
Python. Ids must not, so `unicode_14.npz` holds the data of Python 3.11, as made
by tests/text/unicode_tables.py.
"""

import functools
import pathlib
import re
from typing import NamedTuple

import numpy as np

from electra_tf.text.vocabulary import TokenizerSettings

# Bits of a table entry. The combining class takes bits 8 to 15, the number of
# the replacement (0: the character stays) all bits from 16.
DROPPED = 1
BLANK = 2
IDEOGRAPH = 4
MARK = 8
PUNCTUATION = 16
CASED = 32
CASE_IGNORABLE = 64
CLASS_SHIFT = 8
CHANGE_SHIFT = 16

CAPITAL_SIGMA = 0x3A3
FINAL_SIGMA = 0x3C2
_PATH = pathlib.Path(__file__).with_name("unicode_14.npz")
_PAGE_SIZE = 256
MAX_UTF8_BYTES = 4
_MAX_REPETITION = 64  # patterns grow with it, and RE2 refuses large ones
# The blocks that the original sets apart as "Chinese characters".
_IDEOGRAPH_BLOCKS = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)

WITHOUT_BLANKS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
)
"""The characters of scripts that put no blanks between words, as a range of a
pattern: each counts as a word where words are compared."""

_CodePoints = tuple[int, ...]


class CharacterProperties(NamedTuple):
    """Properties by code point; arrays are `[0x110000]` bool unless said."""

    other: np.ndarray  # C*: control, format, private use, unassigned
    space: np.ndarray  # Zs
    line_separator: np.ndarray  # Zl and Zp
    nonspacing_mark: np.ndarray  # Mn
    punctuation: np.ndarray  # P*
    cased: np.ndarray  # makes a sigma after it final
    case_ignorable: np.ndarray  # skipped around a sigma
    # Has the same category and decomposition since Unicode 3.2, so that every
    # Unicode library agrees with these tables.
    stable: np.ndarray
    combining_class: np.ndarray  # uint8
    lower: dict[int, _CodePoints]  # what `str.lower()` changes
    decomposition: dict[int, _CodePoints]  # what NFD changes, in full

    def decompose(self, codes: _CodePoints) -> _CodePoints:
        """Returns NFD of each code point in turn, without reordering."""
        parts = (self.decomposition.get(code, (code,)) for code in codes)
        return sum(parts, ())


@functools.lru_cache(maxsize=1)
def load_character_properties() -> CharacterProperties:
    """Reads `unicode_14.npz`, once per process."""
    with np.load(_PATH) as file:
        arrays = dict(file)
    lower, decomposition = (
        {ord(c): tuple(map(ord, image)) for c, image in arrays.pop(name)}
        for name in ("lower", "decomposition")
    )
    return CharacterProperties(
        **arrays, lower=lower, decomposition=decomposition
    )


class CharacterTable(NamedTuple):
    """The treatment of each code point, in pages; equal blocks share one.

    Entry `pages[code >> 8] + (code & 255)` belongs to a code point. All are
    int32; replacement number 0 is unused and has length 1.
    """

    pages: np.ndarray  # [0x1100]
    entries: np.ndarray  # bits as named above
    change_starts: np.ndarray  # by number of the replacement
    change_lengths: np.ndarray
    change_values: np.ndarray  # code points


def build_character_table(settings: TokenizerSettings) -> CharacterTable:
    """Builds the table for the given casing and accents."""
    properties = load_character_properties()
    entries = compute_flags().copy()
    entries |= properties.combining_class.astype(np.int32) << CLASS_SHIFT
    starts, lengths, values = [0], [1], [0]
    changes = _compute_changes(settings)
    for number, (code, images) in enumerate(changes.items(), start=1):
        entries[code] |= number << CHANGE_SHIFT
        starts.append(len(values))
        lengths.append(len(images))
        values.extend(images)
    blocks: dict[bytes, int] = {}
    pages = [
        blocks.setdefault(block.tobytes(), len(blocks) * _PAGE_SIZE)
        for block in entries.reshape(-1, _PAGE_SIZE)
    ]
    joined = np.frombuffer(b"".join(blocks), np.int32)
    arrays = (np.array(v, np.int32) for v in (starts, lengths, values))
    return CharacterTable(np.array(pages, np.int32), joined, *arrays)


@functools.lru_cache(maxsize=1)
def compute_flags() -> np.ndarray:
    """Computes `[0x110000]` int32 flags, which no setting changes."""
    properties = load_character_properties()
    dropped = properties.other.copy()
    dropped[ord("\ufffd")] = True
    blank = properties.space | properties.line_separator
    white = list(map(ord, "\t\n\r"))
    dropped[white], blank[white] = False, True
    ideograph = np.zeros_like(dropped)
    for first, last in _IDEOGRAPH_BLOCKS:
        ideograph[first : last + 1] = True
    punctuation = properties.punctuation.copy()
    for code in range(0x21, 0x7F):
        punctuation[code] |= not chr(code).isalnum()
    flags = np.zeros(len(dropped), np.int32)
    for flag, members in (
        (DROPPED, dropped),
        (BLANK, blank),
        (IDEOGRAPH, ideograph & ~dropped),
        (MARK, properties.nonspacing_mark),
        (PUNCTUATION, punctuation),
        (CASED, properties.cased),
        (CASE_IGNORABLE, properties.case_ignorable),
    ):
        flags[members] |= flag
    flags.flags.writeable = False
    return flags


def _compute_changes(settings: TokenizerSettings) -> dict[int, _CodePoints]:
    """Maps characters to what lower-casing and decomposition make of them.

    The images still hold marks. The final sigma is not covered.
    """
    properties = load_character_properties()
    if not settings.do_lower_case:
        return {}
    if not settings.strip_accents:
        return properties.lower
    return {
        code: properties.decompose(properties.lower.get(code, (code,)))
        for code in sorted(properties.lower.keys() | properties.decomposition)
    }


def simple_text_pattern(settings: TokenizerSettings) -> str:
    """Builds an RE2 pattern of texts that library operations treat exactly.

    They hold nothing to drop, no capital that needs Unicode lower-casing
    (which follows the locale in TensorFlow), no sigma, no mark that could be
    reordered, no character that depends on the library's Unicode version.
    """
    properties = load_character_properties()
    flags = compute_flags()
    is_simple = properties.stable & (flags & DROPPED == 0)
    is_simple[list(map(ord, "\t\n\r"))] = True
    is_simple &= ~properties.line_separator
    if settings.do_lower_case:
        is_simple[CAPITAL_SIGMA] = False
    if settings.is_stripping:
        is_simple &= (flags & MARK != 0) | (properties.combining_class == 0)
    for code, images in _compute_changes(settings).items():
        parts: _CodePoints = (code,)
        if settings.strip_accents:
            parts = _strip(properties.decompose(parts), flags)
            images = _strip(images, flags)
        lowered = (ord(chr(p).lower()) if p < 128 else p for p in parts)
        is_simple[code] &= tuple(lowered) == images
    return f"[{_character_class(is_simple)}]*"


def long_run_pattern(settings: TokenizerSettings) -> str:
    """Builds an RE2 pattern of texts that may hold a word of too many bytes."""
    if settings.max_word_length < MAX_UTF8_BYTES:
        return "(?s).*"  # a single character may already be too much
    breaks = compute_flags() & (BLANK | IDEOGRAPH | PUNCTUATION) != 0
    is_ascii = np.arange(len(breaks)) < 128
    breaks &= load_character_properties().stable | is_ascii
    run = min(settings.max_word_length // MAX_UTF8_BYTES + 1, _MAX_REPETITION)
    return f"(?s).*[^{_character_class(breaks)}]{{{run}}}.*"


def _strip(codes: _CodePoints, flags: np.ndarray) -> _CodePoints:
    return tuple(code for code in codes if not flags[code] & MARK)


def _character_class(members: np.ndarray) -> str:
    """The inside of a bracket expression that holds the members."""
    edges = np.flatnonzero(np.diff(members, prepend=False, append=False))
    return "".join(
        f"{re.escape(chr(first))}-{re.escape(chr(end - 1))}"
        for first, end in edges.reshape(-1, 2).tolist()
    )
