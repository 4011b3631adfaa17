"""The module of fine-tuned models: an encoder and the head of a task.

The task's class lays out rows and reads answers; here, inside of the graph.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from electra_tf.export import export_metadata
from electra_tf.export.models import exported_module
from electra_tf.export.models import length_buckets
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import task_heads
from electra_tf.tasks import base
from electra_tf.tasks import rows as rows_lib
from electra_tf.text import tokenizer as tokenizer_lib

Tensors = dict[str, tf.Tensor]


class FinetunedModule(exported_module.ExportedModule):
    """A fine-tuned model behind the signatures of its task.

    `Task.build_signatures` makes the object that computes them; it calls the
    public methods of this class.
    """

    def __init__(
        self,
        encoder: encoder_lib.Encoder,
        head: task_heads.TaskHead,
        tokenizer: tokenizer_lib.Tokenizer,
        task: base.Task,
        max_length: int = 0,
    ) -> None:
        least = rows_lib.MIN_LENGTH
        super().__init__(encoder, [head], tokenizer, max_length, least)
        export_metadata.add_signatures(task.kind)
        self.task = task
        self.kind = task.export_name or task.kind
        self.signature_names = task.signature_names
        self._network.head = head
        # The attribute is tracked, as the object may hold tables.
        self._task_signatures = task.build_signatures(self)

    def compute_answers(self, signature: str, **inputs: tf.Tensor) -> Tensors:
        """Answers a signature of raw text, or of rows of ids."""
        answer = "answer_text" if signature.endswith("_text") else "answer_ids"
        return getattr(self._task_signatures, answer)(**inputs)

    def pad(self, ids: tf.RaggedTensor, segment_starts: tf.Tensor) -> Any:
        """Pads rows; returns ids, mask and segments, `[B, S]`."""
        pad_id = self.tokenizer.vocabulary.pad_id
        return rows_lib.pad(ids, segment_starts, pad_id=pad_id)

    def apply_head(self, *rows: tf.Tensor, **features: tf.Tensor) -> Tensors:
        """Returns the head's outputs; computes all rows at once."""
        hidden = self._network.encoder(*rows).sequence_output
        names = ("input_ids", "input_mask", "segment_ids")
        tokens = dict(zip(names, rows, strict=True))
        return self._network.head.predict(hidden, tokens | features)

    def apply_head_in_buckets(
        self, outputs: Sequence[str], *rows: tf.Tensor, **features: tf.Tensor
    ) -> Tensors:
        """Returns the named outputs of the head; computes rows in buckets.

        Features are positions in the row, `[B, W]` int32.
        """
        lengths = length_buckets.count_columns(rows[1])
        for positions in features.values():
            # A position may be that of padding.
            last = tf.reduce_max(tf.pad(positions, [[0, 0], [0, 1]]), 1)
            lengths = tf.maximum(lengths, last + 1)

        def compute_rows(chosen: length_buckets.ChosenRows) -> Tensors:
            computed = self.apply_head(
                *map(chosen.trim, rows),
                **{name: chosen.pick(v) for name, v in features.items()},
            )
            return {name: computed[name] for name in outputs}

        return self.compute_in_buckets(compute_rows, rows[1], lengths)
