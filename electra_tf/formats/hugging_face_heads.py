"""The heads of transformers' classes for tasks, and how ours become them.

A kind of task names one of `CLASSES` (`Task.hugging_face`).
"""

import dataclasses
from collections.abc import Mapping

import numpy as np

from electra_tf import errors
from electra_tf.formats import portable
from electra_tf.formats.portable import Arrays
from electra_tf.formats.portable import PortableTask
from electra_tf.formats.portable import Tensors
from electra_tf.tasks import kinds
from electra_tf.tasks.question_answering import answering_task

# The layers of ours that `qa_outputs` there holds side by side.
_ENDS = ("dense", "dense_1")
_SEGMENTS = f"{portable.MAIN}/embeddings/token_type_embeddings"


@dataclasses.dataclass(frozen=True)
class HeadClass:
    """A class with a linear layer for each token, as we have it."""

    name: str
    output_layer: str  # its name there
    hidden_layer: str = ""  # of the one before; empty if there is none
    names_outputs: bool = True  # whether its config lists labels
    note: str = ""  # of what reading changed

    def shapes(self, task: PortableTask, hidden_size: int) -> portable.Shapes:
        """Returns the shapes of its head, by our names."""
        return portable.task_shapes(task, hidden_size, {})

    def read_head(
        self, tensors: Tensors, task: PortableTask
    ) -> tuple[Arrays, PortableTask]:
        """Turns its head, among a model's tensors, into ours."""
        return dict(tensors), task

    def write_head(self, tensors: Tensors, task: PortableTask) -> Tensors:
        """Turns our head, among a model's tensors, into its own."""
        return tensors


class _SentenceClass(HeadClass):
    """Two layers with gelu between, on [CLS]."""

    def read_head(
        self, tensors: Tensors, task: PortableTask
    ) -> tuple[Arrays, PortableTask]:
        """Restores a single layer that was written as two."""
        arrays, head = dict(tensors), task.head
        width, outputs = arrays[f"{head}/dense/kernel"].shape
        kernel = arrays[f"{head}/hidden/kernel"][:, :outputs].copy()
        twin = _gelu_twin(kernel, head) if 2 * outputs <= width else {}
        is_twin = bool(twin) and all(
            arrays[path].tobytes() == value.tobytes()
            for path, value in twin.items()
        )
        if is_twin:
            arrays = {p: v for p, v in arrays.items() if p not in twin}
            arrays[f"{head}/dense/kernel"] = kernel
        return arrays, dataclasses.replace(task, has_hidden_layer=not is_twin)

    def write_head(self, tensors: Tensors, task: PortableTask) -> Tensors:
        """Writes a single layer as two."""
        if task.has_hidden_layer:
            return tensors
        kernel = tensors[f"{task.head}/dense/kernel"]
        width, outputs = kernel.shape
        if 2 * outputs > width:
            raise errors.ModelError(
                f"{self.name} can stand for a linear layer of up to "
                f"{width // 2} labels, half its width. Received: {outputs}. "
                f"Leave the head out with --drop={portable.TASK_HEADS}."
            )
        return {**tensors, **_gelu_twin(kernel, task.head)}


class _TokenClass(HeadClass):
    """A layer on each token; words are in segment 0."""

    def read_head(
        self, tensors: Tensors, task: PortableTask
    ) -> tuple[Arrays, PortableTask]:
        """Exchanges the segments."""
        return exchange_segments(tensors), task

    def write_head(self, tensors: Tensors, task: PortableTask) -> Tensors:
        """Exchanges the segments."""
        return exchange_segments(tensors)


class _SpanClass(HeadClass):
    """One layer with two outputs, start and end."""

    def shapes(self, task: PortableTask, hidden_size: int) -> portable.Shapes:
        """Returns the shapes of the one layer."""
        return portable.linear_shapes(f"{task.head}/outputs", hidden_size, 2)

    def read_head(
        self, tensors: Tensors, task: PortableTask
    ) -> tuple[Arrays, PortableTask]:
        """Splits the layer into start and end."""
        arrays = dict(tensors)
        for variable in ("kernel", "bias"):
            both = arrays.pop(f"{task.head}/outputs/{variable}")
            for layer, part in zip(_ENDS, np.split(both, 2, -1), strict=True):
                arrays[f"{task.head}/{layer}/{variable}"] = part.copy()
        return arrays, task

    def write_head(self, tensors: Tensors, task: PortableTask) -> Tensors:
        """Joins start and end, if the head has nothing else."""
        head, own = task.head, portable.take_part(tensors, task.head)
        joined = portable.drop_part(tensors, head)
        apart = {
            f"{head}/{end}/{v}" for end in _ENDS for v in ("kernel", "bias")
        }
        if own.keys() != apart:
            raise errors.ModelError(
                f"{self.name} predicts start and end apart, each by one linear "
                "layer. Received: a head that has others. Fine-tune with "
                f"{answering_task.PLAIN_HEAD_FLAGS}, or leave it out with "
                f"--drop={portable.TASK_HEADS}."
            )
        for variable in ("kernel", "bias"):
            joined[f"{head}/outputs/{variable}"] = np.concatenate(
                [own[f"{head}/{end}/{variable}"] for end in _ENDS], axis=-1
            )
        return joined


CLASSES: Mapping[str, HeadClass] = {
    head.name: head
    for head in (
        _SentenceClass(
            "ElectraForSequenceClassification",
            "classifier.out_proj",
            "classifier.dense",
        ),
        _SentenceClass(
            "ElectraForMultipleChoice",
            "classifier",
            "sequence_summary.summary",
        ),
        _TokenClass(
            "ElectraForTokenClassification",
            "classifier",
            note="exchanged segments 0 and 1, words are in 1 here",
        ),
        _SpanClass(
            "ElectraForQuestionAnswering", "qa_outputs", names_outputs=False
        ),
    )
}
"""Name of a class to how its head is read and written."""


def class_of(task: PortableTask) -> HeadClass:
    """Returns the class for a task; raises `ModelError` if there is none."""
    name = kinds.find_kind(task.kind).hugging_face
    if name not in CLASSES:
        raise errors.ModelError(
            f"Hugging Face has no class for tasks of the kind {task.kind!r}. "
            f"Leave the head out with --drop={portable.TASK_HEADS}."
        )
    return CLASSES[name]


def exchange_segments(tensors: Tensors) -> Arrays:
    """Exchanges segments 0 and 1 of a tagger; twice changes nothing.

    The original puts the words into segment 1, transformers into segment 0.
    """
    table = tensors[_SEGMENTS]
    if len(table) < 2:
        raise errors.ModelError(
            f"Tagging needs type_vocab_size=2. Received: {len(table)}."
        )
    order = [1, 0, *range(2, len(table))]
    return {**tensors, _SEGMENTS: np.ascontiguousarray(table[order])}


def _gelu_twin(kernel: np.ndarray, head: str) -> Arrays:
    """Returns the two layers that compute the one linear layer `W h + b`.

    Classification there is `out_proj(gelu(dense(h)))`, D wide inside. With C
    outputs and 2 C <= D, the rows of `dense` are W, -W and zeros, and
    `out_proj` is I, -I and zeros. Because gelu(x) - gelu(-x) =
    x Phi(x) + x Phi(-x) = x, the result is W h + b.
    """
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
