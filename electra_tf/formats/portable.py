"""A model outside of any framework: named arrays, sizes, vocabulary.

Every reader makes a `PortableModel`, every writer takes one, so that n formats
need n readers and n writers. Its tensors have our names (`variable.path`) and
layouts; the first part of a name says which part of the model it belongs to.
"""

import dataclasses
import math
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from electra_tf import config
from electra_tf import errors
from electra_tf.text import vocabulary as vocabulary_lib

Tensors = Mapping[str, np.ndarray]

MAIN = "electra"
GENERATOR = "generator"
REPLACED_TOKEN_HEAD = "discriminator_predictions"
MASKED_LM_HEAD = "generator_predictions"
TASK_HEADS = "task_specific"
LARGEST_STEP = 2**63 - 1
"""Updates that a checkpoint can count."""


@dataclasses.dataclass(frozen=True)
class PortableTask:
    """What a fine-tuned model was trained for.

    Attributes:
        name: as in the paths of its head, `task_specific/<name>/`.
        kind: one of `finetuning_config.OWN_KINDS`.
        labels: in the order of the head's outputs; empty where there are none
            or where the files do not say.
        has_hidden_layer: of classification and regression, whether a dense
            layer with gelu stands before the output layer, as in Hugging Face.
        value_range: of regression, which values an output of 0 and of 1 mean.
        has_pairs: of a task called `own`, whether texts come in pairs; of
            tasks with other names that is known.
    """

    name: str
    kind: str
    labels: tuple[str, ...] = ()
    has_hidden_layer: bool = False
    value_range: tuple[float, float] = (0.0, 1.0)
    has_pairs: bool = False


@dataclasses.dataclass(frozen=True)
class PortableModel:
    """A pre-trained or fine-tuned model.

    Attributes:
        tensors: our path to float32 array.
        encoder: sizes of the main encoder; `vocab_size` is the table's.
        generator: sizes of the generator's encoder, None where there is none.
        tying: what generator and main encoder share: `none`, `embeddings` or
            `all`.
        vocabulary: None where the files do not hold one.
        task: of a fine-tuned model.
        objective: that it was trained with, as in the config;
            empty where the files do not say.
        step: updates made, 0 where they do not say.
        origin: one line, where it was read.
        notes: what was left out or changed in reading, one line each.
    """

    tensors: Tensors
    encoder: config.EncoderConfig
    generator: config.EncoderConfig | None = None
    tying: str = "embeddings"
    vocabulary: vocabulary_lib.Vocabulary | None = None
    task: PortableTask | None = None
    objective: str = ""
    step: int = 0
    origin: str = ""
    notes: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[str, ...]:
        """First parts of the tensors' names, sorted: what the model has."""
        return tuple(sorted({path.split("/")[0] for path in self.tensors}))

    def with_notes(self, *notes: str) -> "PortableModel":
        """The same model, with more to tell."""
        return dataclasses.replace(self, notes=self.notes + notes)


def round_weights(model: PortableModel) -> PortableModel:
    """The model with weights that bfloat16 holds exactly, still float32.

    They are rounded to nearest, ties to even: by 1/256 of their size at most.
    """
    tensors = {
        path: value.astype(ml_dtypes.bfloat16).astype(np.float32)
        for path, value in model.tensors.items()
    }
    return dataclasses.replace(model, tensors=tensors).with_notes(
        "weights were rounded to bfloat16"
    )


def describe(model: PortableModel) -> list[str]:
    """What a model has, for people: a line for each part, then the notes."""
    lines = [model.origin]
    for part in model.parts:
        tensors = take_part(model.tensors, part)
        size = sum(value.size for value in tensors.values())
        lines.append(f"  {part:<26} {len(tensors):>4} tensors {size:>12,}")
    total = sum(value.size for value in model.tensors.values())
    lines.append(f"  {'':<26} {len(model.tensors):>4} tensors {total:>12,}")
    return lines + [f"  note: {note}" for note in model.notes]


def rename_part(tensors: Tensors, old: str, new: str) -> dict[str, np.ndarray]:
    """The tensors whose names begin with `old`, with `new` in its place."""
    return {
        new + path.removeprefix(old): value
        for path, value in tensors.items()
        if path.startswith(f"{old}/")
    }


def take_part(tensors: Tensors, part: str) -> dict[str, np.ndarray]:
    """The tensors whose names begin with a part."""
    return rename_part(tensors, part, part)


def require_labels(labels: Sequence[Any], source: str) -> None:
    """Raises `ModelError` unless labels are different texts of one line.

    Args:
        labels: in the order of the outputs.
        source: where they are from, for the message.
    """
    seen: set[str] = set()
    for number, label in enumerate(labels):
        is_line = isinstance(label, str) and label.splitlines() == [label]
        if not is_line or not label.strip() or label in seen:
            raise errors.ModelError(
                f"{source} must give every output a name of one line, and no "
                f"two the same. Received: {label!r:.80} for output {number}. "
                "Rename it."
            )
        seen.add(label)


def read_value_range(value: Any, source: str) -> tuple[float, float]:
    """Two increasing numbers as floats.

    Args:
        value: as JSON gives it.
        source: where it is from, for the message.

    Raises:
        ModelError: if it is anything else.
    """
    if (
        not isinstance(value, list)
        or [type(end) in (int, float) for end in value] != [True, True]
        or not (value[0] < value[1] and math.isfinite(value[1] - value[0]))
    ):
        raise errors.ModelError(
            f"{source} must be a list of two numbers, the first below the "
            f"second. Received: {value!r:.80}."
        )
    return float(value[0]), float(value[1])
