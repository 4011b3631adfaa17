"""What all exported modules share: variables, checks of ids, traced graphs.

Inputs and outputs have the names that `signatures.SIGNATURES` documents. Batch
and length are free. Nothing here keeps Keras objects in the exported graph: a
module holds plain TensorFlow variables, so TensorFlow and TensorFlow Text
suffice to load it.
"""

import abc
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from electra_tf.export import signatures
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.text import tokenizer as tokenizer_lib

Tensors = dict[str, tf.Tensor]


class SignatureModule(tf.Module, abc.ABC):
    """A model and its tokenizer behind the signatures of an export.

    `answer` runs operation by operation when called directly;
    `trace_signatures` makes the graphs that are exported.

    Args:
        encoder: its sizes say which ids there are.
        variables: Keras variables of all layers that answers need.
        tokenizer: of the vocabulary that it was trained with.
        max_length: tokens, special ones among them, at which texts are cut;
            0 for the model's number of positions.
        min_length: least of those that make sense.

    Raises:
        ValueError: if `max_length` is not in that range.
    """

    def __init__(
        self,
        encoder: encoder_lib.Encoder,
        variables: Iterable[Any],
        tokenizer: tokenizer_lib.Tokenizer,
        max_length: int = 0,
        min_length: int = 3,
    ) -> None:
        super().__init__(name="electra")
        embeddings = encoder.embeddings
        self.num_positions: int = embeddings.max_position_embeddings
        self.vocab_size: int = embeddings.vocab_size
        self.num_segments: int = embeddings.type_vocab_size
        if max_length and not min_length <= max_length <= self.num_positions:
            raise ValueError(
                f"`max_length` must be {min_length} to {self.num_positions}, "
                "the model's positions, or 0 for as many as it was made for. "
                f"Received: {max_length}."
            )
        self.max_length = max_length or self.num_positions
        self.tokenizer = tokenizer
        self.model_variables = [variable.value for variable in variables]

    @property
    @abc.abstractmethod
    def signature_names(self) -> tuple[str, ...]:
        """What it offers; the first is what a client gets that names none."""

    @abc.abstractmethod
    def answer(self, signature: str, **inputs: tf.Tensor) -> Tensors:
        """What a signature answers.

        Args:
            signature: one of `signature_names`.
            **inputs: as `signatures.SIGNATURES` documents it.

        Returns:
            Name to tensor, all that the signature documents.
        """

    def trace_signatures(self) -> dict[str, Any]:
        """Signature name to traced function, what `tf.saved_model.save` takes.

        Every function takes and returns exactly the documented names. A
        client that names none gets the first.
        """
        functions = {}
        for name in self.signature_names:
            inputs = signatures.SIGNATURES[name].inputs
            function = tf.function(self._as_function(name), autograph=False)
            functions[name] = function.get_concrete_function(
                **{tensor: _tensor_spec(tensor) for tensor in inputs}
            )
        default = functions[self.signature_names[0]]
        return {"serving_default": default} | functions

    def _as_function(self, signature: str) -> Callable[..., Tensors]:
        def answer(**inputs: tf.Tensor) -> Tensors:
            return self.answer(signature, **inputs)

        return answer

    def check_ids(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        segment_ids: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """The same, after checks that only the running graph can make."""
        length = tf.shape(input_ids)[1]
        # An accelerator would look up zeros for ids that do not exist.
        checks = [
            require_equal_shapes(
                "input_mask", input_mask, "input_ids", input_ids
            ),
            require_equal_shapes(
                "segment_ids", segment_ids, "input_ids", input_ids
            ),
            tf.debugging.assert_less_equal(
                length,
                self.num_positions,
                "Rows must not be longer than the model's "
                f"{self.num_positions} positions. Cut them.",
            ),
            require_range("input_ids", input_ids, self.vocab_size),
            require_range("segment_ids", segment_ids, self.num_segments),
            require_range("input_mask", input_mask, 2),
        ]
        with tf.control_dependencies(checks):
            return tf.identity(input_ids), input_mask, segment_ids


def require_equal_shapes(
    name: str, tensor: tf.Tensor, reference_name: str, reference: tf.Tensor
) -> Any:
    """An operation that fails unless two tensors have one shape."""
    return tf.debugging.assert_equal(
        tf.shape(tensor),
        tf.shape(reference),
        f"`{name}` must have the shape of `{reference_name}`.",
    )


def require_range(name: str, tensor: tf.Tensor, size: int) -> Any:
    """An operation that fails unless all values are 0 to `size - 1`."""
    return tf.debugging.Assert(
        tf.reduce_all((tensor >= 0) & (tensor < size)),
        [f"`{name}` must be 0 to {size - 1}. Received values", tensor],
        summarize=8,
    )


def _tensor_spec(name: str) -> tf.TensorSpec:
    meaning = signatures.TENSORS[name]
    rank = meaning.shape.count(",") + 1
    return tf.TensorSpec([None] * rank, tf.as_dtype(meaning.dtype), name)
