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

from electra_tf import errors
from electra_tf.formats import layout
from electra_tf.formats import parameter_names
from electra_tf.formats import portable

CLASSES = {
    "classification": "ElectraForSequenceClassification",
    "regression": "ElectraForSequenceClassification",
    "tagging": "ElectraForTokenClassification",
    "qa": "ElectraForQuestionAnswering",
}
"""Kind of task to the class there."""

_CLASSIFIER = {"hidden": "classifier.dense", "dense": "classifier.out_proj"}
# Kind of task to the linear layers of its head: ours, and what they are called
# there. The layer `outputs` is ours for start and end side by side.
_LAYERS: Mapping[str, Mapping[str, str]] = {
    "classification": _CLASSIFIER,
    "regression": _CLASSIFIER,
    "tagging": {"dense": "classifier"},
    "qa": {"outputs": "qa_outputs"},
}

# Name of a task that the config does not name.
_UNNAMED_TASK = "own"
VALUE_RANGE = "regression_value_range"
"""Ours: which values outputs of 0 and 1 mean. Models of others give them."""

TEXT_PAIRS = "text_pairs"
"""Ours: whether texts come in pairs."""

Arrays = dict[str, np.ndarray]


def name_rules(kind: str) -> tuple[parameter_names.NameRule, ...]:
    """How the tensors of a head are called there.

    Args:
        kind: of the task.
    """
    return tuple(
        rule
        for layer, name in _LAYERS[kind].items()
        for rule in parameter_names.linear_rules(
            f"{portable.TASK_HEADS}/[^/]+/{layer}", name
        )
    )


def head_shapes(task: portable.PortableTask, hidden_size: int) -> layout.Shapes:
    """Path to shape of a head as the class there has it.

    Args:
        task: with its labels.
        hidden_size: of the encoder, D.
    """
    outputs = {"qa": 2, "regression": 1}.get(task.kind, len(task.labels))
    shapes: layout.Shapes = {}
    for layer in _LAYERS[task.kind]:
        width = hidden_size if layer == "hidden" else outputs
        name = f"{portable.TASK_HEADS}/{task.name}/{layer}"
        shapes |= layout.linear_shapes(name, hidden_size, width)
    return shapes


def from_hugging_face(
    tensors: Mapping[str, np.ndarray], task: portable.PortableTask
) -> tuple[Arrays, portable.PortableTask]:
    """Turns a head as the class there has it into ours.

    Args:
        tensors: by our paths, those of `head_shapes` among them.
        task: whose head it is.

    Returns:
        The model's tensors, and the task: whether it has a hidden layer is
        known now.
    """
    found, head = dict(tensors), f"{portable.TASK_HEADS}/{task.name}"
    if task.kind == "tagging":
        return exchange_segments(found), task
    if task.kind == "qa":
        for variable in ("kernel", "bias"):
            both = found.pop(f"{head}/outputs/{variable}")
            for layer, part in zip(
                ("dense", "dense_1"), np.split(both, 2, axis=-1), strict=True
            ):
                found[f"{head}/{layer}/{variable}"] = part.copy()
        return found, task
    width, outputs = found[f"{head}/dense/kernel"].shape
    kernel = found[f"{head}/hidden/kernel"][:, :outputs].copy()
    twin = _gelu_twin(kernel, head) if 2 * outputs <= width else {}
    is_twin = bool(twin) and all(
        found[path].tobytes() == value.tobytes() for path, value in twin.items()
    )
    if is_twin:
        found = {p: v for p, v in found.items() if p not in twin}
        found[f"{head}/dense/kernel"] = kernel
    return found, dataclasses.replace(task, has_hidden_layer=not is_twin)


def to_hugging_face(
    tensors: Mapping[str, np.ndarray], task: portable.PortableTask
) -> Arrays:
    """Turns our head into what the class there has.

    Args:
        tensors: ours, all of the model's.
        task: whose head it is.

    Raises:
        ModelError: if that class cannot compute what ours does.
    """
    head = f"{portable.TASK_HEADS}/{task.name}"
    if task.kind == "tagging":
        return exchange_segments(tensors)
    if task.kind == "qa":
        return _join_answering(tensors, head)
    if task.has_hidden_layer:
        return dict(tensors)
    kernel = tensors[f"{head}/dense/kernel"]
    width, outputs = kernel.shape
    if 2 * outputs > width:
        raise errors.ModelError(
            f"{CLASSES['classification']} can stand for one linear layer of "
            f"up to {width // 2} labels at a width of {width}. Received: "
            f"{outputs} labels. Leave the head out with "
            f"--drop={portable.TASK_HEADS}."
        )
    return {**tensors, **_gelu_twin(kernel, head)}


def read_task(
    stated: Mapping[str, Any], architecture: str, source: str
) -> portable.PortableTask:
    """What a config says of its task.

    Args:
        stated: the model's config.
        architecture: its class, one of `CLASSES`.
        source: the config's file, for messages.

    Raises:
        ModelError: for what is not understood here.
    """
    name = stated.get("finetuning_task")
    name = _UNNAMED_TASK if name is None else name
    if not isinstance(name, str) or not name.isprintable() or "/" in name:
        raise errors.ModelError(
            f"{source}: finetuning_task must be a name without '/'. Received: "
            f"{name!r:.80}. Leave it out."
        )
    name = name or _UNNAMED_TASK
    has_pairs = stated.get(TEXT_PAIRS, False)
    if not isinstance(has_pairs, bool):
        raise errors.ModelError(
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
        raise errors.ModelError(
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
        raise errors.ModelError(
            f"{source}: id2label must name the outputs 0, 1 and so on. "
            f"Received: {named!r:.200}."
        )
    labels = tuple(named[number] for number in numbers)
    portable.require_labels(labels, f"{source}: id2label")
    return labels


def exchange_segments(tensors: Mapping[str, np.ndarray]) -> Arrays:
    """The tensors, with segments 0 and 1 exchanged; twice changes nothing.

    Args:
        tensors: ours, of a model for tagging.

    Raises:
        ModelError: if there is one segment alone.
    """
    path = f"{portable.MAIN}/embeddings/token_type_embeddings"
    table = tensors[path]
    if len(table) < 2:
        raise errors.ModelError(
            "Tagging needs two segments (type_vocab_size). Received: "
            f"{len(table)}."
        )
    order = [1, 0, *range(2, len(table))]
    return dict(tensors) | {path: np.ascontiguousarray(table[order])}


def _join_answering(tensors: Mapping[str, np.ndarray], head: str) -> Arrays:
    """Start and end, if they are predicted apart and nothing else is."""
    own = {p: v for p, v in tensors.items() if p.startswith(f"{head}/")}
    apart = {
        f"{head}/{layer}/{variable}"
        for layer in ("dense", "dense_1")
        for variable in ("kernel", "bias")
    }
    if set(own) != apart or own[f"{head}/dense_1/kernel"].shape[1:] != (1,):
        raise errors.ModelError(
            f"{CLASSES['qa']} predicts start and end apart, each by one linear "
            "layer. This head predicts the end given the start, or whether "
            "there is an answer, by hidden layers that the class does not "
            "have. Fine-tune with --config.qa.joint_prediction=false "
            "--config.qa.answerable_classifier=false to make one that can be "
            f"written, or leave it out with --drop={portable.TASK_HEADS}."
        )
    joined = {p: v for p, v in tensors.items() if p not in own}
    for variable in ("kernel", "bias"):
        joined[f"{head}/outputs/{variable}"] = np.concatenate(
            [own[f"{head}/{name}/{variable}"] for name in ("dense", "dense_1")],
            axis=-1,
        )
    return joined


def _gelu_twin(kernel: np.ndarray, head: str) -> Arrays:
    """The two layers that compute one by gelu; see the module's text."""
    width, outputs = kernel.shape
    hidden = np.zeros((width, width), np.float32)
    hidden[:, :outputs], hidden[:, outputs : 2 * outputs] = kernel, -kernel
    output = np.zeros((width, outputs), np.float32)
    output[:outputs] = np.eye(outputs)
    output[outputs : 2 * outputs] = -np.eye(outputs)
    return {
        f"{head}/hidden/kernel": hidden,
        f"{head}/hidden/bias": np.zeros(width, np.float32),
        f"{head}/dense/kernel": output,
    }
