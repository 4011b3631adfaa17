"""Heads of fine-tuned models, as Hugging Face's classes have them.

Tagging is one linear layer there and here, but the original puts the words
into segment 1 and transformers puts them into segment 0: the two rows of the
segment table are exchanged on the way, so that both compute the same. Question
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
import functools
import pathlib
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Annotated
from typing import Any

import numpy as np
import pydantic

from electra_tf import errors
from electra_tf.config import schema
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

_CLASSIFIER = {"dense": "classifier/out_proj", "hidden": "classifier/dense"}
# Kind of task to the linear layers of its head: ours, and what they are called
# there. The layer `outputs` is ours for start and end side by side.
_LAYERS: Mapping[str, Mapping[str, str]] = {
    "classification": _CLASSIFIER,
    "regression": _CLASSIFIER,
    "tagging": {"dense": "classifier"},
    "qa": {"outputs": "qa_outputs"},
}
_SEGMENTS = f"{portable.MAIN}/embeddings/token_type_embeddings"
# The parts of `outputs` here.
_ENDS = ("dense", "dense_1")
_ONE_LABEL = "single_label_classification"
_Finite = Annotated[float, pydantic.Field(allow_inf_nan=False)]
_Name = Annotated[str, pydantic.Field(pattern="^[^/]*$")]
_Problem = Annotated[str, schema.one_of("regression", _ONE_LABEL)]


@schema.frozen
class _TaskFields:
    """What a config says of its task; the last two fields are ours alone.

    Models of others give the values themselves, an output of 0 means 0.
    """

    finetuning_task: _Name | None = None
    id2label: Mapping[str, str] | None = None
    problem_type: _Problem | None = None
    text_pairs: bool = False
    regression_value_range: tuple[_Finite, _Finite] = (0.0, 1.0)

    def __post_init__(self) -> None:
        low, high = self.regression_value_range
        schema.require(
            low < high,
            "`regression_value_range` must be two increasing numbers. "
            f"Received: {low}, {high}.",
        )


def name_table(kind: str) -> parameter_names.NameTable:
    """Returns the names of a model with a head for this kind of task."""
    return parameter_names.HUGGING_FACE.with_names(
        *(
            (f"^{portable.TASK_HEADS}/[^/]+/{layer}/", f"{name}/")
            for layer, name in _LAYERS[kind].items()
        )
    )


def head_shapes(task: portable.PortableTask, hidden_size: int) -> layout.Shapes:
    """Returns the shapes of a head as the class there has it."""
    outputs = {"qa": 2, "regression": 1}.get(task.kind, len(task.labels))
    shapes: layout.Shapes = {}
    for layer in _LAYERS[task.kind]:
        width = hidden_size if layer == "hidden" else outputs
        shapes |= layout.linear_shapes(
            f"{task.head}/{layer}", hidden_size, width
        )
    return shapes


def from_hugging_face(
    tensors: portable.Tensors, task: portable.PortableTask
) -> tuple[parameter_names.Arrays, portable.PortableTask]:
    """Turns a head as the class there has it into ours.

    Returns:
        The model's tensors, and the task: whether it has a hidden layer is
        known now.
    """
    found, head = dict(tensors), task.head
    if task.kind == "tagging":
        return exchange_segments(found), task
    if task.kind == "qa":
        for variable in ("kernel", "bias"):
            both = found.pop(f"{head}/outputs/{variable}")
            for layer, part in zip(_ENDS, np.split(both, 2, -1), strict=True):
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
    tensors: portable.Tensors, task: portable.PortableTask
) -> portable.Tensors:
    """Turns our head, among a model's tensors, into what the class has."""
    if task.kind == "tagging":
        return exchange_segments(tensors)
    if task.kind == "qa":
        return _join_ends(tensors, task.head)
    if task.has_hidden_layer:
        return tensors
    kernel = tensors[f"{task.head}/dense/kernel"]
    width, outputs = kernel.shape
    if 2 * outputs > width:
        raise errors.ModelError(
            f"{CLASSES['classification']} can stand for one linear layer of "
            f"up to {width // 2} labels at a width of {width}. Received: "
            f"{outputs} labels. Leave the head out with "
            f"--drop={portable.TASK_HEADS}."
        )
    return {**tensors, **_gelu_twin(kernel, task.head)}


def exchange_segments(tensors: portable.Tensors) -> parameter_names.Arrays:
    """Exchanges segments 0 and 1 of a tagger; twice changes nothing."""
    table = tensors[_SEGMENTS]
    if len(table) < 2:
        raise errors.ModelError(
            "Tagging needs two segments (type_vocab_size). Received: "
            f"{len(table)}."
        )
    order = [1, 0, *range(2, len(table))]
    return {**tensors, _SEGMENTS: np.ascontiguousarray(table[order])}


def _join_ends(tensors: portable.Tensors, head: str) -> parameter_names.Arrays:
    """Joins start and end, if they are predicted apart and nothing else is."""
    own = portable.take_part(tensors, head)
    joined = {path: v for path, v in tensors.items() if path not in own}
    apart = {f"{head}/{end}/{v}" for end in _ENDS for v in ("kernel", "bias")}
    if own.keys() != apart:
        raise errors.ModelError(
            f"{CLASSES['qa']} predicts start and end apart, each by one linear "
            "layer. This head predicts the end given the start, or whether "
            "there is an answer, by hidden layers that the class does not "
            "have. Fine-tune with --config.qa.joint_prediction=false "
            "--config.qa.answerable_classifier=false to make one that can be "
            f"written, or leave it out with --drop={portable.TASK_HEADS}."
        )
    for variable in ("kernel", "bias"):
        joined[f"{head}/outputs/{variable}"] = np.concatenate(
            [own[f"{head}/{end}/{variable}"] for end in _ENDS], axis=-1
        )
    return joined


def _gelu_twin(kernel: np.ndarray, head: str) -> parameter_names.Arrays:
    """Returns the two layers that compute one; see the module's text."""
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


def read_task(
    stated: Mapping[str, Any], architecture: str, file: pathlib.Path
) -> portable.PortableTask:
    """Returns what a config says of the task of one of `CLASSES`."""
    fields = portable.build_known(_TaskFields, stated, file)
    task = functools.partial(
        portable.PortableTask,
        fields.finetuning_task or "own",
        has_pairs=fields.text_pairs,
    )
    if architecture == CLASSES["qa"]:
        return task("qa")
    labels = _read_labels(fields.id2label, file)
    if architecture == CLASSES["tagging"]:
        return task("tagging", labels)
    is_number = fields.problem_type is None and len(labels) == 1
    if is_number or fields.problem_type == "regression":
        return task("regression", value_range=fields.regression_value_range)
    return task("classification", labels)


def _read_labels(
    named: Mapping[str, str] | None, file: pathlib.Path
) -> tuple[str, ...]:
    if named is None:
        # The library's default.
        return "LABEL_0", "LABEL_1"
    numbers = [str(number) for number in range(len(named))]
    if set(named) != set(numbers):
        raise errors.ModelError(
            f"{file}: id2label must name the outputs 0, 1 and so on. "
            f"Received: {named!r:.200}."
        )
    labels = tuple(named[number] for number in numbers)
    _require_labels(labels, f"{file}: id2label")
    return labels


def _require_labels(labels: Sequence[str], source: str) -> None:
    for number, label in enumerate(labels):
        is_line = label.strip() and label.splitlines() == [label]
        if not is_line or label in labels[:number]:
            raise errors.ModelError(
                f"{source} must give every output a name of one line, and no "
                f"two the same. Received: {label!r:.80} for output {number}. "
                "Rename it."
            )


def task_fields(task: portable.PortableTask, origin: str) -> dict[str, Any]:
    """Returns what a config must say of a task."""
    fields: dict[str, Any] = {"finetuning_task": task.name}
    if task.kind == "qa":
        return fields
    is_number = task.kind == "regression"
    labels = ("LABEL_0",) if is_number else task.labels
    if not labels:
        raise errors.ModelError(
            f"The labels of {task.name!r} must be known, in the order of the "
            f"outputs. Received: none in {origin}. Give them with "
            "--labels=NAME,NAME,..."
        )
    _require_labels(labels, f"{origin}: the task {task.name!r}")
    numbered = {str(number): label for number, label in enumerate(labels)}
    fields["id2label"] = numbered
    fields["label2id"] = {label: int(n) for n, label in numbered.items()}
    if task.has_pairs:
        fields["text_pairs"] = True
    if task.kind != "tagging":
        fields["problem_type"] = "regression" if is_number else _ONE_LABEL
    if is_number:
        fields["regression_value_range"] = list(task.value_range)
    return fields
