"""A whole fine-tuning model with several tasks.

Forward pass, loss, gradients, and steps through the layer-wise optimizer,
without dropout. The reference clipped by a norm that is slightly off (it took
the rows of looked-up tables one by one); the steps here are clipped by that
norm too, and the true one is compared apart.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import keras
import numpy as np
import tensorflow as tf

from electra_tf.config import EncoderConfig
from electra_tf.finetuning import encoders
from electra_tf.finetuning import optimizer as optimizer_lib
from electra_tf.finetuning.model import FinetuningModel
from electra_tf.finetuning_config import FinetuningOptimizerConfig
from electra_tf.formats import parameter_names
from electra_tf.formats import tf1
from electra_tf.modeling import task_heads
from electra_tf.training import optimizers
from tests.golden import comparison
from tests.golden import loading
from tests.golden.checks import training
from tests.golden.comparison import Line

_TOLERANCE = 1e-5
# A row without any visible key: all its scores are -10000, rounded to 1e-3.
_BLANK_ROW_TOLERANCE = 1e-4
_GRADIENT_TOLERANCE = 1e-4  # of the largest entry of each array
_NORM_TOLERANCE = 1e-4  # relative
_RATE_TOLERANCE = 1e-6  # of the largest rate
# Of the largest entry, weights after the steps: an Adam without bias
# correction amplifies the rounding of small gradients.
_WEIGHT_TOLERANCE = 1e-3
_OUR_COLUMNS = {"label_ids": "label", "targets": "target"}
_THEIR_OUTPUTS = {"logits": "logits", "prediction": "predictions"}


def list_cases(folder: Path) -> Iterator[tuple[str, Any]]:
    """The cases of a folder `finetuning/model`."""
    for name, check in (
        ("forward", _check_forward),
        ("gradients", _check_gradients),
        ("training", _check_training),
    ):
        yield f"model, {name}", functools.partial(check, folder)


def _check_forward(folder: Path) -> Iterator[Line]:
    """Losses and outputs of all heads."""
    model, features = _load(folder)
    expected = loading.read_arrays(folder / "outputs.npz")
    losses = model.compute_task_losses(features, None).numpy()
    is_own = features["task_id"].numpy()[:, None] == np.arange(losses.shape[1])
    is_blank = features["input_mask"].numpy().sum(1) == 0
    line = Line("model, forward", _TOLERANCE)
    blank = Line("model, forward, blank rows", _BLANK_ROW_TOLERANCE)
    line.compare("loss", losses.sum(), expected["loss"])
    for number, task in enumerate(model.task_names):
        own, name = is_own[:, number], f"{task}_loss"
        line.compare(name, losses[own, number], expected[name][own])
        for key, value in model.predict_task(task, features).items():
            name = f"{task}_{_THEIR_OUTPUTS[key]}"
            ours, theirs = value.numpy(), expected[name]
            line.compare(name, ours[~is_blank], theirs[~is_blank])
            if is_blank.any():
                blank.compare(name, ours[is_blank], theirs[is_blank])
    yield line
    if is_blank.any():
        yield blank


def _check_gradients(folder: Path) -> Iterator[Line]:
    """The gradient of every variable, and its true norm."""
    model, features = _load(folder)
    with mock.patch.object(model.optimizer, "apply_in_replica_context") as update:
        statistics = _step(model, features)
    (clipped, *_), _ = update.call_args
    norm = float(statistics["gradient_norm"][0])
    info = loading.read_json(folder / "info.json")
    line = Line("model, gradient norm", _NORM_TOLERANCE)
    line.compare(
        "norm",
        norm,
        info["gradient_global_norm_dense"],
        comparison.relative_error,
    )
    yield line
    scale = max(norm / model.clip_norm, 1.0)
    line = Line("model, gradients", _GRADIENT_TOLERANCE)
    ours = _split_all(model, [scale * gradient for gradient in clipped])
    expected = loading.read_arrays(folder / "gradients.npz")
    training.compare_scaled(line, "", ours, expected)
    yield line


def _check_training(folder: Path) -> Iterator[Line]:
    """Losses, norms, rates by depth and final weights of some steps."""
    expected = loading.read_arrays(folder / "train.npz")
    model, features = _load(folder)
    losses, rates = [], []
    for norm in expected["gradient_global_norm"]:
        rates.append(float(tf.convert_to_tensor(model.optimizer.learning_rate)))
        statistics = _step(model, features, norm)
        losses.append(statistics["loss"].numpy().sum())
    losses.append(model.compute_task_losses(features, None).numpy().sum())
    line = Line("model, training losses", _NORM_TOLERANCE)
    line.compare("loss", losses, expected["loss"], comparison.relative_error)
    yield line
    yield _compare_rates(model, np.array(rates), expected)
    line = Line("model, weights after training", _WEIGHT_TOLERANCE)
    line.compare_all(
        _split_all(model, model.trainable_variables),
        loading.with_prefix(expected, "final/"),
        comparison.scaled_error,
    )
    yield line


def _step(
    model: FinetuningModel,
    features: Mapping[str, tf.Tensor],
    norm: float | None = None,
) -> dict[str, tf.Tensor]:
    """A training step without dropout, clipped by a given norm if any."""

    def clip(gradients: list[tf.Tensor], limit: float) -> Any:
        return tf.clip_by_global_norm(gradients, limit, tf.constant(norm))

    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(task_heads, "DROPOUT_PROB", 0.0))
        if norm is not None:
            stack.enter_context(
                mock.patch.object(optimizers, "clip_by_global_norm", clip)
            )
        return model.training_step(dict(features))


def _compare_rates(
    model: FinetuningModel, rates: np.ndarray, expected: loading.Arrays
) -> Line:
    """The rate of every variable at every step, by the key in its name."""
    line = Line("model, rates by depth", _RATE_TOLERANCE)
    theirs = loading.with_prefix(expected, "learning_rate/")
    for variable, multiplier in zip(
        model.trainable_variables,
        model.optimizer.rate_multipliers,
        strict=True,
    ):
        keys = [key for key in theirs if key in variable.path]
        if len(keys) != 1:
            line.add(variable.path, np.inf)
            continue
        error = comparison.scaled_error(rates * multiplier, theirs[keys[0]])
        line.add(variable.path, error)
    return line


def _load(folder: Path) -> tuple[FinetuningModel, dict[str, tf.Tensor]]:
    """The model with the reference's weights, and its batch."""
    info = loading.read_json(folder / "info.json")
    inputs = loading.read_arrays(folder / "inputs.npz")
    given, sizes = info["finetuning_config"], info["bert_config"]
    known = {field.name for field in dataclasses.fields(EncoderConfig)}
    settings = EncoderConfig(
        **{name: sizes[name] for name in known & sizes.keys()}
        | {
            "embedding_size": given.get("embedding_size")
            or sizes["hidden_size"],
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
        }
    )
    heads = {
        name: _build_head(name, info["variables"], inputs)
        for name in given["task_names"]
    }
    model = FinetuningModel(encoders.build_encoder(settings), heads)
    checkpoint = tf1.read_checkpoint(folder / "model.ckpt")
    tf1.assign_variables(model.trainable_variables, checkpoint)
    names = ("learning_rate", "layerwise_lr_decay", "warmup_proportion")
    model.optimizer = optimizer_lib.build_optimizer(
        FinetuningOptimizerConfig(
            **{name: given[name] for name in names if name in given},
            weight_decay_rate=info["weight_decay_rate"],
        ),
        info["num_train_steps"],
        settings.num_hidden_layers,
    )
    model.optimizer.build(model.trainable_variables)
    return model, _read_features(inputs)


def _read_features(inputs: loading.Arrays) -> dict[str, tf.Tensor]:
    features = {}
    for name, value in inputs.items():
        task, _, column = name.partition("_")
        if column in _OUR_COLUMNS:
            name = f"{task}/{_OUR_COLUMNS[column]}"
        features[name] = tf.constant(value)
    return features


def _build_head(
    name: str, variables: Mapping[str, list[int]], inputs: loading.Arrays
) -> task_heads.TaskHead:
    hidden_size, units = variables[f"task_specific/{name}/dense/kernel"]
    head: task_heads.TaskHead
    if f"{name}_targets" in inputs:
        head = task_heads.RegressionHead(seed=1, name=name)
    else:
        head = task_heads.ClassificationHead(units, seed=1, name=name)
    with keras.name_scope("task_specific"):
        head.build((None, None, hidden_size))
    return head


def _split_all(model: FinetuningModel, values: Sequence[Any]) -> loading.Arrays:
    """Arrays of our variables under the original's names."""
    return {
        name: part
        for variable, value in zip(
            model.trainable_variables, values, strict=True
        )
        for name, part in parameter_names.split(
            variable.path, np.asarray(value)
        ).items()
    }
