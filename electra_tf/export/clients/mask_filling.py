"""Fills `[MASK]` in raw text with a masked language model."""

from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import tensorflow as tf

from electra_tf.inputs import masking
from electra_tf.modeling import generators
from electra_tf.text import tokenizer as tokenizer_lib

MASK = "[MASK]"
# Texts that the model sees together; logits of the vocabulary take memory.
_MAX_BATCH = 32

NETWORKS = (generators.MaskedLMGenerator, generators.TwoTowerGenerator)
"""What can fill masks: the generators that look at the text."""

_ROWS = tf.TensorSpec([None, None], tf.int32)


class Filling(NamedTuple):
    """A token that may stand in the place of a mask.

    Attributes:
        token: of the vocabulary; `##` at its beginning says that it continues
            the word before.
        probability: 0-1, of all tokens of the vocabulary.
    """

    token: str
    probability: float


class _Row(NamedTuple):
    ids: list[int]  # [CLS], pieces, [SEP]
    positions: list[int]  # of the masks


class MaskFiller:
    """Fills masks with a generator, or with any masked language model.

    Args:
        network: one of `NETWORKS`.
        tokenizer: of the vocabulary that it was trained with.
        max_length: tokens at which texts are cut, [CLS] and [SEP] included.
    """

    def __init__(
        self, network: Any, tokenizer: tokenizer_lib.Tokenizer, max_length: int
    ) -> None:
        self._network = network
        self._tokenizer = tokenizer
        self._vocabulary = tokenizer.vocabulary
        self._max_length = max_length
        self._predict = tf.function(
            self._compute_best,
            input_signature=[_ROWS, _ROWS, _ROWS, tf.TensorSpec([], tf.int32)],
            autograph=False,
        )

    def fill(
        self, texts: Sequence[str], top_k: int = 5
    ) -> list[list[list[Filling]]]:
        """Finds the best tokens for every mask of every text.

        Each mask is filled for itself: those of one text are not chosen to
        fit each other.

        Args:
            texts: each holds `[MASK]` at least once, next to anything.
            top_k: tokens for each mask.

        Returns:
            Per text, per mask in the order of the text: the tokens, most
            probable first.

        Raises:
            ValueError: if a text has no mask, or one beyond what the model
                sees, or if `top_k` is no int, below 1 or above the size of
                the vocabulary.
        """
        size = self._vocabulary.size
        if not isinstance(top_k, int) or not 1 <= top_k <= size:
            raise ValueError(
                f"`top_k` must be an int, 1 to {size}, the size of the "
                f"vocabulary. Received: {top_k!r}."
            )
        rows = self._encode(texts)
        order = sorted(range(len(rows)), key=lambda row: len(rows[row].ids))
        results: list[list[list[Filling]]] = [[] for _ in rows]
        for first in range(0, len(order), _MAX_BATCH):
            batch = order[first : first + _MAX_BATCH]
            answers = self._fill_batch([rows[row] for row in batch], top_k)
            for row, answer in zip(batch, answers, strict=True):
                results[row] = answer
        return results

    def _encode(self, texts: Sequence[str]) -> list[_Row]:
        vocabulary = self._vocabulary
        parts = [text.split(MASK) for text in texts]
        flat = [part for row in parts for part in row]
        pieces = iter(
            self._tokenizer.tokenize(tf.constant(flat, tf.string)).to_list()
        )
        rows = []
        for number, row_parts in enumerate(parts):
            ids, positions = [vocabulary.cls_id, *next(pieces)], []
            for _ in row_parts[1:]:
                positions.append(len(ids))
                ids += [vocabulary.mask_id, *next(pieces)]
            self._check(number, positions)
            ids = [*ids[: self._max_length - 1], vocabulary.sep_id]
            rows.append(_Row(ids, positions))
        return rows

    def _check(self, number: int, positions: list[int]) -> None:
        if not positions:
            raise ValueError(
                f"Every text must hold {MASK}, where a token is to be filled "
                f"in. Received: text {number} (from 0) without one. It is "
                "case-sensitive."
            )
        if positions[-1] >= self._max_length - 1:
            raise ValueError(
                f"Every {MASK} must stand within the {self._max_length} "
                f"tokens that the model sees. Received: text {number} (from "
                f"0) with one at token {positions[-1]}. Shorten the text."
            )

    def _fill_batch(
        self, rows: Sequence[_Row], top_k: int
    ) -> list[list[list[Filling]]]:
        best = self._predict(
            _pad([row.ids for row in rows], self._vocabulary.pad_id),
            _pad([[1] * len(row.ids) for row in rows]),
            _pad([row.positions for row in rows]),
            top_k,
        )
        probabilities, ids = (tensor.numpy().tolist() for tensor in best)
        names = self._vocabulary.tokens
        return [
            [
                [
                    Filling(names[token], probability)
                    for token, probability in zip(*mask, strict=True)
                ]
                # Rows with fewer masks than others have padding.
                for mask in zip(ids[number], probabilities[number], strict=True)
            ][: len(row.positions)]
            for number, row in enumerate(rows)
        ]

    def _compute_best(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        positions: tf.Tensor,
        top_k: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Probabilities and ids of the best tokens, `[B, P, K]`."""
        masked = masking.MaskedInputs(
            input_ids=input_ids,
            original_ids=input_ids,
            input_mask=input_mask,
            segment_ids=tf.zeros_like(input_ids),
            masked_positions=positions,
            masked_ids=tf.zeros_like(positions),
            masked_weights=tf.ones_like(positions, tf.float32),
            eligible=input_mask > 0,
        )
        logits = self._network(masked).logits
        best = tf.math.top_k(tf.nn.softmax(logits), top_k)
        return best.values, best.indices


def _pad(rows: Sequence[Sequence[int]], value: int = 0) -> tf.Tensor:
    """Rows of one length, `[B, S]` int32."""
    return tf.ragged.constant(rows, tf.int32, 1).to_tensor(value)
