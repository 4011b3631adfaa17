"""Heads of question answering with fed hidden states.

In joint mode the original's prediction has zeros for end logits, and still a
loss: the end then costs the logarithm of the row's length. Our head has no use
for that number; `_prediction_losses` makes it here.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from electra_tf.modeling import question_answering_head
from electra_tf.modeling import task_heads
from electra_tf.verification import comparison
from electra_tf.verification import reference
from electra_tf.verification.finetuning_qa_rows import KIND
from electra_tf.verification.report import CheckResult

_TOLERANCE = 1e-5
# Log probabilities below this are of positions that are no candidates; -1000
# leaves so little of their order in float32 that it is not compared.
_NO_CANDIDATE = -500.0
_OPTIONS = (
    "joint_prediction",
    "beam_size",
    "answerable_classifier",
    "answerable_uses_start_logits",
    "answerable_weight",
)
_WEIGHTS = "weights/"


def check_head(folder: Path, tag: str) -> CheckResult:
    """Losses, logits and the best starts and ends of one head.

    Args:
        folder: of the reference.
        tag: of the head, in `heads.json`.
    """
    options = {
        entry["tag"]: entry
        for entry in reference.read_json(folder / "heads.json")
    }[tag]
    arrays = reference.read_arrays(folder / f"head_{tag}.npz")
    head = build_head(options, arrays)
    features = {
        "input_mask": tf.constant(arrays["input_mask"]),
        "segment_ids": tf.constant(arrays["segment_ids"]),
        "start_position": tf.constant(arrays["start_positions_in"]),
        "end_position": tf.constant(arrays["end_positions_in"]),
        "is_impossible": tf.constant(arrays["is_impossible"]),
    }
    ours = _compute_outputs(
        head,
        tf.constant(arrays["final_hidden"]),
        features,
        options["is_training"],
    )
    found = comparison.Comparison(KIND, f"qa, head_{tag}", _TOLERANCE)
    for name, tensor in ours.items():
        theirs = arrays[f"out/{name}"]
        if not name.endswith("_index"):
            found.add(name, comparison.compute_error(tensor, theirs))
            continue
        log_probs = arrays[f"out/{name.replace('index', 'log_probs')}"]
        is_candidate = log_probs > _NO_CANDIDATE
        own = np.where(is_candidate, tensor, 0)
        expected = np.where(is_candidate, theirs, 0)
        found.add(name, comparison.count_unequal(own, expected))
    return found.result()


def build_head(
    options: Mapping[str, Any], arrays: reference.Arrays
) -> question_answering_head.QuestionAnsweringHead:
    """The head with the reference's weights.

    Raises:
        ReferenceFileError: if its variables are not those of the file.
    """
    weights = {
        name.removeprefix(_WEIGHTS): array
        for name, array in arrays.items()
        if name.startswith(_WEIGHTS)
    }
    stage, task, *_ = next(iter(weights)).split("/")
    with keras.name_scope(stage):
        head = question_answering_head.QuestionAnsweringHead(
            seed=1, name=task, **{name: options[name] for name in _OPTIONS}
        )
        head.build((None, None, arrays["final_hidden"].shape[-1]))
    paths = {variable.path for variable in head.weights}
    if paths != set(weights):
        raise reference.ReferenceFileError(
            f"Expected the variables {sorted(paths)}. Received: "
            f"{sorted(weights)}."
        )
    for variable in head.weights:
        variable.assign(weights[variable.path])
    return head


def _compute_outputs(
    head: question_answering_head.QuestionAnsweringHead,
    hidden: tf.Tensor,
    features: task_heads.Tensors,
    is_training: bool,
) -> dict[str, tf.Tensor]:
    """What the reference has of a mode, by its names."""
    outputs = head.predict(hidden, features)
    if not is_training and head.joint_prediction:
        outputs["loss"] = _prediction_losses(head, outputs, features)
        return outputs
    outputs["loss"] = head.compute_losses(hidden, features, None)
    outputs["end_logits"] = head.compute_end_logits(
        hidden, features, features["start_position"]
    )
    # Ends of all starts are made in prediction alone.
    return {
        name: tensor
        for name, tensor in outputs.items()
        if not name.startswith("end_top")
    }


def _prediction_losses(
    head: question_answering_head.QuestionAnsweringHead,
    outputs: task_heads.Tensors,
    features: task_heads.Tensors,
) -> tf.Tensor:
    """The original's losses in joint prediction, `[B]`."""
    start_logits = outputs["start_logits"]
    start_losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
        features["start_position"], start_logits
    )
    losses = (start_losses + math.log(start_logits.shape[1])) / 2
    if head.answerable_classifier:
        losses += head.answerable_weight * (
            tf.nn.sigmoid_cross_entropy_with_logits(
                tf.cast(features["is_impossible"], tf.float32),
                outputs["answerable_logit"],
            )
        )
    return losses
