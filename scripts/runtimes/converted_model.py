"""Converts an export for other runtimes than TensorFlow: LiteRT or ONNX.

The result is one signature of ids as a plain graph: weights are constants;
checks of requests and strings are removed. For LiteRT it has only built-in
operations. The folder has the model, its vocabulary, export.json and README.md.
"""

import dataclasses
import pathlib
import tempfile
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.python.framework import convert_to_constants

from electra_tf import errors
from electra_tf import installed
from electra_tf.config import schema
from electra_tf.export import export_metadata
from electra_tf.export import self_check
from electra_tf.export.clients import text_models
from electra_tf.processes import atomic
from electra_tf.text import vocabulary as vocabulary_lib

TOLERANCE = 1e-4
"""Maximum difference from the export, as `self_check` measures it."""
_OPSET = 17  # readable since ONNX 1.12 and onnxruntime 1.12
# Rows and their tokens; 0: as many tokens as the model allows.
_BATCHES = ((1, 2), (3, 7), (2, 0))
_COPIED = ("vocab.txt", "tokenizer_config.json", "export.json")
# Characters of a converter's message, which can hold the whole graph.
_MAX_QUOTED = 600
_EXAMPLE_INPUTS = {
    "input_ids": "ids",
    "input_mask": "np.ones_like(ids)",
    "segment_ids": "np.zeros_like(ids)",
    "word_positions": "np.array([[1]], np.int32)",
}

Arrays = dict[str, np.ndarray]
Ask = Callable[[Arrays], Arrays]


class FrozenSignature(NamedTuple):
    """A signature without variables, checks and strings."""

    name: str  # of the signature
    # Inputs are placeholders with the signature's names.
    graph: graph_pb2.GraphDef
    outputs: dict[str, str]  # the graph's tensors by name, without strings
    left_out: list[str]  # names of outputs that are strings
    ask: Ask  # the function of the export

    @property
    def inputs(self) -> list[str]:
        """The names of the inputs."""
        return export_metadata.SIGNATURES[self.name].inputs


def freeze(export_dir: pathlib.Path, signature: str = "") -> FrozenSignature:
    """Reads a signature of ids of an export; empty: the first one."""
    model = text_models.load_saved_model(export_dir)
    offered = [
        name
        for name in export_metadata.SIGNATURES
        if name in model.signatures and name.endswith("_ids")
    ]
    if not offered or signature not in ("", *offered):
        raise ValueError(
            "Only signatures of ids can be converted; other runtimes have no "
            "operations for text. This model has "
            f"{', '.join(offered) or 'none'}. Received: {signature!r}."
        )
    name = signature or offered[0]
    # The same function without buckets, which other runtimes lack.
    function = getattr(model, "unbucketed", model.signatures)[name]
    constant = convert_to_constants.convert_variables_to_constants_v2(
        function, lower_control_flow=False
    )
    # A function's outputs are in the order of their sorted names.
    names = sorted(function.structured_outputs)
    tensors = dict(zip(names, constant.outputs, strict=True))
    documented = export_metadata.SIGNATURES[name].outputs
    is_string = {key: tensors[key].dtype == tf.string for key in documented}
    kept = {k: tensors[k].name for k in documented if not is_string[k]}

    def ask(arguments: Arrays) -> Arrays:
        # The reference to `model` keeps its weights alive.
        answers = model.signatures[name](
            **{key: tf.constant(value) for key, value in arguments.items()}
        )
        return {key: answers[key].numpy() for key in kept}

    graph = _without_checks(constant.graph.as_graph_def(), kept)
    left_out = [key for key in documented if is_string[key]]
    return FrozenSignature(name, graph, kept, left_out, ask)


def _without_checks(
    graph: graph_pb2.GraphDef, outputs: dict[str, str]
) -> graph_pb2.GraphDef:
    """Keeps the inputs, and the nodes from which outputs are computed."""
    for node in graph.node:
        # Control inputs exist only for checks.
        node.input[:] = [name for name in node.input if name[0] != "^"]
        # Custom gradients cannot be saved.
        node.attr.pop("_gradient_op_type", None)
    by_name = {node.name: node for node in graph.node}
    # Inputs of the signature are kept even if unused.
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


def convert_to_litert(frozen: FrozenSignature) -> bytes:
    """Returns the content of a LiteRT (TensorFlow Lite) file."""
    graph = rewrite_gelu(frozen.graph)
    wrapped = tf.compat.v1.wrap_function(
        lambda: tf.graph_util.import_graph_def(graph, name=""), []
    )
    find = wrapped.graph.as_graph_element
    module = tf.Module()
    module.function = wrapped.prune(
        [find(f"{name}:0") for name in frozen.inputs],
        {name: find(tensor) for name, tensor in frozen.outputs.items()},
    )
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    with tempfile.TemporaryDirectory() as folder:
        # Through a SavedModel: only it has the names of a signature.
        signatures = {frozen.name: module.function}
        tf.saved_model.save(module, folder, signatures, options)
        converter = tf.lite.TFLiteConverter.from_saved_model(
            folder, signature_keys=[frozen.name]
        )
        return converter.convert()


def rewrite_gelu(graph: graph_pb2.GraphDef) -> graph_pb2.GraphDef:
    """Replaces `x (0.5 + 0.5 erf)` by `(0.5 x) (erf + 1)`.

    LiteRT recognizes the second form as its exact GELU; it has no `erf`.
    """
    result = graph_pb2.GraphDef()
    result.CopyFrom(graph)
    one = result.node.add(name="gelu/one", op="Const")
    one.attr["dtype"].type = tf.float32.as_datatype_enum
    one.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(1.0))
    by_name = {node.name: node for node in result.node}
    reader = {name: node for node in result.node for name in node.input}
    for erf in result.node:
        half = reader.get(erf.name)
        if erf.op != "Erf" or half is None or half.op != "Mul":
            continue
        probability = reader[half.name]
        product = reader[probability.name]
        shared = {*product.input} & {*by_name[erf.input[0]].input}
        if (probability.op, product.op, len(shared)) == ("AddV2", "Mul", 1):
            constants = [name for name in half.input if name != erf.name]
            half.input[:] = [*shared, *constants]
            probability.input[:] = [erf.name, one.name]
            product.input[:] = [half.name, probability.name]
    return result


def _load_litert(path: pathlib.Path, signature: str) -> Ask:
    try:
        from ai_edge_litert import interpreter

        build = interpreter.Interpreter
    except ImportError:
        # TensorFlow has the same code, but plans to remove it.
        warnings.filterwarnings("ignore", ".*Interpreter is deprecated")
        build = tf.lite.Interpreter
    run = build(model_path=str(path)).get_signature_runner(signature)
    return lambda arguments: run(**arguments)


def convert_to_onnx(frozen: FrozenSignature) -> bytes:
    """Returns the content of an ONNX file, with the signature's axis names."""
    inputs = {f"{name}:0": name for name in frozen.inputs}
    outputs = {tensor: name for name, tensor in frozen.outputs.items()}
    converter = installed.import_extra("tf2onnx.convert", "onnx")
    proto, _ = converter.from_graph_def(
        frozen.graph, input_names=list(inputs), output_names=list(outputs),
        opset=_OPSET,
    )  # fmt: skip
    graph, names = proto.graph, inputs | outputs
    for node in graph.node:
        for side in (node.input, node.output):
            side[:] = [names.get(name, name) for name in side]
    for value in (*graph.input, *graph.output):
        value.name = names[value.name]
        letters = export_metadata.TENSORS[value.name].axes
        axes = value.type.tensor_type.shape.dim
        for axis, letter in zip(axes, letters, strict=True):
            # A named axis takes any size; equal names mean equal sizes.
            if not axis.dim_value:
                axis.dim_param = letter
    return proto.SerializeToString()


def _load_onnx(path: pathlib.Path, signature: str) -> Ask:
    del signature  # the file has one
    runtime = installed.import_extra("onnxruntime", "onnx")
    providers = ["CPUExecutionProvider"]
    session = runtime.InferenceSession(str(path), providers=providers)
    names = [output.name for output in session.get_outputs()]
    return lambda rows: dict(zip(names, session.run(names, rows), strict=True))


class Runtime(NamedTuple):
    """A file format and its runtime; batch size and length may vary."""

    file_name: str
    convert: Callable[[FrozenSignature], bytes]  # returns the file's content
    load: Callable[[pathlib.Path, str], Ask]  # takes file and signature


RUNTIMES = {
    "litert": Runtime("model.tflite", convert_to_litert, _load_litert),
    "onnx": Runtime("model.onnx", convert_to_onnx, _load_onnx),
}


class ConvertedModel(NamedTuple):
    """A finished conversion."""

    path: pathlib.Path  # the model's file
    signature: str  # the signature in the file
    largest_difference: float  # from the export


def convert(
    export_dir: pathlib.Path,
    out_dir: pathlib.Path,
    format_name: str,
    signature: str = "",
) -> ConvertedModel:
    """Converts a signature of ids of an export and checks its answers.

    Args:
        export_dir: the export.
        out_dir: the folder to create; it appears checked, or not at all.
        format_name: one of `RUNTIMES`.
        signature: a signature of ids; empty: the first one.

    Raises:
        ExportError: if the converter fails, or the answers differ.
        ImportError: if an optional package is not installed.
    """
    atomic.refuse_existing(out_dir, "--out")
    runtime = RUNTIMES[format_name]
    frozen = freeze(export_dir, signature)
    metadata = export_metadata.read_metadata(export_dir)
    extra = export_dir / export_metadata.EXTRA_FOLDER
    vocabulary = vocabulary_lib.Vocabulary.load(extra)
    with atomic.creating_folder(out_dir, refuses="--out") as folder:
        path = folder / runtime.file_name
        try:
            path.write_bytes(runtime.convert(frozen))
        except (ImportError, OSError):
            raise
        except Exception as error:
            raise errors.ExportError(
                f"The converter for {format_name} could not convert "
                f"{frozen.name} (TensorFlow {tf.__version__}). Its message: "
                f"{str(error)[:_MAX_QUOTED]}"
            ) from error
        sizes = schema.read_object(extra / "config.json")["encoder"]
        limits = metadata.num_positions, vocabulary, sizes["type_vocab_size"]
        difference = _check(frozen, runtime.load(path, frozen.name), *limits)
        for name in _COPIED:
            (folder / name).write_bytes((extra / name).read_bytes())
        readme = _render_readme(
            frozen, format_name, metadata, vocabulary, difference
        )
        (folder / "README.md").write_text(readme, "utf-8")
    return ConvertedModel(out_dir / path.name, frozen.name, difference)


def _check(
    frozen: FrozenSignature,
    ask: Ask,
    num_positions: int,
    vocabulary: vocabulary_lib.Vocabulary,
    num_segments: int,
) -> float:
    """Returns the largest difference of a converted model from the export."""
    worst = 0.0
    for rows, length in _BATCHES:
        built = self_check.build_rows(
            rows, length or num_positions, vocabulary, num_segments
        )
        arguments = {name: built[name] for name in frozen.inputs}
        received = ask(arguments)
        for name, value in frozen.ask(arguments).items():
            own = self_check.measure_difference(value, received[name])
            if not own <= TOLERANCE:
                raise errors.ExportError(
                    "The converted model must give the export's answers within "
                    f"{TOLERANCE:g}. Received: a difference of {own:g} in "
                    f"{name}, for {rows} rows. Please report this."
                )
            worst = max(worst, own)
    return worst


def _render_readme(
    frozen: FrozenSignature,
    format_name: str,
    metadata: export_metadata.ExportMetadata,
    vocabulary: vocabulary_lib.Vocabulary,
    difference: float,
) -> str:
    texts = export_metadata.read_table("readme.toml")["converted"]
    rows = [f'    "{name}": {_EXAMPLE_INPUTS[name]},' for name in frozen.inputs]
    left_out = "".join(
        f"- `{name}` is left out, as it is text. export.json lists `labels`.\n"
        for name in frozen.left_out
    )
    names, file = [frozen.name], RUNTIMES[format_name].file_name
    *_, section = export_metadata.render_sections(names, frozen.left_out)
    fields = dataclasses.asdict(metadata) | {
        "tensorflow": tf.__version__, "file": file,
        "title": f"{metadata.kind.replace('_', ' ').capitalize()}, {file}",
        "signature": frozen.name, "output": next(iter(frozen.outputs)),
        "cls": vocabulary.cls_id, "sep": vocabulary.sep_id,
        "pad": vocabulary.pad_id, "last_id": vocabulary.size - 1,
        "word": vocabulary.size - 1, "rows": "\n".join(rows),
        "section": section, "left_out": left_out, "difference": difference,
    }  # fmt: skip
    example = texts[format_name].format(**fields)
    return texts["page"].format(example=example, **fields)
