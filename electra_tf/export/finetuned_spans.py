"""The best spans of rows and of questions, in the graph.

By the rules of `finetuning.question_answering.decoding`: a span lies in the
document, ends no earlier than it begins, is no longer than allowed, and begins
in the window in which its first piece has most context.
"""

from typing import NamedTuple

import tensorflow as tf

from electra_tf.export import signatures

Tensors = dict[str, tf.Tensor]


class Spans(NamedTuple):
    """The best span of each row, `[R]`; pieces are int64."""

    firsts: tf.Tensor  # from the document's first token in the row
    lasts: tf.Tensor
    scores: tf.Tensor  # float32, `NO_ANSWER_SCORE` where there is none
    is_found: tf.Tensor  # bool


class Candidates(NamedTuple):
    """Good starts, and good ends for each, as places in the document."""

    starts: tf.Tensor  # [R, K] int64, from the document's first token
    ends: tf.Tensor  # [R, K, M] int64
    scores: tf.Tensor  # [R, K, M] float32


def list_candidates(
    outputs: Tensors, shifts: tf.Tensor, num_best: int
) -> Candidates:
    """The pairs that the head proposes.

    Args:
        outputs: of `QuestionAnsweringHead.predict`.
        shifts: `[R]` int64, tokens before the document's first.
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
        end_scores = end_scores[:, tf.newaxis]
        ends = tf.repeat(ends[:, tf.newaxis], count, axis=1)
    shifts = shifts[:, tf.newaxis]
    return Candidates(
        tf.cast(starts, tf.int64) - shifts,
        tf.cast(ends, tf.int64) - shifts[:, tf.newaxis],
        start_scores[:, :, tf.newaxis] + end_scores,
    )


def find_best(
    candidates: Candidates,
    lengths: tf.Tensor,
    max_answer_length: int,
    may_start: tf.Tensor | None = None,
) -> Spans:
    """The best valid candidate of each row.

    Args:
        candidates: of R rows.
        lengths: `[R]` int64, pieces of the document in each.
        max_answer_length: most pieces of an answer.
        may_start: `[R, K]` bool, starts that count; None for all.
    """
    firsts, lasts = candidates.starts[:, :, tf.newaxis], candidates.ends
    is_valid = (
        (firsts >= 0)
        & (lasts < lengths[:, tf.newaxis, tf.newaxis])
        & (lasts >= firsts)
        & (lasts - firsts < max_answer_length)
    )
    if may_start is not None:
        is_valid &= may_start[:, :, tf.newaxis]
    count, width = tf.shape(lasts)[0], tf.shape(lasts)[1] * tf.shape(lasts)[2]
    flat = [count, width]
    scores = tf.where(is_valid, candidates.scores, tf.float32.min)
    best, place = _first_best(tf.reshape(scores, flat))
    firsts, lasts = (
        tf.gather(tf.reshape(values, flat), place, batch_dims=1)
        for values in (tf.broadcast_to(firsts, tf.shape(lasts)), lasts)
    )
    is_found = best > tf.float32.min
    return Spans(
        tf.where(is_found, firsts, 0),
        tf.where(is_found, lasts, 0),
        tf.where(is_found, best, signatures.NO_ANSWER_SCORE),
        is_found,
    )


def choose_windows(scores: tf.Tensor, splits: tf.Tensor) -> tf.Tensor:
    """The row with the best score of each question, `[B]` int64.

    Args:
        scores: `[R]` float32; every question has rows.
        splits: `[B + 1]` int64, where those of each begin.
    """
    ragged = tf.RaggedTensor.from_row_splits(scores, splits, validate=False)
    padded = ragged.to_tensor(tf.float32.min)
    _, place = _first_best(padded)
    return splits[:-1] + tf.cast(place, tf.int64)


def compute_null_odds(outputs: Tensors) -> tf.Tensor:
    """What says in each row that there is no answer, `[R]` float32.

    Of several windows the least counts. Without a classifier the score of the
    best answer is to be subtracted from it.
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
