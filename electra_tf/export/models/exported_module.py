"""Base class of exported models: variables, checks of ids, graphs.

`signatures.toml` documents inputs and outputs; batch size and length may vary.
A module holds plain TensorFlow variables and no Keras objects, so TensorFlow
and TensorFlow Text suffice to load it.
"""

import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from electra_tf.export import export_metadata
from electra_tf.export.models import length_buckets
from electra_tf.export.models import parallel_blocks
from electra_tf.export.models import stored_weights
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.text import tokenizer as tokenizer_lib

DEVICES = ("cpu", "any")
"""An export for `cpu` is fast on CPUs (`length_buckets`, `parallel_blocks`) and
runs only there; an export for `any` device computes a batch at once."""
_INPUTS = ("input_ids", "input_mask", "segment_ids")

Tensors = dict[str, tf.Tensor]


class ExportedModule(tf.Module):
    """A model and its tokenizer behind the signatures of an export.

    `run` computes eagerly when called directly; `trace_signatures` makes the
    graphs that are exported.
    """

    kind: str  # a section of `readme.toml`, or a kind of task
    signature_names: tuple[str, ...]  # the default one first
    # Approximate tokens of a bucket of rows in graphs; 0: all rows at once, on
    # any device.
    tokens_per_bucket: int = 0

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
                f"the model's positions, or 0. Received: {max_length}."
            )
        self.max_length = max_length or self.num_positions
        self.tokenizer = tokenizer
        # A plain object is not tracked, so layers are not saved whole.
        layers = (encoder, *layers)
        self._network = types.SimpleNamespace(encoder=encoder, layers=layers)
        self.model_variables = stored_weights.find_variables(layers)

    def prepare(self, weights: str, device: str) -> None:
        """Prepares the model for export; afterwards it can only infer."""
        if device == "cpu":
            self.tokens_per_bucket = length_buckets.TOKENS
            parallel_blocks.replace(self._network.encoder)
        stored_weights.replace(self._network.layers, weights)
        layers = self._network.layers
        self.model_variables = stored_weights.find_variables(layers)

    def run(self, signature: str, **inputs: tf.Tensor) -> Tensors:
        """Returns the outputs that `signatures.toml` documents."""
        answers = self.compute_answers(signature, **inputs)
        documented = export_metadata.SIGNATURES[signature].outputs
        return {name: answers[name] for name in documented}

    def compute_answers(self, signature: str, **inputs: tf.Tensor) -> Tensors:
        """Computes at least the documented outputs of a signature."""
        raise NotImplementedError

    def trace_signatures(self) -> dict[str, Any]:
        """Traces all signatures and returns their functions by name."""
        functions = {name: self.trace(name) for name in self.signature_names}
        default = functions[self.signature_names[0]]
        return {"serving_default": default} | functions

    def trace_unbucketed(self) -> dict[str, Any]:
        """Traces the signatures of ids without buckets.

        Conversions start from these: other runtimes lack buckets' operations.
        """
        tokens, self.tokens_per_bucket = self.tokens_per_bucket, 0
        names = (n for n in self.signature_names if n.endswith("_ids"))
        functions = {name: self.trace(name) for name in names}
        self.tokens_per_bucket = tokens
        return functions

    def trace(self, signature: str, outputs: Sequence[str] = ()) -> Any:
        """Traces a signature, with all outputs or only those named."""

        def run(**inputs: tf.Tensor) -> Tensors:
            answers = self.run(signature, **inputs)
            # A graph computes only the outputs that it returns.
            return {name: answers[name] for name in outputs or answers}

        specs = {}
        for name in export_metadata.SIGNATURES[signature].inputs:
            tensor = export_metadata.TENSORS[name]
            shape = [None] * len(tensor.axes)
            specs[name] = tf.TensorSpec(shape, tf.as_dtype(tensor.dtype), name)
        return tf.function(run, autograph=False).get_concrete_function(**specs)

    def compute_in_buckets(
        self,
        compute_rows: Callable[[length_buckets.ChosenRows], Tensors],
        input_mask: tf.Tensor,
        lengths: tf.Tensor | None = None,
        paddings: Mapping[str, float] | None = None,
    ) -> Tensors:
        """Calls `length_buckets.compute`; eagerly computes all rows at once.

        If `lengths` is None, each row needs the columns up to its last token.
        """
        if self.tokens_per_bucket == 0 or tf.executing_eagerly():
            return compute_rows(length_buckets.ChosenRows())
        if lengths is None:
            lengths = length_buckets.count_columns(input_mask)
        columns, size = tf.shape(input_mask)[1], self.tokens_per_bucket
        others = lengths, columns, paddings or {}, size
        return length_buckets.compute(compute_rows, *others)

    def check_ids(self, **rows: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Checks rows of ids in the graph; returns three `[B, S]` int32."""
        input_ids = rows["input_ids"]
        length, limit = tf.shape(input_ids)[1], self.num_positions
        message = f"Rows must have at most the model's {limit} positions."
        # An accelerator would look up zeros for ids that do not exist.
        checks = [tf.debugging.assert_less_equal(length, limit, message)]
        sizes = self.vocab_size, 2, self.num_segments
        for name, size in zip(_INPUTS, sizes, strict=True):
            tensor, message = rows[name], f"`{name}` must be 0 to {size - 1}."
            if tensor is not input_ids:
                pair = {"input_ids": input_ids, name: tensor}
                checks.append(_equal_shapes(**pair))
            is_known = (tensor >= 0) & (tensor < size)
            checks.append(self.require(is_known, message, tensor))
        with tf.control_dependencies(checks):
            input_ids = tf.identity(input_ids)
        return input_ids, rows["input_mask"], rows["segment_ids"]

    @staticmethod
    def check_pairs(**tensors: tf.Tensor) -> list[tf.Tensor]:
        """Returns two tensors, whose equal shapes are checked in the graph."""
        with tf.control_dependencies([_equal_shapes(**tensors)]):
            return [tf.identity(tensor) for tensor in tensors.values()]

    @staticmethod
    def require(conditions: tf.Tensor, message: str, values: tf.Tensor) -> Any:
        """Returns an operation that fails unless all conditions are true."""
        shown = [f"{message} Received values", values]
        return tf.debugging.Assert(tf.reduce_all(conditions), shown, 8)


def _equal_shapes(**tensors: tf.Tensor) -> Any:
    (first_name, first), (name, second) = tensors.items()
    message = f"`{name}` must have the shape of `{first_name}`."
    return tf.debugging.assert_equal(tf.shape(second), tf.shape(first), message)
