"""A signature of an export as an ONNX model.

tf2onnx converts, onnxruntime asks; both are optional packages
(`pip install electra-tf[onnx]`).
"""

import importlib
import pathlib
from typing import Any

from electra_tf import errors
from electra_tf.export import signatures
from electra_tf.export.runtimes import frozen_signature
from electra_tf.export.runtimes import litert_model

FILE_NAME = "model.onnx"
# ONNX 1.12 and newer; onnxruntime reads it since 1.12.
OPSET = 17


def convert(frozen: frozen_signature.FrozenSignature) -> bytes:
    """Converts to the content of a model file; batch and length stay free."""
    tf2onnx = _require("tf2onnx")
    _require("tf2onnx.convert")
    inputs = [f"{name}:0" for name in frozen.inputs]
    try:
        proto, _ = tf2onnx.convert.from_graph_def(
            frozen.graph,
            input_names=inputs,
            output_names=list(frozen.outputs.values()),
            opset=OPSET,
        )
    except Exception as error:
        raise errors.ExportError(
            f"tf2onnx {tf2onnx.__version__} could not convert {frozen.name} to "
            f"ONNX. It said: {str(error)[: litert_model.MAX_QUOTED]}"
        ) from error
    names = dict(zip(inputs, frozen.inputs, strict=True))
    names |= {tensor: name for name, tensor in frozen.outputs.items()}
    _rename(proto.graph, names)
    return proto.SerializeToString()


def load(path: pathlib.Path, signature: str) -> frozen_signature.Ask:
    """A function that asks a model file."""
    del signature  # the file has one
    session = _require("onnxruntime").InferenceSession(
        str(path), providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return lambda arguments: dict(
        zip(names, session.run(None, arguments), strict=True)
    )


def _rename(graph: Any, names: dict[str, str]) -> None:
    """Gives tensors the names of the signature, and their axes letters."""
    for node in graph.node:
        for side in (node.input, node.output):
            side[:] = [names.get(name, name) for name in side]
    for value in (*graph.input, *graph.output):
        value.name = names[value.name]
        letters = signatures.TENSORS[value.name].axes
        axes = value.type.tensor_type.shape.dim
        for axis, letter in zip(axes, letters, strict=True):
            # A name says that any size is taken, and which are the same.
            if not axis.dim_value:
                axis.dim_param = letter


def _require(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f"ONNX needs the packages tf2onnx and onnxruntime. Received: "
            f"{error}. Install them: pip install electra-tf[onnx]"
        ) from error
