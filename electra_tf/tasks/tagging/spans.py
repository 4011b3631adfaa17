"""Converts tags to spans of words and back, and scores predicted tags.

The tag `O` marks a word outside of all spans. Other tags have a prefix, a
hyphen and a kind: `B-NP`, `I-NP` and `E-NP` begin, continue and end a noun
phrase; `S-NP` is a noun phrase of one word. A word that was cut off has no tag
(None): it is outside of all spans and counts as wrong.

A model learns tags of the scheme `BIOES`. Predictions are converted to the
scheme of the user's files.
"""

import re
import warnings
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from seqeval import metrics as seqeval_metrics
from seqeval import scheme as seqeval_scheme

OUTSIDE = "O"
_OUTSIDE = {OUTSIDE, "0", "OTHER", "OUT", "OUTSIDE", "NONE", "-", "_"}
"""How files write `OUTSIDE`, in upper case."""
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
"""Maps a scheme to the prefixes of a span's first, inner and last word, and of
a span of one word. `BIO` is also called IOB2. In `IOB1` a span begins with `B`
only if it follows a span of its kind."""

_LETTERS = "".join(sorted({*"".join(SCHEMES.values())}))
_STANDARD = f"[{_LETTERS}]-."
# Styles of tags in files: the prefix is before or after the kind, or alone.
_PREFIX = f"(?P<prefix>[{_LETTERS}])"
_KIND = "(?P<kind>.+)"
_STYLES = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        *(f"{_PREFIX}[{sign}]{_KIND}" for sign in "-_/.:|"),
        *(f"{_KIND}[{sign}]{_PREFIX}" for sign in "-_/.:|"),
        _PREFIX,
    )
]
_UNNAMED = "SPAN"  # the kind of all spans if tags are only prefixes
_BEGINNINGS = "BSU"  # prefixes that begin a span

Tags = Sequence[str]
PredictedTags = Sequence[str | None]


class Span(NamedTuple):
    """Successive words, for example a name or a noun phrase."""

    start: int  # index of the first word
    end: int  # index of the last word
    kind: str  # for example `PER` or `NP`


def mark_spans(tags: Collection[str]) -> bool:
    """Returns whether all tags are `O` or look like `B-NP`."""
    span_tags = {*tags} - {OUTSIDE}
    return bool(span_tags) and all(re.match(_STANDARD, t) for t in span_tags)


def standardize(
    tags: Collection[str], is_sure: bool = False
) -> dict[str, str | None]:
    """Maps the tags of a file to standard tags: `O`, and tags like `B-NP`.

    Tags that do not fit the style of most tags map to None. Unless `is_sure`,
    the result is empty (the tags mark no spans) if those are the majority, or
    if there are any but no `O`.

    >>> standardize(["per_b", "per_i", "o"])
    {'per_b': 'B-per', 'per_i': 'I-per', 'o': 'O'}
    """
    span_tags = [tag for tag in tags if tag.upper() not in _OUTSIDE]
    matches = (map(style.fullmatch, span_tags) for style in _STYLES)
    by_style = [list(filter(None, group)) for group in matches]
    best = max(by_style, key=len)
    prefixes = {match["prefix"].upper() for match in best}
    has_outside = len(span_tags) < len(tags)
    # Tags of a single letter may be parts of speech.
    are_words = best is by_style[-1] and not (
        "B" in prefixes or (prefixes == {"I"} and has_outside)
    )
    num_others = len(span_tags) - len(best)
    if not best or are_words or num_others > has_outside * len(best):
        if not is_sure:
            return {}
        best = by_style[0]
    standard: dict[str, str | None] = {
        tag: OUTSIDE if tag.upper() in _OUTSIDE else None for tag in tags
    }
    for match in best:
        kind = match.groupdict().get("kind", _UNNAMED)
        standard[match.string] = f"{match['prefix'].upper()}-{kind}"
    return standard


def find_spans(tags: Tags, scheme: str = LEARNED) -> list[Span]:
    """Finds the spans of a sentence by the original's lenient rule.

    A span begins at `B`, `S` or `U` and after `O`. It ends before the next span
    or the next `O` and has the kind of its last word. In the scheme `IOB1` a
    span also ends where the kind changes.

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
    """Returns the kind in a tag, "" for `O`; a kind may contain hyphens."""
    return tag.partition("-")[2]


def encode_spans(
    spans: Iterable[Span], num_words: int, scheme: str
) -> list[str]:
    """Returns the tags of a sentence with these spans, in one of `SCHEMES`.

    >>> encode_spans([Span(0, 1, "NP"), Span(3, 3, "VP")], 4, "BIOES")
    ['B-NP', 'E-NP', 'O', 'S-VP']
    """
    tags = [OUTSIDE] * num_words
    for start, end, kind in spans:
        follows = start > 0 and kind_of(tags[start - 1]) == kind
        prefixes = f"B{'I' * (end - start - 1)}E" if end > start else "S"
        tags[start : end + 1] = [
            translate(f"{p}-{kind}", scheme, follows) for p in prefixes
        ]
    return tags


def reencode(tags: Tags, scheme: str, source: str = LEARNED) -> list[str]:
    """Converts the tags of a sentence from `source` to another scheme.

    Tags of the scheme "" mark no spans and stay as they are.
    """
    if not source:
        return list(tags)
    return encode_spans(find_spans(tags, source), len(tags), scheme)


def translate(tag: str, scheme: str, follows: bool) -> str:
    """Converts a learned tag to a scheme; the scheme "" changes nothing.

    `follows` says whether the word before is in a span of the same kind.
    """
    if scheme == IOB1 and follows and tag[0] in _BEGINNINGS:
        return f"B{tag[1:]}"
    prefixes = SCHEMES.get(scheme, "")
    prefix_of = dict(zip(SCHEMES[LEARNED], prefixes, strict=False))
    return prefix_of.get(tag[0], tag[0]) + tag[1:]


def list_classes(tags: Iterable[Tags], scheme: str) -> tuple[str, ...]:
    """Returns the sorted learned tags that occur in sentences."""
    occurring = {tag for row in tags for tag in reencode(row, LEARNED, scheme)}
    return tuple(sorted(occurring))


def classes_of_labels(labels: Tags, scheme: str) -> tuple[str, ...]:
    """Returns the sorted learned tags of the kinds in a user's tags."""
    if not scheme:
        return tuple(labels)
    kinds = {kind_of(tag) for tag in labels} - {""}
    tags = {f"{prefix}-{kind}" for kind in kinds for prefix in SCHEMES[LEARNED]}
    return tuple(sorted(tags | {OUTSIDE}))


def find_scheme(sentences: Iterable[Tags]) -> str:
    """Finds the scheme with the fewest prefixes that fits the sentences.

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

    The tags are of any scheme but IOB1. Scores are in percent.
    """
    num_right = num_predicted = num_gold = 0
    for tags, answers in zip(gold, _without_gaps(predicted), strict=True):
        gold_spans, predicted_spans = map(set, map(find_spans, (tags, answers)))
        num_right += len(gold_spans & predicted_spans)
        num_gold += len(gold_spans)
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
    """Computes the percentage of words with the right tag."""
    is_right = [
        tag == answer
        for tags, answers in zip(gold, predicted, strict=True)
        for tag, answer in zip(tags, answers, strict=True)
    ]
    return 100 * sum(is_right) / len(is_right)


def compute_seqeval_scores(
    gold: Sequence[Tags], predicted: Sequence[PredictedTags]
) -> dict[str, float]:
    """Computes F1 of whole spans, in percent, by the package seqeval.

    `seqeval_f1` reads tags like the script `conlleval`; `seqeval_strict_f1`
    counts a predicted span only if its tags are well-formed `BIOES`.
    """
    answers = _without_gaps(predicted)
    encoded = [reencode(tags, LEARNED) for tags in gold]
    with warnings.catch_warnings():
        # seqeval warns if there are no spans; the score is 0.
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
