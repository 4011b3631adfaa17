"""What all exported models share: variables, checks of ids, traced graphs.

Inputs and outputs have the names of `signatures.SIGNATURES`; batch and length
are free. A module holds plain TensorFlow variables and no Keras objects, so
TensorFlow and TensorFlow Text suffice to load it.
"""

import abc
import types
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from electra_tf.export import signatures
from electra_tf.export.models import length_buckets
from electra_tf.export.models import parallel_blocks
from electra_tf.export.models import stored_weights
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.text import tokenizer as tokenizer_lib

DEVICES = ("cpu", "any")
"""An export for `cpu` is fast there (`length_buckets`, `parallel_blocks`) and
runs nowhere else; one for `any` device computes a batch at once."""
_INPUTS = ("input_ids", "input_mask", "segment_ids")

Tensors = dict[str, tf.Tensor]


class ExportedModule(tf.Module, abc.ABC):
    """A model and its tokenizer behind the signatures of an export.

    `run` computes operation by operation when called directly;
    `trace_signatures` makes the graphs that are exported.

    Attributes:
        kind: what the model is, a section of `readme.toml`.
        tokens_per_bucket: in a graph, rows are computed in buckets of about
            as many tokens (`length_buckets`); 0, the default, computes all
            rows at once, on any device.
    """

    kind: str

    def __init__(
        self,
        encoder: encoder_lib.Encoder,
        layers: Sequence[Any],
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
        self.tokens_per_bucket = 0
        # A plain object is not tracked; layers would be saved whole.
        self._network = types.SimpleNamespace(
            encoder=encoder, layers=(encoder, *layers)
        )
        self.model_variables = stored_weights.find_variables(
            self._network.layers
        )

    @property
    @abc.abstractmethod
    def signature_names(self) -> tuple[str, ...]:
        """Signatures that it has, the default one first."""

    def prepare(self, weights: str, device: str) -> None:
        """Gives the model the form of an export, for inference alone."""
        if device == "cpu":
            self.tokens_per_bucket = length_buckets.TOKENS
            parallel_blocks.replace(self._network.encoder)
        stored_weights.replace(self._network.layers, weights)
        self.model_variables = stored_weights.find_variables(
            self._network.layers
        )

    def run(self, signature: str, **inputs: tf.Tensor) -> Tensors:
        """Answers a signature, as `signatures.SIGNATURES` documents it."""
        answers = self.compute_answers(signature, **inputs)
        documented = signatures.SIGNATURES[signature].outputs
        return {name: answers[name] for name in documented}

    @abc.abstractmethod
    def compute_answers(self, signature: str, **inputs: tf.Tensor) -> Tensors:
        """Computes at least what a signature documents."""

    def trace_signatures(self) -> dict[str, Any]:
        """Traces all signatures: name to function, and the default one."""
        functions = {name: self._trace(name) for name in self.signature_names}
        default = functions[self.signature_names[0]]
        return {"serving_default": default} | functions

    def trace_unbucketed(self) -> dict[str, Any]:
        """Traces the signatures of ids once more, with all rows at once.

        Other runtimes lack what buckets need, so conversions start from these
        (`frozen_signature`). No signature offers them.
        """
        tokens, self.tokens_per_bucket = self.tokens_per_bucket, 0
        try:
            return {
                name: self._trace(name)
                for name in self.signature_names
                if name.endswith("_ids")
            }
        finally:
            self.tokens_per_bucket = tokens

    def _trace(self, signature: str) -> Any:
        def run(**inputs: tf.Tensor) -> Tensors:
            return self.run(signature, **inputs)

        names = signatures.SIGNATURES[signature].inputs
        return tf.function(run, autograph=False).get_concrete_function(
            **{name: _tensor_spec(name) for name in names}
        )

    def compute_in_buckets(
        self,
        compute_rows: Callable[[length_buckets.Rows], Tensors],
        lengths: tf.Tensor,
        num_columns: tf.Tensor,
        outputs: Mapping[str, length_buckets.OutputSpec],
    ) -> Tensors:
        """As `length_buckets.compute`; eagerly all rows at once."""
        if self.tokens_per_bucket == 0 or tf.executing_eagerly():
            return compute_rows(length_buckets.Rows())
        return length_buckets.compute(
            compute_rows, lengths, num_columns, outputs, self.tokens_per_bucket
        )

    def check_ids(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        segment_ids: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Rows of ids, after checks that only the running graph can make."""
        rows = input_ids, input_mask, segment_ids
        # An accelerator would look up zeros for ids that do not exist.
        checks = [
            tf.debugging.assert_less_equal(
                tf.shape(input_ids)[1],
                self.num_positions,
                "Rows must not be longer than the model's "
                f"{self.num_positions} positions. Cut them.",
            )
        ]
        sizes = self.vocab_size, 2, self.num_segments
        for name, tensor, size in zip(_INPUTS, rows, sizes, strict=True):
            if tensor is not input_ids:
                checks.append(
                    _require_equal_shapes(name, tensor, "input_ids", input_ids)
                )
            checks.append(_require_range(name, tensor, size))
        with tf.control_dependencies(checks):
            return tf.identity(input_ids), input_mask, segment_ids


def check_pairs(**tensors: tf.Tensor) -> list[tf.Tensor]:
    """Two tensors, after a check of the graph that their shapes are equal."""
    (first_name, first), (second_name, second) = tensors.items()
    check = _require_equal_shapes(second_name, second, first_name, first)
    with tf.control_dependencies([check]):
        return [tf.identity(first), tf.identity(second)]


def _require_equal_shapes(
    name: str, tensor: tf.Tensor, reference_name: str, reference: tf.Tensor
) -> Any:
    return tf.debugging.assert_equal(
        tf.shape(tensor),
        tf.shape(reference),
        f"`{name}` must have the shape of `{reference_name}`.",
    )


def _require_range(name: str, tensor: tf.Tensor, size: int) -> Any:
    return tf.debugging.Assert(
        tf.reduce_all((tensor >= 0) & (tensor < size)),
        [f"`{name}` must be 0 to {size - 1}. Received values", tensor],
        summarize=8,
    )


def _tensor_spec(name: str) -> tf.TensorSpec:
    meaning = signatures.TENSORS[name]
    shape = [None] * len(meaning.axes)
    return tf.TensorSpec(shape, tf.as_dtype(meaning.dtype), name)
