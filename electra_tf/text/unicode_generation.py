"""Writes `unicode_14.txt`, the Unicode tables behind the tokenizer.

The original tokenizer asks Python's `unicodedata`, whose answers change with
the version of Python. Ids must not, so the tables of Unicode 14 (Python 3.11)
travel with the project. To make the file again, with Python 3.11:

    python -m electra_tf.text.unicode_generation

A test regenerates the text and compares it with the file.
"""

import pathlib
import sys
import unicodedata
from collections.abc import Iterable
from collections.abc import Iterator

UNICODE_VERSION = "14.0.0"
_LINE_WIDTH = 78
_HEADER = f"""\
# Character properties of Unicode {UNICODE_VERSION}, from Python 3.11.
# Written by electra_tf/text/unicode_generation.py; do not edit by hand.
# category X   ranges of code points of the general categories X*
# combining N  ranges with canonical combining class N (0 where absent)
# case X       ranges that matter for the final sigma: 'ignorable', 'cased'
# stable       assigned since Unicode 3.2 with unchanged category and NFD
# lower        code point > str.lower(), a range > the first of its images
# nfd          code point > full canonical decomposition, without Hangul
"""
_CATEGORIES = ("C", "Zs", "Zl", "Zp", "Mn", "P")
_HANGUL = range(0xAC00, 0xD7A4)


def render_tables() -> str:
    """Returns the text of `unicode_14.txt`.

    Raises:
      RuntimeError: if this Python's tables are not those of Unicode 14.
    """
    if unicodedata.unidata_version != UNICODE_VERSION:
        raise RuntimeError(
            f"The tables must come from Unicode {UNICODE_VERSION}, but "
            f"Python {sys.version.split()[0]} has "
            f"{unicodedata.unidata_version}. Run this with Python 3.11."
        )
    rows = [_HEADER]
    for key, entries in _properties():
        rows.extend(_wrap(key, entries))
    return "".join(rows)


def _characters() -> Iterator[str]:
    return map(chr, range(sys.maxunicode + 1))


def _properties() -> Iterator[tuple[str, Iterable[str]]]:
    """Yields (key, entries) for every property of the file."""
    for category in _CATEGORIES:
        codes = [
            ord(character)
            for character in _characters()
            if unicodedata.category(character).startswith(category)
        ]
        yield f"category {category}", _ranges(codes)
    classes: dict[int, list[int]] = {}
    for character in _characters():
        combining = unicodedata.combining(character)
        if combining:
            classes.setdefault(combining, []).append(ord(character))
    for combining, codes in sorted(classes.items()):
        yield f"combining {combining}", _ranges(codes)
    for name in ("cased", "ignorable"):
        codes = [ord(c) for c in _characters() if _case_class(c) == name]
        yield f"case {name}", _ranges(codes)
    yield "stable", _ranges([ord(c) for c in _characters() if _is_stable(c)])
    yield "lower", _lower_entries()
    yield "nfd", _decomposition_entries()


def _case_class(character: str) -> str:
    """Returns how `character` acts on a following capital sigma.

    `str.lower` skips ignorable characters, then asks whether the character
    before the sigma is cased; Python offers no other way to ask.
    """
    if (character + "\u03a3").lower().endswith("\u03c2"):
        return "cased"
    if ("A" + character + "\u03a3").lower().endswith("\u03c2"):
        return "ignorable"
    return "none"


def _is_stable(character: str) -> bool:
    """Returns whether any Unicode library of any age treats it alike."""
    old = unicodedata.ucd_3_2_0
    category = unicodedata.category(character)
    decomposed = unicodedata.normalize("NFD", character)
    return (
        not category.startswith("C")
        and category == old.category(character)
        and decomposed == old.normalize("NFD", character)
        and all(
            unicodedata.category(part) == old.category(part)
            for part in decomposed
        )
    )


def _lower_entries() -> Iterator[str]:
    run: list[int] = []  # first code, last code, image of the first
    for character in _characters():
        images = [ord(image) for image in character.lower()]
        if images == [ord(character)]:
            continue
        code, image = ord(character), images[0]
        follows = run and code == run[1] + 1 and image - code == run[2] - run[0]
        if follows and len(images) == 1:
            run[1] = code
            continue
        if run:
            yield _lower_entry(run)
        run = [code, code, image]
        if len(images) > 1:
            yield f"{code:04X}>{'+'.join(f'{i:04X}' for i in images)}"
            run = []
    yield _lower_entry(run)


def _lower_entry(run: list[int]) -> str:
    return f"{_range(run[0], run[1])}>{run[2]:04X}"


def _decomposition_entries() -> Iterator[str]:
    for character in _characters():
        decomposed = unicodedata.normalize("NFD", character)
        if decomposed != character and ord(character) not in _HANGUL:
            parts = "+".join(f"{ord(part):04X}" for part in decomposed)
            yield f"{ord(character):04X}>{parts}"


def _range(first: int, last: int) -> str:
    return f"{first:04X}" if first == last else f"{first:04X}-{last:04X}"


def _ranges(codes: list[int]) -> Iterator[str]:
    """Yields increasing code points as `first-last` in hexadecimal."""
    first = previous = codes[0]
    for code in codes[1:]:
        if code != previous + 1:
            yield _range(first, previous)
            first = code
        previous = code
    yield _range(first, previous)


def _wrap(key: str, entries: Iterable[str]) -> Iterator[str]:
    """Yields lines `key: entry entry ...` of bounded width."""
    line = f"{key}:"
    for entry in entries:
        if len(line) + 1 + len(entry) > _LINE_WIDTH:
            yield line + "\n"
            line = f"{key}:"
        line += " " + entry
    yield line + "\n"


if __name__ == "__main__":
    target = pathlib.Path(__file__).with_name("unicode_14.txt")
    target.write_text(render_tables(), encoding="ascii", newline="\n")
