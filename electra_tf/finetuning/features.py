"""Sentences to arrays of one length, with the project's own tokenizer.

Both kinds of task come out alike: vectors at some positions of a row have a
label each. Classification labels position 0, which holds [CLS]; tagging
labels the first piece of every word.
"""

import dataclasses
from collections.abc import Iterator
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from electra_tf.finetuning import tasks
from electra_tf.text import tokenizer as tokenizer_lib
from electra_tf.text import vocabulary as vocabulary_lib

BATCH_SIGNATURE = {
    name: tf.TensorSpec([None, None], tf.int32, name)
    for name in (
        "input_ids",
        "input_mask",
        "segment_ids",
        "label_positions",
        "labels",
        "label_mask",
    )
}
"""What `Features.batch` returns, for functions that take any shape of it."""

# Rows are cut to multiples of this, so that a step is traced a few times only.
_LENGTH_MULTIPLE = 16


@dataclasses.dataclass(frozen=True)
class Features:
    """What a model is fed for N sentences.

    Attributes:
        input_ids: `[N, S]` int32, `[CLS] pieces [SEP]`, then [PAD].
        input_mask: `[N, S]` int32, 1 for tokens, 0 for padding.
        segment_ids: `[N, S]` int32, all 0.
        label_positions: `[N, W]` int32, where the labelled vectors stand.
        labels: `[N, W]` int32.
        label_mask: `[N, W]` int32, 1 for labels, 0 for unused slots (whose
            position and label are 0).
        cut_off_labels: `[m]` int32, labels of words whose first piece did
            not fit into the row.
    """

    input_ids: np.ndarray
    input_mask: np.ndarray
    segment_ids: np.ndarray
    label_positions: np.ndarray
    labels: np.ndarray
    label_mask: np.ndarray
    cut_off_labels: np.ndarray

    @property
    def num_rows(self) -> int:
        """Sentences, N."""
        return len(self.input_ids)

    def batch(
        self, rows: np.ndarray, length_multiple: int = _LENGTH_MULTIPLE
    ) -> dict[str, np.ndarray]:
        """Some rows, without columns that hold padding alone.

        Args:
            rows: `[B]` integer indices.
            length_multiple: the columns left are a multiple of it (or all).

        Returns:
            Name to `[B, ...]` array, for every attribute but the last.
        """
        longest = int(self.input_mask[rows].sum(1).max())
        length = -(-longest // length_multiple) * length_multiple
        chosen = {name: getattr(self, name)[rows] for name in BATCH_SIGNATURE}
        for name in ("input_ids", "input_mask", "segment_ids"):
            chosen[name] = chosen[name][:, :length]
        return chosen

    def batches_by_length(
        self, batch_size: int
    ) -> Iterator[dict[str, np.ndarray]]:
        """All rows once, the shortest first; fast for inference.

        Args:
            batch_size: rows of a batch; the last may have fewer.
        """
        order = np.argsort(self.input_mask.sum(1), kind="stable")
        for begin in range(0, self.num_rows, batch_size):
            yield self.batch(order[begin : begin + batch_size], 1)


def build_features(
    examples: tasks.Examples,
    kind: str,
    tokenizer: tokenizer_lib.Tokenizer,
    length: int,
) -> Features:
    """The arrays of sentences.

    What does not fit is cut off at the end. A word that leaves no piece, for
    instance one of control characters, becomes [UNK], so that every word has
    a first piece.

    Args:
        examples: sentences and labels of a task.
        kind: of the task, `tasks.CLASSIFICATION` or `tasks.TAGGING`.
        tokenizer: holds the vocabulary.
        length: tokens per row, S, with [CLS] and [SEP].

    Raises:
        ValueError: if the rows cannot hold a single piece.
    """
    if length < 3:
        raise ValueError(
            "`length` must be at least 3, for [CLS], one piece and [SEP]. "
            f"Received: {length}. Use the length of pre-training."
        )
    counts = np.array([len(texts) for texts in examples.texts])
    texts = [text for texts in examples.texts for text in texts]
    pieces, piece_splits = _tokenize(texts, tokenizer)
    text_splits = np.concatenate([[0], np.cumsum(counts)])
    row_splits = piece_splits[text_splits]
    ids, mask = _pack(pieces, row_splits, tokenizer.vocabulary, length)
    labels = np.concatenate([np.array(row) for row in examples.labels])
    if kind == tasks.TAGGING:
        # Where each word's first piece stands in its row, after [CLS].
        starts = 1 + piece_splits[:-1] - np.repeat(row_splits[:-1], counts)
    else:
        starts = np.zeros(len(labels), np.int64)
    return Features(
        ids, mask, np.zeros_like(ids), *_place(starts, labels, counts, length)
    )


def _tokenize(
    texts: Sequence[str], tokenizer: tokenizer_lib.Tokenizer
) -> tuple[np.ndarray, np.ndarray]:
    """All pieces in a row, and where those of each text begin and end."""
    ragged = tokenizer.tokenize(tf.constant(texts, tf.string))
    splits = ragged.row_splits.numpy()
    empty = np.flatnonzero(np.diff(splits) == 0)
    pieces = np.insert(
        ragged.values.numpy(), splits[empty], tokenizer.vocabulary.unk_id
    )
    added = np.zeros(len(splits), np.int64)
    added[empty + 1] = 1
    return pieces, splits + np.cumsum(added)


def _pack(
    pieces: np.ndarray,
    row_splits: np.ndarray,
    vocabulary: vocabulary_lib.Vocabulary,
    length: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Rows `[N, S]` of `[CLS] pieces [SEP]`, and their mask."""
    num_pieces = np.minimum(np.diff(row_splits), length - 2)
    columns = np.arange(length)
    is_piece = (columns >= 1) & (columns <= num_pieces[:, None])
    sources = row_splits[:-1, None] + columns - 1
    ids = np.full((len(num_pieces), length), vocabulary.pad_id, np.int32)
    ids[is_piece] = pieces[sources[is_piece]]
    ids[:, 0] = vocabulary.cls_id
    ids[np.arange(len(ids)), num_pieces + 1] = vocabulary.sep_id
    mask = (columns < num_pieces[:, None] + 2).astype(np.int32)
    return ids, mask


def _place(
    starts: np.ndarray, labels: np.ndarray, counts: np.ndarray, length: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Positions, labels and mask `[N, W]`, and the labels that did not fit."""
    # The last column is for [SEP] at the latest.
    fits = starts < length - 1
    rows = np.repeat(np.arange(len(counts)), counts)
    slots = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    shape = (len(counts), int(slots[fits].max()) + 1)
    positions, placed_labels, mask = np.zeros((3, *shape), np.int32)
    places = rows[fits], slots[fits]
    positions[places] = starts[fits]
    placed_labels[places] = labels[fits]
    mask[places] = 1
    return positions, placed_labels, mask, labels[~fits].astype(np.int32)
