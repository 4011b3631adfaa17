"""Heads of fine-tuned models, as Hugging Face's classes have them.

Tagging is one linear layer there and here, but the original puts the words
into segment 1 and everybody there into segment 0: the two rows of the segment
table are exchanged on the way, so that both compute the same. Question
answering is one layer there and here if start and end are predicted apart;
what the original's joint prediction computes has no class there.

Classification there is `out_proj(gelu(dense(h)))`, D wide inside. The original
has one linear layer `W h + b`. Both are kept: a head from there becomes one
with a hidden layer, and ours is written as its exact equal. With C outputs and
2 C <= D, let the rows of `dense` be W, -W and zeros, and `out_proj` be I, -I
and zeros. Because gelu(x) - gelu(-x) = x Phi(x) + x Phi(-x) = x, the result is
W h + b. Such a head is recognized when it comes back.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from electra_tf.formats import foreign
from electra_tf.formats import portable

CLASSES = {
    "classification": "ElectraForSequenceClassification",
    "regression": "ElectraForSequenceClassification",
    "tagging": "ElectraForTokenClassification",
    "qa": "ElectraForQuestionAnswering",
}
"""Kind of task to the class there."""

_HEAD_TENSORS = {
    "ElectraForSequenceClassification": (
        "classifier.dense.weight",
        "classifier.dense.bias",
        "classifier.out_proj.weight",
        "classifier.out_proj.bias",
    ),
    "ElectraForTokenClassification": ("classifier.weight", "classifier.bias"),
    "ElectraForQuestionAnswering": ("qa_outputs.weight", "qa_outputs.bias"),
}

# Name of a task that the config does not name.
_UNNAMED_TASK = "own"
VALUE_RANGE = "regression_value_range"
"""Ours: which values outputs of 0 and 1 mean. Models of others give them."""

TEXT_PAIRS = "text_pairs"
"""Ours: whether texts come in pairs."""

Arrays = dict[str, np.ndarray]


def split_head(
    tensors: Mapping[str, np.ndarray], architecture: str, origin: str
) -> tuple[Arrays, Arrays]:
    """The tensors of the encoder, and those of the head.

    Args:
        tensors: of a model there.
        architecture: its class; one without a fine-tuned head has none.
        origin: their file, for messages.

    Raises:
        FormatError: if tensors of the head are missing, of another rank, or no
            floating point numbers.
    """
    names = _HEAD_TENSORS.get(architecture, ())
    missing = [name for name in names if name not in tensors]
    if missing:
        raise portable.FormatError(
            f"{origin}: {architecture} must have {', '.join(names)}. Missing: "
            f"{', '.join(missing)}. Download the model's files again."
        )
    misfits = foreign.dtype_problems(
        {name: str(tensors[name].dtype) for name in names}
    )
    misfits += [
        f"{name} {tensors[name].shape}"
        for name in names
        if tensors[name].ndim != (1 if name.endswith("bias") else 2)
    ]
    if misfits:
        raise portable.FormatError(
            f"{origin}: {architecture} must have matrices as weights and "
            "vectors as biases, of floating point numbers. Received: "
            f"{', '.join(misfits)}. Take the model unquantized."
        )
    head = {name: np.asarray(tensors[name], np.float32) for name in names}
    return {n: tensors[n] for n in tensors if n not in head}, head


def read_head(
    head: Mapping[str, np.ndarray],
    architecture: str,
    stated: Mapping[str, Any],
    source: str,
) -> tuple[Arrays, portable.PortableTask]:
    """A head there as ours.

    Args:
        head: its tensors.
        architecture: its class.
        stated: the model's config, which describes the task.
        source: the config's file, for messages.

    Raises:
        FormatError: if outputs and labels differ in number, or the config says
            something of the task that is not understood here.
    """
    task = _read_task(stated, architecture, source)
    path = f"{portable.TASK_HEADS}/{task.name}"
    if architecture == CLASSES["qa"]:
        weight, bias = head["qa_outputs.weight"], head["qa_outputs.bias"]
        _require_outputs(weight, 2, source)
        _require_outputs(bias, 2, source)
        return {
            f"{path}/dense/kernel": _kernel(weight[:1]),
            f"{path}/dense/bias": bias[:1].copy(),
            f"{path}/dense_1/kernel": _kernel(weight[1:]),
            f"{path}/dense_1/bias": bias[1:].copy(),
        }, task
    num_outputs = 1 if task.kind == "regression" else len(task.labels)
    if architecture == CLASSES["tagging"]:
        _require_outputs(head["classifier.weight"], num_outputs, source)
        return {
            f"{path}/dense/kernel": _kernel(head["classifier.weight"]),
            f"{path}/dense/bias": head["classifier.bias"],
        }, task
    output = head["classifier.out_proj.weight"]
    _require_outputs(output, num_outputs, source)
    linear = _read_linear(head)
    tensors = {
        f"{path}/dense/kernel": _kernel(output if linear is None else linear),
        f"{path}/dense/bias": head["classifier.out_proj.bias"],
    }
    if linear is None:
        tensors |= {
            f"{path}/hidden/kernel": _kernel(head["classifier.dense.weight"]),
            f"{path}/hidden/bias": head["classifier.dense.bias"],
        }
    return tensors, dataclasses.replace(task, has_hidden_layer=linear is None)


def _read_task(
    stated: Mapping[str, Any], architecture: str, source: str
) -> portable.PortableTask:
    """What a config says of its task."""
    name = stated.get("finetuning_task")
    name = _UNNAMED_TASK if name is None else name
    if not isinstance(name, str) or not name.isprintable() or "/" in name:
        raise portable.FormatError(
            f"{source}: finetuning_task must be a name without '/'. Received: "
            f"{name!r:.80}. Leave it out."
        )
    name = name or _UNNAMED_TASK
    has_pairs = stated.get(TEXT_PAIRS, False)
    if not isinstance(has_pairs, bool):
        raise portable.FormatError(
            f"{source}: {TEXT_PAIRS} must be true or false. Received: "
            f"{has_pairs!r:.80}."
        )
    if architecture == CLASSES["qa"]:
        return portable.PortableTask(name, "qa", has_pairs=has_pairs)
    labels = _read_labels(stated, source)
    if architecture == CLASSES["tagging"]:
        return portable.PortableTask(
            name, "tagging", labels, has_pairs=has_pairs
        )
    kind = stated.get("problem_type")
    if kind not in (None, "regression", "single_label_classification"):
        raise portable.FormatError(
            f"{source}: problem_type must be regression or "
            "single_label_classification, whose classes exclude each other. "
            f"Received: {kind!r:.80}."
        )
    if kind == "regression" or (kind is None and len(labels) == 1):
        span = portable.read_value_range(
            stated.get(VALUE_RANGE, [0.0, 1.0]), f"{source}: {VALUE_RANGE}"
        )
        return portable.PortableTask(
            name, "regression", value_range=span, has_pairs=has_pairs
        )
    return portable.PortableTask(
        name, "classification", labels, has_pairs=has_pairs
    )


def _read_labels(stated: Mapping[str, Any], source: str) -> tuple[str, ...]:
    named = stated.get("id2label")
    if named is None:
        # The library's default.
        return "LABEL_0", "LABEL_1"
    numbers = (
        [str(number) for number in range(len(named))]
        if isinstance(named, dict)
        else []
    )
    if not isinstance(named, dict) or set(named) != set(numbers):
        raise portable.FormatError(
            f"{source}: id2label must name the outputs 0, 1 and so on. "
            f"Received: {named!r:.200}."
        )
    labels = tuple(named[number] for number in numbers)
    portable.require_labels(labels, f"{source}: id2label")
    return labels


def class_of(task: portable.PortableTask) -> str:
    """The class there that has the head of a task.

    Args:
        task: of a model.

    Raises:
        FormatError: for a kind of task that there is not.
    """
    if task.kind not in tuple(CLASSES):
        raise portable.FormatError(
            f"The kind of a task must be one of {', '.join(CLASSES)}. "
            f"Received: {task.kind!r:.80} for {task.name!r:.80}."
        )
    return CLASSES[task.kind]


def write_head(
    tensors: Mapping[str, np.ndarray], task: portable.PortableTask
) -> Arrays:
    """Our head as the tensors of `CLASSES[task.kind]`.

    Args:
        tensors: ours, all of the model's.
        task: whose head it is.

    Raises:
        FormatError: if that class cannot compute what ours does.
    """
    path = f"{portable.TASK_HEADS}/{task.name}/"
    head = {p.removeprefix(path): tensors[p] for p in tensors if path in p}
    if task.kind == "qa":
        return _write_answering(head)
    weight = np.ascontiguousarray(head["dense/kernel"].T)
    if task.kind == "tagging":
        return {
            "classifier.weight": weight,
            "classifier.bias": head["dense/bias"],
        }
    if task.has_hidden_layer:
        dense = np.ascontiguousarray(head["hidden/kernel"].T)
        dense_bias, output = head["hidden/bias"], weight
    else:
        dense, output = _write_linear(weight)
        dense_bias = np.zeros(len(dense), np.float32)
    return {
        "classifier.dense.weight": dense,
        "classifier.dense.bias": dense_bias,
        "classifier.out_proj.weight": output,
        "classifier.out_proj.bias": head["dense/bias"],
    }


def exchange_segments(tensors: Mapping[str, np.ndarray]) -> Arrays:
    """The tensors, with segments 0 and 1 exchanged; twice changes nothing.

    Args:
        tensors: ours, of a model for tagging.

    Raises:
        FormatError: if there is one segment alone.
    """
    path = f"{portable.MAIN}/embeddings/token_type_embeddings"
    table = tensors[path]
    if len(table) < 2:
        raise portable.FormatError(
            "Tagging needs two segments (type_vocab_size). Received: "
            f"{len(table)}."
        )
    order = [1, 0, *range(2, len(table))]
    return dict(tensors) | {path: np.ascontiguousarray(table[order])}


def _kernel(weight: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(weight.T)


def _require_outputs(weight: np.ndarray, expected: int, source: str) -> None:
    if len(weight) != expected:
        raise portable.FormatError(
            f"{source} must be of a model with an output for each of its "
            f"{expected} labels (id2label). Received: {len(weight)} outputs. "
            "Are both of the same model?"
        )


def _write_answering(head: Mapping[str, np.ndarray]) -> Arrays:
    """Start and end, if they are predicted apart and nothing else is."""
    apart = {"dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias"}
    if set(head) != apart or head["dense_1/kernel"].shape[1:] != (1,):
        raise portable.FormatError(
            f"{CLASSES['qa']} predicts start and end apart, each by one linear "
            "layer. This head predicts the end given the start, or whether "
            "there is an answer, by hidden layers that the class does not "
            "have. Fine-tune with --config.qa.joint_prediction=false "
            "--config.qa.answerable_classifier=false to make one that can be "
            f"written, or leave it out with --drop={portable.TASK_HEADS}."
        )
    kernel = np.concatenate([head["dense/kernel"], head["dense_1/kernel"]], 1)
    return {
        "qa_outputs.weight": np.ascontiguousarray(kernel.T),
        "qa_outputs.bias": np.concatenate(
            [head["dense/bias"], head["dense_1/bias"]]
        ),
    }


def _write_linear(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`dense` and `out_proj` that give W h, by gelu; see the module's text."""
    outputs, width = weight.shape
    if 2 * outputs > width:
        raise portable.FormatError(
            f"{CLASSES['classification']} can stand for one linear layer of "
            f"up to {width // 2} labels at a width of {width}. Received: "
            f"{outputs} labels. Leave the head out with "
            f"--drop={portable.TASK_HEADS}."
        )
    dense = np.zeros((width, width), np.float32)
    dense[:outputs], dense[outputs : 2 * outputs] = weight, -weight
    output = np.zeros((outputs, width), np.float32)
    output[:, :outputs] = np.eye(outputs)
    output[:, outputs : 2 * outputs] = -np.eye(outputs)
    return dense, output


def _read_linear(head: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """W if a head is what `_write_linear` makes, bit for bit, else None."""
    dense, output = (
        head["classifier.dense.weight"],
        head["classifier.out_proj.weight"],
    )
    if 2 * len(output) > dense.shape[1]:
        return None
    weight = dense[: len(output)]
    expected = (*_write_linear(weight), np.zeros(len(dense), np.float32))
    found = dense, output, head["classifier.dense.bias"]
    is_linear = all(
        one.shape == other.shape and one.tobytes() == other.tobytes()
        for one, other in zip(found, expected, strict=True)
    )
    return weight.copy() if is_linear else None
