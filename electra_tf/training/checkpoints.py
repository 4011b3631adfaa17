"""The folder of a run, and its checkpoints, which are complete or absent.

    model_dir/config.json   the settings; the vocabulary is beside them
    model_dir/checkpoints/step-00001000/
        variables.index, variables.data-00000-of-00001
        state.json          step, input position, best score

`variables` is a TensorFlow checkpoint with names such as `model/<path>`. All
files have checksums. A checkpoint gets its name once its files are on disk, and
loses it before it is removed. In a store such as gs:// a checkpoint exists if
it has `state.json`.
"""

import contextlib
import glob
import hashlib
import json
import pathlib
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import tensorflow as tf
from absl import logging

from electra_tf import errors
from electra_tf import storage
from electra_tf.config import schema
from electra_tf.processes import atomic
from electra_tf.processes import locks
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import checkpoint_index

CONFIG_FILE = "config.json"

# Fields that a resumed run may change: they influence neither model nor masks,
# samples and order. (The number of devices changes rounding alone.)
SAFE_TO_CHANGE = {
    "training.strategy",
    "training.tpu",
    "training.steps_per_loop",
    "training.log_steps",
    "training.save_checkpoints_steps",
    "training.keep_checkpoints",
    "training.num_micro_batches",
    "training.jit_compile",
}
_FORMAT = 1
_FOLDER = "checkpoints"
_PREFIX = "variables"
_STATE_FILE = "state.json"  # in a store, written last
# The types of members that runs and trials share.
_STATE_TYPES = {
    "best_step": int | None,
    "best_loss": float | int | None,
    "best_score": float | int | None,
    "owes_evaluation": bool | None,
    "position": dict | None,
    "dataset": dict | None,
    "num_replicas": int | None,
}
_NAME = re.compile(r"step-(\d{8,18})")  # at most 18 digits fit into int64

# Errors of a disk or of a store, not of a checkpoint's content.
_UNREACHABLE = (OSError, tf.errors.AbortedError, tf.errors.UnavailableError,
                tf.errors.DeadlineExceededError, tf.errors.UnknownError,
                tf.errors.PermissionDeniedError)  # fmt: skip

Variables = Mapping[str, Any]
Arrays = dict[str, np.ndarray]


def has_config(folder: pathlib.Path, what: str, flag: str) -> bool:
    """Whether a folder has a config; raises `ModelError` for other files."""
    if (folder / CONFIG_FILE).exists():
        return True
    if folder.is_dir() and any(
        storage.PARTIAL_MARK not in path.name and path.name != locks.LOCK_FILE
        for path in folder.iterdir()
    ):
        raise errors.ModelError(
            f"{folder} is not empty and holds no {CONFIG_FILE} of a {what}. "
            f"Choose a new or empty {flag}."
        )
    return False


def claim_folder(
    folder: pathlib.Path,
    content: Any,
    vocabulary: vocabulary_lib.Vocabulary,
    replaces_config: bool = False,
) -> None:
    """Writes config and vocabulary to a folder that `has_config` checked.

    Call it after all that can fail, so that a run that failed can start again
    with other settings.
    """
    if replaces_config or not (folder / CONFIG_FILE).exists():
        folder.mkdir(parents=True, exist_ok=True)
        atomic.write_text(folder / CONFIG_FILE, schema.to_json(content))
    for path in (folder, folder / _FOLDER):
        atomic.remove_partial(path)
    vocabulary.save(folder)


def require_same_settings(
    folder: pathlib.Path,
    old: Any,
    new: Any,
    safe: Collection[str],  # fields that may differ
    flag: str,
) -> list[str]:
    """Lists changed settings; raises `ModelError` if one is not `safe`."""
    differences = schema.find_differences(old, new)
    changed = [d for d in differences if d.partition(":")[0] not in safe]
    if changed:
        raise errors.ModelError(
            f"{folder} was made with other settings (there, now): "
            f"{'; '.join(changed)}. Choose another {flag}, or restore these "
            "settings."
        )
    return differences


def require_same_vocabulary(
    model_dir: pathlib.Path, vocabulary: vocabulary_lib.Vocabulary
) -> None:
    """Raises `ModelError` unless a run was trained with this vocabulary."""
    saved = vocabulary_lib.Vocabulary.load(model_dir)
    there, now = ((v.sha256[:12], v.settings) for v in (saved, vocabulary))
    if there != now:
        raise errors.ModelError(
            f"{model_dir} was trained with another vocabulary than the "
            f"dataset's: {there} there, now {now}. Use a dataset made with "
            "the vocabulary of the run, or another --model_dir."
        )


def step_of(checkpoint: pathlib.Path) -> int:
    """Returns the step of a checkpoint folder."""
    if match := _NAME.fullmatch(checkpoint.name):
        return int(match[1])
    raise errors.ModelError(
        "A checkpoint is a folder named step-NNNNNNNN. Received: "
        f"{checkpoint}. Give a folder in model_dir/checkpoints."
    )


def all_checkpoints(model_dir: pathlib.Path) -> list[pathlib.Path]:
    """Lists the run's complete checkpoints, oldest first."""
    folder = model_dir / _FOLDER
    paths = folder.iterdir() if folder.is_dir() else ()
    named = [path for path in paths if _NAME.fullmatch(path.name)]
    return sorted(filter(_is_there, named), key=step_of)


def _is_there(checkpoint: pathlib.Path) -> bool:
    is_local = storage.is_local(checkpoint)
    return (checkpoint if is_local else checkpoint / _STATE_FILE).exists()


def latest(model_dir: pathlib.Path) -> pathlib.Path | None:
    """Returns the newest checkpoint of a run, or None."""
    return next(reversed(all_checkpoints(model_dir)), None)


def best(model_dir: pathlib.Path) -> pathlib.Path | None:
    """Returns the checkpoint with the best evaluation, or None."""
    newest = latest(model_dir)
    step = load_state(newest).get("best_step") if newest else None
    path = _path(model_dir, step or 0)
    return path if step and _is_there(path) else None


def find(model_dir: pathlib.Path, which: str) -> pathlib.Path:
    """Finds the checkpoint that `which` names: latest, best or a folder."""
    remedy = f"Give latest, best or a folder: {_path(model_dir, 1000)}."
    if which == "latest":
        checkpoint = latest(model_dir)
        remedy = "Train first with electra-pretrain."
    elif which == "best":
        checkpoint = best(model_dir)
        remedy = "Set training.eval_steps to evaluate runs, or take latest."
    else:
        checkpoint = storage.path(which)
    if checkpoint is None or not checkpoint.is_dir():
        raise FileNotFoundError(
            f"--checkpoint={which} must be in {model_dir}, or a folder. "
            f"Received: no such checkpoint. {remedy}"
        )
    return checkpoint


def _path(model_dir: pathlib.Path, step: int) -> pathlib.Path:
    return model_dir / _FOLDER / f"step-{step:08d}"


def save(
    model_dir: pathlib.Path,
    step: int,
    variables: Variables,
    state: Mapping[str, Any],
    keep: int,
    is_old: bool = False,  # the checkpoint exists: only its state is rewritten
) -> pathlib.Path:
    """Writes a checkpoint, then removes all but the `keep` newest.

    `state` must be JSON; the checkpoint of its `best_step` is never removed.
    Raises `ModelError` if the step has been saved or the disk is full; then
    earlier checkpoints remain.
    """
    final = _path(model_dir, step)
    if _is_there(final) and not is_old:
        raise errors.ModelError(
            f"{final} exists already; a run saves each step once. Does "
            "another process train in this folder? Stop one of them."
        )
    try:
        state = {**state, "step": step}
        content = {"format": _FORMAT, "sha256": _checksum(state)}
        text = json.dumps(content | {"state": state}, indent=2) + "\n"
        atomic.remove_partial(final.parent)
        if is_old:
            atomic.write_text(final / _STATE_FILE, text)
        else:
            names = sorted(variables)
            with atomic.creating_folder(final, _STATE_FILE) as folder:
                tf.raw_ops.SaveV2(
                    prefix=str(folder / _PREFIX),
                    tensor_names=names,
                    shape_and_slices=[""] * len(names),
                    tensors=[tf.convert_to_tensor(variables[n]) for n in names],
                )
                (folder / _STATE_FILE).write_text(text, "utf-8")
    except (OSError, tf.errors.OpError) as error:
        raise errors.ModelError(
            f"The checkpoint of step {step} could not be written to {final}: "
            f"{atomic.first_line(error)}. Earlier checkpoints are untouched; "
            f"the newest is {latest(model_dir) or 'none'}. Free space or "
            "repair the disk, then start the same command again: it goes on "
            "from there."
        ) from error
    remove_old(model_dir, keep, state.get("best_step"))
    return final


def remove_old(
    model_dir: pathlib.Path, keep: int, best_step: int | None
) -> None:
    """Removes all checkpoints but the `keep` newest and the best one."""
    for path in all_checkpoints(model_dir)[:-keep]:
        try:
            if step_of(path) != best_step:
                storage.remove_folder(path, _STATE_FILE)
        except OSError as error:
            logging.warning(
                "An old checkpoint could not be removed: %s. Training goes "
                "on; remove it yourself.",
                atomic.first_line(error),
            )


def _checksum(state: Mapping[str, Any]) -> str:
    text = json.dumps(state, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def load_state(checkpoint: pathlib.Path) -> dict[str, Any]:
    """Reads the state of a checkpoint, and its `step`."""
    path = checkpoint / _STATE_FILE
    with _naming_damage(checkpoint):
        content = json.loads(storage.read_bytes(path))
        state, version = content["state"], content["format"]
        if content["sha256"] != _checksum(state):
            raise ValueError(f"{_STATE_FILE} has changed")
        if step_of(checkpoint) != state["step"]:
            raise ValueError(f"it holds step {state['step']}")
        for name, kinds in _STATE_TYPES.items():
            if not isinstance(value := state.get(name), kinds):
                raise ValueError(f"its {name} is {value!r:.60}")
        if not 0 <= (state.get("best_step") or 0) <= state["step"]:
            raise ValueError(f"its best_step is {state['best_step']}")
    if version != _FORMAT:
        raise errors.ModelError(
            f"{path} is of checkpoint format {version}, expected {_FORMAT}. It "
            "was written by another version of electra_tf: use that version."
        )
    return state


def load_tensors(checkpoint: pathlib.Path, prefix: str) -> Arrays:
    """Reads the tensors whose names begin with `prefix/`, which is removed.

    The prefix is `model` for the weights, `average` for their moving average.
    Tensors of bfloat16 become float32.
    """
    load_state(checkpoint)  # raises an error for an incomplete checkpoint
    with _naming_damage(checkpoint):
        tensors = read_tensors(str(checkpoint / _PREFIX), f"{prefix}/")
    if prefix == "average" and not tensors:
        raise errors.ModelError(
            "Averaged weights need a run with training.ema_decay above 0. "
            f"Received: {checkpoint} of a run with 0. Take its plain weights, "
            "or train with --config.training.ema_decay=0.9999."
        )
    for name, value in tensors.items():
        if value.dtype == ml_dtypes.bfloat16:
            tensors[name] = value.astype(np.float32)
    return {n.removeprefix(f"{prefix}/"): v for n, v in tensors.items()}


def restore(checkpoint: pathlib.Path, variables: Variables) -> None:
    """Restores all variables of a checkpoint, which must have no others."""
    with _naming_damage(checkpoint):
        tensors = read_tensors(str(checkpoint / _PREFIX))
    assign(checkpoint, tensors, variables)


def load_weights(
    checkpoint: pathlib.Path, variables: Variables, prefix: str = "model"
) -> None:
    """Loads variables by path; ignores tensors without a variable."""
    saved = load_tensors(checkpoint, prefix).items()
    assign(checkpoint, {n: v for n, v in saved if n in variables}, variables)


def assign(
    origin: pathlib.Path | str, saved: Variables, variables: Variables
) -> None:
    """Assigns tensors to variables of the same names and shapes.

    Raises `ModelError` if a name or a shape differs.
    """
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
    for name, variable in variables.items():
        variable.assign(saved[name])


def read_tensors(prefix: str, beginning: str = "") -> Arrays:
    """Reads tensors of a TensorFlow checkpoint whose names begin so.

    TensorFlow verifies the checksums. A damaged index raises `ValueError`.
    """
    with _open(prefix) as reader:
        names = sorted(reader.get_variable_to_shape_map())
        chosen = (name for name in names if name.startswith(beginning))
        return {name: reader.get_tensor(name) for name in chosen}


def read_shapes(prefix: str) -> Arrays:
    """Reads an index; returns zeros, without memory, for the tensors."""
    with _open(prefix) as reader:
        dtypes = reader.get_variable_to_dtype_map()
        return {
            name: np.broadcast_to(np.zeros([], dtypes[name].as_numpy_dtype), s)
            for name, s in reader.get_variable_to_shape_map().items()
        }


@contextlib.contextmanager
def _open(prefix: str) -> Iterator[Any]:
    checkpoint_index.check(prefix)
    build = tf.compat.v1.train.NewCheckpointReader
    # TensorFlow treats the prefix as a pattern.
    if not set(prefix) & set("*?[\\") or not storage.is_local(prefix):
        yield build(prefix)
        return
    path = pathlib.Path(prefix).absolute()
    with tempfile.TemporaryDirectory() as folder:
        for file in path.parent.glob(f"{glob.escape(path.name)}.*"):
            link = pathlib.Path(folder, _PREFIX + file.name[len(path.name) :])
            link.symlink_to(file)
        yield build(f"{folder}/{_PREFIX}")


@contextlib.contextmanager
def _naming_damage(checkpoint: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # damaged files raise nearly every error
        remedy = (
            "It is missing or damaged. Remove this folder to go on from the "
            "checkpoint before it."
        )
        is_missing = isinstance(error, FileNotFoundError)
        if isinstance(error, _UNREACHABLE) and not is_missing:
            remedy = "Repair the file system or your rights, and start again."
        raise errors.ModelError(
            f"{checkpoint} cannot be read: {atomic.first_line(error)}. {remedy}"
        ) from error
