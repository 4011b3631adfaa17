"""What all exported modules share: variables, checks of ids, traced graphs.

Inputs and outputs have the names that `signatures.SIGNATURES` documents. Batch
and length are free. Nothing here keeps Keras objects in the exported graph: a
module holds plain TensorFlow variables, so TensorFlow and TensorFlow Text
suffice to load it.
"""

import abc
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from electra_tf.export import signatures
from electra_tf.export.compute import parallel_blocks
from electra_tf.export.compute import row_groups
from electra_tf.export.compute import stored_weights
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.text import tokenizer as tokenizer_lib

DEVICES = ("cpu", "any")
"""What an export can be made for; see `SignatureModule.prepare`."""

Tensors = dict[str, tf.Tensor]


class SignatureModule(tf.Module, abc.ABC):
    """A model and its tokenizer behind the signatures of an export.

    `answer` runs operation by operation when called directly;
    `trace_signatures` makes the graphs that are exported.

    Attributes:
        tokens_per_group: in a graph, rows go through the model in groups of
            about as many tokens, on the CPU (`row_groups`); 0, the default,
            is for all rows at once, anywhere.

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
        sizes = encoder.settings
        self.num_positions: int = sizes.max_position_embeddings
        self.vocab_size: int = sizes.vocab_size
        self.num_segments: int = sizes.type_vocab_size
        if max_length and not min_length <= max_length <= self.num_positions:
            raise ValueError(
                f"`max_length` must be {min_length} to {self.num_positions}, "
                "the model's positions, or 0 for as many as it was made for. "
                f"Received: {max_length}."
            )
        self.max_length = max_length or self.num_positions
        self.tokenizer = tokenizer
        self.tokens_per_group = 0
        self.model_variables = [variable.value for variable in variables]

    @property
    @abc.abstractmethod
    def signature_names(self) -> tuple[str, ...]:
        """What it offers; the first is what a client gets that names none."""

    @property
    @abc.abstractmethod
    def layers(self) -> tuple[Any, ...]:
        """Keras layers that hold all weights, themselves or in others."""

    def prepare(self, weights: str, device: str) -> None:
        """Gives the model the form of an export, for inference alone.

        Args:
            weights: how they are stored, one of `stored_weights.FORMATS`.
            device: that will compute the answers, one of `DEVICES`.

        Raises:
            ValueError: for an unknown format.
        """
        stored_weights.require_format(weights)
        if device == "cpu":
            self.tokens_per_group = row_groups.TOKENS
            for layer in self.layers:
                if isinstance(layer, encoder_lib.Encoder):
                    self._compute_in_parts(layer)
        replaced = stored_weights.replace(self.layers, weights)
        self.model_variables = [
            new
            for variable in self.model_variables
            for new in replaced.get(id(variable), [variable])
        ]

    def _compute_in_parts(self, encoder: encoder_lib.Encoder) -> None:
        old = {
            id(variable.value)
            for block in encoder.blocks
            for variable in block.variables
        }
        self.model_variables = [
            variable
            for variable in self.model_variables
            if id(variable) not in old
        ] + parallel_blocks.replace(encoder)

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
        functions = {name: self._trace(name) for name in self.signature_names}
        default = functions[self.signature_names[0]]
        return {"serving_default": default} | functions

    def trace_ungrouped(self) -> dict[str, Any]:
        """The signatures of ids once more, all rows of a batch at once.

        Other runtimes lack what groups of rows need, so conversions start
        from these (`frozen_signature`). No signature offers them.
        """
        tokens, self.tokens_per_group = self.tokens_per_group, 0
        try:
            return {
                name: self._trace(name)
                for name in self.signature_names
                if name.endswith("_ids")
            }
        finally:
            self.tokens_per_group = tokens

    def _trace(self, signature: str) -> Any:
        inputs = signatures.SIGNATURES[signature].inputs
        function = tf.function(self._as_function(signature), autograph=False)
        return function.get_concrete_function(
            **{name: _tensor_spec(name) for name in inputs}
        )

    def _as_function(self, signature: str) -> Callable[..., Tensors]:
        def answer(**inputs: tf.Tensor) -> Tensors:
            return self.answer(signature, **inputs)

        return answer

    def read_in_groups(
        self,
        read_group: Callable[[row_groups.Rows], Tensors],
        lengths: tf.Tensor,
        num_columns: tf.Tensor,
        outputs: Mapping[str, row_groups.Output],
    ) -> Tensors:
        """Answers of rows, in a graph those of like length together.

        Args:
            read_group, lengths, num_columns, outputs: as `row_groups.read`
                takes them.
        """
        if self.tokens_per_group == 0 or tf.executing_eagerly():
            return read_group(row_groups.Rows())
        return row_groups.read(
            read_group, lengths, num_columns, outputs, self.tokens_per_group
        )

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
