"""Fills `[MASK]` in raw text with a masked language model."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.export.clients import text_models
from electra_tf.inputs import masking
from electra_tf.modeling import networks
from electra_tf.text import tokenizer as tokenizer_lib

MASK = "[MASK]"

NETWORKS = (networks.MaskedLMGenerator, networks.TwoTowerGenerator)
"""Networks that can fill masks: generators that read the text."""


class Filling(NamedTuple):
    """A token that may stand in the place of a mask."""

    token: str  # of the vocabulary; `##` continues the word before
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
        specs = [*[tf.TensorSpec([None, None], tf.int32)] * 3,
                 tf.TensorSpec([], tf.int32)]  # fmt: skip
        self._compute = tf.function(
            self._compute_best, input_signature=specs, autograph=False
        )

    def fill(
        self, texts: Sequence[str], top_k: int = 5
    ) -> list[list[list[Filling]]]:
        """Returns the `top_k` best tokens of each mask of each text.

        Each mask is filled independently of the others. Raises `ValueError`
        for a bad `top_k`, or a text without a mask that the model can see.
        """
        size = self._vocabulary.size
        if not isinstance(top_k, int) or not 1 <= top_k <= size:
            raise ValueError(
                f"`top_k` must be an int, 1 to {size}, the size of the "
                f"vocabulary. Received: {top_k!r}."
            )
        rows = [(ids,) for ids in self._lay_out(texts)]
        names = np.array(self._vocabulary.tokens, object)
        mask_id = self._vocabulary.mask_id

        def predict_batch(batch: Sequence[Any]) -> text_models.Row:
            ids = tf.ragged.constant([row for (row,) in batch], tf.int32)
            positions = tf.ragged.constant(
                [[n for n, i in enumerate(r) if i == mask_id] for (r,) in batch]
            )
            best = self._compute(
                ids.to_tensor(self._vocabulary.pad_id),
                tf.ones_like(ids).to_tensor(),
                positions.to_tensor(),
                top_k,
            )
            return {name: v.numpy() for name, v in best._asdict().items()}

        filled = []
        answers = text_models.predict_in_batches(rows, predict_batch)
        for (ids,), row in zip(rows, answers, strict=True):
            best = map(zip, names[row["indices"]], row["values"].tolist())
            fillings = [[Filling(*pair) for pair in mask] for mask in best]
            # A row with fewer masks than others ends in padding.
            filled.append(fillings[: ids.count(mask_id)])
        return filled

    def _lay_out(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenizes texts into rows of ids; each must keep all its masks."""
        vocabulary, rows = self._vocabulary, []
        parts = [text.split(MASK) for text in texts]
        flat = tf.constant([p for row in parts for p in row], tf.string)
        pieces = iter(self._tokenizer.tokenize(flat).to_list())
        for number, row_parts in enumerate(parts):
            ids, last = [vocabulary.cls_id, *next(pieces)], 0
            for _ in row_parts[1:]:
                last = len(ids)
                ids += [vocabulary.mask_id, *next(pieces)]
            if not 0 < last < self._max_length - 1:
                received = f"one at token {last}" if last else "none"
                raise ValueError(
                    f"Every text must hold {MASK} (case-sensitive), all of "
                    f"them within the {self._max_length} tokens that the model "
                    f"sees. Received: text {number} (from 0) with {received}."
                )
            rows.append([*ids[: self._max_length - 1], vocabulary.sep_id])
        return rows

    def _compute_best(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        positions: tf.Tensor,
        top_k: tf.Tensor,
    ) -> Any:
        """Returns probabilities and ids of the best tokens, `[B, P, K]`."""
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
        return tf.math.top_k(tf.nn.softmax(self._network(masked).logits), top_k)
