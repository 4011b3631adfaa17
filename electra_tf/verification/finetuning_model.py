"""A whole fine-tuning model with two tasks against its reference.

Forward pass, loss, gradients, and steps through the layer-wise optimizer,
without dropout. The reference clipped by a norm that is slightly off (it took
the rows of looked-up tables one by one); the steps here divide by that norm
too, and the true one is compared apart.
"""

import dataclasses
import functools
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf import finetuning_config
from electra_tf.finetuning import encoders
from electra_tf.finetuning import model as model_lib
from electra_tf.finetuning import optimizer as optimizer_lib
from electra_tf.formats import parameter_names
from electra_tf.formats import tf1
from electra_tf.modeling import task_heads
from electra_tf.training import step as step_lib
from electra_tf.verification import comparison
from electra_tf.verification import reference
from electra_tf.verification.report import CheckResult

KIND = "finetuning"
TOLERANCE = 1e-5
# A row without any visible key: all its scores are -10000, rounded to 1e-3.
BLANK_ROW_TOLERANCE = 1e-4
GRADIENT_TOLERANCE = 1e-4  # of the largest entry of each array
NORM_TOLERANCE = 1e-4  # relative
RATE_TOLERANCE = 1e-6  # relative
# Of the largest entry, weights after the steps: an Adam without bias
# correction amplifies the rounding of small gradients.
WEIGHT_TOLERANCE = 1e-3


class _FedModel(model_lib.FinetuningModel):
    """A model without dropout, whose gradients are divided by a given norm."""

    norm: float | None = None
    clipped: list[tf.Tensor]

    def compute_losses(
        self, prepared: step_lib.Tensors, dropout_seed: tf.Tensor | None
    ) -> step_lib.LossSums:
        """Without dropout, in the heads too."""
        del dropout_seed
        return super().compute_losses(prepared, None)

    def _apply(self, gradients: list[tf.Tensor], norm: tf.Tensor) -> tf.Tensor:
        self.clipped = gradients
        if self.norm is not None:
            gradients = [g * (norm / self.norm) for g in gradients]
        return super()._apply(gradients, norm)


def list_cases(
    folder: Path,
) -> Iterator[tuple[str, Callable[[], list[CheckResult]]]]:
    """The checks of a folder `model`.

    Args:
        folder: holds `info.json`, arrays and a checkpoint.
    """
    for name, check in (
        ("forward", check_forward),
        ("gradients", check_gradients),
        ("training", check_training),
    ):
        yield f"model, {name}", functools.partial(check, folder)


def check_forward(folder: Path) -> list[CheckResult]:
    """Losses and outputs of both heads."""
    model, features = _load(folder)
    expected = reference.read_arrays(folder / "outputs.npz")
    losses = model.compute_task_losses(features, None).numpy()
    is_own = features["task_id"].numpy()[:, None] == np.arange(losses.shape[1])
    is_blank = features["input_mask"].numpy().sum(1) == 0
    line = comparison.Comparison(KIND, "model, forward", TOLERANCE)
    blank = comparison.Comparison(
        KIND, "model, forward, blank rows", BLANK_ROW_TOLERANCE
    )
    line.add("loss", comparison.compute_error(losses.sum(), expected["loss"]))
    for number, name in enumerate(model.task_names):
        own = is_own[:, number]
        line.add(
            f"{name}_loss",
            comparison.compute_error(
                losses[own, number], expected[f"{name}_loss"][own]
            ),
        )
        for key, value in model.predict_task(name, features).items():
            full_name = f"{name}_{_THEIR_OUTPUTS[key]}"
            ours, theirs = value.numpy(), expected[full_name]
            line.add(
                full_name,
                comparison.compute_error(ours[~is_blank], theirs[~is_blank]),
            )
            if is_blank.any():
                error = comparison.compute_error(
                    ours[is_blank], theirs[is_blank]
                )
                blank.add(full_name, error)
    return [line.result(), *([blank.result()] if is_blank.any() else [])]


def check_gradients(folder: Path) -> list[CheckResult]:
    """The gradient of every variable, and its true norm."""
    info = reference.read_json(folder / "info.json")
    model, features = _load(folder)
    statistics = model.training_step(features)
    norm = float(statistics["gradient_norm"][0])
    line = comparison.Comparison(KIND, "model, gradient norm", NORM_TOLERANCE)
    dense = info["gradient_global_norm_dense"]
    line.add("norm", abs(norm - dense) / dense)
    scale = max(norm / model.clip_norm, 1.0)
    ours = _split_all(model, [scale * g.numpy() for g in model.clipped])
    expected = reference.read_arrays(folder / "gradients.npz")
    gradients = comparison.Comparison(
        KIND, "model, gradients", GRADIENT_TOLERANCE
    )
    floor = 1e-6 * max(np.abs(value).max() for value in expected.values())
    for name in sorted(expected.keys() | ours.keys()):
        if np.abs(expected[name]).max() > floor:
            error = comparison.compute_scaled_error(ours[name], expected[name])
        else:
            error = float(np.abs(ours[name]).max() > floor)
        gradients.add(name, error)
    return [line.result(), gradients.result()]


def check_training(folder: Path) -> list[CheckResult]:
    """Losses, norms, rates by depth and final weights of some steps."""
    expected = reference.read_arrays(folder / "train.npz")
    norms = expected["gradient_global_norm"]
    model, features = _load(folder)
    losses, rates = [], []
    for norm in norms:
        model.norm = float(norm)
        rates.append(float(tf.convert_to_tensor(model.optimizer.learning_rate)))
        statistics = model.training_step(features)
        losses.append(float(statistics["loss"].numpy().sum()))
    losses.append(
        float(model.compute_task_losses(features, None).numpy().sum())
    )
    line = comparison.Comparison(KIND, "model, training losses", NORM_TOLERANCE)
    error = comparison.compute_relative_error(losses, expected["loss"])
    line.add("loss", error)
    weights = comparison.Comparison(
        KIND, "model, weights after training", WEIGHT_TOLERANCE
    )
    final = _split_all(model, [v.numpy() for v in model.trainable_variables])
    for name, value in final.items():
        theirs = expected[f"final/{name}"]
        weights.add(name, comparison.compute_scaled_error(value, theirs))
    return [line.result(), _compare_rates(model, rates, expected),
            weights.result()]  # fmt: skip


def _compare_rates(
    model: _FedModel, rates: list[float], expected: reference.Arrays
) -> CheckResult:
    """The rate of every variable at every step, by the key in its name."""
    line = comparison.Comparison(KIND, "model, rates by depth", RATE_TOLERANCE)
    prefix = "learning_rate/"
    theirs = {
        name.removeprefix(prefix): value
        for name, value in expected.items()
        if name.startswith(prefix)
    }
    multipliers = model.optimizer.rate_multipliers
    for variable, multiplier in zip(
        model.trainable_variables, multipliers, strict=True
    ):
        keys = [key for key in theirs if key in variable.path]
        if len(keys) != 1:
            line.add(variable.path, float("inf"))
            continue
        ours = np.array(rates) * multiplier
        error = comparison.compute_scaled_error(ours, theirs[keys[0]])
        line.add(variable.path, error)
    return line.result()


_OUR_COLUMNS = {"label_ids": "label", "targets": "target"}
_THEIR_OUTPUTS = {"logits": "logits", "prediction": "predictions"}


def _load(folder: Path) -> tuple[_FedModel, dict[str, tf.Tensor]]:
    """The model with the reference's weights, and its batch."""
    info = reference.read_json(folder / "info.json")
    inputs = reference.read_arrays(folder / "inputs.npz")
    encoder_config = _encoder_config(info)
    encoder = encoders.build_encoder(encoder_config)
    heads = {
        name: _build_head(name, info["variables"], inputs)
        for name in info["finetuning_config"]["task_names"]
    }
    model = _FedModel(encoder, heads)
    checkpoint = tf1.read_checkpoint(folder / "model.ckpt")
    tf1.assign_variables(model.trainable_variables, checkpoint)
    model.optimizer = _build_optimizer(info, encoder_config)
    model.optimizer.build(model.trainable_variables)
    return model, _read_features(inputs)


def _read_features(inputs: reference.Arrays) -> dict[str, tf.Tensor]:
    features = {}
    for name, value in inputs.items():
        task, _, column = name.partition("_")
        if column in _OUR_COLUMNS:
            name = f"{task}/{_OUR_COLUMNS[column]}"
        features[name] = tf.constant(value)
    return features


def _encoder_config(info: Mapping[str, Any]) -> config.EncoderConfig:
    """The encoder's sizes, dropout off."""
    sizes = info["bert_config"]
    names = {field.name for field in dataclasses.fields(config.EncoderConfig)}
    known = {name: sizes[name] for name in names & sizes.keys()}
    width = info["finetuning_config"].get("embedding_size")
    return config.EncoderConfig(
        **known
        | {
            "embedding_size": width or sizes["hidden_size"],
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
        }
    )


def _build_head(
    name: str, variables: Mapping[str, list[int]], inputs: reference.Arrays
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


def _build_optimizer(
    info: Mapping[str, Any], encoder: config.EncoderConfig
) -> keras.optimizers.Optimizer:
    given = info["finetuning_config"]
    names = ("learning_rate", "layerwise_lr_decay", "warmup_proportion")
    options = finetuning_config.FinetuningOptimizerConfig(
        **{name: given[name] for name in names if name in given},
        weight_decay_rate=info["weight_decay_rate"],
    )
    return optimizer_lib.build_optimizer(
        options, info["num_train_steps"], encoder.num_hidden_layers
    )


def _split_all(
    model: _FedModel, values: list[np.ndarray]
) -> dict[str, np.ndarray]:
    """Arrays of our variables under the original's names."""
    return {
        name: part
        for variable, value in zip(
            model.trainable_variables, values, strict=True
        )
        for name, part in parameter_names.split(variable.path, value).items()
    }
