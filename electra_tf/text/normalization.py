"""Splits text into normalized words in a graph, by the original's rules.

Cleans the text, separates ideographs, splits at blanks; then, in every word,
lower-cases, decomposes (NFD), drops marks and splits at punctuation. These are
the rules of the original's `BasicTokenizer`, which uses Python's `unicodedata`.
That changes with the version of Python, but ids must not; so `unicode_14.npz`
holds the data of Python 3.11, made by tests/text/unicode_tables.py.
"""

import functools
import pathlib
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.text.vocabulary import TokenizerSettings

# Bits of a table entry. Bits 8 to 15 hold the combining class, higher bits the
# number of the replacement (0: no replacement).
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
# Blocks of the original's "Chinese characters", each of which is a word.
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

_CodePoints = tuple[int, ...]


class CharacterProperties(NamedTuple):
    """Properties by code point; arrays are `[0x110000]` bool by default."""

    other: np.ndarray  # C*: control, format, private use, unassigned
    space: np.ndarray  # Zs
    line_separator: np.ndarray  # Zl and Zp
    nonspacing_mark: np.ndarray  # Mn
    punctuation: np.ndarray  # P*
    cased: np.ndarray  # a sigma after such a character can be final
    case_ignorable: np.ndarray  # skipped around a sigma
    combining_class: np.ndarray  # uint8
    lower: dict[int, _CodePoints]  # `str.lower()` of changed characters
    decomposition: dict[int, _CodePoints]  # NFD of changed characters


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


def build_character_table(
    settings: TokenizerSettings,
) -> tuple[np.ndarray, np.ndarray, list[_CodePoints]]:
    """Builds the table of flags and replacements of all code points.

    Equal blocks share a page: a code point has the entry
    `entries[pages[code >> 8] + (code & 255)]`. Returns pages, `[0x1100]` int32,
    entries, int32, and replacements by their number; number 0 is unused.
    """
    properties = load_character_properties()
    entries = _compute_flags()
    entries |= properties.combining_class.astype(np.int32) << CLASS_SHIFT
    changes = _compute_changes(settings)
    for number, code in enumerate(changes, start=1):
        entries[code] |= number << CHANGE_SHIFT
    blocks: dict[bytes, int] = {}
    pages = [
        blocks.setdefault(block.tobytes(), len(blocks) * _PAGE_SIZE)
        for block in entries.reshape(-1, _PAGE_SIZE)
    ]
    joined = np.frombuffer(b"".join(blocks), np.int32)
    return np.array(pages, np.int32), joined, [(0,), *changes.values()]


def _compute_flags() -> np.ndarray:
    """Computes the flags that no setting changes, `[0x110000]` int32."""
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
    return flags


def _compute_changes(settings: TokenizerSettings) -> dict[int, _CodePoints]:
    """Maps characters to their lower-cased, decomposed form with marks."""
    lower, parts = load_character_properties()[-2:]
    if not settings.do_lower_case:
        return {}
    if not settings.strip_accents:
        return lower
    return {
        code: sum((parts.get(c, (c,)) for c in lower.get(code, (code,))), ())
        for code in sorted(lower.keys() | parts)
    }


class Words(NamedTuple):
    """The W words of N texts, concatenated."""

    words: tf.Tensor  # [W] string, normalized
    text_splits: tf.Tensor  # [N + 1] int64, the first word of each text
    starts: tf.Tensor  # [W] int32, byte offset of the word in the input text
    # [W] int32, offset of the byte after the word and its stripped marks.
    ends: tf.Tensor
    num_characters: tf.Tensor  # [W] int32, of the normalized word
    # [C] int32, the same offsets of each character of the normalized words.
    character_starts: tf.Tensor
    character_ends: tf.Tensor


class _Decoded(NamedTuple):
    """All C characters of N texts, `[C]` int32 by default."""

    codes: tf.Tensor
    attributes: tf.Tensor
    chunks: tf.Tensor  # number of the blank-separated word, from 1 upwards
    starts: tf.Tensor  # byte offset in the text
    text_splits: tf.Tensor  # [N + 1] int64


class _Characters(NamedTuple):
    """T characters during normalization, `[T]` int32 each."""

    codes: tf.Tensor
    attributes: tf.Tensor
    sources: tf.Tensor  # index of the decoded character
    chunks: tf.Tensor


class Normalizer(tf.Module):
    """Splits texts into normalized words as the original does."""

    def __init__(
        self, settings: TokenizerSettings, splits_ideographs: bool = True
    ) -> None:
        super().__init__(name="normalizer")
        self._is_folding = settings.do_lower_case
        self._is_stripping = settings.is_stripping
        pages, entries, changes = build_character_table(settings)
        if not splits_ideographs:
            entries = entries & ~IDEOGRAPH
        self._pages, self._entries = tf.constant(pages), tf.constant(entries)
        self._changes = tf.ragged.constant(changes, tf.int32)

    def split(self, texts: tf.Tensor) -> Words:
        """Splits `[N]` UTF-8 strings into words; drops invalid bytes."""
        decoded = self._decode(texts)
        characters = _keep_visible(decoded)
        if self._is_folding:
            characters = self._fold(characters)
        if self._is_stripping:
            characters = _reorder(characters)
        last_sources = characters.sources
        if self._is_stripping:
            characters, last_sources = _drop_marks(characters)
        return _gather_words(decoded, characters, last_sources)

    def _look_up(self, codes: tf.Tensor) -> tf.Tensor:
        pages = tf.gather(self._pages, tf.bitwise.right_shift(codes, 8))
        return tf.gather(self._entries, pages + (codes & 255))

    def _decode(self, texts: tf.Tensor) -> _Decoded:
        ragged_codes, ragged_starts = tf.strings.unicode_decode_with_offsets(
            texts, "UTF-8", errors="replace"
        )
        codes = ragged_codes.flat_values
        attributes = self._look_up(codes)
        is_ideograph = _has(attributes, IDEOGRAPH)
        is_break = is_ideograph | _shift(is_ideograph)
        is_break |= _has(attributes, BLANK)
        is_break |= _differ(ragged_codes.value_rowids())
        return _Decoded(
            codes=codes,
            attributes=attributes,
            chunks=tf.cumsum(tf.cast(is_break, tf.int32)),
            starts=tf.cast(ragged_starts.flat_values, tf.int32),
            text_splits=ragged_codes.row_splits,
        )

    def _fold(self, characters: _Characters) -> _Characters:
        """Lower-cases, and decomposes if accents will be stripped."""
        is_final_sigma = _find_final_sigmas(characters)
        changes = tf.bitwise.right_shift(characters.attributes, CHANGE_SHIFT)
        images = tf.gather(self._changes, changes)
        owners = images.value_rowids()
        kept = tf.where(changes == 0, characters.codes, -1)
        kept = tf.where(is_final_sigma, FINAL_SIGMA, kept)
        kept = tf.gather(kept, owners)
        codes = tf.where(kept < 0, images.flat_values, kept)
        sources, chunks = (tf.gather(p, owners) for p in characters[2:])
        return _Characters(codes, self._look_up(codes), sources, chunks)


def _has(attributes: tf.Tensor, flag: int) -> tf.Tensor:
    return (attributes & flag) != 0


def _differ(values: tf.Tensor) -> tf.Tensor:
    """Returns whether a value differs from the one before, or is the first."""
    first = tf.ones_like(values[:1], tf.bool)
    return tf.concat([first, values[1:] != values[:-1]], axis=0)


def _shift(flags: tf.Tensor) -> tf.Tensor:
    """Returns the flag of the position before each position."""
    return tf.concat([tf.zeros_like(flags[:1]), flags[:-1]], axis=0)


def _keep_visible(decoded: _Decoded) -> _Characters:
    unseen = DROPPED | BLANK
    is_seen = ~_has(decoded.attributes, unseen)
    sources = tf.cast(tf.where(is_seen)[:, 0], tf.int32)
    codes, attributes, chunks = (tf.gather(p, sources) for p in decoded[:3])
    return _Characters(codes, attributes, sources, chunks)


def _find_final_sigmas(characters: _Characters) -> tf.Tensor:
    """Finds capital sigmas that become final ones, `[T]` bool.

    As in `str.lower()`, if case-ignorable characters are skipped, the character
    before the sigma is cased, and the next one in the word is not or is absent.
    """
    is_sigma = characters.codes == CAPITAL_SIGMA

    def examine_neighbours() -> tf.Tensor:
        is_seen = ~_has(characters.attributes, CASE_IGNORABLE)
        seen = tf.where(is_seen)[:, 0]
        is_cased = _has(characters.attributes, CASED)
        is_cased = tf.pad(tf.gather(is_cased, seen), [[1, 1]])
        chunks = tf.pad(tf.gather(characters.chunks, seen), [[1, 1]])
        position = tf.cumsum(tf.cast(is_seen, tf.int32))

        def is_cased_at(neighbour: tf.Tensor) -> tf.Tensor:
            is_same_word = tf.gather(chunks, neighbour) == characters.chunks
            return is_same_word & tf.gather(is_cased, neighbour)

        return (
            is_sigma
            & is_cased_at(tf.maximum(position - 1, 0))
            & ~is_cased_at(tf.minimum(position + 1, tf.size(seen) + 1))
        )

    return tf.cond(
        tf.reduce_any(is_sigma), examine_neighbours, lambda: is_sigma
    )


def _reorder(characters: _Characters) -> _Characters:
    """Puts marks into canonical order (Unicode standard, section 3.11)."""
    shift = CLASS_SHIFT
    classes = tf.bitwise.right_shift(characters.attributes, shift) & 255
    is_start = (classes == 0) | _differ(characters.chunks)
    is_unordered = (classes[1:] < classes[:-1]) & ~is_start[1:]

    def sort() -> _Characters:
        groups = tf.cumsum(tf.cast(is_start, tf.int64))
        keys = groups * 256 + tf.cast(classes, tf.int64)
        order = tf.argsort(keys, stable=True)
        return _Characters(*(tf.gather(part, order) for part in characters))

    return tf.cond(tf.reduce_any(is_unordered), sort, lambda: characters)


def _drop_marks(characters: _Characters) -> tuple[_Characters, tf.Tensor]:
    """Drops marks (Mn); returns each character's last source, with marks."""
    is_kept = ~_has(characters.attributes, MARK)
    kept = tf.where(is_kept)[:, 0]
    left = _Characters(*(tf.gather(part, kept) for part in characters))
    owner_chunks = tf.pad(left.chunks, [[1, 0]])
    owners = tf.cumsum(tf.cast(is_kept, tf.int32))
    is_own = tf.gather(owner_chunks, owners) == characters.chunks
    return left, tf.math.segment_max(
        tf.where(is_own, characters.sources, -1), owners
    )[1:]


def _gather_words(
    decoded: _Decoded, characters: _Characters, last_sources: tf.Tensor
) -> Words:
    is_punctuation = _has(characters.attributes, PUNCTUATION)
    is_first = (
        _differ(characters.chunks) | is_punctuation | _shift(is_punctuation)
    )
    firsts = tf.where(is_first)[:, 0]
    num_codes = tf.size(characters.codes, out_type=tf.int64)
    splits = tf.concat([firsts, num_codes[tf.newaxis]], axis=0)
    codes = tf.RaggedTensor.from_row_splits(
        characters.codes, splits, validate=False
    )
    word_of_character = tf.cumsum(tf.cast(is_first, tf.int32)) - 1
    first_sources = tf.math.segment_min(characters.sources, word_of_character)
    starts = tf.gather(decoded.starts, characters.sources)
    ends = tf.gather(decoded.starts, last_sources)
    ends += _num_bytes(tf.gather(decoded.codes, last_sources))
    return Words(
        words=tf.strings.unicode_encode(codes, "UTF-8"),
        text_splits=tf.searchsorted(
            tf.cast(first_sources, tf.int64),
            decoded.text_splits,
            out_type=tf.int64,
        ),
        starts=tf.gather(decoded.starts, first_sources),
        ends=tf.math.segment_max(ends, word_of_character),
        num_characters=tf.cast(splits[1:] - splits[:-1], tf.int32),
        character_starts=starts,
        character_ends=ends,
    )


def _num_bytes(codes: tf.Tensor) -> tf.Tensor:
    return 1 + sum(
        tf.cast(codes >= limit, tf.int32) for limit in (0x80, 0x800, 0x10000)
    )
