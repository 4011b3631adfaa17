"""Character properties of Unicode 14 as arrays over all code points.

The numbers come from `unicode_14.txt`, so that ids do not change with the
version of Python, TensorFlow or its Unicode library.
"""

import dataclasses
import functools
import pathlib

import numpy as np

NUM_CODE_POINTS = 0x110000
_HANGUL_FIRST = 0xAC00
_HANGUL_END = 0xD7A4
_PATH = pathlib.Path(__file__).with_name("unicode_14.txt")

CodePoints = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class CharacterProperties:
    """Properties by code point.

    Attributes:
      categories: general category ("C", "Zs", "Zl", "Zp", "Mn", "P") to a bool
        array `[0x110000]`; "C" and "P" stand for all that begin so.
      combining_class: `[0x110000]` uint8, the canonical combining class.
      is_cased: `[0x110000]` bool, makes a sigma after it final.
      is_case_ignorable: `[0x110000]` bool, looked through when the letters
        around a sigma are examined.
      is_stable: `[0x110000]` bool, unchanged since Unicode 3.2, so that every
        Unicode library in use agrees with these tables.
      lower: code points that `str.lower()` changes, to their images.
      decomposition: code points that NFD changes, to their full canonical
        decompositions.
    """

    categories: dict[str, np.ndarray]
    combining_class: np.ndarray
    is_cased: np.ndarray
    is_case_ignorable: np.ndarray
    is_stable: np.ndarray
    lower: dict[int, CodePoints]
    decomposition: dict[int, CodePoints]

    def decompose(self, codes: CodePoints) -> CodePoints:
        """Returns NFD of each code point in turn, without reordering."""
        return tuple(
            part
            for code in codes
            for part in self.decomposition.get(code, (code,))
        )


@functools.lru_cache(maxsize=1)
def load_character_properties() -> CharacterProperties:
    """Returns the tables of `unicode_14.txt`; they are read only once."""
    entries: dict[str, list[str]] = {}
    for line in _PATH.read_text(encoding="ascii").splitlines():
        if not line.startswith("#"):
            key, _, row = line.partition(":")
            entries.setdefault(key, []).extend(row.split())
    combining_class = np.zeros(NUM_CODE_POINTS, np.uint8)
    categories = {}
    for key, values in entries.items():
        name, _, value = key.partition(" ")
        if name == "combining":
            combining_class[_members(values)] = int(value)
        elif name == "category":
            categories[value] = _members(values)
    return CharacterProperties(
        categories=categories,
        combining_class=combining_class,
        is_cased=_members(entries["case cased"]),
        is_case_ignorable=_members(entries["case ignorable"]),
        is_stable=_members(entries["stable"]),
        lower=_images(entries["lower"]),
        decomposition=_images(entries["nfd"]) | _hangul_decomposition(),
    )


def _parse_range(entry: str) -> tuple[int, int]:
    """Returns the first code point and the one after the last."""
    first, _, last = entry.partition("-")
    return int(first, 16), int(last or first, 16) + 1


def _members(entries: list[str]) -> np.ndarray:
    members = np.zeros(NUM_CODE_POINTS, bool)
    for entry in entries:
        first, end = _parse_range(entry)
        members[first:end] = True
    return members


def _images(entries: list[str]) -> dict[int, CodePoints]:
    """Returns the mapping written as `first-last>image` or `code>a+b`."""
    images: dict[int, CodePoints] = {}
    for entry in entries:
        source, _, target = entry.partition(">")
        first, end = _parse_range(source)
        image, *rest = (int(part, 16) for part in target.split("+"))
        for code in range(first, end):
            images[code] = (image + code - first, *rest)
    return images


def _hangul_decomposition() -> dict[int, CodePoints]:
    """Returns NFD of the Hangul syllables (Unicode standard, section 3.12)."""
    images: dict[int, CodePoints] = {}
    for code in range(_HANGUL_FIRST, _HANGUL_END):
        initial, rest = divmod(code - _HANGUL_FIRST, 21 * 28)
        medial, final = divmod(rest, 28)
        images[code] = (0x1100 + initial, 0x1161 + medial)
        if final:
            images[code] += (0x11A7 + final,)
    return images
