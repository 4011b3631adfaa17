"""An exported reader: the part of a raw context that answers a question."""

from typing import Any

import tensorflow as tf

from electra_tf.export import signature_module
from electra_tf.export import signatures
from electra_tf.export.compute import row_groups
from electra_tf.export.finetuned import module
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks.question_answering import questions as questions_lib
from electra_tf.tasks.question_answering import spans as spans_lib

# What is read of each window: fields of `Spans`, and the null odds.
_PART_DTYPES = {
    "firsts": tf.int64,
    "lasts": tf.int64,
    "scores": tf.float32,
    "is_found": tf.bool,
    "odds": tf.float32,
}

Tensors = dict[str, tf.Tensor]


class AnsweringModule(module.FinetunedModule):
    """Answers as spans of contexts of any length.

    Args:
        *args, **kwargs: as of every module.

    Raises:
        ValueError: if a window of that length leaves no room for a context
            beside the longest question.
    """

    kind = "question_answering"
    min_length = 3
    signature_names = ("answer_text", "answer_ids")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        settings = self.task.settings
        taken = settings.max_query_length + questions_lib.NUM_SPECIAL
        if self.max_length <= taken:
            raise ValueError(
                "Windows must have room for a context beside a question of "
                f"{settings.max_query_length} pieces, so more than {taken} "
                f"tokens. Received: {self.max_length}. Give a larger "
                "--max_length."
            )
        self._settings = settings
        self._finder = spans_lib.SpanFinder(self.tokenizer)

    def answer_text(self, **inputs: tf.Tensor) -> Tensors:
        """Answers, for `questions` and `contexts`."""
        questions, texts = inputs["questions"], inputs["contexts"]
        check = signature_module.require_equal_shapes(
            "contexts", texts, "questions", questions
        )
        with tf.control_dependencies([check]):
            texts = tf.identity(texts)
        contexts = questions_lib.build_contexts(self.tokenizer, texts)
        pieces = contexts.ids
        asked = self.tokenizer.tokenize(questions)
        settings = self._settings
        rows = questions_lib.lay_out(
            self.tokenizer.vocabulary,
            asked,
            pieces,
            tf.range(tf.size(texts, tf.int64)),
            self.max_length,
            settings.max_query_length,
            settings.doc_stride,
        )
        windows = rows.windows
        found, odds = self._read_windows(rows)
        best = spans_lib.choose_windows(found.scores, windows.splits)
        chosen = spans_lib.Spans(*(tf.gather(v, best) for v in found))
        begins = tf.gather(windows.starts, best)
        places = self._finder.find(
            texts,
            contexts,
            begins + chosen.firsts,
            begins + chosen.lasts,
            chosen.is_found,
        )
        has_pieces = windows.totals > 0
        num_cut = asked.row_lengths() - settings.max_query_length
        return {
            "answers": places.texts,
            "answer_starts": places.starts,
            "answer_ends": places.ends,
            "answer_byte_starts": places.byte_starts,
            "answer_byte_ends": places.byte_ends,
            "answer_scores": _scores_of(chosen),
            "null_odds": tf.where(
                has_pieces,
                self._combine_odds(odds, windows.splits, chosen),
                signatures.NO_CONTEXT_ODDS,
            ),
            "num_windows": tf.where(
                has_pieces, tf.cast(windows.counts, tf.int32), 0
            ),
            "num_question_truncated": tf.cast(tf.maximum(num_cut, 0), tf.int32),
        }

    def answer_ids(self, **inputs: tf.Tensor) -> Tensors:
        """Answers for rows of ids, each a window by itself."""
        ids, mask, segments = self.check_ids(**inputs)
        is_document = tf.cast(mask * segments > 0, tf.int64)
        # A row without tokens has a first one too.
        shifts = tf.argmax(tf.pad(is_document, [[0, 0], [0, 1]]), axis=1)
        # Less [SEP].
        lengths = tf.reduce_sum(is_document, 1) - 1
        outputs = self.predict(ids, mask, segments)
        candidates, is_valid = self._list_valid(outputs, shifts, lengths)
        found = spans_lib.find_best(candidates, is_valid)
        odds = spans_lib.compute_null_odds(outputs)
        splits = tf.range(tf.size(odds, tf.int64) + 1)
        return {
            "start_positions": _to_positions(found.firsts + shifts, found),
            "end_positions": _to_positions(found.lasts + shifts, found),
            "answer_scores": _scores_of(found),
            "null_odds": self._combine_odds(odds, splits, found),
        }

    def _list_valid(
        self, outputs: Tensors, shifts: tf.Tensor, lengths: tf.Tensor
    ) -> tuple[spans_lib.Candidates, tf.Tensor]:
        candidates = spans_lib.list_candidates(
            outputs, shifts, self._settings.n_best_size
        )
        return candidates, spans_lib.are_valid(
            candidates, lengths, self._settings.max_answer_length
        )

    def _combine_odds(
        self, odds: tf.Tensor, splits: tf.Tensor, best: spans_lib.Spans
    ) -> tf.Tensor:
        """Null odds of questions, `[B]`, from those of their windows."""
        ragged = tf.RaggedTensor.from_row_splits(odds, splits, validate=False)
        least = tf.reduce_min(ragged.to_tensor(tf.float32.max), axis=1)
        if self._settings.answerable_classifier:
            return least
        # An answer that is not found has no scores to subtract.
        return least - tf.where(best.is_found, best.scores, 0.0)

    def _read_windows(
        self, rows: questions_lib.QuestionRows
    ) -> tuple[spans_lib.Spans, tf.Tensor]:
        """Best spans and null odds of all windows, in groups."""
        pad_id = self.tokenizer.vocabulary.pad_id
        padded = rows_lib.pad(rows.ids, rows.shifts, pad_id=pad_id)
        count = tf.size(rows.shifts)

        def read_group(group: row_groups.Rows) -> Tensors:
            outputs = self.predict(*map(group.cut, padded))
            candidates, is_valid = self._list_valid(
                outputs,
                group.pick(rows.shifts),
                group.pick(rows.windows.lengths),
            )
            is_valid &= spans_lib.have_most_context(
                candidates, rows.windows, group.pick(tf.range(count))
            )[:, :, tf.newaxis]
            found = spans_lib.find_best(candidates, is_valid)
            odds = spans_lib.compute_null_odds(outputs)
            return found._asdict() | {"odds": odds}

        read = self.read_in_groups(
            read_group,
            row_groups.count_columns(padded[1]),
            tf.shape(padded[0])[1],
            {
                name: row_groups.Output(dtype)
                for name, dtype in _PART_DTYPES.items()
            },
        )
        odds = read.pop("odds")
        return spans_lib.Spans(**read), odds


def _scores_of(found: spans_lib.Spans) -> tf.Tensor:
    return tf.where(found.is_found, found.scores, signatures.NO_ANSWER_SCORE)


def _to_positions(places: tf.Tensor, found: spans_lib.Spans) -> tf.Tensor:
    return tf.where(found.is_found, tf.cast(places, tf.int32), 0)
