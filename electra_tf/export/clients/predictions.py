"""What fine-tuned models say of raw text: as objects, and as lines for people.

A kind of task has a class here, and two functions in `_KINDS`: one reads a row
of its signature's outputs, the other shows it below its texts.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.special

from electra_tf.export import export_metadata
from electra_tf.export.clients import display
from electra_tf.export.clients import text_models
from electra_tf.tasks.tagging import spans as spans_lib

# The most probable labels of a text that are shown.
_MAX_LABELS = 5
# What is shown of a context on either side of its answer, in characters.
_MAX_CONTEXT = 200

_Metadata = export_metadata.ExportMetadata
_Row = Mapping[str, Any]
_Texts = tuple[bytes, ...]


@dataclasses.dataclass(frozen=True)
class LabelPrediction:
    """The label of a text, or of a pair of texts."""

    label: str  # the most probable one
    probabilities: Mapping[str, float]  # of all labels, most probable first
    num_truncated: int  # pieces of text that did not fit, and were not seen


@dataclasses.dataclass(frozen=True)
class LabelsPrediction:
    """All labels of a text, or of a pair of texts."""

    labels: tuple[str, ...]  # as probable as the threshold, or more
    probabilities: Mapping[str, float]  # of each by itself, highest first
    num_truncated: int  # as in `LabelPrediction`


@dataclasses.dataclass(frozen=True)
class ComparisonPrediction:
    """How well a second text goes with a first one, a question or query."""

    score: float  # a logit, to be compared with those of other second texts
    num_truncated: int  # as in `LabelPrediction`


@dataclasses.dataclass(frozen=True)
class NumberPrediction:
    """The number of a text, or of a pair of texts."""

    value: float  # in the unit of the training data; may be out of its range
    num_truncated: int  # as in `LabelPrediction`


class TaggedText(NamedTuple):
    """A word or a span of words, `text[start:end]` in characters."""

    text: str
    start: int
    end: int
    tag: str  # of a span its kind: `PER` of the tags `B-PER` and `I-PER`
    probability: float  # of the tag, of a span the lowest; 0 if not seen


@dataclasses.dataclass(frozen=True)
class TagPrediction:
    """The words of a text with their tags, and the spans that these mark."""

    words: tuple[TaggedText, ...]
    spans: tuple[TaggedText, ...]  # none where tags do not mark spans
    num_truncated: int  # as in `LabelPrediction`


@dataclasses.dataclass(frozen=True)
class AnswerPrediction:
    """The part of a context that answers a question best.

    There is nearly always one, even if the context does not answer; then
    `null_odds` exceed the threshold that was best on the development data, or
    `qa.qa_na_threshold` where no scores are known, and nothing is answerable.
    """

    text: str  # `context[start:end]`; empty if there is none at all
    start: int
    end: int
    score: float  # log probabilities, or logits, of start and end, added up
    null_odds: float  # the higher, the less answerable the question
    is_answerable: bool


Prediction = (
    LabelPrediction
    | LabelsPrediction
    | ComparisonPrediction
    | NumberPrediction
    | TagPrediction
    | AnswerPrediction
)


def _rank_labels(about: _Metadata, row: _Row) -> dict[str, float]:
    shares = zip(about.labels or (), row["probabilities"].tolist(), strict=True)
    return dict(sorted(shares, key=lambda pair: -pair[1]))


def _read_label(about: _Metadata, _: _Texts, row: _Row) -> LabelPrediction:
    ranked = _rank_labels(about, row)
    best = next(iter(ranked))
    return LabelPrediction(best, ranked, int(row["num_truncated"]))


def _read_labels(about: _Metadata, _: _Texts, row: _Row) -> LabelsPrediction:
    ranked = _rank_labels(about, row)
    least = about.threshold or 0.0
    labels = tuple(label for label, share in ranked.items() if share >= least)
    return LabelsPrediction(labels, ranked, int(row["num_truncated"]))


def _read_comparison(_: Any, __: Any, row: _Row) -> ComparisonPrediction:
    score = float(row["choice_score"])
    return ComparisonPrediction(score, int(row["num_truncated"]))


def _show_labels(
    found: LabelPrediction | LabelsPrediction, about: _Metadata, *_: Any
) -> list[str]:
    held = getattr(found, "labels", ())
    shown = list(found.probabilities.items())[: max(_MAX_LABELS, len(held))]
    width = max(len(label) for label, _ in shown)
    lines = []
    for label, share in shown:
        mark = f" <-- {about.threshold:g} or more" if label in held else ""
        line = f"{label:{width}}  {share:.3f}  {display.bar(share)}"
        lines.append(line.rstrip() + mark)
    if about.threshold is not None and not held:
        lines.append(f"(none of {about.threshold:g} or more)")
    return lines


def _read_number(_: _Metadata, __: _Texts, row: _Row) -> NumberPrediction:
    return NumberPrediction(float(row["score"]), int(row["num_truncated"]))


def _show_number(
    found: NumberPrediction, about: _Metadata, *_: Any
) -> list[str]:
    span = f"{about.min_value:g} to {about.max_value:g}"
    return [f"{found.value:.3f} (trained on {span})"]


def _read_tags(about: _Metadata, texts: _Texts, row: _Row) -> TagPrediction:
    # A character begins with each byte but 10xxxxxx.
    begins = np.frombuffer(texts[0], np.uint8) & 0xC0 != 0x80
    place_of = np.concatenate([[0], np.cumsum(begins)])
    columns = (
        [word.decode("utf-8", "replace") for word in row["words"]],
        place_of[row["tagged_starts"]].tolist(),
        place_of[row["tagged_ends"]].tolist(),
        [tag.decode() for tag in row["tags"]],
        row["tag_probabilities"].tolist(),
    )
    words = [TaggedText(*word) for word in zip(*columns, strict=True)]
    words, spans = words[: int(row["num_words"])], []
    if spans_lib.mark_spans(about.labels or ()):
        text = texts[0].decode("utf-8", "replace")
        tags = [word.tag for word in words]
        # Where the kind changes, every scheme begins another span.
        for first, last, kind in spans_lib.find_spans(tags, spans_lib.IOB1):
            start, end = words[first].start, words[last].end
            least = min(w.probability for w in words[first : last + 1])
            spans.append(TaggedText(text[start:end], start, end, kind, least))
    return TagPrediction(tuple(words), tuple(spans), int(row["num_truncated"]))


def _show_tags(found: TagPrediction, *_: Any) -> list[str]:
    words = [display.printable(word.text) for word in found.words]
    width = max(map(len, words), default=0)
    return [
        f"{text:{width}}  {word.tag:8}  {word.probability:.3f}"
        for text, word in zip(words, found.words, strict=True)
    ]


def _read_answer(about: _Metadata, _: _Texts, row: _Row) -> AnswerPrediction:
    text = bytes(row["answers"]).decode("utf-8", "replace")
    places = int(row["answer_starts"]), int(row["answer_ends"])
    score, odds = float(row["answer_scores"]), float(row["null_odds"])
    dev = next(iter((about.scores or {}).values()), {})
    most = dev.get("best_f1_thresh", about.qa_na_threshold or 0.0)
    is_answerable = bool(text) and odds <= most
    return AnswerPrediction(text, *places, score, odds, is_answerable)


def _show_answer(
    found: AnswerPrediction, _: _Metadata, texts: _Texts
) -> list[str]:
    context = texts[1].decode("utf-8", "replace")
    before = context[max(found.start - _MAX_CONTEXT, 0) : found.start]
    answer = found.text.join(display.MARKS) if found.text else ""
    after = context[found.end : found.end + _MAX_CONTEXT]
    doubt = "" if found.is_answerable else ", taken for no answer"
    return [
        display.printable(found.text) or "(none)",
        f"characters {found.start} to {found.end}, score {found.score:.3f}, "
        f"null odds {found.null_odds:.3f}{doubt}",
        display.printable(f"{before}{answer}{after}"),
    ]


# What is compared is shown by `_describe_comparisons`.
_COMPARED = ("multiple_choice", "ranking")
_KINDS: dict[str, tuple[Callable[..., Prediction], Callable[..., Any]]] = {
    "classification": (_read_label, _show_labels),
    "multilabel": (_read_labels, _show_labels),
    **dict.fromkeys(_COMPARED, (_read_comparison, lambda *_: [])),
    "regression": (_read_number, _show_number),
    "tagging": (_read_tags, _show_tags),
    "question_answering": (_read_answer, _show_answer),
}


def predict(
    model: text_models.TextModel,
    metadata: export_metadata.ExportMetadata,
    inputs: Mapping[str, Iterable[str] | None],
) -> Iterator[tuple[tuple[bytes, ...], Prediction]]:
    """Answers for texts by the names of inputs of the model's first signature.

    A single text of one input counts for all rows, as one context for many
    questions. Raises `ValueError` if the model takes other inputs.

    Yields:
        The texts in UTF-8 and what the model says of them, in their order.
    """
    signature = metadata.signatures[0]
    wanted = export_metadata.SIGNATURES[signature].inputs
    given = {n: list(texts) for n, texts in inputs.items() if texts is not None}
    sizes = {len(texts) for texts in given.values()} - {1} or {1}
    if set(given) != set(wanted) or len(sizes) > 1:
        names = " and ".join(f"{name} (--{name[:-1]})" for name in wanted)
        listed = " and ".join(f"{len(v)} {k}" for k, v in given.items())
        raise ValueError(
            f"This model answers {names.replace('text_pairs', 'pairs')}, as "
            "many of all, or one. Received: "
            f"{listed.replace('text_', '') or 'nothing'}. Give just these."
        )
    (count,) = sizes
    columns = {
        name: given[name] * (count if len(given[name]) == 1 else 1)
        for name in wanted
    }
    for texts, row in model.predict(signature, **columns):
        yield texts, _KINDS[metadata.kind][0](metadata, texts, row)


def describe(
    export: text_models.LoadedExport, inputs: Mapping[str, Iterable[str]]
) -> Iterator[str]:
    """Describes the answers of a fine-tuned export, a string for each row.

    Inputs are those of `predict`; empty ones count as not given.
    """
    metadata = export.metadata
    if metadata is None or metadata.kind not in _KINDS:
        raise ValueError(
            "The SavedModel must be of a fine-tuned model: its export.json "
            f"says of {', '.join(_KINDS)}. Received: {export.folder}, of "
            f"{metadata.kind if metadata else 'nothing'}. "
            "electra-score is for pre-trained ones."
        )
    given = {name: texts or None for name, texts in inputs.items()}
    rows = predict(export, metadata, given)
    if metadata.kind in _COMPARED:
        yield from _describe_comparisons(rows)
        return
    for texts, prediction in rows:
        heading = [display.printable(text) for text in texts]
        # Of a question and its context the latter is shown with the answer.
        if metadata.kind == "question_answering":
            heading = heading[:1]
        lines = _KINDS[metadata.kind][1](prediction, metadata, texts)
        yield "\n".join([*heading, *(f"  {line}" for line in lines)])


def _describe_comparisons(rows: Iterator[Any]) -> Iterator[str]:
    """The texts that follow each other with one first text, best first."""
    for query, own in itertools.groupby(rows, key=lambda item: item[0][0]):
        pairs, found = zip(*own, strict=True)
        scores = np.array([prediction.score for prediction in found])
        shares = scipy.special.softmax(scores)
        lines = [
            f"  {shares[place]:.3f}  {scores[place]:8.3f}  "
            f"{display.printable(pairs[place][1])}"
            for place in np.argsort(-scores, kind="stable")
        ]
        yield "\n".join([display.printable(query), *lines])
