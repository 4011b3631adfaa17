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
    text = unicodedata.normalize("NFC", text).lower()
    counts = collections.Counter(text)
    changed = [c for c, _ in counts.most_common() if _strip(c) != c]
    lost = [c for c in changed if _script(c) not in _ACCENTED]
    num_letters = sum(n for c, n in counts.items() if _is_letter(c))
    share = sum(counts[c] for c in lost) / max(num_letters, 1)
    if share <= _LOST_SHARE:
        told, marks = "Accents are removed, as in the original", changed
        becomes, change = "becomes", "--nostrip_accents keeps them."
    else:
        scripts = dict.fromkeys(_script(c).title() for c in lost)
        told, marks = f"Marks are kept: {share:.1%} of all letters have ", lost
        told += f"marks that are letters themselves ({', '.join(scripts)})"
        becomes, change = "would become", "--strip_accents removes them."
    words = collections.Counter(re.findall(r"\S{3,20}", text)).most_common()
    example = next((w for w, _ in words if not {*marks}.isdisjoint(w)), "")
    if example:
        example = "".join(filter(_is_letter, example))
        left = _strip(example)
        if unicodedata.normalize("NFC", left) == example:
            left = " ".join(left)  # of Korean, which would look the same
        told += f"; {example!r} {becomes} {left!r}"
    return share <= _LOST_SHARE, f"{told}. {change}"


def _strip(text: str) -> str:
    parts = unicodedata.normalize("NFD", text)
    return "".join(c for c in parts if unicodedata.category(c) != "Mn")


def _is_letter(character: str) -> bool:
    return unicodedata.category(character)[0] in "LM"


def _script(character: str) -> str:
    return unicodedata.name(character, "").partition(" ")[0]
