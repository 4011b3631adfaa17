"""Lists operations of a SavedModel that TensorFlow and TF Text lack.

Run as a file in a process that has nothing of this project:

    python -I registered_ops.py SAVED_MODEL_FOLDER

Prints a JSON object: `ops` of the graph and its functions, `missing` among
them, `text` that only TensorFlow Text registers, `identifiers` of Python
objects that the loader would have to know.
"""

import json
import pathlib
import sys

sys.modules["electra_tf"] = None

import tensorflow as tf  # noqa: E402
from tensorflow.core.protobuf import saved_model_pb2  # noqa: E402
from tensorflow.python.framework import op_def_registry  # noqa: E402

proto = saved_model_pb2.SavedModel.FromString(
    pathlib.Path(sys.argv[1], "saved_model.pb").read_bytes()
)
(meta,) = proto.meta_graphs
library = meta.graph_def.library.function
ops = {node.op for node in meta.graph_def.node}
ops |= {node.op for function in library for node in function.node_def}
ops -= {function.signature.name for function in library}


def unknown():
    """Operations that this process does not have."""
    return {op for op in ops if op_def_registry.get(op) is None}


before = unknown()
import tensorflow_text  # noqa: E402, F401

missing = unknown()
identifiers = {
    node.user_object.identifier
    for node in meta.object_graph_def.nodes
    if node.HasField("user_object")
}
# It loads here, too.
tf.saved_model.load(sys.argv[1])
found = {
    "ops": ops,
    "missing": missing,
    "text": before - missing,
    "identifiers": identifiers,
    "modules": {name for name in sys.modules if name.startswith("electra")},
}
print(json.dumps({name: sorted(values) for name, values in found.items()}))
