"""A whole fine-tuning model with several tasks.

Forward pass, loss, gradients, and steps through the layer-wise optimizer,
without dropout. The reference clipped by a norm that is slightly off (it took
the rows of looked-up tables one by one); the steps here are clipped by that
norm too, and the true one is compared apart.
"""

import dataclasses

import keras
import numpy as np
import tensorflow as tf

from electra_tf.config import EncoderConfig
from electra_tf.config.finetuning import FinetuningOptimizerConfig
from electra_tf.finetuning import model as finetuning_model
from electra_tf.finetuning.model import FinetuningModel
from electra_tf.finetuning.model import build_optimizer
from electra_tf.modeling import task_heads
from electra_tf.training import optimizers
from electra_tf.training.optimizers import ReplicaOptimizer
from tests.golden import comparison
from tests.golden import loading
from tests.golden.checks import replay
from tests.golden.checks import training
from tests.golden.comparison import Line

_TOLERANCE = 1e-5
# A row without any visible key: all its scores are -10000, rounded to 1e-3.
_BLANK_ROW_TOLERANCE = 1e-4
_LOSS_TOLERANCE = 1e-4  # relative
_RATE_TOLERANCE = 1e-6  # of the largest rate
# Of the largest entry, weights after the steps: an Adam without bias
# correction amplifies the rounding of small gradients.
_WEIGHT_TOLERANCE = 1e-3
# The reference's names of targets, and ours; our names of outputs, and its.
_COLUMNS = {"label_ids": "label", "targets": "target"}
_OUTPUTS = {"logits": "logits", "prediction": "predictions"}


def list_cases(folder):
    yield "model, forward", _check_forward, folder
    yield "model, gradients", _check_gradients, folder
    yield "model, training", _check_training, folder


def _check_forward(folder):
    model, features = _load(folder)
    expected = loading.read_arrays(folder / "outputs.npz")
    losses = model.compute_task_losses(features, None).numpy()
    line = Line("model, forward", _TOLERANCE)
    blank = Line("model, forward, blank rows", _BLANK_ROW_TOLERANCE)
    line.compare("loss", losses.sum(), expected["loss"])
    is_blank = features["input_mask"].numpy().sum(1) == 0
    for number, task in enumerate(model.task_names):
        own, name = features["task_id"].numpy() == number, f"{task}_loss"
        line.compare(name, losses[own, number], expected[name][own])
        for ours, output in model.predict_task(task, features).items():
            name = f"{task}_{_OUTPUTS[ours]}"
            output, theirs = output.numpy(), expected[name]
            line.compare(name, output[~is_blank], theirs[~is_blank])
            if is_blank.any():
                blank.compare(name, output[is_blank], theirs[is_blank])
    yield line
    if is_blank.any():
        yield blank


def _check_gradients(folder):
    model, features = _load(folder)
    statistics, clipped = _run_step(model, features)
    info = loading.read_json(folder / "info.json")
    expected = loading.read_arrays(folder / "gradients.npz")
    yield from training.compare_gradients(
        "model", model, statistics, clipped, info, expected
    )


def _check_training(folder):
    """Losses, norms, rates by depth and final weights of some steps."""
    model, features = _load(folder)
    expected = loading.read_arrays(folder / "train.npz")
    losses, rates = [], []
    for norm in expected["gradient_global_norm"]:
        rates.append(float(tf.convert_to_tensor(model.optimizer.learning_rate)))
        statistics, _ = _run_step(model, features, norm)
        losses.append(statistics["loss"].numpy().sum())
    losses.append(model.compute_task_losses(features, None).numpy().sum())
    line = Line("model, training losses", _LOSS_TOLERANCE)
    line.add("loss", comparison.relative_error(losses, expected["loss"]))
    yield line
    yield _compare_rates(model, np.array(rates), expected)
    line = Line("model, weights after training", _WEIGHT_TOLERANCE)
    line.measure = comparison.scaled_error
    ours = replay.split_all(model, model.trainable_variables)
    line.compare_all(ours, loading.with_prefix(expected, "final/"))
    yield line


def _run_step(model, features, norm=None):
    """A training step without dropout; its statistics and clipped gradients."""

    def clip(gradients, limit):
        use_norm = None if norm is None else tf.constant(norm)
        return tf.clip_by_global_norm(gradients, limit, use_norm)

    updates = []
    with replay.replacing(
        (task_heads, "DROPOUT_PROB", 0.0),
        (optimizers, "clip_by_global_norm", clip),
        replay.watch(ReplicaOptimizer, replay.UPDATE, updates),
    ):
        statistics = model.training_step(features)
    (_, clipped, *_), _ = updates[-1]
    return statistics, clipped


def _compare_rates(model, rates, expected):
    """The rate of every variable at every step, by the key in its name."""
    line = Line("model, rates by depth", _RATE_TOLERANCE)
    line.measure = comparison.scaled_error
    theirs = loading.with_prefix(expected, "learning_rate/")
    variables = model.trainable_variables
    factors = model.optimizer.rate_multipliers
    for variable, factor in zip(variables, factors, strict=True):
        (key,) = (key for key in theirs if key in variable.path)
        line.compare(variable.path, rates * factor, theirs[key])
    return line


def _load(folder):
    """The model with the reference's weights, and its batch."""
    info = loading.read_json(folder / "info.json")
    inputs = loading.read_arrays(folder / "inputs.npz")
    given, sizes = info["finetuning_config"], info["bert_config"]
    known = {field.name for field in dataclasses.fields(EncoderConfig)}
    fields = {name: sizes[name] for name in known & sizes.keys()} | {
        "embedding_size": given.get("embedding_size") or sizes["hidden_size"],
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    heads = {
        name: _build_head(name, info["variables"], inputs)
        for name in given["task_names"]
    }
    encoder = finetuning_model.build_encoder(EncoderConfig(**fields))
    model = FinetuningModel(encoder, heads)
    loading.assign_checkpoint(model.trainable_variables, folder / "model.ckpt")
    names = ("learning_rate", "layerwise_lr_decay", "warmup_proportion")
    options = FinetuningOptimizerConfig(
        **{name: given[name] for name in names if name in given},
        weight_decay_rate=info["weight_decay_rate"],
    )
    model.optimizer = build_optimizer(
        options, info["num_train_steps"], fields["num_hidden_layers"]
    )
    model.optimizer.build(model.trainable_variables)
    features = {}
    for name, value in inputs.items():
        task, _, column = name.partition("_")
        own = f"{task}/{_COLUMNS[column]}" if column in _COLUMNS else name
        features[own] = tf.constant(value)
    return model, features


def _build_head(name, variables, inputs):
    hidden_size, units = variables[f"task_specific/{name}/dense/kernel"]
    head = task_heads.ClassificationHead(units, seed=1, name=name)
    if f"{name}_targets" in inputs:
        head = task_heads.RegressionHead(seed=1, name=name)
    with keras.name_scope("task_specific"):
        head.build((None, None, hidden_size))
    return head
