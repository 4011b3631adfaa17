"""The original's TensorFlow 1 checkpoints, read into our variables.

Reading is complete both ways: every variable must be found, and every tensor
of the checkpoint must be used, unless the caller names what may be left.
"""

import re
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from electra_tf.formats import parameter_names
from electra_tf.formats import portable
from electra_tf.training.replica_optimizer import ReplicaOptimizer

STEP_NAME = "global_step"
_FIRST_MOMENT = "/adam_m"
_SECOND_MOMENT = "/adam_v"
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
    first = _take_suffix(tensors, _FIRST_MOMENT)
    second = _take_suffix(tensors, _SECOND_MOMENT)
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
        ValueError: names what is missing, unused or of another shape.
    """
    values = _match(variables, checkpoint.variables, checkpoint.path)
    used = {
        name
        for variable in variables
        for name in parameter_names.foreign_names(variable.path)
    }
    unused = [
        name
        for name in checkpoint.variables
        if name not in used
        and not any(re.search(pattern, name) for pattern in may_be_unused)
    ]
    if unused:
        raise ValueError(
            "Expected every tensor of the checkpoint to be used. Received in "
            f"{checkpoint.path} {len(unused)} without a variable: {unused}. "
            "Check sizes and tying in the config, or say that they may be "
            "left."
        )
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


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
    first = _match(variables, checkpoint.first_moments, path, _FIRST_MOMENT)
    second = _match(variables, checkpoint.second_moments, path, _SECOND_MOMENT)
    if checkpoint.global_step is None:
        raise ValueError(
            f"Expected `{STEP_NAME}` in {path}. Received a checkpoint "
            "without it. Take one that the original's training wrote."
        )
    moments = [*optimizer.first_moments, *optimizer.second_moments]
    for moment, value in zip(moments, first + second, strict=True):
        moment.assign(value)
    optimizer.iterations.assign(checkpoint.global_step)


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
        raise portable.FormatError(
            f"`{STEP_NAME}` of {prefix} must be one whole number of updates. "
            f"Received: {step.dtype} {step.shape} {step.flat[:1]!s:.40}. Copy "
            "the checkpoint's files again."
        )
    return int(step)


def _take_suffix(tensors: Tensors, suffix: str) -> Tensors:
    """Moves the tensors of one optimizer slot out of `tensors`."""
    names = [name for name in tensors if name.endswith(suffix)]
    return {name.removesuffix(suffix): tensors.pop(name) for name in names}


def _match(
    variables: Sequence[keras.Variable],
    tensors: Mapping[str, np.ndarray],
    path: str,
    slot: str = "",
) -> list[np.ndarray]:
    """One value per variable, or an error that lists all misfits."""
    values, missing, misfits = [], [], []
    for variable in variables:
        names = parameter_names.foreign_names(variable.path)
        absent = [name + slot for name in names if name not in tensors]
        missing += absent
        if absent:
            continue
        *rows, columns = variable.shape
        expected = (*rows, columns // len(names))
        wrong = [
            f"{name}{slot}: {tensors[name].shape}, here {expected}"
            for name in names
            if tensors[name].shape != expected
        ]
        misfits += wrong
        if not wrong:
            values.append(parameter_names.join(variable.path, tensors))
    if missing or misfits:
        raise ValueError(
            f"Expected all variables in {path}, in our shapes. Missing: "
            f"{missing or 'none'}; of another shape: {misfits or 'none'}. "
            "Check sizes and tying in the config."
        )
    return values
