"""A signature of an export as a plain graph that other runtimes can take.

Weights become constants. What a server checks of requests is gone, and so are
strings, which other runtimes do not have.
"""

import pathlib
from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.python.framework import convert_to_constants

from electra_tf.export import signatures
from electra_tf.export.clients import text_models

Arrays = dict[str, np.ndarray]
Ask = Callable[[Arrays], Arrays]


class FrozenSignature(NamedTuple):
    """A signature without variables, checks and strings."""

    name: str  # of the signature
    # Inputs are placeholders that have the signature's names.
    graph: graph_pb2.GraphDef
    # Name to the graph's tensor, all that are no strings.
    outputs: dict[str, str]
    left_out: tuple[str, ...]  # names of outputs that are strings
    ask: Ask  # the export's own function

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs."""
        return signatures.SIGNATURES[self.name].inputs

    def as_function(self, graph: graph_pb2.GraphDef) -> Any:
        """A function of a graph with the same inputs and outputs."""
        wrapped = tf.compat.v1.wrap_function(
            lambda: tf.graph_util.import_graph_def(graph, name=""), []
        )
        found = wrapped.graph.as_graph_element
        return wrapped.prune(
            [found(f"{name}:0") for name in self.inputs],
            {name: found(tensor) for name, tensor in self.outputs.items()},
        )


def freeze(export_dir: pathlib.Path, signature: str = "") -> FrozenSignature:
    """Reads one signature of an export."""
    model = text_models.load_saved_model(export_dir)
    name = _choose(list(model.signatures), signature)
    # Its answers are the signature's; other runtimes lack what that needs.
    function = getattr(model, "unbucketed", model.signatures)[name]
    constant = convert_to_constants.convert_variables_to_constants_v2(
        function, lower_control_flow=False
    )
    # A function's outputs are in the order of their sorted names.
    names = sorted(function.structured_outputs)
    tensors = dict(zip(names, constant.outputs, strict=True))
    documented = signatures.SIGNATURES[name].outputs
    kept = {
        key: tensors[key].name
        for key in documented
        if tensors[key].dtype != tf.string
    }

    def ask(arguments: Arrays) -> Arrays:
        # `model` is kept alive by this function, and so are its weights.
        answers = model.signatures[name](
            **{key: tf.constant(value) for key, value in arguments.items()}
        )
        return {key: answers[key].numpy() for key in kept}

    return FrozenSignature(
        name,
        _without_checks(constant.graph.as_graph_def(), kept),
        kept,
        tuple(key for key in documented if key not in kept),
        ask,
    )


def _choose(names: list[str], signature: str) -> str:
    offered = [
        name
        for name in signatures.SIGNATURES
        if name in names and name.endswith("_ids")
    ]
    if signature in offered:
        return signature
    if signature or not offered:
        raise ValueError(
            "Only signatures of ids can be converted; other runtimes have no "
            "operations for text. This model has "
            f"{', '.join(offered) or 'none'}. Received: {signature!r}."
        )
    return offered[0]


def _without_checks(
    graph: graph_pb2.GraphDef, outputs: dict[str, str]
) -> graph_pb2.GraphDef:
    """The graph with what outputs are computed from, and its inputs."""
    for node in graph.node:
        # Only checks order operations here.
        node.input[:] = [name for name in node.input if name[0] != "^"]
        # Nobody trains it, and gradients of its own could not be saved.
        node.attr.pop("_gradient_op_type", None)
    by_name = {node.name: node for node in graph.node}
    # What a signature takes stays, used or not.
    needed = {node.name for node in graph.node if node.op == "Placeholder"}
    waiting = list(outputs.values())
    while waiting:
        name = waiting.pop().partition(":")[0]
        if name not in needed:
            needed.add(name)
            waiting += by_name[name].input
    pruned = graph_pb2.GraphDef(versions=graph.versions, library=graph.library)
    pruned.node.extend(node for node in graph.node if node.name in needed)
    return pruned
