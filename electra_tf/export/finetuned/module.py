"""What exports of fine-tuned models share: an encoder with one task's head."""

import abc
import types
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from electra_tf.export import signature_module
from electra_tf.export import signatures
from electra_tf.export.compute import row_groups
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import task_heads
from electra_tf.text import tokenizer as tokenizer_lib

Tensors = dict[str, tf.Tensor]


class FinetunedModule(signature_module.SignatureModule):
    """A fine-tuned model behind the signatures of its kind of task.

    Args:
        encoder: with its weights.
        head: of the task, with its weights.
        tokenizer: of the vocabulary that it was trained with.
        task: what it was trained on, with the labels of the trained model.
        max_length: most tokens of a row; 0 for the model's positions.

    Raises:
        ValueError: if `max_length` is not in the range that makes sense.
    """

    kind: str
    """What it was fine-tuned for, as export.json and the README call it."""
    min_length = 5
    """Fewest tokens of a row that make sense."""

    def __init__(
        self,
        encoder: encoder_lib.Encoder,
        head: task_heads.TaskHead,
        tokenizer: tokenizer_lib.Tokenizer,
        task: Any,
        max_length: int = 0,
    ) -> None:
        variables = [*encoder.variables, *head.variables]
        super().__init__(
            encoder, variables, tokenizer, max_length, self.min_length
        )
        self.task = task
        # A plain object is not tracked, layers would be saved whole.
        self._model = types.SimpleNamespace(encoder=encoder, head=head)

    @property
    def layers(self) -> tuple[Any, ...]:
        """Encoder and head."""
        return self._model.encoder, self._model.head

    def answer(self, signature: str, **inputs: tf.Tensor) -> Tensors:
        """What a signature answers; see `SignatureModule.answer`."""
        if signature.endswith("_text"):
            outputs = self.answer_text(**inputs)
        else:
            outputs = self.answer_ids(**inputs)
        documented = signatures.SIGNATURES[signature].outputs
        return {name: outputs[name] for name in documented}

    @abc.abstractmethod
    def answer_text(self, **inputs: tf.Tensor) -> Tensors:
        """The answers to raw text."""

    @abc.abstractmethod
    def answer_ids(self, **inputs: tf.Tensor) -> Tensors:
        """The answers to rows of ids, which are checked."""

    def predict_in_groups(
        self,
        outputs: Mapping[str, row_groups.Output],
        *rows: tf.Tensor,
        **features: tf.Tensor,
    ) -> Tensors:
        """What the head says of rows, those of like length together.

        Args:
            outputs: that are wanted of the head, without an axis of tokens.
            *rows: as for `predict`.
            **features: positions in the row, `[B, W]` int32.
        """
        lengths = row_groups.count_columns(rows[1])
        for positions in features.values():
            # A position may be asked for that has no token.
            last = tf.reduce_max(tf.pad(positions, [[0, 0], [0, 1]]), 1)
            lengths = tf.maximum(lengths, last + 1)

        def read_group(group: row_groups.Rows) -> Tensors:
            said = self.predict(
                *map(group.cut, rows),
                **{name: group.pick(v) for name, v in features.items()},
            )
            return {name: said[name] for name in outputs}

        return self.read_in_groups(
            read_group, lengths, tf.shape(rows[0])[1], outputs
        )

    def predict(self, *rows: tf.Tensor, **features: tf.Tensor) -> Tensors:
        """What the head says of rows, all at once.

        Args:
            *rows: `input_ids`, `input_mask`, `segment_ids`, `[B, S]` int32.
            **features: what else the head reads.
        """
        encoder, head = self.layers
        hidden = encoder(*rows).sequence_output
        names = ("input_ids", "input_mask", "segment_ids")
        tokens = dict(zip(names, rows, strict=True))
        return head.predict(hidden, tokens | features)
