"""Finds the best spans in the outputs of the head, and their texts.

A span is valid if it is in the context, is not too long, and begins in the
window in which its first piece has most context. The functions run in
TensorFlow, on a whole split or inside an exported model.
"""

from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks.question_answering.questions import Settings
from electra_tf.text import tokenizer as tokenizer_lib

NO_CONTEXT_ODDS = 1e6
"""The original's null odds of a context without pieces."""
Tensors = Mapping[str, tf.Tensor]


class Candidates(NamedTuple):
    """K good starts for each of R rows, and M good ends for each start.

    Positions count from the context's first token in the row.
    """

    starts: tf.Tensor  # `[R, K]` int64
    ends: tf.Tensor  # `[R, K, M]` int64
    start_scores: tf.Tensor  # `[R, K]` float32
    end_scores: tf.Tensor  # `[R, K, M]` float32

    @property
    def scores(self) -> tf.Tensor:
        """Sums of start and end scores, `[R, K, M]` float32."""
        return self.start_scores[:, :, tf.newaxis] + self.end_scores


class Spans(NamedTuple):
    """The best span of each row; all tensors are `[R]`."""

    firsts: tf.Tensor  # int64, positions as in `Candidates`
    lasts: tf.Tensor  # int64
    scores: tf.Tensor  # float32; `tf.float32.min` without a valid span
    is_found: tf.Tensor  # bool, whether the row has a valid span


def list_candidates(
    outputs: Tensors, shifts: tf.Tensor, lengths: tf.Tensor, settings: Settings
) -> tuple[Candidates, tf.Tensor]:
    """Lists the spans that the head proposes, best starts and ends first.

    `outputs` are from `QuestionAnsweringHead.predict`. In each row the context
    has `lengths` pieces after `shifts` tokens, both `[R]` int64. If the head
    predicts ends independently of starts, K and M are `n_best_size`. Also
    returns whether a candidate is in the context and not too long, `[R, K, M]`
    bool.
    """
    if "start_top_index" in outputs:
        starts, ends = outputs["start_top_index"], outputs["end_top_index"]
        start_scores = outputs["start_top_log_probs"]
        end_scores = outputs["end_top_log_probs"]
    else:
        length = tf.shape(outputs["start_logits"])[1]
        count = tf.minimum(settings.n_best_size, length)
        start_scores, starts = tf.math.top_k(outputs["start_logits"], count)
        end_scores, ends = (
            tf.repeat(values[:, tf.newaxis], count, axis=1)
            for values in tf.math.top_k(outputs["end_logits"], count)
        )
    starts = tf.cast(starts, tf.int64) - shifts[:, tf.newaxis]
    ends = tf.cast(ends, tf.int64) - shifts[:, tf.newaxis, tf.newaxis]
    firsts = starts[:, :, tf.newaxis]
    is_valid = (
        (firsts >= 0)
        & (ends < lengths[:, tf.newaxis, tf.newaxis])
        & (ends >= firsts)
        & (ends - firsts < settings.max_answer_length)
    )
    return Candidates(starts, ends, start_scores, end_scores), is_valid


def have_most_context(
    candidates: Candidates, windows: rows_lib.Windows, rows: tf.Tensor
) -> tf.Tensor:
    """Tests whether starts have most context in their window, `[R, K]` bool.

    `rows`, `[R]`, are the indices of the candidates' windows.
    """
    texts, numbers, starts = (
        tf.gather(values, rows)[:, tf.newaxis]
        for values in (windows.texts, windows.numbers, windows.starts)
    )
    pieces = starts + candidates.starts
    return rows_lib.find_best_window(windows, texts, pieces) == numbers


def find_best(candidates: Candidates, is_valid: tf.Tensor) -> Spans:
    """Finds the best valid candidate of each row; of equal ones the first."""
    shape = tf.shape(is_valid)
    flat = [shape[0], shape[1] * shape[2]]
    scores = tf.where(is_valid, candidates.scores, tf.float32.min)
    best, index = _first_best(tf.reshape(scores, flat))
    firsts = tf.broadcast_to(candidates.starts[:, :, tf.newaxis], shape)
    is_found = best > tf.float32.min
    positions = (
        tf.gather(tf.reshape(values, flat), index, batch_dims=1)
        for values in (firsts, candidates.ends)
    )
    firsts, lasts = (tf.where(is_found, p, 0) for p in positions)
    return Spans(firsts, lasts, best, is_found)


def choose_windows(scores: tf.Tensor, splits: tf.Tensor) -> tf.Tensor:
    """Finds the window with the best score of each question, `[N]` int64.

    `splits`, `[N + 1]` int64, are row splits: the windows of each question,
    which has at least one.
    """
    ragged = tf.RaggedTensor.from_row_splits(scores, splits, validate=False)
    _, index = _first_best(ragged.to_tensor(tf.float32.min))
    return splits[:-1] + tf.cast(index, tf.int64)


def _first_best(scores: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the largest score of each row and its first index."""
    # Padded, because `top_k` needs a column.
    padded = tf.pad(scores, [[0, 0], [0, 1]], constant_values=tf.float32.min)
    best, index = tf.math.top_k(padded, 1)
    limit = tf.maximum(tf.shape(scores)[1] - 1, 0)
    return best[:, 0], tf.minimum(index[:, 0], limit)


def compute_null_odds(outputs: Tensors) -> tf.Tensor:
    """Computes the null odds of each row, `[R]` float32.

    Null odds are high if the row has no answer. A question has the minimum over
    its windows. If the head has no classifier, they are the logits of [CLS],
    and the caller subtracts the score of the best answer. As in the original,
    a joint head has only the start logit of [CLS].
    """
    if "answerable_logit" in outputs:
        return outputs["answerable_logit"]
    # A slice, because rows may have no tokens.
    odds = tf.reshape(outputs["start_logits"][:, :1], [-1])
    if "end_logits" in outputs:
        odds += tf.reshape(outputs["end_logits"][:, :1], [-1])
    return odds


class Places(NamedTuple):
    """Parts of B contexts; all tensors are `[B]`, offsets int32."""

    texts: tf.Tensor  # string
    starts: tf.Tensor  # in characters (code points)
    ends: tf.Tensor  # in characters
    byte_starts: tf.Tensor
    byte_ends: tf.Tensor


def find_places(
    tokenizer: tokenizer_lib.Tokenizer,
    texts: tf.Tensor,
    firsts: tf.Tensor,
    lasts: tf.Tensor,
    is_found: tf.Tensor,
) -> Places:
    """Finds the characters of spans of pieces in their contexts.

    `texts`, `[B]` string, are the contexts; `firsts` and `lasts`, `[B]` int64,
    the first and last pieces. Unlike in `answers`, a text is always exactly the
    characters of the pieces. If `is_found` is false, it is "" at 0.
    """
    # Operations on strings have no GPU kernels.
    with tf.device("/CPU:0"):
        starts, ends = (
            # Padded, so that `gather` works on contexts without any piece.
            tf.gather(
                tf.pad(offsets.to_tensor(), [[0, 0], [0, 1]]),
                tf.where(is_found, pieces, 0),
                batch_dims=1,
            )
            for offsets, pieces in zip(
                tokenizer.locate_pieces(texts), (firsts, lasts), strict=True
            )
        )
        starts, ends = (tf.where(is_found, v, 0) for v in (starts, ends))
        first, last = (
            tf.strings.length(
                tf.strings.substr(texts, tf.zeros_like(v), v), "UTF8_CHAR"
            )
            for v in (starts, ends)
        )
        parts = tf.strings.substr(texts, starts, ends - starts)
        return Places(parts, first, last, starts, ends)
