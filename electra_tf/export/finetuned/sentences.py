"""An exported classifier or regression: one answer for a text or a pair."""

from typing import Any

import tensorflow as tf

from electra_tf.export import signature_module
from electra_tf.export.compute import row_groups
from electra_tf.export.finetuned import module
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks.sentences import packing

_FAMILIES = {"classification": "classify", "regression": "regress"}

Tensors = dict[str, tf.Tensor]


class SentenceModule(module.FinetunedModule):
    """One answer for a text, or for a pair of texts.

    Args:
        *args, **kwargs: as of every module.
    """

    min_length = packing.MIN_LENGTH

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.kind = self.task.kind

    @property
    def signature_names(self) -> tuple[str, ...]:
        """Raw text first."""
        family = _FAMILIES[self.kind]
        text = "pair_text" if self.task.has_pairs else "text"
        return f"{family}_{text}", f"{family}_ids"

    def answer_text(self, **inputs: tf.Tensor) -> Tensors:
        """The answers for `texts`, or `texts` and `text_pairs`."""
        texts, pairs = inputs["texts"], inputs.get("text_pairs")
        if pairs is not None:
            check = signature_module.require_equal_shapes(
                "text_pairs", pairs, "texts", texts
            )
            with tf.control_dependencies([check]):
                texts = tf.identity(texts)
        packed = packing.pack_texts(
            self.tokenizer, texts, pairs, self.max_length
        )
        pad_id = self.tokenizer.vocabulary.pad_id
        rows = rows_lib.pad(packed.ids, packed.segment_starts, pad_id=pad_id)
        return self._read(*rows) | {
            "num_tokens": tf.cast(packed.ids.row_lengths(), tf.int32),
            "num_truncated": tf.cast(packed.num_truncated, tf.int32),
        }

    def answer_ids(self, **inputs: tf.Tensor) -> Tensors:
        """The answers for rows of ids."""
        return self._read(*self.check_ids(**inputs))

    def _read(self, *rows: tf.Tensor) -> Tensors:
        shape: tuple[int | None, ...] = (None,)
        if self.task.labels:
            shape = (None, len(self.task.labels))
        output = row_groups.Output(tf.float32, shape)
        said = self.predict_in_groups({self.task.head_output: output}, *rows)
        return self.task.answer(said)
