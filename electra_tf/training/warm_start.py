"""Weights of one run as the start of another, with a full account.

A second phase (longer rows) or a second corpus starts from the weights of a
finished run with a fresh optimizer. Every variable is found or the command
fails; only the position table may have another number of rows.
"""

import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import checkpoints
from electra_tf.training import model_dir as model_dir_lib

_RESIZABLE = "position_embeddings"


def warm_start(
    model_dir: pathlib.Path,
    variables: Mapping[str, Any],
    vocabulary: vocabulary_lib.Vocabulary,
) -> str:
    """Sets variables to the weights of another run's newest checkpoint.

    Rows of a longer position table that the other run does not have keep
    their fresh values; rows that are too many are left out.

    Args:
        model_dir: the other run's folder.
        variables: `variable.path` to variable.
        vocabulary: that of the new run; it must be the other one's.

    Returns:
        One paragraph: how many variables were restored, which were resized.

    Raises:
        CheckpointError: if there is no checkpoint, or if names or shapes
            differ (lists them). No variable has been changed then.
        ModelDirError: if the other run had another vocabulary.
    """
    checkpoint = checkpoints.latest(model_dir)
    if checkpoint is None:
        raise checkpoints.CheckpointError(
            f"Expected a run with a checkpoint in {model_dir}, found none. "
            "Give the model_dir of a run that has saved."
        )
    model_dir_lib.require_same_vocabulary(model_dir, vocabulary)
    saved = checkpoints.load_tensors(checkpoint, "model")
    notes = []
    for name in sorted(saved.keys() & variables.keys()):
        value, variable = saved[name], variables[name]
        # Another width is left for the check of the layout.
        has_equal_width = value.shape[1:] == tuple(variable.shape[1:])
        if name.endswith(_RESIZABLE) and has_equal_width:
            saved[name] = fit_rows(value, np.asarray(variable))
            if len(value) != len(saved[name]):
                notes.append(
                    f"{name}: {len(value)} rows became {len(saved[name])}"
                )
    checkpoints.require_equal_layout(checkpoint, saved, variables)
    for name, variable in variables.items():
        variable.assign(saved[name])
    total = len(variables)
    return "; ".join(
        [f"restored {total} of {total} variables from {checkpoint}", *notes]
    )


def fit_rows(saved: np.ndarray, fresh: np.ndarray) -> np.ndarray:
    """A table with as many rows as `fresh`, the first ones from `saved`.

    Args:
        saved: `[n, width]`.
        fresh: `[m, width]`; gives the rows that `saved` does not have.

    Returns:
        `[m, width]`.
    """
    shared = min(len(saved), len(fresh))
    return np.concatenate([saved[:shared], fresh[shared:]])
