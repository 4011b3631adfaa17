"""How a file writes the tags of spans: `B-PER`, `b_per`, `PER/B`, or `B` alone.

A style is two tags: that of the beginning of a span of the kind X, and that of
words outside: `B-X O`, `b_X o`, `X/B O`. In `B O` spans have no kind. Tags in
the style `B-X O` are what all computations take.
"""

import functools
import re
from collections.abc import Mapping

from electra_tf.tasks.tagging import spans

STANDARD = "B-X O"
UNNAMED = "SPAN"
"""The kind of spans where tags are places alone."""

_SEPARATORS = "-_/.:|"
_BEGINNINGS = (
    *(f"B{separator}X" for separator in _SEPARATORS),
    *(f"X{separator}B" for separator in _SEPARATORS),
    "B",
)


def standardize(tag: str, style: str) -> str | None:
    """Returns a tag in the style `B-X O`, None for one of another style.

    >>> standardize("per_b", "X_b o")
    'B-per'
    """
    if tag.upper() == spans.OUTSIDE:
        return spans.OUTSIDE
    parts = _match(tag, style.split()[0])
    if parts is None:
        return None
    return f"{parts['place'].upper()}-{parts.get('kind', UNNAMED)}"


@functools.lru_cache(maxsize=4096)
def _match(tag: str, beginning: str) -> dict[str, str] | None:
    pattern = re.escape(beginning.replace("b", "B"))
    pattern = pattern.replace("B", f"(?P<place>[{spans.PLACES}])")
    pattern = pattern.replace("X", "(?P<kind>.+)")
    match = re.fullmatch(pattern, tag, re.IGNORECASE)
    return match and match.groupdict()


def write(tag: str, style: str) -> str:
    """Writes a tag of the style `B-X O` in another style.

    >>> write("I-PER", "b_X o")
    'i_PER'
    """
    beginning, outside = style.split()
    if tag == spans.OUTSIDE:
        return outside
    letters = {"B": tag[0], "b": tag[0].lower(), "X": tag[2:]}
    return "".join(letters.get(sign, sign) for sign in beginning)


def find(counts: Mapping[str, int]) -> str:
    """Finds the style of tags, with their counts; empty if they mark no spans.

    A few tags may be of no style: at most half of them, beside `O`.

    >>> find({"b_per": 2, "i_per": 1, "o": 9})
    'b_X o'
    """
    tags = [tag for tag in counts if tag.upper() != spans.OUTSIDE]
    outside = sorted(set(counts) - set(tags), key=counts.__getitem__)
    found: dict[str, list[str]] = {}
    for beginning in _BEGINNINGS:
        matches = filter(None, (_match(tag, beginning) for tag in tags))
        found[beginning] = [match["place"] for match in matches]
    best = max(found, key=lambda beginning: len(found[beginning]))
    places = {place.upper() for place in found[best]}
    num_others = len(tags) - len(found[best])
    may_have_others = outside and num_others <= len(found[best])
    # Parts of speech may be single letters.
    is_plain = best != "B" or "B" in places or (places == {"I"} and outside)
    if not places or not is_plain or (num_others and not may_have_others):
        return ""
    if all(place.islower() for place in found[best]):
        best = best.replace("B", "b")
    return f"{best} {outside[-1] if outside else spans.OUTSIDE}"
