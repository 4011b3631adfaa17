"""The original's TensorFlow 1 checkpoints, read into our variables.

Reading is complete both ways: every variable must be found, and every tensor
of the checkpoint must be used, unless the caller names what may be left.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from electra_tf import errors
from electra_tf.formats import foreign
from electra_tf.formats import parameter_names
from electra_tf.formats import portable
from electra_tf.training.replica_optimizer import ReplicaOptimizer

STEP_NAME = "global_step"
_FIRST = "/adam_m"
_SECOND = "/adam_v"
# What TensorFlow's reader raises for files that are cut off or altered.
_DAMAGE_ERRORS = (IndexError, RuntimeError, ValueError)

Tensors = dict[str, np.ndarray]


class OriginalCheckpoint(NamedTuple):
    """What a checkpoint of the original holds, by the original's names.

    Attributes:
        path: the prefix that it was read from.
        variables: name to float32 weights.
        first_moments: name to Adam's m; empty in released checkpoints.
        second_moments: name to Adam's v; empty in released checkpoints.
        global_step: number of updates made, or None.
    """

    path: str
    variables: Tensors
    first_moments: Tensors
    second_moments: Tensors
    global_step: int | None


def read_checkpoint(path: str | Path) -> OriginalCheckpoint:
    """Reads all tensors of a checkpoint.

    Args:
        path: its prefix (`model.ckpt-1000`), or a folder with one checkpoint.

    Raises:
        FileNotFoundError: if there is none, or a folder has several.
        ValueError: if it cannot be read, or its step is no number of updates.
    """
    prefix = _find_prefix(Path(path))
    try:
        reader = tf.train.load_checkpoint(prefix)
        names = reader.get_variable_to_shape_map()
        tensors = {name: reader.get_tensor(name) for name in sorted(names)}
    except (tf.errors.OpError, *_DAMAGE_ERRORS) as error:
        raise ValueError(
            f"Expected a readable TensorFlow 1 checkpoint at {prefix}. "
            f"Received: {error}. Copy its .index and .data files again."
        ) from error
    step = _take_step(tensors, prefix)
    first = _take_suffix(tensors, _FIRST)
    second = _take_suffix(tensors, _SECOND)
    return OriginalCheckpoint(prefix, tensors, first, second, step)


def assign_variables(
    variables: Sequence[keras.Variable],
    checkpoint: OriginalCheckpoint,
    may_be_unused: Sequence[str] = (),
) -> None:
    """Puts the checkpoint's weights into our variables.

    Args:
        variables: built; all of them are assigned, or none.
        checkpoint: as read.
        may_be_unused: regular expressions for names in the checkpoint that
            need not be used, for example `generator` to take the
            discriminator alone.

    Raises:
        ModelError: names what is missing, unused or of another shape.
    """
    unused = "|".join(f".*(?:{pattern}).*" for pattern in may_be_unused)
    values = _take(variables, checkpoint.variables, checkpoint.path, unused)
    for variable in variables:
        variable.assign(values[variable.path])


def assign_optimizer(
    optimizer: ReplicaOptimizer,
    variables: Sequence[keras.Variable],
    checkpoint: OriginalCheckpoint,
) -> None:
    """Puts the checkpoint's Adam moments and step into our optimizer.

    Args:
        optimizer: built with `variables`.
        variables: in the order of `optimizer.build`.
        checkpoint: of a run in training, with moments and step.

    Raises:
        ValueError: if a moment or the step is missing or has another shape.
    """
    path = checkpoint.path
    first = _take(variables, checkpoint.first_moments, f"{path} ({_FIRST})")
    second = _take(variables, checkpoint.second_moments, f"{path} ({_SECOND})")
    if checkpoint.global_step is None:
        raise ValueError(
            f"Expected `{STEP_NAME}` in {path}. Received a checkpoint "
            "without it. Take one that the original's training wrote."
        )
    for moments, values in (
        (optimizer.first_moments, first),
        (optimizer.second_moments, second),
    ):
        for variable, moment in zip(variables, moments, strict=True):
            moment.assign(values[variable.path])
    optimizer.iterations.assign(checkpoint.global_step)


def _take(
    variables: Sequence[keras.Variable],
    tensors: Tensors,
    origin: str,
    may_be_unused: str = ".*",
) -> Tensors:
    """The value of each variable, by its path."""
    return foreign.ForeignTensors(
        tensors, parameter_names.ORIGINAL_RULES, origin
    ).take({v.path: tuple(v.shape) for v in variables}, may_be_unused)


def _find_prefix(path: Path) -> str:
    if not path.is_dir():
        if path.with_name(path.name + ".index").is_file():
            return str(path)
        raise FileNotFoundError(
            f"Expected a checkpoint prefix or its folder. Received: {path}, "
            f"but there is no {path.name}.index."
        )
    found = sorted(path.glob("*.index"))
    if len(found) != 1:
        raise FileNotFoundError(
            f"Expected one checkpoint (*.index) in {path}. Received: "
            f"{[file.name for file in found]}. Name the prefix of one."
        )
    return str(found[0].with_suffix(""))


def _take_step(tensors: Tensors, prefix: str) -> int | None:
    """Moves the number of updates out of `tensors`, if they hold it."""
    if STEP_NAME not in tensors:
        return None
    step = np.asarray(tensors.pop(STEP_NAME))
    is_integer = step.dtype.kind in "iu" and not step.ndim
    if not is_integer or not 0 <= int(step) <= portable.LARGEST_STEP:
        raise errors.ModelError(
            f"`{STEP_NAME}` of {prefix} must be one whole number of updates. "
            f"Received: {step.dtype} {step.shape} {step.flat[:1]!s:.40}. Copy "
            "the checkpoint's files again."
        )
    return int(step)


def _take_suffix(tensors: Tensors, suffix: str) -> Tensors:
    """Moves the tensors of one optimizer slot out of `tensors`."""
    names = [name for name in tensors if name.endswith(suffix)]
    return {name.removesuffix(suffix): tensors.pop(name) for name in names}
