"""Optimizer trajectories, driven by the files of a case.

A case is `<name>.json` (optimizer, hyperparameters, variables) and
`<name>.npz` (the values before every update, the gradients fed). It comes from
the original's optimizer (keys `lr`, `wd`, `layerwise`, ...) or from
tensorflow-addons (key `optimizer`).
"""

import contextlib
import re
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from electra_tf.training import optimizers
from electra_tf.training import parameter_rules
from electra_tf.training import schedules
from electra_tf.training.replica_optimizer import ReplicaOptimizer
from tests.golden import comparison
from tests.golden import loading
from tests.golden.comparison import Line

_TOLERANCE = 5e-6  # absolute, along the whole trajectory
_RATE_TOLERANCE = 1e-6  # of the largest rate of the array
_NORM_TOLERANCE = 1e-5  # relative

Config = Mapping[str, Any]
# From the number of the step and the stored gradients to those fed.
Prepare = Callable[[int, list[Any]], list[Any]]


class _UnknownError(ValueError):
    """A case describes something that this module does not know."""


def check_case(path: Path) -> Iterator[Line]:
    """One case, recomputed with our optimizers.

    Args:
        path: its JSON file; the arrays stand beside it, `.npz`.

    Yields:
        A line for the trajectory, and one each for final moments, learning
        rates and gradient norms if the case has them.
    """
    config = loading.read_json(path)
    arrays = loading.read_arrays(path.with_suffix(".npz"))
    prepare, rules = None, None
    try:
        if "optimizer" in config:
            optimizer = _build_addons_optimizer(config)
            prepare = _read_sparse_rule(config)
        else:
            rules = _read_layerwise_rules(config)
            optimizer = _build_original_optimizer(config, rules)
    except _UnknownError as error:
        yield Line(path.stem, skipped=str(error))
        return
    variables = {
        name: _build_variable(name, arrays[f"values/{name}"][0])
        for name in config["variables"]
    }
    line = Line(f"{path.stem}, trajectory", _TOLERANCE)
    rates, norms = _run(
        line, variables, optimizer, arrays, prepare, config.get("clip_norm")
    )
    yield line
    yield from _check_moments(path.stem, variables, optimizer, arrays)
    yield from _check_rates(path.stem, rates, rules, arrays)
    if "global_norm_before_clipping" in arrays:
        line = Line(f"{path.stem}, norm", _NORM_TOLERANCE)
        for step, norm in enumerate(arrays["global_norm_before_clipping"]):
            error = abs(norms[step] - norm) / max(norm, 1e-12)
            line.add(f"step {step}", error)
        yield line


def _run(
    line: Line,
    variables: Mapping[str, keras.Variable],
    optimizer: ReplicaOptimizer,
    arrays: loading.Arrays,
    prepare: Prepare | None,
    clip_norm: float | None,
) -> tuple[np.ndarray, list[float]]:
    """Feeds the gradients of all steps; returns rates and norms by step."""
    optimizer.build(list(variables.values()))

    @tf.function
    def update(gradients: list[Any]) -> tuple[tf.Tensor, tf.Tensor]:
        norm = tf.constant(0.0)
        if clip_norm is not None:
            gradients, norm = optimizers.clip_by_global_norm(
                gradients, clip_norm
            )
        return optimizer.apply_in_replica_context(gradients), norm

    rates, norms = [], []
    stored = [arrays[f"gradients/{name}"] for name in variables]
    for step in range(len(stored[0])):
        gradients = [array[step] for array in stored]
        if prepare is not None:
            gradients = prepare(step, gradients)
        rate, norm = update(gradients)
        rates.append(float(rate))
        norms.append(float(norm))
        for name, variable in variables.items():
            line.compare(
                f"{name} after update {step}",
                variable.numpy(),
                arrays[f"values/{name}"][step + 1],
                comparison.absolute_error,
            )
    return np.array(rates), norms


def _check_moments(
    case: str,
    variables: Mapping[str, keras.Variable],
    optimizer: ReplicaOptimizer,
    arrays: loading.Arrays,
) -> Iterator[Line]:
    line = Line(f"{case}, final moments", _TOLERANCE)
    # What is stored differs from the formula's moments by a constant factor.
    gains = np.array(optimizer._moment_gains(), np.float32)
    stored = optimizer.first_moments, optimizer.second_moments
    for slot, gain, moments in zip(
        ("adam_m", "adam_v"), gains, stored, strict=True
    ):
        for name, moment in zip(variables, moments, strict=True):
            key = f"final_slots/{name}/{slot}"
            if key in arrays:
                ours = moment.numpy() * gain
                line.compare(key, ours, arrays[key], comparison.absolute_error)
    if line.errors:
        yield line


def _check_rates(
    case: str,
    rates: np.ndarray,
    rules: list[parameter_rules.Rule] | None,
    arrays: loading.Arrays,
) -> Iterator[Line]:
    """Rates by step; under layer-wise rules for every key, used or not."""
    line = Line(f"{case}, learning rate", _RATE_TOLERANCE)
    for name, expected in arrays.items():
        prefix, _, key = name.partition("/")
        if prefix != "learning_rate":
            continue
        factor = 1.0
        if key:
            (factor,) = parameter_rules.resolve_rules(
                rules or (), [key], "learning rate"
            )
        errors = np.abs(rates * factor - expected) / np.max(expected)
        for step, error in enumerate(errors):
            line.add(f"{name} at step {step}", error)
    if line.errors:
        yield line


def _read_layerwise_rules(config: Config) -> list[parameter_rules.Rule] | None:
    if config["layerwise"] <= 0:
        return None
    return parameter_rules.layerwise_learning_rate_rules(
        config["layerwise"], config["n_transformer_layers"]
    )


def _build_original_optimizer(
    config: Config, rules: list[parameter_rules.Rule] | None
) -> ReplicaOptimizer:
    schedule = schedules.PolynomialDecayTimesWarmup(
        config["lr"],
        config["steps"],
        num_warmup_steps=config["warmup_steps"],
        warmup_proportion=config["warmup_prop"],
        power=config["power"],
    )
    return optimizers.AdamWeightDecay(
        schedule,
        weight_decay=config["wd"],
        beta_1=config["beta_1"],
        beta_2=config["beta_2"],
        epsilon=config["epsilon"],
        exclude_from_weight_decay=config["exclude_from_weight_decay"],
        learning_rate_multipliers=rules,
    )


def _build_addons_optimizer(config: Config) -> ReplicaOptimizer:
    # What is not given has the default of both classes, here and there.
    names = ("beta_1", "beta_2", "epsilon", "exclude_from_weight_decay")
    options = {name: config[name] for name in names if name in config}
    for name in ("weight_decay", "learning_rate"):
        rate = config.get(name, config.get(f"base_{name}"))
        options[name] = _read_rate(rate)
    named = config["optimizer"].split(".")[-1]
    if named.startswith("MultiOptimizer of "):
        named = named.removeprefix("MultiOptimizer of ")
        rules = _read_depth_rules(config)
        options["learning_rate_multipliers"] = rules
        if "base_weight_decay" in config:
            options["weight_decay_multipliers"] = rules
    if named == "AdamW":
        return optimizers.AddonsAdamW(**options)
    if named == "LAMB":
        # tensorflow-addons takes an empty list for None.
        excluded = config.get("exclude_from_layer_adaptation") or None
        return optimizers.LAMB(**options, exclude_from_layer_adaptation=excluded)
    raise _UnknownError(f"optimizer {config['optimizer']!r}")


def _read_rate(value: Any) -> Any:
    """A float, or the Keras schedule that `{class name: arguments}` names."""
    if not isinstance(value, Mapping):
        return float(value)
    ((name, arguments),) = value.items()
    return getattr(keras.optimizers.schedules, name)(**arguments)


def _read_depth_rules(config: Config) -> list[parameter_rules.Rule]:
    """Factors `layer_decay ** (top - depth)`, by the whole variable name."""
    match = re.search(r"layer_decay \*\* \((\d+) - d\)", config["rule"])
    if match is None:
        raise _UnknownError(f"rule {config['rule']!r}")
    top = int(match[1])
    return [
        (f"^{re.escape(name)}$", config["layer_decay"] ** (top - depth))
        for name, depth in config["depth"].items()
    ]


def _read_sparse_rule(config: Config) -> Prepare | None:
    """What makes a lookup gradient of the stored dense one, if a case does.

    The sentence in `sparse_gradient` names the variable, the rows of the
    stored array that are values, and their indices at odd and even steps.
    """
    sentence = config.get("sparse_gradient")
    if not sentence:
        return None
    rows = re.search(r"rows \[([\d, ]*)\]", sentence)
    indices = {
        parity: [int(index) for index in listed.split(",")]
        for listed, parity in re.findall(
            r"\[([\d, ]+)\] for (odd|even) t", sentence
        )
    }
    if rows is None or set(indices) != {"odd", "even"}:
        raise _UnknownError(f"sparse gradient {sentence!r}")
    position = list(config["variables"]).index(sentence.split(":")[0])
    value_rows = [int(row) for row in rows[1].split(",")]

    def make_sparse(step: int, gradients: list[Any]) -> list[Any]:
        dense = gradients[position]
        sparse = tf.IndexedSlices(
            tf.constant(dense[value_rows]),
            tf.constant(indices["odd" if step % 2 else "even"], tf.int64),
            tf.constant(dense.shape, tf.int64),
        )
        return [*gradients[:position], sparse, *gradients[position + 1 :]]

    return make_sparse


def _build_variable(path: str, value: np.ndarray) -> keras.Variable:
    """A variable whose Keras path is that of the reference."""
    *scopes, name = path.split("/")
    with contextlib.ExitStack() as stack:
        for scope in scopes:
            stack.enter_context(keras.name_scope(scope))
        return keras.Variable(value, name=name)
