"""The spans of words that tags mark, and how well predicted tags score.

A tag is `O`, for a word in no span, or a place, a hyphen and a kind: `B-NP`,
`I-NP`, `E-NP` begin, continue and end a noun phrase, `S-NP` is one of a single
word. A word that was cut off (None) is outside every span, and wrong.

A model learns `BIOES`; what a user gets is in the scheme of his files.
"""

import re
import warnings
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from seqeval import metrics as seqeval_metrics
from seqeval import scheme as seqeval_scheme

OUTSIDE = "O"
LEARNED = "BIOES"  # the scheme of the tags that a model learns
IOB1 = "IOB1"
SCHEMES = {
    "BIO": "BIIB",
    LEARNED: "BIES",
    "BILOU": "BILU",
    IOB1: "IIII",
    "BIEO": "BIEB",
    "BMES": "BMES",
}
"""Scheme to the letters of a span's first, inner and last word, and of a span
of a single word. `BIO` is also called IOB2. In `IOB1` a span begins with `B`
only where it follows another of its kind."""

# How files write tags of spans: the letter of a scheme, before or after the
# kind, or alone.
_LETTERS = "".join(sorted({*"".join(SCHEMES.values())}))
_STANDARD = f"[{_LETTERS}]-."
_PLACE = f"(?P<place>[{_LETTERS}])"
_KIND = "(?P<kind>.+)"
_STYLES = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        *(f"{_PLACE}[{sign}]{_KIND}" for sign in "-_/.:|"),
        *(f"{_KIND}[{sign}]{_PLACE}" for sign in "-_/.:|"),
        _PLACE,
    )
]
_UNNAMED = "SPAN"  # the kind of spans where tags are letters alone
_LEARNED_PLACES = SCHEMES[LEARNED]
# Letters that begin a span.
_BEGINNINGS = "BSU"

Tags = Sequence[str]
PredictedTags = Sequence[str | None]


class Span(NamedTuple):
    """Neighbouring words that belong together."""

    start: int  # index of the first word
    end: int  # index of the last word
    kind: str  # what they are


def mark_spans(tags: Collection[str]) -> bool:
    """Whether tags look like those of spans: `O` and others like `B-NP`."""
    others = {*tags} - {OUTSIDE}
    return bool(others) and all(re.match(_STANDARD, tag) for tag in others)


def standardize(
    tags: Collection[str], is_sure: bool = False
) -> dict[str, str | None]:
    """Maps a file's tags of spans to `O` and others like `B-NP`.

    They may be written in one of several styles, and a few that are not (at
    most half of them) map to None. The result is empty if tags mark no spans,
    but if it `is_sure` that they do.

    >>> standardize(["per_b", "per_i", "o"])
    {'per_b': 'B-per', 'per_i': 'I-per', 'o': 'O'}
    """
    own = [tag for tag in tags if tag.upper() != OUTSIDE]
    found = [list(filter(None, map(s.fullmatch, own))) for s in _STYLES]
    best = max(found, key=len)
    places = {match["place"].upper() for match in best}
    has_outside = len(own) < len(tags)
    # Parts of speech may be single letters.
    is_other = best is found[-1] and not (
        "B" in places or (places == {"I"} and has_outside)
    )
    num_others = len(own) - len(best)
    if not best or is_other or num_others > has_outside * len(best):
        if not is_sure:
            return {}
        best = found[0]
    plain: dict[str, str | None] = {
        tag: OUTSIDE if tag.upper() == OUTSIDE else None for tag in tags
    }
    for match in best:
        kind = match.groupdict().get("kind", _UNNAMED)
        plain[match.string] = f"{match['place'].upper()}-{kind}"
    return plain


def find_spans(tags: Tags, scheme: str = LEARNED) -> list[Span]:
    """Finds the spans of a sentence, by the original's lenient rule.

    A span begins at `B`, at `S` (`U`) and after `O`, and goes on up to the next
    one or the next `O`; it is of its last word's kind. So every scheme is read
    alike, but `IOB1`, where a span also ends where the kind changes.

    >>> find_spans(["B-NP", "E-NP", "O", "I-VP"])
    [Span(start=0, end=1, kind='NP'), Span(start=3, end=3, kind='VP')]
    """
    spans: list[Span] = []
    start, last = 0, OUTSIDE
    for index, tag in enumerate([*tags, OUTSIDE]):
        begins = tag[0] in _BEGINNINGS or last == OUTSIDE
        if scheme == IOB1:
            begins |= kind_of(tag) != kind_of(last)
        if last != OUTSIDE and (tag == OUTSIDE or begins):
            spans.append(Span(start, index - 1, kind_of(last)))
        if begins:
            start = index
        last = tag
    return spans


def kind_of(tag: str) -> str:
    """The kind that a tag names, empty for `O`; it may hold hyphens."""
    return tag.partition("-")[2]


def encode_spans(
    spans: Iterable[Span], num_words: int, scheme: str
) -> list[str]:
    """Makes the tags of a sentence with these spans, in one of `SCHEMES`.

    >>> encode_spans([Span(0, 1, "NP"), Span(3, 3, "VP")], 4, "BIOES")
    ['B-NP', 'E-NP', 'O', 'S-VP']
    """
    tags = [OUTSIDE] * num_words
    for start, end, kind in spans:
        follows = start > 0 and kind_of(tags[start - 1]) == kind
        places = f"B{'I' * (end - start - 1)}E" if end > start else "S"
        tags[start : end + 1] = [
            translate(f"{place}-{kind}", scheme, follows) for place in places
        ]
    return tags


def reencode(tags: Tags, scheme: str, source: str = LEARNED) -> list[str]:
    """Expresses the spans of a sentence in another scheme."""
    return encode_spans(find_spans(tags, source), len(tags), scheme)


def translate(tag: str, scheme: str, follows: bool) -> str:
    """Writes a learned tag in a scheme; the empty one leaves it as it is.

    `follows` says whether the word before it is in a span of its kind.
    """
    if scheme == IOB1 and follows and tag[0] in _BEGINNINGS:
        return f"B{tag[1:]}"
    places = dict(zip(_LEARNED_PLACES, SCHEMES.get(scheme, ""), strict=False))
    return places.get(tag[0], tag[0]) + tag[1:]


def encode_tags(tags: Tags, scheme: str) -> Tags:
    """Returns the tags of a sentence in a file's scheme as they are learned.

    Tags that mark no spans, those of the empty scheme, stay as they are.
    """
    return reencode(tags, LEARNED, scheme) if scheme else tags


def list_classes(tags: Iterable[Tags], scheme: str) -> tuple[str, ...]:
    """Lists the tags to learn that occur; sorted, as in the original."""
    occurring = {tag for row in tags for tag in encode_tags(row, scheme)}
    return tuple(sorted(occurring))


def classes_of_labels(labels: Tags, scheme: str) -> tuple[str, ...]:
    """Lists the tags to learn where a user lists those that may occur."""
    if not scheme:
        return tuple(labels)
    kinds = {kind_of(tag) for tag in labels} - {""}
    tags = {f"{place}-{kind}" for kind in kinds for place in _LEARNED_PLACES}
    return tuple(sorted(tags | {OUTSIDE}))


def find_scheme(sentences: Iterable[Tags]) -> str:
    """Finds the scheme of the fewest letters that has all of some tags.

    >>> find_scheme([["I-PER", "I-PER", "O", "I-LOC", "B-LOC"]])
    'IOB1'
    """
    letters, begins = {OUTSIDE}, []
    for tags in sentences:
        letters |= {tag[0] for tag in tags}
        begins += [tags[span.start][0] for span in find_spans(tags, IOB1)]
    if letters <= set("BIO"):
        return IOB1 if begins.count("I") > begins.count("B") else "BIO"
    fits = [s for s in SCHEMES if letters <= {OUTSIDE, *SCHEMES[s]}]
    return min(fits or [LEARNED], key=lambda s: len(set(SCHEMES[s])))


def compute_span_scores(
    gold: Sequence[Tags], predicted: Sequence[PredictedTags]
) -> dict[str, float]:
    """Computes precision, recall and F1 of whole spans, as in the original.

    Both sides are learned tags, or alike. All are 0 if no span is right.
    """
    num_right = num_predicted = num_gold = 0
    for tags, answers in zip(gold, _without_gaps(predicted), strict=True):
        right, predicted_spans = set(find_spans(tags)), set(find_spans(answers))
        num_right += len(right & predicted_spans)
        num_gold += len(right)
        num_predicted += len(predicted_spans)
    if not num_right:
        return {"precision": 0.0, "recall": 0.0, "f1": 0.0}
    precision = 100 * num_right / num_predicted
    recall = 100 * num_right / num_gold
    f1 = 2 * precision * recall / (precision + recall)
    return {"precision": precision, "recall": recall, "f1": f1}


def compute_accuracy(
    gold: Sequence[Tags], predicted: Sequence[PredictedTags]
) -> float:
    """Computes the share of words with the right tag; there must be one."""
    is_right = [
        tag == answer
        for tags, answers in zip(gold, predicted, strict=True)
        for tag, answer in zip(tags, answers, strict=True)
    ]
    return 100 * sum(is_right) / len(is_right)


def compute_seqeval_scores(
    gold: Sequence[Tags], predicted: Sequence[PredictedTags]
) -> dict[str, float]:
    """Computes F1 of whole spans as the package seqeval counts them.

    `seqeval_f1` reads tags like the script `conlleval`; `seqeval_strict_f1`
    counts predicted spans only if their tags are well-formed `BIOES`.
    """
    answers = _without_gaps(predicted)
    encoded = [reencode(tags, LEARNED) for tags in gold]
    with warnings.catch_warnings():
        # It warns where there are no spans and says 0, as it should.
        warnings.simplefilter("ignore")
        lenient = seqeval_metrics.f1_score(list(map(list, gold)), answers)
        strict = seqeval_metrics.f1_score(
            encoded, answers, mode="strict", scheme=seqeval_scheme.IOBES
        )
    return {
        "seqeval_f1": 100 * float(lenient),
        "seqeval_strict_f1": 100 * float(strict),
    }


def _without_gaps(predicted: Sequence[PredictedTags]) -> list[list[str]]:
    return [[OUTSIDE if t is None else t for t in tags] for tags in predicted]
