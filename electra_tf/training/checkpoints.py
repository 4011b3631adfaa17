"""Checkpoints that are either complete or not there.

    model_dir/checkpoints/step-00001000/
        variables.index, variables.data-00000-of-00001
        state.json          step, input position, best score

`variables` is a TensorFlow checkpoint of flat names: `model/<path>`,
`optimizer/<path>`, and so on. Both carry checksums. A folder is flushed to disk
before it gets its name, and loses its name before it is removed.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import re
import shutil
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import tensorflow as tf

from electra_tf import errors
from electra_tf.processes import atomic

_FORMAT = 1
_FOLDER = "checkpoints"
_PREFIX = "variables"
# No more digits than 64 bits can count.
_NAME = re.compile(r"step-(\d{8,18})")

Variables = Mapping[str, Any]


def step_of(checkpoint: pathlib.Path) -> int:
    """The step of a checkpoint folder."""
    match = _NAME.fullmatch(checkpoint.name)
    if match is None:
        raise errors.ModelError(
            "A checkpoint is a folder named step-NNNNNNNN. Received: "
            f"{checkpoint}. Give one of those under model_dir/checkpoints."
        )
    return int(match.group(1))


def all_checkpoints(model_dir: pathlib.Path) -> list[pathlib.Path]:
    """The run's complete checkpoints, oldest first."""
    folder = model_dir / _FOLDER
    if not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if _NAME.fullmatch(path.name)]
    return sorted(found, key=step_of)


def latest(model_dir: pathlib.Path) -> pathlib.Path | None:
    """The newest checkpoint of a run, or None."""
    found = all_checkpoints(model_dir)
    return found[-1] if found else None


def best(model_dir: pathlib.Path) -> pathlib.Path | None:
    """The checkpoint with the lowest held-out loss, or None."""
    newest = latest(model_dir)
    step = load_state(newest).get("best_step") if newest else None
    path = _path(model_dir, step or 0)
    return path if step and path.is_dir() else None


def find(model_dir: pathlib.Path, which: str) -> pathlib.Path:
    """The checkpoint that is `latest`, `best` or in a folder."""
    if which == "latest":
        found = latest(model_dir)
        remedy = "Train first with scripts/run_pretraining.py."
    elif which == "best":
        found = best(model_dir)
        remedy = "Evaluation makes one (training.eval_steps); or take latest."
    else:
        found = pathlib.Path(which)
        if not found.is_dir():
            raise FileNotFoundError(
                "--checkpoint must be latest, best, or a folder such as "
                f"{_path(model_dir, 1000)}. Received: {which}."
            )
    if found is None:
        raise FileNotFoundError(
            f"{model_dir} must hold the {which} checkpoint that was asked "
            f"for. Received: a folder without one. {remedy}"
        )
    return found


def _path(model_dir: pathlib.Path, step: int) -> pathlib.Path:
    return model_dir / _FOLDER / f"step-{step:08d}"


def save(
    model_dir: pathlib.Path,
    step: int,
    variables: Variables,
    state: Mapping[str, Any],
    keep: int,
) -> pathlib.Path:
    """Writes a checkpoint, then removes all but the `keep` newest.

    `state` must be JSON; its `best_step` names a checkpoint that is kept
    whatever its age. Raises `ModelError` if the step is saved already or the
    disk is full; earlier checkpoints are left as they were.
    """
    final = _path(model_dir, step)
    if final.exists():
        raise errors.ModelError(
            f"{final} exists already; a run saves each step once. Does "
            "another process train in this folder? Stop one of them."
        )
    try:
        for unfinished in final.parent.glob(".step-*"):
            shutil.rmtree(unfinished)
        with atomic.creating_folder(final) as folder:
            _write(folder, variables, {**state, "step": step})
        _flush(final.parent)
    except (OSError, tf.errors.OpError) as error:
        raise errors.ModelError(
            f"The checkpoint of step {step} could not be written to {final}: "
            f"{_first_line(error)}. Earlier ones are untouched, the newest is "
            f"{latest(model_dir)}. Free space or repair the disk, then start "
            "the same command again: it goes on from there."
        ) from error
    for path in all_checkpoints(model_dir)[:-keep]:
        if step_of(path) != state.get("best_step"):
            hidden = path.with_name(f".{path.name}.{os.getpid()}")
            shutil.rmtree(path.rename(hidden))
    return final


def _write(
    folder: pathlib.Path, variables: Variables, state: Mapping[str, Any]
) -> None:
    names = sorted(variables)
    tf.raw_ops.SaveV2(
        prefix=str(folder / _PREFIX),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[tf.convert_to_tensor(variables[name]) for name in names],
    )
    content = {"format": _FORMAT, "sha256": _checksum(state), "state": state}
    text = json.dumps(content, indent=2)
    (folder / "state.json").write_text(text + "\n", "utf-8")
    for path in [*folder.iterdir(), folder]:
        _flush(path)


def _checksum(state: Mapping[str, Any]) -> str:
    text = json.dumps(state, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _flush(path: pathlib.Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def load_state(checkpoint: pathlib.Path) -> dict[str, Any]:
    """Reads the state that `save` was given, and its `step`."""
    path = checkpoint / "state.json"
    with _naming_damage(checkpoint):
        content = json.loads(path.read_text("utf-8"))
        state, version = content["state"], content["format"]
        if content["sha256"] != _checksum(state):
            raise ValueError("state.json has changed")
    if version != _FORMAT:
        raise errors.ModelError(
            f"{path} is of checkpoint format {version}, expected {_FORMAT}. It "
            "was written by another version of electra_tf: use that version."
        )
    return state


def load_tensors(
    checkpoint: pathlib.Path, prefix: str
) -> dict[str, np.ndarray]:
    """The checkpoint's tensors under `prefix/`, by the rest of their names.

    The prefix is `model` for the weights, `average` for their moving average.
    What is stored as bfloat16 becomes float32.
    """
    load_state(checkpoint)  # which says if the checkpoint is not whole
    tensors = _read(checkpoint, f"{prefix}/")
    if prefix == "average" and not tensors:
        raise errors.ModelError(
            "Averaged weights must have been kept while training. Received: "
            f"{checkpoint} of a run with training.ema_decay=0. Take its plain "
            "weights, or train with --config.training.ema_decay=0.9999."
        )
    return {
        name.removeprefix(f"{prefix}/"): value.astype(np.float32)
        if value.dtype == ml_dtypes.bfloat16
        else value
        for name, value in tensors.items()
    }


def restore(checkpoint: pathlib.Path, variables: Variables) -> None:
    """Sets variables from a checkpoint that must hold exactly these."""
    _assign(checkpoint, _read(checkpoint, ""), variables)


def load_weights(
    checkpoint: pathlib.Path, variables: Variables, prefix: str = "model"
) -> None:
    """Sets variables by path; tensors without a variable are left out."""
    saved = load_tensors(checkpoint, prefix)
    wanted = {name: saved[name] for name in saved if name in variables}
    _assign(checkpoint, wanted, variables)


def _assign(
    checkpoint: pathlib.Path,
    saved: Mapping[str, np.ndarray],
    variables: Variables,
) -> None:
    require_equal_layout(checkpoint, saved, variables)
    for name, variable in variables.items():
        variable.assign(saved[name])


def _read(checkpoint: pathlib.Path, beginning: str) -> dict[str, np.ndarray]:
    """Tensors whose names begin so; TensorFlow verifies their checksums."""
    with _naming_damage(checkpoint):
        reader = tf.train.load_checkpoint(str(checkpoint / _PREFIX))
        names = sorted(reader.get_variable_to_shape_map())
        return {
            n: reader.get_tensor(n) for n in names if n.startswith(beginning)
        }


@contextlib.contextmanager
def _naming_damage(checkpoint: pathlib.Path) -> Iterator[None]:
    try:
        yield
    # Damaged files make TensorFlow raise nearly everything.
    except Exception as error:
        raise errors.ModelError(
            f"{checkpoint} cannot be read: {_first_line(error)}. It is missing "
            "or damaged. Remove this folder to go on from the checkpoint "
            "before it."
        ) from error


def _first_line(error: Exception) -> str:
    line = (str(error).splitlines() or [type(error).__name__])[0]
    # Where in a graph it happened tells the user nothing.
    return re.sub(r"\{\{.*?\}\} | \[Op:\w+\]", "", line)


def require_equal_layout(
    origin: pathlib.Path | str,
    saved: Mapping[str, np.ndarray],
    variables: Variables,
) -> None:
    """Raises `ModelError` unless names and shapes agree, listing which."""
    problems = [f"missing {name}" for name in sorted({*variables} - {*saved})]
    problems += [f"unknown {name}" for name in sorted({*saved} - {*variables})]
    for name in sorted({*saved} & {*variables}):
        shape, expected = saved[name].shape, tuple(variables[name].shape)
        if shape != expected:
            problems.append(f"{name} is {shape}, expected {expected}")
    if problems:
        raise errors.ModelError(
            f"{origin} does not fit the model: {'; '.join(problems[:8])}"
            f"{' ...' if len(problems) > 8 else ''} ({len(problems)} in all). "
            "Use the config that the checkpoint was made with."
        )
