"""Fills `[MASK]` in raw text with a masked language model."""

from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import tensorflow as tf

from electra_tf.export.clients import text_models
from electra_tf.inputs import masking
from electra_tf.modeling import networks
from electra_tf.text import tokenizer as tokenizer_lib

MASK = "[MASK]"

NETWORKS = (networks.MaskedLMGenerator, networks.TwoTowerGenerator)
"""What can fill masks: the generators that look at the text."""

_ROWS = tf.TensorSpec([None, None], tf.int32)


class Filling(NamedTuple):
    """A token that may stand in the place of a mask."""

    # Of the vocabulary; `##` at its beginning says that it continues the word
    # before.
    token: str
    probability: float  # 0-1, of all tokens of the vocabulary


class MaskFiller:
    """Fills masks with a generator, or with any masked language model."""

    def __init__(
        self, network: Any, tokenizer: tokenizer_lib.Tokenizer, max_length: int
    ) -> None:
        self._network = network
        self._tokenizer = tokenizer
        self._vocabulary = tokenizer.vocabulary
        self._max_length = max_length
        self._compute = tf.function(
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

        Returns:
            Per text, per mask in the order of the text: the tokens, most
            probable first.
        """
        size = self._vocabulary.size
        if not isinstance(top_k, int) or not 1 <= top_k <= size:
            raise ValueError(
                f"`top_k` must be an int, 1 to {size}, the size of the "
                f"vocabulary. Received: {top_k!r}."
            )
        names = self._vocabulary.tokens
        return [
            [
                [
                    Filling(names[token], probability)
                    for token, probability in zip(ids, values, strict=True)
                ]
                # Rows with fewer masks than others of a batch have padding.
                for ids, values in zip(
                    row["ids"][: row["num_masks"]].tolist(),
                    row["probabilities"][: row["num_masks"]].tolist(),
                    strict=True,
                )
            ]
            for row in self._predict(texts, top_k)
        ]

    def _predict(
        self, texts: Sequence[str], top_k: int
    ) -> Iterator[text_models.Row]:
        pieces = self._split(texts)

        def predict_batch(
            batch: Sequence[tuple[bytes, ...]],
        ) -> text_models.Row:
            rows = [pieces[text] for (text,) in batch]
            mask_id = self._vocabulary.mask_id
            ids = tf.ragged.constant(rows, tf.int32)
            positions = tf.ragged.constant(
                [[n for n, i in enumerate(row) if i == mask_id] for row in rows]
            )
            best = self._compute(
                ids.to_tensor(self._vocabulary.pad_id),
                tf.ones_like(ids).to_tensor(),
                positions.to_tensor(),
                top_k,
            )
            return {
                "probabilities": best[0].numpy(),
                "ids": best[1].numpy(),
                "num_masks": positions.row_lengths().numpy(),
            }

        data = [(text.encode(),) for text in texts]
        return text_models.predict_in_batches(data, predict_batch)

    def _split(self, texts: Sequence[str]) -> dict[bytes, list[int]]:
        """Rows `[CLS] pieces [SEP]` of checked texts."""
        vocabulary, rows = self._vocabulary, {}
        parts = [text.split(MASK) for text in texts]
        flat = [part for row in parts for part in row]
        pieces = iter(
            self._tokenizer.tokenize(tf.constant(flat, tf.string)).to_list()
        )
        for number, row_parts in enumerate(parts):
            ids, last = [vocabulary.cls_id, *next(pieces)], 0
            for _ in row_parts[1:]:
                last = len(ids)
                ids += [vocabulary.mask_id, *next(pieces)]
            self._check(number, last)
            ids = [*ids[: self._max_length - 1], vocabulary.sep_id]
            rows[texts[number].encode()] = ids
        return rows

    def _check(self, number: int, last_mask: int) -> None:
        if not last_mask:
            raise ValueError(
                f"Every text must hold {MASK}, where a token is to be filled "
                f"in. Received: text {number} (from 0) without one. It is "
                "case-sensitive."
            )
        if last_mask >= self._max_length - 1:
            raise ValueError(
                f"Every {MASK} must stand within the {self._max_length} "
                f"tokens that the model sees. Received: text {number} (from "
                f"0) with one at token {last_mask}. Shorten the text."
            )

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
