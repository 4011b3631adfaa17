"""Answers read off the outputs of the head.

A question's candidates are spans of all its windows. The best of them with
different texts are its n-best list (the original's `finetune/qa/qa_metrics.py`
gives the same ones).
"""

import dataclasses
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import numpy as np

from electra_tf import finetuning_config
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks.question_answering import final_text
from electra_tf.tasks.question_answering import records
from electra_tf.tasks.question_answering import windows as windows_lib

NO_ANSWER_FOUND = "empty"
"""The text where no candidate is a span of the document (the original's)."""

# The null odds of a document without a single piece (the original's).
_NO_WINDOW = 1_000_000.0

Outputs = Mapping[str, Sequence[np.ndarray]]


@dataclasses.dataclass(frozen=True)
class Predictions:
    """What is predicted for questions.

    Attributes:
        texts: id to the best answer, in the document's own text. Where
            questions may be unanswerable too: the null odds say whether it is
            to be believed.
        nbest: id to the best answers in order: `text`, `probability` among
            them, `start_logit`, `end_logit`, and `start` and `end`, the
            characters of the context where it begins and ends, or None.
        null_odds: id to a number that is high where there is no answer; empty
            where every question has one.
    """

    texts: dict[str, str]
    nbest: dict[str, list[dict[str, Any]]]
    null_odds: dict[str, float]


class Candidates(NamedTuple):
    """C spans of one question's document, best first."""

    first_pieces: np.ndarray  # [C] int64, pieces of the document
    last_pieces: np.ndarray  # [C] int64
    start_scores: np.ndarray  # [C] float32
    end_scores: np.ndarray  # [C] float32


_NONE = Candidates(
    np.zeros(0, np.int64),
    np.zeros(0, np.int64),
    np.zeros(0, np.float32),
    np.zeros(0, np.float32),
)


def decode(
    examples: Sequence[records.Example],
    rows: rows_lib.Rows,
    outputs: Outputs,
    settings: finetuning_config.QuestionAnsweringConfig,
    has_unanswerable: bool,
) -> Predictions:
    """The predictions for questions.

    Args:
        examples: N questions.
        rows: of them, as `windows.build_windows` makes them.
        outputs: of `QuestionAnsweringHead.predict`, for each row.
        settings: how the head was built, and what counts as an answer.
        has_unanswerable: whether questions may be unanswerable.
    """
    windows: windows_lib.Windows = rows.details
    texts = _SpanTexts(windows)
    predictions = Predictions({}, {}, {})
    for number, example in enumerate(examples):
        candidates = find_candidates(number, windows, outputs, settings)
        nbest = _list_best(
            windows.document_of_example[number],
            candidates,
            texts,
            settings.n_best_size,
        )
        best = next((e for e in nbest if e["text"]), nbest[0])
        predictions.nbest[example.id] = nbest
        predictions.texts[example.id] = nbest[0]["text"]
        if has_unanswerable:
            predictions.texts[example.id] = best["text"]
            own = range(*windows.row_splits[number : number + 2])
            predictions.null_odds[example.id] = _compute_null_odds(
                own, outputs, best
            )
    return predictions


def find_candidates(
    number: int,
    windows: windows_lib.Windows,
    outputs: Outputs,
    settings: finetuning_config.QuestionAnsweringConfig,
) -> Candidates:
    """The spans that may answer a question, best first.

    They lie in the document, are no longer than allowed, and begin in the
    window in which their first piece has most context. The score is the sum of
    both scores in float32; equals stay in the order of windows, starts, ends.

    Args:
        number: of the question.
        windows: of all questions.
        outputs: of the head, for each row.
        settings: as for `decode`.
    """
    parts = [_NONE]
    first_row, end_row = windows.row_splits[number : number + 2]
    for row in range(first_row, end_row):
        spans = _spans_of_row(row, outputs, settings)
        parts.append(
            _keep_valid(
                spans,
                number,
                row - first_row,
                windows,
                settings.max_answer_length,
            )
        )
    joined = Candidates(*map(np.concatenate, zip(*parts, strict=True)))
    scores = joined.start_scores + joined.end_scores
    order = np.argsort(-scores, kind="stable")
    return Candidates(*(array[order] for array in joined))


def _keep_valid(
    spans: Candidates,
    number: int,
    window: int,
    windows: windows_lib.Windows,
    max_answer_length: int,
) -> Candidates:
    """Those of a window's spans that count, as pieces of the document."""
    begin = window * windows.strides[number]
    length = min(
        windows.rooms[number], windows.num_document_pieces[number] - begin
    )
    shift = windows.num_question_pieces[number] + 2
    first, last = spans.first_pieces - shift, spans.last_pieces - shift
    is_valid = (
        (first >= 0)
        & (last < length)
        & (last >= first)
        & (last - first < max_answer_length)
    )
    if windows.num_windows[number] > 1:
        chosen = np.flatnonzero(is_valid)
        is_valid[chosen] = windows.is_max_context(
            np.full(len(chosen), number),
            np.full(len(chosen), window),
            begin + first[chosen],
        )
    shifted = (begin + first, begin + last, *spans[2:])
    return Candidates(*(array[is_valid] for array in shifted))


def _spans_of_row(
    row: int,
    outputs: Outputs,
    settings: finetuning_config.QuestionAnsweringConfig,
) -> Candidates:
    """All pairs of good starts and ends; positions are those in the row."""
    if settings.joint_prediction:
        ends = np.asarray(outputs["end_top_index"][row], np.int64)
        starts = np.asarray(outputs["start_top_index"][row], np.int64)
        start_scores = outputs["start_top_log_probs"][row]
        end_scores = np.asarray(outputs["end_top_log_probs"][row])
    else:
        start_logits = np.asarray(outputs["start_logits"][row])
        end_logits = np.asarray(outputs["end_logits"][row])
        starts = _find_best(start_logits, settings.n_best_size)
        ends = _find_best(end_logits, settings.n_best_size)[np.newaxis]
        start_scores, end_scores = start_logits[starts], end_logits[ends]
    arrays = (starts[:, np.newaxis], ends,
              np.asarray(start_scores)[:, np.newaxis], end_scores)  # fmt: skip
    return Candidates(
        *(array.ravel() for array in np.broadcast_arrays(*arrays))
    )


def _find_best(logits: np.ndarray, count: int) -> np.ndarray:
    """Positions of the largest logits, the first of equals first."""
    return np.argsort(-logits, kind="stable")[:count]


def _list_best(
    document: int,
    candidates: Candidates,
    texts: "_SpanTexts",
    n_best_size: int,
) -> list[dict[str, Any]]:
    """The best candidates with different texts."""
    entries: list[dict[str, Any]] = []
    seen: set[str] = set()
    for first, last, start_score, end_score in zip(
        *(array.tolist() for array in candidates), strict=True
    ):
        if len(entries) == n_best_size:
            break
        text, start, end = texts.find(document, first, last)
        if text not in seen:
            seen.add(text)
            entries.append(_entry(text, start_score, end_score, start, end))
    if not entries:
        entries = [_entry(NO_ANSWER_FOUND, 0.0, 0.0, None, None)]
    scores = np.array(
        [entry["start_logit"] + entry["end_logit"] for entry in entries],
        np.float32,
    )
    weights = np.exp(scores - scores.max())
    for entry, share in zip(entries, weights / weights.sum(), strict=True):
        entry["probability"] = float(share)
    return entries


def _entry(
    text: str,
    start_score: float,
    end_score: float,
    start: int | None,
    end: int | None,
) -> dict[str, Any]:
    return {
        "text": text,
        "probability": 1.0,
        "start_logit": start_score,
        "end_logit": end_score,
        "start": start,
        "end": end,
    }


def _compute_null_odds(
    rows: range, outputs: Outputs, best: Mapping[str, Any]
) -> float:
    """The least over the windows; high where there is no answer.

    Without a classifier: how far the logits of [CLS] are above the best
    answer. In joint mode there is no end logit of [CLS], and the answer's
    scores are log probabilities, as in the original.
    """
    if "answerable_logit" in outputs:
        odds = [np.float32(outputs["answerable_logit"][row]) for row in rows]
        return float(min(odds, default=_NO_WINDOW))
    scores = [outputs["start_logits"][row][0] for row in rows]
    if "end_logits" in outputs:
        scores = [
            score + outputs["end_logits"][row][0]
            for score, row in zip(scores, rows, strict=True)
        ]
    # One float32 after the other, as the reference subtracts.
    null_score = np.float32(min(scores, default=_NO_WINDOW))
    difference = null_score - np.float32(best["start_logit"])
    return float(difference - np.float32(best["end_logit"]))


class _SpanTexts:
    """Texts of spans, each made once: questions share their documents."""

    def __init__(self, windows: windows_lib.Windows) -> None:
        self._documents = windows.documents
        self._tokens = windows.vocabulary.tokens
        self._normalized = final_text.normalize(
            windows.documents.distinct_words, windows.vocabulary.settings
        )
        self._found: dict[tuple[int, int, int], tuple[str, int, int]] = {}

    def find(
        self, document: int, first: int, last: int
    ) -> tuple[str, int, int]:
        """Text, first character and the one after the last of a span."""
        key = (int(document), first, last)
        if key not in self._found:
            self._found[key] = self._project(*key)
        return self._found[key]

    def _project(
        self, document: int, first: int, last: int
    ) -> tuple[str, int, int]:
        documents = self._documents
        pieces = documents.pieces[document][first : last + 1]
        predicted = final_text.join_pieces([self._tokens[p] for p in pieces])
        word_of_piece = documents.word_of_piece[document]
        words = range(word_of_piece[first], word_of_piece[last] + 1)
        ids = documents.words[document][words.start : words.stop]
        originals = [documents.distinct_words[word] for word in ids]
        original = " ".join(originals)
        normalized = " ".join(
            self._normalized[word] for word in ids if self._normalized[word]
        )
        start, end = final_text.project(predicted, normalized, original) or (
            0,
            len(original),
        )
        starts = documents.word_starts[document][words.start : words.stop]
        return (
            original[start:end],
            _find_character(start, originals, starts.tolist()),
            _find_character(end - 1, originals, starts.tolist()) + 1,
        )


def _find_character(
    place: int, words: Sequence[str], starts: Sequence[int]
) -> int:
    """Where in the context a character of joined words stands.

    Words may be further apart there than the one blank they are joined by.
    """
    for word, start in zip(words, starts, strict=True):
        if place < len(word):
            return start + place
        place -= len(word) + 1
    raise IndexError(f"no character {place} in words joined by blanks")
