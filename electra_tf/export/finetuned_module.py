"""What exports of fine-tuned models share: an encoder with one task's head."""

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from electra_tf.export import finetuned_rows
from electra_tf.export import row_groups
from electra_tf.export import signature_module
from electra_tf.export import signatures
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import task_heads
from electra_tf.text import tokenizer as tokenizer_lib

Tensors = dict[str, tf.Tensor]


@dataclasses.dataclass(frozen=True)
class FinetunedLayers:
    """The layers of one task. A plain object: layers would be saved whole.

    Attributes:
        encoder: with its weights.
        head: of the task, with its weights.
    """

    encoder: encoder_lib.Encoder
    head: task_heads.TaskHead


class FinetunedModule(signature_module.SignatureModule):
    """A fine-tuned model behind the signatures of its kind of task.

    Args:
        layers: of the task.
        tokenizer: of the vocabulary that it was trained with.
        max_length: most tokens of a row; 0 for the model's positions.
        min_length: least of those that make sense.

    Raises:
        ValueError: if `max_length` is not in that range.
    """

    kind: str
    """What it was fine-tuned for, see `finetuned_documentation`."""

    def __init__(
        self,
        layers: FinetunedLayers,
        tokenizer: tokenizer_lib.Tokenizer,
        max_length: int = 0,
        min_length: int = 3,
    ) -> None:
        super().__init__(
            layers.encoder,
            [*layers.encoder.variables, *layers.head.variables],
            tokenizer,
            max_length,
            min_length,
        )
        self._layers = layers

    @property
    def layers(self) -> tuple[Any, ...]:
        """Encoder and head."""
        return self._layers.encoder, self._layers.head

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
        hidden = self._layers.encoder(*rows).sequence_output
        names = ("input_ids", "input_mask", "segment_ids")
        tokens = dict(zip(names, rows, strict=True))
        return self._layers.head.predict(hidden, tokens | features)


class SentenceModule(FinetunedModule):
    """One answer for a text, or for a pair of texts.

    Args:
        layers: of the task.
        tokenizer: of the vocabulary that it was trained with.
        max_length: most tokens of a row; 0 for the model's positions.
        has_pairs: whether it was trained on pairs.
    """

    family: str
    """What the names of the signatures begin with."""

    def __init__(
        self,
        layers: FinetunedLayers,
        tokenizer: tokenizer_lib.Tokenizer,
        max_length: int = 0,
        has_pairs: bool = False,
    ) -> None:
        least = finetuned_rows.MIN_PAIR_LENGTH
        super().__init__(layers, tokenizer, max_length, least)
        self.has_pairs = has_pairs

    @property
    def signature_names(self) -> tuple[str, ...]:
        """Raw text first."""
        text = "pair_text" if self.has_pairs else "text"
        return f"{self.family}_{text}", f"{self.family}_ids"

    def answer_text(self, **inputs: tf.Tensor) -> Tensors:
        """The answers for `texts`, or `texts` and `text_pairs`."""
        texts, pairs = inputs["texts"], inputs.get("text_pairs")
        if pairs is not None:
            check = signature_module.require_equal_shapes(
                "text_pairs", pairs, "texts", texts
            )
            with tf.control_dependencies([check]):
                texts = tf.identity(texts)
        rows = finetuned_rows.pack_texts(
            self.tokenizer, texts, pairs, self.max_length
        )
        return self._read_rows(*rows[:3]) | {
            "num_tokens": rows.num_tokens,
            "num_truncated": rows.num_truncated,
        }

    def answer_ids(self, **inputs: tf.Tensor) -> Tensors:
        """The answers for rows of ids."""
        return self._read_rows(*self.check_ids(**inputs))

    def _read_rows(self, *rows: tf.Tensor) -> Tensors:
        return self.read(self.predict_in_groups(self.head_outputs, *rows))

    @property
    @abc.abstractmethod
    def head_outputs(self) -> dict[str, row_groups.Output]:
        """What `read` needs of the head."""

    @abc.abstractmethod
    def read(self, outputs: Tensors) -> Tensors:
        """Answers from what the head says."""


class ClassificationModule(SentenceModule):
    """The label of a text or of a pair.

    Args:
        layers, tokenizer, max_length, has_pairs: as for every module.
        labels: names, in the order of the head's outputs.
    """

    kind = "classification"
    family = "classify"

    def __init__(
        self,
        layers: FinetunedLayers,
        tokenizer: tokenizer_lib.Tokenizer,
        labels: tuple[str, ...],
        max_length: int = 0,
        has_pairs: bool = False,
    ) -> None:
        super().__init__(layers, tokenizer, max_length, has_pairs)
        self._labels = tf.constant(labels)

    @property
    def head_outputs(self) -> dict[str, row_groups.Output]:
        """Logits."""
        shape = (None, *self._labels.shape)
        return {"logits": row_groups.Output(tf.float32, shape)}

    def read(self, outputs: Tensors) -> Tensors:
        """Labels with probabilities."""
        logits = outputs["logits"]
        best = tf.argmax(logits, axis=1, output_type=tf.int32)
        return {
            "label": tf.gather(self._labels, best),
            "label_index": best,
            "probabilities": tf.nn.softmax(logits),
            "logits": logits,
        }


class RegressionModule(SentenceModule):
    """The score of a text or of a pair.

    Args:
        layers, tokenizer, max_length, has_pairs: as for every module.
        min_value: the score that the head learned as 0.
        max_value: and as 1.
    """

    kind = "regression"
    family = "regress"

    def __init__(
        self,
        layers: FinetunedLayers,
        tokenizer: tokenizer_lib.Tokenizer,
        min_value: float,
        max_value: float,
        max_length: int = 0,
        has_pairs: bool = False,
    ) -> None:
        super().__init__(layers, tokenizer, max_length, has_pairs)
        self.min_value = min_value
        self.max_value = max_value

    @property
    def head_outputs(self) -> dict[str, row_groups.Output]:
        """A number."""
        return {"prediction": row_groups.Output(tf.float32)}

    def read(self, outputs: Tensors) -> Tensors:
        """Scores in the task's own range."""
        scale = self.max_value - self.min_value
        return {"score": self.min_value + outputs["prediction"] * scale}
