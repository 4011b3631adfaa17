"""The spans of words that tags mark, and how well predicted tags score.

A tag is `O`, for a word in no span, or a place, a hyphen and a kind: `B-NP`,
`I-NP`, `E-NP` begin, continue and end a noun phrase, `S-NP` is one of a single
word. A word that was cut off (None) is outside every span, and wrong.
"""

import warnings
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Sequence
from typing import NamedTuple

from seqeval import metrics as seqeval_metrics
from seqeval import scheme as seqeval_scheme

OUTSIDE = "O"
ENCODINGS = ("BIO", "BIEO", "BIOES")
"""Names of encodings: the places that they tell apart."""

_PLACES = "BIES"

Tags = Sequence[str]
PredictedTags = Sequence[str | None]


class Span(NamedTuple):
    """Neighbouring words that belong together."""

    start: int  # index of the first word
    end: int  # index of the last word
    kind: str  # what they are


def is_span_tag(tag: str) -> bool:
    """Whether a tag is `O`, or one of `B-`, `I-`, `E-`, `S-` with a kind."""
    return tag == OUTSIDE or (
        len(tag) > 2 and tag[0] in _PLACES and tag[1] == "-"
    )


def mark_spans(tags: Collection[str]) -> bool:
    """Whether tags look like those of spans: `O` and others like `B-NP`."""
    return set(tags) - {OUTSIDE} != set() and all(map(is_span_tag, tags))


def find_spans(tags: Tags) -> list[Span]:
    """Finds the spans of a sentence, by the original's lenient rule.

    A span begins at `B`, at `S` and after `O`, and goes on up to the next one
    or the next `O`; it is of its last word's kind. So every encoding is read
    alike.

    >>> find_spans(["B-NP", "E-NP", "O", "I-VP"])
    [Span(start=0, end=1, kind='NP'), Span(start=3, end=3, kind='VP')]
    """
    spans: list[Span] = []
    start, last = 0, OUTSIDE
    for index, tag in enumerate([*tags, OUTSIDE]):
        begins = tag[0] in "BS" or last == OUTSIDE
        if last != OUTSIDE and (tag == OUTSIDE or begins):
            spans.append(Span(start, index - 1, _kind_of(last)))
        if begins:
            start = index
        last = tag
    return spans


def _kind_of(tag: str) -> str:
    """The kind that a tag other than `O` names; it may hold hyphens."""
    return tag.partition("-")[2]


def encode_spans(
    spans: Iterable[Span], num_words: int, encoding: str
) -> list[str]:
    """Makes the tags of a sentence with these spans, in one of `ENCODINGS`.

    >>> encode_spans([Span(0, 1, "NP"), Span(3, 3, "VP")], 4, "BIOES")
    ['B-NP', 'E-NP', 'O', 'S-VP']
    """
    tags = [OUTSIDE] * num_words
    for start, end, kind in spans:
        tags[start : end + 1] = [f"I-{kind}"] * (end + 1 - start)
        if "E" in encoding:
            tags[end] = f"E-{kind}"
        tags[start] = f"B-{kind}"
        if "S" in encoding and start == end:
            tags[start] = f"S-{kind}"
    return tags


def reencode(tags: Tags, encoding: str) -> list[str]:
    """Expresses the spans of a sentence in another encoding."""
    return encode_spans(find_spans(tags), len(tags), encoding)


def encode_tags(tags: Tags, has_spans: bool) -> Tags:
    """Returns the tags of a sentence as they are learned."""
    return reencode(tags, "BIOES") if has_spans else tags


def list_classes(tags: Iterable[Tags], has_spans: bool) -> tuple[str, ...]:
    """Lists the tags to learn that occur; sorted, as in the original."""
    return tuple(
        sorted({tag for row in tags for tag in encode_tags(row, has_spans)})
    )


def classes_of_labels(labels: Tags, has_spans: bool) -> tuple[str, ...]:
    """Lists the tags to learn where a user lists those that may occur."""
    if not has_spans:
        return tuple(labels)
    kinds = {_kind_of(tag) for tag in labels} - {""}
    tags = {f"{place}-{kind}" for kind in kinds for place in _PLACES}
    return tuple(sorted(tags | {OUTSIDE}))


def find_encoding(tags: Iterable[str]) -> str:
    """Returns `BIOES` if a tag of spans begins with `E` or `S`, or `BIO`."""
    return "BIOES" if any(tag[0] in "ES" for tag in tags) else "BIO"


def compute_span_scores(
    gold: Sequence[Tags], predicted: Sequence[PredictedTags]
) -> dict[str, float]:
    """Computes precision, recall and F1 of whole spans, as in the original.

    Both sides may have any encoding. All scores are 0 if no span is right.
    """
    num_right = num_predicted = num_gold = 0
    for tags, answers in zip(gold, _without_gaps(predicted), strict=True):
        right, found = set(find_spans(tags)), set(find_spans(answers))
        num_right += len(right & found)
        num_gold += len(right)
        num_predicted += len(found)
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
    if not is_right:
        raise ValueError("Accuracy needs at least one word. Received: none.")
    return 100 * sum(is_right) / len(is_right)


def compute_seqeval_scores(
    gold: Sequence[Tags], predicted: Sequence[PredictedTags]
) -> dict[str, float]:
    """Computes F1 of whole spans as the package seqeval counts them.

    `seqeval_f1` reads tags like the script `conlleval`; `seqeval_strict_f1`
    counts predicted spans only if their tags are well-formed `BIOES`.
    """
    answers = _without_gaps(predicted)
    encoded = [reencode(tags, "BIOES") for tags in gold]
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
