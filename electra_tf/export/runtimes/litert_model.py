"""A signature of an export as a LiteRT (TensorFlow Lite) model.

Built-in operations alone, so the interpreter needs no TensorFlow. Two things
that the runtime lacks are written as what it has: the error function as part
of its GELU, and several new axes at once as one after the other.
"""

import pathlib
import tempfile
import warnings
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.core.framework import types_pb2

from electra_tf import errors
from electra_tf.export.runtimes import frozen_signature

FILE_NAME = "model.tflite"
# Of a converter's words, which can be the whole graph.
MAX_QUOTED = 600


def convert(frozen: frozen_signature.FrozenSignature) -> bytes:
    """Converts to the content of a model file; batch and length stay free."""
    function = frozen.as_function(rewrite(frozen.graph))
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    with tempfile.TemporaryDirectory() as folder:
        module = tf.Module()
        module.function = function
        # Only a SavedModel gives the result the names of a signature.
        tf.saved_model.save(module, folder, {frozen.name: function}, options)
        converter = tf.lite.TFLiteConverter.from_saved_model(
            folder, signature_keys=[frozen.name]
        )
        try:
            return converter.convert()
        except Exception as error:
            raise errors.ExportError(
                f"TensorFlow {tf.__version__} could not convert {frozen.name} "
                f"to LiteRT. It said: {str(error)[:MAX_QUOTED]}"
            ) from error


def load(path: pathlib.Path, signature: str) -> frozen_signature.Ask:
    """A function that asks a signature of a model file."""
    run = _interpreter()(model_path=str(path)).get_signature_runner(signature)
    return lambda arguments: run(**arguments)


def rewrite(graph: graph_pb2.GraphDef) -> graph_pb2.GraphDef:
    """A graph of the same computation in operations that LiteRT has."""
    result = graph_pb2.GraphDef()
    result.CopyFrom(graph)
    consumers: dict[str, list[Any]] = {}
    for node in result.node:
        for tensor in node.input:
            consumers.setdefault(tensor.partition(":")[0], []).append(node)
    by_name = {node.name: node for node in result.node}
    for node in list(result.node):
        if node.op == "Erf":
            _fuse_gelu(result, node, by_name, consumers)
        elif node.op == "StridedSlice" and node.attr["new_axis_mask"].i:
            _expand_one_by_one(result, node, by_name)
    return result


def _fuse_gelu(
    graph: graph_pb2.GraphDef,
    erf: Any,
    by_name: dict[str, Any],
    consumers: dict[str, list[Any]],
) -> None:
    """`x (0.5 + 0.5 erf)` becomes `(0.5 x) (erf + 1)`, which is recognised."""
    scaled = by_name[erf.input[0]]
    for half in consumers[erf.name]:
        for probability in consumers[half.name]:
            for product in consumers[probability.name]:
                inputs = [n for n in product.input if n in scaled.input]
                found = half.op, probability.op, product.op, len(inputs)
                if found != ("Mul", "AddV2", "Mul", 1):
                    continue
                name = product.name
                _add_constant(graph, f"{name}/half", np.float32(0.5))
                _add_constant(graph, f"{name}/one", np.float32(1))
                _add_binary(
                    graph, "Mul", f"{name}/left", inputs[0], f"{name}/half"
                )
                _add_binary(
                    graph, "AddV2", f"{name}/right", erf.name, f"{name}/one"
                )
                product.input[:] = [f"{name}/left", f"{name}/right"]


def _expand_one_by_one(
    graph: graph_pb2.GraphDef, node: Any, by_name: dict[str, Any]
) -> None:
    """Rewrites `x[:, newaxis, newaxis, :]`; leaves other slices as they are."""
    masks = {
        name: node.attr[f"{name}_mask"].i
        for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    }
    strides = by_name[node.input[3].partition(":")[0]]
    if strides.op != "Const" or masks["ellipsis"] or masks["shrink_axis"]:
        return
    steps = tf.make_ndarray(strides.attr["value"].tensor)
    every, new_axes = 2**steps.size - 1, masks["new_axis"]
    is_whole = (masks["begin"] & masks["end"]) | new_axes == every
    if not is_whole or (steps != 1).any():
        return
    axes = [axis for axis in range(8) if new_axes >> axis & 1]
    value, dtype = node.input[0], node.attr["T"].type
    for axis in axes:
        is_last = axis == axes[-1]
        name = f"{node.name}/axis_{axis}"
        _add_constant(graph, name, np.int32(axis))
        target = node if is_last else graph.node.add()
        if is_last:
            node.ClearField("attr")
        else:
            target.name = f"{name}/expanded"
        target.op = "ExpandDims"
        target.input[:] = [value, name]
        target.attr["T"].type = dtype
        target.attr["Tdim"].type = types_pb2.DT_INT32
        value = target.name


def _add_constant(graph: graph_pb2.GraphDef, name: str, value: Any) -> None:
    node = graph.node.add(name=name, op="Const")
    node.attr["dtype"].type = tf.as_dtype(value.dtype).as_datatype_enum
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))


def _add_binary(
    graph: graph_pb2.GraphDef, op: str, name: str, left: str, right: str
) -> None:
    node = graph.node.add(name=name, op=op)
    node.input[:] = [left, right]
    node.attr["T"].type = types_pb2.DT_FLOAT


def _interpreter() -> Any:
    try:
        from ai_edge_litert import interpreter
    except ImportError:
        # TensorFlow's own is the same code, and is to leave TensorFlow.
        warnings.filterwarnings("ignore", ".*Interpreter is deprecated")
        return tf.lite.Interpreter
    return interpreter.Interpreter
