"""Signatures and predictions of an exported question-answering model."""

import dataclasses
from typing import Any

import tensorflow as tf

from electra_tf.tasks import base
from electra_tf.tasks.question_answering import questions as questions_lib
from electra_tf.tasks.question_answering import spans as spans_lib

NO_ANSWER_SCORE = -10000.0
"""The score if a context has no candidate for an answer."""


@dataclasses.dataclass(frozen=True)
class AnswerPrediction:
    """The part of a context that answers a question best.

    Nearly every context has such a part, also if the question is unanswerable:
    see `is_answerable`.
    """

    text: str  # `context[start:end]`
    start: int
    end: int
    score: float  # sum of the log probabilities (or logits) of start and end
    null_odds: float  # the higher, the less answerable the question
    # Whether `null_odds` are at most the threshold that was best on the dev
    # data, or `qa.qa_na_threshold` if the model has no scores
    is_answerable: bool


class AnsweringSignatures(tf.Module):
    """The signatures of an exported model; contexts have any length."""

    def __init__(self, model: Any, settings: questions_lib.Settings) -> None:
        super().__init__()
        self._model = model
        self._settings = settings
        longest = settings.max_query_length
        taken = longest + questions_lib.NUM_SPECIAL
        if model.max_length <= taken:
            raise ValueError(
                "Windows must have room for a context beside a question of "
                f"{longest} pieces, so more than {taken} tokens. Received: "
                f"{model.max_length}. Give a larger --max_length."
            )

    def answer_text(
        self, questions: tf.Tensor, contexts: tf.Tensor
    ) -> base.Tensors:
        """Answers `[B]` questions from `[B]` contexts."""
        model = self._model
        questions, texts = model.check_pairs(
            questions=questions, contexts=contexts
        )
        pieces = questions_lib.build_contexts(model.tokenizer, texts)
        asked = model.tokenizer.tokenize(questions)
        rows = questions_lib.lay_out(
            model.tokenizer.vocabulary,
            asked,
            pieces.ids,
            tf.range(tf.size(texts, tf.int64)),
            model.max_length,
            self._settings,
        )
        windows = rows.windows
        spans, odds = self._read_windows(rows)
        best = spans_lib.choose_windows(spans.scores, windows.splits)
        chosen = spans_lib.Spans(*(tf.gather(v, best) for v in spans))
        begins = tf.gather(windows.starts, best)
        first, last = begins + chosen.firsts, begins + chosen.lasts
        places = spans_lib.find_places(
            model.tokenizer, texts, first, last, chosen.is_found
        )
        odds = self._combine_odds(odds, windows.splits, chosen)
        has_pieces = windows.totals > 0
        num_windows = tf.where(has_pieces, windows.counts, 0)
        num_cut = asked.row_lengths() - self._settings.max_query_length
        return {
            "answers": places.texts,
            "answer_starts": places.starts,
            "answer_ends": places.ends,
            "answer_byte_starts": places.byte_starts,
            "answer_byte_ends": places.byte_ends,
            "answer_scores": _scores_of(chosen),
            "null_odds": tf.where(has_pieces, odds, spans_lib.NO_CONTEXT_ODDS),
            "num_windows": tf.cast(num_windows, tf.int32),
            "num_question_truncated": tf.cast(tf.maximum(num_cut, 0), tf.int32),
        }

    def answer_ids(self, **inputs: tf.Tensor) -> base.Tensors:
        """Answers questions given as rows of ids, one window each."""
        ids, mask, segments = self._model.check_ids(**inputs)
        is_document = tf.cast(mask * segments > 0, tf.int64)
        # Padded, because `argmax` needs a column.
        shifts = tf.argmax(tf.pad(is_document, [[0, 0], [0, 1]]), axis=1)
        lengths = tf.reduce_sum(is_document, 1) - 1  # without [SEP]
        outputs = self._model.apply_head(ids, mask, segments)
        spans = spans_lib.find_best(
            *spans_lib.list_candidates(outputs, shifts, lengths, self._settings)
        )
        odds = spans_lib.compute_null_odds(outputs)
        splits = tf.range(tf.size(odds, tf.int64) + 1)
        first, last = (
            tf.where(spans.is_found, tf.cast(places + shifts, tf.int32), 0)
            for places in (spans.firsts, spans.lasts)
        )
        return {
            "start_positions": first,
            "end_positions": last,
            "answer_scores": _scores_of(spans),
            "null_odds": self._combine_odds(odds, splits, spans),
        }

    def _combine_odds(
        self, odds: tf.Tensor, splits: tf.Tensor, best: spans_lib.Spans
    ) -> tf.Tensor:
        ragged = tf.RaggedTensor.from_row_splits(odds, splits, validate=False)
        least = tf.reduce_min(ragged.to_tensor(tf.float32.max), axis=1)
        if self._settings.answerable_classifier:
            return least
        # Without an answer there is no score to subtract.
        return least - tf.where(best.is_found, best.scores, 0.0)

    def _read_windows(
        self, rows: questions_lib.QuestionRows
    ) -> tuple[spans_lib.Spans, tf.Tensor]:
        padded = self._model.pad(rows.ids, rows.shifts)
        numbers = tf.range(tf.size(rows.shifts))

        def compute_rows(chosen: Any) -> base.Tensors:
            outputs = self._model.apply_head(*map(chosen.trim, padded))
            shifts, lengths = map(
                chosen.pick, (rows.shifts, rows.windows.lengths)
            )
            candidates, is_valid = spans_lib.list_candidates(
                outputs, shifts, lengths, self._settings
            )
            is_valid &= spans_lib.have_most_context(
                candidates, rows.windows, chosen.pick(numbers)
            )[:, :, tf.newaxis]
            spans = spans_lib.find_best(candidates, is_valid)
            odds = spans_lib.compute_null_odds(outputs)
            return spans._asdict() | {"odds": odds}

        computed = self._model.compute_in_buckets(compute_rows, padded[1])
        odds = computed.pop("odds")
        return spans_lib.Spans(**computed), odds


def _scores_of(spans: spans_lib.Spans) -> tf.Tensor:
    return tf.where(spans.is_found, spans.scores, NO_ANSWER_SCORE)
