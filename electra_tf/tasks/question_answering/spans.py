"""Candidates for answers, read off the outputs of the head.

A span counts if it lies in the context, ends no earlier than it begins, is no
longer than allowed, and begins in the window in which its first piece has most
context. TensorFlow, for a whole split or inside an exported model.
"""

from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

from electra_tf.tasks import windows as windows_lib


class Candidates(NamedTuple):
    """Good starts of R rows, and good ends for each.

    Attributes:
        starts: `[R, K]` int64, from the context's first token in the row.
        ends: `[R, K, M]` int64.
        start_scores: `[R, K]` float32.
        end_scores: `[R, K, M]` float32.
    """

    starts: tf.Tensor
    ends: tf.Tensor
    start_scores: tf.Tensor
    end_scores: tf.Tensor

    @property
    def scores(self) -> tf.Tensor:
        """Of start and end together, `[R, K, M]` float32."""
        return self.start_scores[:, :, tf.newaxis] + self.end_scores


class Spans(NamedTuple):
    """The best span of each row, `[R]`.

    Attributes:
        firsts: int64, from the context's first token in the row.
        lasts: int64.
        scores: float32, the least number there is where no span counts.
        is_found: bool, whether a span counts.
    """

    firsts: tf.Tensor
    lasts: tf.Tensor
    scores: tf.Tensor
    is_found: tf.Tensor


def list_candidates(
    outputs: Mapping[str, tf.Tensor], shifts: tf.Tensor, num_best: int
) -> Candidates:
    """The pairs that the head proposes, the best starts and ends first.

    Args:
        outputs: of `QuestionAnsweringHead.predict`.
        shifts: `[R]` int64, tokens before the context's first.
        num_best: starts and ends that are looked at where the end does not
            depend on the start.
    """
    if "start_top_index" in outputs:
        starts = outputs["start_top_index"]
        ends = outputs["end_top_index"]
        start_scores = outputs["start_top_log_probs"]
        end_scores = outputs["end_top_log_probs"]
    else:
        count = tf.minimum(num_best, tf.shape(outputs["start_logits"])[1])
        start_scores, starts = tf.math.top_k(outputs["start_logits"], count)
        end_scores, ends = tf.math.top_k(outputs["end_logits"], count)
        ends, end_scores = (
            tf.repeat(values[:, tf.newaxis], count, axis=1)
            for values in (ends, end_scores)
        )
    shifts = shifts[:, tf.newaxis]
    return Candidates(
        tf.cast(starts, tf.int64) - shifts,
        tf.cast(ends, tf.int64) - shifts[:, tf.newaxis],
        start_scores,
        end_scores,
    )


def are_valid(
    candidates: Candidates, lengths: tf.Tensor, max_answer_length: int
) -> tf.Tensor:
    """Which candidates are spans of the context, `[R, K, M]` bool.

    Args:
        candidates: of R rows.
        lengths: `[R]` int64, pieces of the context in each.
        max_answer_length: most pieces of an answer.
    """
    firsts, lasts = candidates.starts[:, :, tf.newaxis], candidates.ends
    return (
        (firsts >= 0)
        & (lasts < lengths[:, tf.newaxis, tf.newaxis])
        & (lasts >= firsts)
        & (lasts - firsts < max_answer_length)
    )


def have_most_context(
    candidates: Candidates, windows: windows_lib.Windows, rows: tf.Tensor
) -> tf.Tensor:
    """Which starts have most context in their row, `[R, K]` bool.

    Args:
        candidates: of R rows.
        windows: of all rows.
        rows: `[R]` integer, which of them the candidates are of.
    """
    texts, numbers, starts = (
        tf.gather(values, rows)[:, tf.newaxis]
        for values in (windows.texts, windows.numbers, windows.starts)
    )
    pieces = starts + candidates.starts
    return windows_lib.find_best(windows, texts, pieces) == numbers


def find_best(candidates: Candidates, is_valid: tf.Tensor) -> Spans:
    """The best valid candidate of each row, the first of equals.

    Args:
        candidates: of R rows.
        is_valid: `[R, K, M]` bool.
    """
    shape = tf.shape(is_valid)
    flat = [shape[0], shape[1] * shape[2]]
    scores = tf.where(is_valid, candidates.scores, tf.float32.min)
    best, place = _first_best(tf.reshape(scores, flat))
    firsts = tf.broadcast_to(candidates.starts[:, :, tf.newaxis], shape)
    firsts, lasts = (
        tf.gather(tf.reshape(values, flat), place, batch_dims=1)
        for values in (firsts, candidates.ends)
    )
    is_found = best > tf.float32.min
    return Spans(
        tf.where(is_found, firsts, 0),
        tf.where(is_found, lasts, 0),
        best,
        is_found,
    )


def choose_windows(scores: tf.Tensor, splits: tf.Tensor) -> tf.Tensor:
    """The row with the best score of each question, `[N]` int64.

    Args:
        scores: `[R]` float32; every question has rows.
        splits: `[N + 1]` int64, where those of each begin.
    """
    ragged = tf.RaggedTensor.from_row_splits(scores, splits, validate=False)
    _, place = _first_best(ragged.to_tensor(tf.float32.min))
    return splits[:-1] + tf.cast(place, tf.int64)


def compute_null_odds(outputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """What says in each row that there is no answer, `[R]` float32.

    Of several windows the least counts. Without a classifier it is how good
    [CLS] would be, and the score of the best answer is to be subtracted; in
    joint mode [CLS] has no end logit, and the answer's scores are log
    probabilities, as in the original.
    """
    if "answerable_logit" in outputs:
        return outputs["answerable_logit"]
    odds = _first_column(outputs["start_logits"])
    if "end_logits" in outputs:
        odds += _first_column(outputs["end_logits"])
    return odds


def _first_column(logits: tf.Tensor) -> tf.Tensor:
    return tf.reshape(logits[:, :1], [-1])


def _first_best(scores: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Largest score of each row and its place, the first of equals."""
    # A row without candidates has a place too.
    padded = tf.pad(scores, [[0, 0], [0, 1]], constant_values=tf.float32.min)
    best, place = tf.math.top_k(padded, 1)
    limit = tf.maximum(tf.shape(scores)[1] - 1, 0)
    return best[:, 0], tf.minimum(place[:, 0], limit)
