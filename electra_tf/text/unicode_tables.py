"""Character properties of Unicode 14 as arrays over all code points.

The original tokenizer asks Python's `unicodedata`, whose answers change with
the version of Python. Ids must not, so `unicode_14.npz` holds the answers of
Python 3.11. To write the file again, with that version:

    python -m electra_tf.text.unicode_tables
"""

import functools
import pathlib
import sys
import unicodedata
from typing import NamedTuple

import numpy as np

UNICODE_VERSION = "14.0.0"
NUM_CODE_POINTS = 0x110000
_PATH = pathlib.Path(__file__).with_name("unicode_14.npz")

CodePoints = tuple[int, ...]


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
    lower: dict[int, CodePoints]  # what `str.lower()` changes
    decomposition: dict[int, CodePoints]  # what NFD changes, in full

    def decompose(self, codes: CodePoints) -> CodePoints:
        """Returns NFD of each code point in turn, without reordering."""
        return tuple(
            part
            for code in codes
            for part in self.decomposition.get(code, (code,))
        )


@functools.lru_cache(maxsize=1)
def load_character_properties() -> CharacterProperties:
    """Reads `unicode_14.npz`, once per process."""
    with np.load(_PATH) as file:
        arrays = dict(file)
    lower = _parse_images(arrays.pop("lower"))
    decomposition = _parse_images(arrays.pop("decomposition"))
    return CharacterProperties(
        **arrays, lower=lower, decomposition=decomposition
    )


def _parse_images(pairs: np.ndarray) -> dict[int, CodePoints]:
    return {
        ord(character): tuple(map(ord, images))
        for character, images in pairs.tolist()
    }


def compute_tables() -> dict[str, np.ndarray]:
    """Computes the arrays of `unicode_14.npz`; needs Unicode 14."""
    if unicodedata.unidata_version != UNICODE_VERSION:
        raise RuntimeError(
            f"The tables must come from Unicode {UNICODE_VERSION}, but "
            f"Python {sys.version.split()[0]} has "
            f"{unicodedata.unidata_version}. Run this with Python 3.11."
        )
    characters = list(map(chr, range(NUM_CODE_POINTS)))
    names = np.array([unicodedata.category(c) for c in characters])
    # `str.lower` skips ignorable characters, then asks whether the character
    # before the sigma is cased; Python offers no other way to ask.
    cased = np.array([_ends_in_final_sigma(c) for c in characters])
    follows_cased = np.array(
        [_ends_in_final_sigma(f"A{c}") for c in characters]
    )
    return {
        "other": np.char.startswith(names, "C"),
        "space": names == "Zs",
        "line_separator": (names == "Zl") | (names == "Zp"),
        "nonspacing_mark": names == "Mn",
        "punctuation": np.char.startswith(names, "P"),
        "cased": cased,
        "case_ignorable": follows_cased & ~cased,
        "stable": np.array([_is_stable(c) for c in characters]),
        "combining_class": np.array(
            [unicodedata.combining(c) for c in characters], np.uint8
        ),
        "lower": np.array(
            [(c, c.lower()) for c in characters if c.lower() != c]
        ),
        "decomposition": np.array(
            [(c, _decompose(c)) for c in characters if _decompose(c) != c]
        ),
    }


def _ends_in_final_sigma(text: str) -> bool:
    return (text + "\u03a3").lower().endswith("\u03c2")


def _decompose(character: str) -> str:
    return unicodedata.normalize("NFD", character)


def _is_stable(character: str) -> bool:
    """Whether any Unicode library of any age treats the character alike."""
    old = unicodedata.ucd_3_2_0
    decomposed = _decompose(character)
    return (
        not unicodedata.category(character).startswith("C")
        and decomposed == old.normalize("NFD", character)
        and all(
            unicodedata.category(part) == old.category(part)
            for part in {character, *decomposed}
        )
    )


if __name__ == "__main__":
    np.savez_compressed(_PATH, **compute_tables())  # type: ignore[arg-type]
