"""An exported reader: the part of a raw context that answers a question."""

import tensorflow as tf

from electra_tf import finetuning_config
from electra_tf.export import finetuned_module
from electra_tf.export import finetuned_offsets
from electra_tf.export import finetuned_spans
from electra_tf.export import finetuned_windows
from electra_tf.export import row_groups
from electra_tf.export import signature_module
from electra_tf.export import signatures
from electra_tf.text import tokenizer as tokenizer_lib

# What is read of each window: fields of `Spans`, and the null odds.
_PART_DTYPES = {
    "firsts": tf.int64,
    "lasts": tf.int64,
    "scores": tf.float32,
    "is_found": tf.bool,
    "odds": tf.float32,
}

Tensors = dict[str, tf.Tensor]


class AnsweringModule(finetuned_module.FinetunedModule):
    """Answers as spans of contexts of any length.

    Args:
        layers: of the task.
        tokenizer: of the vocabulary that it was trained with.
        settings: windows and decoding, as it was trained.
        max_length: most tokens of a window; 0 for the model's positions.

    Raises:
        ValueError: if a window of that length leaves no room for a context
            beside the longest question.
    """

    kind = "question_answering"
    signature_names = ("answer_text", "answer_ids")

    def __init__(
        self,
        layers: finetuned_module.FinetunedLayers,
        tokenizer: tokenizer_lib.Tokenizer,
        settings: finetuning_config.QuestionAnsweringConfig,
        max_length: int = 0,
    ) -> None:
        super().__init__(layers, tokenizer, max_length)
        taken = settings.max_query_length + finetuned_windows.NUM_SPECIAL
        if self.max_length <= taken:
            raise ValueError(
                "Windows must have room for a context beside a question of "
                f"{settings.max_query_length} pieces, so more than {taken} "
                f"tokens. Received: {self.max_length}. Give a larger "
                "--max_length."
            )
        self._settings = settings
        self._finder = finetuned_offsets.SpanFinder(tokenizer)

    def answer_text(self, **inputs: tf.Tensor) -> Tensors:
        """Answers, for `questions` and `contexts`."""
        questions, contexts = inputs["questions"], inputs["contexts"]
        check = signature_module.require_equal_shapes(
            "contexts", contexts, "questions", questions
        )
        with tf.control_dependencies([check]):
            contexts = tf.identity(contexts)
        pieces = self._finder.tokenize(contexts)
        windows = finetuned_windows.build_windows(
            self.tokenizer,
            questions,
            pieces.ids,
            self.max_length,
            self._settings.max_query_length,
            self._settings.doc_stride,
        )
        spans, odds = self._read_windows(windows)
        best = finetuned_spans.choose_windows(spans.scores, windows.splits)
        chosen = finetuned_spans.Spans(*(tf.gather(v, best) for v in spans))
        begins = tf.gather(windows.extents.starts, best)
        found = self._finder.find(
            contexts,
            pieces,
            begins + chosen.firsts,
            begins + chosen.lasts,
            chosen.is_found,
        )
        has_pieces = pieces.ids.row_lengths() > 0
        num_windows = windows.splits[1:] - windows.splits[:-1]
        return {
            "answers": found.texts,
            "answer_starts": found.starts,
            "answer_ends": found.ends,
            "answer_byte_starts": found.byte_starts,
            "answer_byte_ends": found.byte_ends,
            "answer_scores": chosen.scores,
            "null_odds": tf.where(
                has_pieces,
                self._combine_odds(odds, windows.splits, chosen),
                signatures.NO_CONTEXT_ODDS,
            ),
            "num_windows": tf.where(
                has_pieces, tf.cast(num_windows, tf.int32), 0
            ),
            "num_question_truncated": tf.cast(windows.num_truncated, tf.int32),
        }

    def answer_ids(self, **inputs: tf.Tensor) -> Tensors:
        """Answers for rows of ids, each a window by itself."""
        ids, mask, segments = self.check_ids(**inputs)
        is_document = tf.cast(mask * segments > 0, tf.int64)
        # A row without tokens has a first one too.
        shifts = tf.argmax(tf.pad(is_document, [[0, 0], [0, 1]]), axis=1)
        outputs = self.predict(ids, mask, segments)
        spans = finetuned_spans.find_best(
            finetuned_spans.list_candidates(
                outputs, shifts, self._settings.n_best_size
            ),
            # Less [SEP].
            tf.reduce_sum(is_document, 1) - 1,
            self._settings.max_answer_length,
        )
        odds = finetuned_spans.compute_null_odds(outputs)
        splits = tf.range(tf.size(odds, tf.int64) + 1)
        return {
            "start_positions": _to_positions(spans.firsts + shifts, spans),
            "end_positions": _to_positions(spans.lasts + shifts, spans),
            "answer_scores": spans.scores,
            "null_odds": self._combine_odds(odds, splits, spans),
        }

    def _combine_odds(
        self, odds: tf.Tensor, splits: tf.Tensor, best: finetuned_spans.Spans
    ) -> tf.Tensor:
        """Null odds of questions, `[B]`, from those of their windows."""
        ragged = tf.RaggedTensor.from_row_splits(odds, splits, validate=False)
        least = tf.reduce_min(ragged.to_tensor(tf.float32.max), axis=1)
        if self._layers.head.answerable_classifier:
            return least
        # An answer that is not found has no scores to subtract.
        return least - tf.where(best.is_found, best.scores, 0.0)

    def _read_windows(
        self, windows: finetuned_windows.Windows
    ) -> tuple[finetuned_spans.Spans, tf.Tensor]:
        """Best spans and null odds of all windows, in groups."""
        rows = windows.rows
        read = self.read_in_groups(
            lambda group: self._read_part(windows, group),
            row_groups.count_columns(rows.input_mask),
            tf.shape(rows.input_ids)[1],
            {
                name: row_groups.Output(dtype)
                for name, dtype in _PART_DTYPES.items()
            },
        )
        odds = read.pop("odds")
        return finetuned_spans.Spans(**read), odds

    def _read_part(
        self, windows: finetuned_windows.Windows, group: row_groups.Rows
    ) -> Tensors:
        """Fields of `Spans`, and null odds, of some windows."""
        outputs = self.predict(*map(group.cut, windows.rows[:3]))
        own = windows.extents
        if group.chosen is not None:
            own = own.pick(group.chosen)
        candidates = finetuned_spans.list_candidates(
            outputs, own.shifts, self._settings.n_best_size
        )
        may_start = finetuned_windows.have_max_context(own, candidates.starts)
        spans = finetuned_spans.find_best(
            candidates,
            own.lengths,
            self._settings.max_answer_length,
            may_start,
        )
        odds = finetuned_spans.compute_null_odds(outputs)
        return spans._asdict() | {"odds": odds}


def _to_positions(places: tf.Tensor, spans: finetuned_spans.Spans) -> tf.Tensor:
    return tf.where(spans.is_found, tf.cast(places, tf.int32), 0)
