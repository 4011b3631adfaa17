"""What the tags of a sentence say: spans of words, each of a kind.

A tag is `O`, for a word in no span, or a place, a hyphen and a kind: `B-NP`
begins a noun phrase, `I-NP` continues it, `E-NP` ends it, `S-NP` is one of a
single word. Files use various encodings of the same spans; models are trained
on `BIOES`.
"""

from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Sequence
from typing import NamedTuple

OUTSIDE = "O"
TRAINING_ENCODING = "BIOES"
ENCODINGS = ("BIO", "BIEO", TRAINING_ENCODING)
"""Names of encodings: the places that they tell apart."""

_PLACES = "BIES"


class Span(NamedTuple):
    """Neighbouring words that belong together.

    Attributes:
        start: index of the first word.
        end: index of the last word.
        kind: what they are.
    """

    start: int
    end: int
    kind: str


def is_span_tag(tag: str) -> bool:
    """Whether a tag is `O`, or one of `B-`, `I-`, `E-`, `S-` with a kind."""
    return tag == OUTSIDE or (
        len(tag) > 2 and tag[0] in _PLACES and tag[1] == "-"
    )


def kind_of(tag: str) -> str:
    """The kind that a tag other than `O` names; it may hold hyphens."""
    return tag.partition("-")[2]


def find_spans(tags: Sequence[str]) -> list[Span]:
    """The spans of a sentence, by the original's lenient rule.

    A span begins at `B`, at `S` and after `O`, and goes on up to the next one
    or the next `O`. So every encoding is read alike, `I` may begin a span, and
    tags of several kinds in a row without a beginning are one span, of its
    last word's kind.

    Args:
        tags: one for every word, see `is_span_tag`.

    Returns:
        The spans from left to right.

    Example:
        >>> find_spans(["B-NP", "E-NP", "O", "I-VP"])
        [Span(start=0, end=1, kind='NP'), Span(start=3, end=3, kind='VP')]
    """
    spans: list[Span] = []
    start, last = 0, OUTSIDE
    for index, tag in enumerate(tags):
        begins = tag[0] in "BS" or last == OUTSIDE
        if last != OUTSIDE and (tag == OUTSIDE or begins):
            spans.append(Span(start, index - 1, kind_of(last)))
        if begins:
            start = index
        last = tag
    if last != OUTSIDE:
        spans.append(Span(start, len(tags) - 1, kind_of(last)))
    return spans


def encode_spans(
    spans: Iterable[Span], num_words: int, encoding: str
) -> list[str]:
    """The tags of a sentence with these spans.

    A span of one word is `S` in `BIOES`, `B` in the others.

    Args:
        spans: those of the sentence, without overlap.
        num_words: of the sentence.
        encoding: one of `ENCODINGS`.

    Raises:
        ValueError: for another encoding.

    Example:
        >>> encode_spans([Span(0, 1, "NP"), Span(3, 3, "VP")], 4, "BIOES")
        ['B-NP', 'E-NP', 'O', 'S-VP']
    """
    if encoding not in ENCODINGS:
        raise ValueError(
            f"`encoding` must be one of {', '.join(ENCODINGS)}. Received: "
            f"{encoding!r}."
        )
    tags = [OUTSIDE] * num_words
    for start, end, kind in spans:
        tags[start : end + 1] = [f"I-{kind}"] * (end + 1 - start)
        if "E" in encoding:
            tags[end] = f"E-{kind}"
        tags[start] = f"B-{kind}"
        if "S" in encoding and start == end:
            tags[start] = f"S-{kind}"
    return tags


def reencode(tags: Sequence[str], encoding: str) -> list[str]:
    """The same spans in another encoding.

    Args:
        tags: those of a sentence, in any encoding.
        encoding: one of `ENCODINGS`.
    """
    return encode_spans(find_spans(tags), len(tags), encoding)


def encode_tags(tags: Sequence[str], has_spans: bool) -> Sequence[str]:
    """The tags of a sentence as they are learned.

    Args:
        tags: as in the file.
        has_spans: whether they mark
    """
    return reencode(tags, TRAINING_ENCODING) if has_spans else tags


def list_classes(
    tags: Iterable[Sequence[str]], has_spans: bool
) -> tuple[str, ...]:
    """What occurs, as it is learned; sorted, as in the original.

    Args:
        tags: those of every sentence, as in the file.
        has_spans: whether they mark
    """
    return tuple(
        sorted({tag for row in tags for tag in encode_tags(row, has_spans)})
    )


def classes_of_labels(
    labels: Sequence[str], has_spans: bool
) -> tuple[str, ...]:
    """What may occur if a user lists the tags.

    Args:
        labels: tags as in the file.
        has_spans: whether they mark spans; then each kind in them has all its
            places, and `O` is added.
    """
    if not has_spans:
        return tuple(labels)
    kinds = {kind_of(tag) for tag in labels} - {""}
    tags = {f"{place}-{kind}" for kind in kinds for place in "BIES"}
    return tuple(sorted(tags | {OUTSIDE}))


def mark_spans(tags: Collection[str]) -> bool:
    """Whether tags look like those of spans: `O` and others like `B-NP`."""
    return set(tags) - {OUTSIDE} != set() and all(map(is_span_tag, tags))


def find_encoding(tags: Iterable[str]) -> str:
    """`BIOES` for tags of spans of which some begin with `E` or `S`, or `BIO`.

    Args:
        tags: all that occur.
    """
    return "BIOES" if any(tag[0] in "ES" for tag in tags) else "BIO"
