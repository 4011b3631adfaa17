"""Which marks are accents, and which are letters: a choice by script.

The original strips combining marks (category Mn) wherever it lower-cases.
Latin, Greek, Arabic and Hebrew texts stay readable; Hindi loses vowels, Thai
vowels and tones, Russian one letter, Japanese voiced sounds, and the syllables
of Korean fall apart.
"""

import collections
import re
import unicodedata

# Of these scripts, and of marks that have none, no mark is a letter.
_ACCENTED = ("", "LATIN", "GREEK", "ARABIC", "HEBREW", "SYRIAC", "COMBINING")
# From this share of letters on that would be lost, marks are kept.
_LOST_SHARE = 0.005


def choose(text: str) -> tuple[bool, str]:
    """Chooses whether to strip accents, by a sample of a corpus.

    Also returns a sentence that says why, with an example.
    """
    # Composed, so that each mark is with its letter.
    text = unicodedata.normalize("NFC", text)
    counts = collections.Counter(text)
    num_letters = sum(n for c, n in counts.items() if _is_letter(c))
    lost: collections.Counter[str] = collections.Counter()
    for character, count in counts.items():
        script = _script(character)
        if script not in _ACCENTED and strip(character) != character:
            lost[script] += count
    strips = lost.total() <= _LOST_SHARE * num_letters
    if strips:
        why = "Accents are removed, as in the original"
        example = _find_example(text, _ACCENTED)
        change = "--nostrip_accents keeps them."
    else:
        scripts = ", ".join(script.title() for script, _ in lost.most_common(3))
        share = lost.total() / num_letters
        why = f"Marks are kept: {share:.1%} of all letters have marks that are "
        why += f"letters themselves ({scripts})"
        example = _find_example(text, tuple(lost))
        change = "--strip_accents removes them."
    if example:
        left = strip(example)
        if unicodedata.normalize("NFC", left) == example:
            left = " ".join(left)  # of Korean, which would look the same
        becomes = "becomes" if strips else "would become"
        why += f"; {example!r} {becomes} {left!r}"
    return strips, f"{why}. {change}"


def strip(text: str) -> str:
    """Returns a text as it is without combining marks, decomposed."""
    parts = unicodedata.normalize("NFD", text)
    return "".join(c for c in parts if unicodedata.category(c) != "Mn")


def _is_letter(character: str) -> bool:
    return unicodedata.category(character)[0] in "LM"


def _script(character: str) -> str:
    return unicodedata.name(character, "").partition(" ")[0]


def _find_example(text: str, scripts: tuple[str, ...]) -> str:
    """The most frequent word that loses something, of some scripts."""
    words = collections.Counter(re.findall(r"\S{3,20}", text.lower()))
    for word, _ in words.most_common():
        letters = "".join(filter(_is_letter, word))
        if strip(letters) != letters and {*map(_script, letters)} & {*scripts}:
            return letters
    return ""
