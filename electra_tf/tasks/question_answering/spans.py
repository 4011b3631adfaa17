"""Candidates for answers, read off the outputs of the head, and their places.

A span counts if it lies in the context, is no longer than allowed, and begins
in the window in which its first piece has most context. TensorFlow, for a whole
split or inside an exported model.
"""

from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks.question_answering import questions
from electra_tf.tasks.question_answering.questions import Settings
from electra_tf.text import tokenizer as tokenizer_lib

Tensors = Mapping[str, tf.Tensor]


class Candidates(NamedTuple):
    """Good starts of R rows, and good ends for each.

    Places are int64, counted from the context's first token in the row.
    """

    starts: tf.Tensor  # `[R, K]`
    ends: tf.Tensor  # `[R, K, M]`
    start_scores: tf.Tensor  # `[R, K]` float32
    end_scores: tf.Tensor  # `[R, K, M]` float32

    @property
    def scores(self) -> tf.Tensor:
        """Of start and end together, `[R, K, M]` float32."""
        return self.start_scores[:, :, tf.newaxis] + self.end_scores


class Spans(NamedTuple):
    """The best span of each row, `[R]`; places as in `Candidates`."""

    firsts: tf.Tensor
    lasts: tf.Tensor
    scores: tf.Tensor  # float32, the least number there is where no span counts
    is_found: tf.Tensor  # bool, whether a span counts


def list_candidates(
    outputs: Tensors, shifts: tf.Tensor, lengths: tf.Tensor, settings: Settings
) -> tuple[Candidates, tf.Tensor]:
    """Lists the pairs that the head proposes, best starts and ends first.

    `outputs` are those of `QuestionAnsweringHead.predict`; `shifts`, `[R]`
    int64, are tokens before the context's first, `lengths` pieces of it in each
    row. `n_best_size` starts and ends are looked at where the end does not
    depend on the start. Also returns which candidates are spans of the context,
    and no longer than allowed, `[R, K, M]` bool.
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
    """Tests which starts have most context in their row, `[R, K]` bool.

    `rows`, `[R]`, says of which of all rows the candidates are.
    """
    texts, numbers, starts = (
        tf.gather(values, rows)[:, tf.newaxis]
        for values in (windows.texts, windows.numbers, windows.starts)
    )
    pieces = starts + candidates.starts
    return rows_lib.find_best_window(windows, texts, pieces) == numbers


def find_best(candidates: Candidates, is_valid: tf.Tensor) -> Spans:
    """Finds the best valid candidate of each row, the first of equals."""
    shape = tf.shape(is_valid)
    flat = [shape[0], shape[1] * shape[2]]
    scores = tf.where(is_valid, candidates.scores, tf.float32.min)
    best, place = _first_best(tf.reshape(scores, flat))
    firsts = tf.broadcast_to(candidates.starts[:, :, tf.newaxis], shape)
    is_found = best > tf.float32.min
    places = (
        tf.gather(tf.reshape(values, flat), place, batch_dims=1)
        for values in (firsts, candidates.ends)
    )
    firsts, lasts = (tf.where(is_found, v, 0) for v in places)
    return Spans(firsts, lasts, best, is_found)


def choose_windows(scores: tf.Tensor, splits: tf.Tensor) -> tf.Tensor:
    """Finds the row with the best score of each question, `[N]` int64.

    The rows of questions begin at `splits`, `[N + 1]` int64; all have some.
    """
    ragged = tf.RaggedTensor.from_row_splits(scores, splits, validate=False)
    _, place = _first_best(ragged.to_tensor(tf.float32.min))
    return splits[:-1] + tf.cast(place, tf.int64)


def _first_best(scores: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Largest score of each row and its place, the first of equals."""
    # A row without candidates has a place too.
    padded = tf.pad(scores, [[0, 0], [0, 1]], constant_values=tf.float32.min)
    best, place = tf.math.top_k(padded, 1)
    limit = tf.maximum(tf.shape(scores)[1] - 1, 0)
    return best[:, 0], tf.minimum(place[:, 0], limit)


def compute_null_odds(outputs: Tensors) -> tf.Tensor:
    """Computes how likely each row has no answer, `[R]` float32.

    Of several windows the least counts. Without a classifier it is how good
    [CLS] would be, and the score of the best answer is to be subtracted; in
    joint mode [CLS] has no end logit, and the answer's scores are log
    probabilities, as in the original.
    """
    if "answerable_logit" in outputs:
        return outputs["answerable_logit"]
    # Slices: there may be rows without tokens.
    odds = tf.reshape(outputs["start_logits"][:, :1], [-1])
    if "end_logits" in outputs:
        odds += tf.reshape(outputs["end_logits"][:, :1], [-1])
    return odds


class Places(NamedTuple):
    """Parts of B contexts, `[B]`; offsets are int32."""

    texts: tf.Tensor  # string
    starts: tf.Tensor  # characters, that is code points
    ends: tf.Tensor
    byte_starts: tf.Tensor
    byte_ends: tf.Tensor


def find_places(
    tokenizer: tokenizer_lib.Tokenizer,
    texts: tf.Tensor,
    contexts: questions.Contexts,
    firsts: tf.Tensor,
    lasts: tf.Tensor,
    is_found: tf.Tensor,
) -> Places:
    """Finds where spans of pieces stand; an empty text at 0 for none.

    `texts`, `[B]` string, are the contexts as they are; `firsts` and `lasts`,
    `[B]` int64, pieces of them, both included. Unlike in `answers`, blanks stay
    what they are, and a text is always that of the pieces' characters.
    """
    # Strings live there; a GPU would only add copies.
    with tf.device("/CPU:0"):
        begins = contexts.ids.row_starts()
        starts, _ = _locate(tokenizer, contexts, begins + firsts)
        _, ends = _locate(tokenizer, contexts, begins + lasts)
        starts, ends = (tf.where(is_found, v, 0) for v in (starts, ends))
        first, last = (
            tf.strings.length(
                tf.strings.substr(texts, tf.zeros_like(v), v), "UTF8_CHAR"
            )
            for v in (starts, ends)
        )
        parts = tf.strings.substr(texts, starts, ends - starts)
        return Places(parts, first, last, starts, ends)


def _locate(
    tokenizer: tokenizer_lib.Tokenizer,
    contexts: questions.Contexts,
    places: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Bytes of the contexts at which pieces start and end, `[B]` int32."""
    # Padded by one, so that `gather` works on contexts without any piece.
    owners = tf.pad(contexts.pieces.value_rowids(), [[0, 1]])
    owners = tf.gather(
        owners, tf.minimum(places, tf.size(owners, tf.int64) - 1)
    )
    numbers = places - tf.gather(contexts.pieces.row_splits, owners)
    index = tf.gather(tf.pad(contexts.index, [[0, 1]]), owners)
    words = tf.gather(tf.pad(contexts.distinct, [[0, 1]]), index)
    begins = tf.gather(tf.pad(contexts.starts.values, [[0, 1]]), owners)
    starts, ends = (
        tf.pad(ragged.to_tensor(), [[0, 0], [0, 1]])
        for ragged in tokenizer.locate_pieces(words)
    )
    numbers = tf.minimum(numbers, tf.shape(starts, tf.int64)[1] - 1)
    starts, ends = (
        tf.cast(begins, tf.int32) + tf.gather(values, numbers, batch_dims=1)
        for values in (starts, ends)
    )
    return starts, ends
