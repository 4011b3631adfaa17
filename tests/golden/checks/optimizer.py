"""Optimizer trajectories, driven by the files of a case.

A case is `<name>.json` (optimizer, hyperparameters, variables) and
`<name>.npz` (the values before every update, the gradients fed). It comes from
the original's optimizer (keys `lr`, `wd`, `layerwise`, ...) or from
tensorflow-addons (key `optimizer`).
"""

import contextlib
import re

import keras
import numpy as np
import tensorflow as tf

from electra_tf.training import optimizers
from electra_tf.training import schedules
from tests.golden import comparison
from tests.golden import loading
from tests.golden.comparison import Line

_TOLERANCE = 5e-6  # absolute, along the whole trajectory
_RATE_TOLERANCE = 1e-6  # of the largest rate of the array
_NORM_TOLERANCE = 1e-5  # relative


class _UnknownError(ValueError):
    """A case describes something that this module does not know."""


def check_case(path):
    """The trajectory; final moments, learning rates and norms if there."""
    config = loading.read_json(path)
    arrays = loading.read_arrays(path.with_suffix(".npz"))
    is_addons = "optimizer" in config
    build = _build_addons_optimizer if is_addons else _build_original_optimizer
    try:
        optimizer, make_sparse = build(config), _read_sparse_rule(config)
    except _UnknownError as error:
        yield Line(path.stem, skipped=str(error))
        return
    absolute, relative = comparison.absolute_error, comparison.relative_error
    values, moments, rates, norms = lines = (
        Line(f"{path.stem}, trajectory", _TOLERANCE, absolute),
        Line(f"{path.stem}, final moments", _TOLERANCE, absolute),
        Line(f"{path.stem}, learning rate", _RATE_TOLERANCE, absolute),
        Line(f"{path.stem}, norm", _NORM_TOLERANCE, relative),
    )
    variables = {
        name: _build_variable(name, arrays[f"values/{name}"][0])
        for name in config["variables"]
    }
    optimizer.build(list(variables.values()))
    factors = _read_rate_factors(optimizer.rate_rules, arrays)
    their_norms = arrays.get("global_norm_before_clipping")
    steps = _run(variables, optimizer, arrays, make_sparse, config)
    for step, (rate, norm) in enumerate(steps):
        for name, variable in variables.items():
            theirs = arrays[f"values/{name}"][step + 1]
            values.compare(f"{name} after update {step}", variable, theirs)
        for name, factor in factors.items():
            largest, theirs = np.max(arrays[name]), arrays[name][step]
            error = abs(rate * factor - theirs) / largest
            rates.add(f"{name} at step {step}", error)
        if their_norms is not None:
            norms.compare(f"step {step}", norm, their_norms[step])
    # What is stored differs from the formula's moments by a constant factor.
    gains = np.array(optimizer._moment_gains(), np.float32)
    stored = (optimizer.first_moments, optimizer.second_moments)
    slots = zip(("adam_m", "adam_v"), gains, stored, strict=True)
    for slot, gain, ours in slots:
        for name, moment in zip(variables, ours, strict=True):
            key = f"final_slots/{name}/{slot}"
            if key in arrays:
                moments.compare(key, moment.numpy() * gain, arrays[key])
    yield from (line for line in lines if line.errors or line is values)


def _run(variables, optimizer, arrays, make_sparse, config):
    """Feeds the gradients; yields rate and norm of each step."""

    @tf.function(autograph=False)
    def update(gradients):
        norm = tf.constant(0.0)
        if "clip_norm" in config:
            clip = optimizers.clip_by_global_norm
            gradients, norm = clip(gradients, config["clip_norm"])
        return optimizer.apply_in_replica_context(gradients), norm

    stored = [arrays[f"gradients/{name}"] for name in variables]
    for step, arrays_of_step in enumerate(zip(*stored, strict=True)):
        gradients = dict(zip(variables, arrays_of_step, strict=True))
        if make_sparse is not None:
            make_sparse(step, gradients)
        rate, norm = update(list(gradients.values()))
        yield float(rate), float(norm)


def _read_rate_factors(rules, arrays):
    """Name of each array of rates, and how they relate to the optimizer's."""
    factors, resolve = {}, schedules.resolve_rules
    for name in arrays:
        prefix, _, key = name.partition("/")
        if prefix == "learning_rate":
            resolved = resolve(rules, [key], "learning rate") if key else [1.0]
            (factors[name],) = resolved
    return factors


def _build_original_optimizer(config):
    schedule = schedules.PolynomialDecayTimesWarmup(
        config["lr"], config["steps"], num_warmup_steps=config["warmup_steps"],
        warmup_proportion=config["warmup_prop"], power=config["power"],
    )  # fmt: skip
    rules = None
    if config["layerwise"] > 0:
        rules = schedules.layerwise_learning_rate_rules(
            config["layerwise"], config["n_transformer_layers"]
        )
    names = ("beta_1", "beta_2", "epsilon", "exclude_from_weight_decay")
    return optimizers.AdamWeightDecay(
        schedule, weight_decay=config["wd"], learning_rate_multipliers=rules,
        **{name: config[name] for name in names},
    )  # fmt: skip


def _build_addons_optimizer(config):
    # What is not given has the default of both classes, here and there.
    names = ("beta_1", "beta_2", "epsilon", "exclude_from_weight_decay")
    options = {name: config[name] for name in names if name in config}
    for name in ("weight_decay", "learning_rate"):
        rate = config.get(name, config.get(f"base_{name}"))
        if isinstance(rate, dict):
            # The Keras schedule that `{class name: arguments}` names.
            ((schedule, arguments),) = rate.items()
            rate = getattr(keras.optimizers.schedules, schedule)(**arguments)
        options[name] = rate
    several, named = "MultiOptimizer of ", config["optimizer"].split(".")[-1]
    if named.startswith(several):
        rules = _read_depth_rules(config)
        options["learning_rate_multipliers"] = rules
        if "base_weight_decay" in config:
            options["weight_decay_multipliers"] = rules
    named = named.removeprefix(several)
    if named == "AdamW":
        return optimizers.AddonsAdamW(**options)
    if named == "LAMB":
        # tensorflow-addons takes an empty list for None.
        name = "exclude_from_layer_adaptation"
        options[name] = config.get(name) or None
        return optimizers.LAMB(**options)
    raise _UnknownError(f"optimizer {config['optimizer']!r}")


def _read_depth_rules(config):
    """Factors `layer_decay ** (top - depth)`, by the whole variable name."""
    match = re.search(r"layer_decay \*\* \((\d+) - d\)", config["rule"])
    if match is None:
        raise _UnknownError(f"rule {config['rule']!r}")
    decay, top = config["layer_decay"], int(match[1])
    return [
        (f"^{re.escape(name)}$", decay ** (top - depth))
        for name, depth in config["depth"].items()
    ]


def _read_sparse_rule(config):
    """Reads how a case makes a lookup gradient of the stored dense one.

    The sentence in `sparse_gradient` begins with the variable and lists the
    rows of the stored array that are values, and their indices at odd and at
    even steps.
    """
    sentence = config.get("sparse_gradient")
    if not sentence:
        return None
    listed = re.findall(r"\[([\d, ]+)\]", sentence)
    if len(listed) != 3:
        raise _UnknownError(f"sparse gradient {sentence!r}")
    rows, odd, even = ([*map(int, text.split(","))] for text in listed)
    name = sentence.split(":")[0]

    def make_sparse(step, gradients):
        dense = gradients[name]
        indices = tf.constant(odd if step % 2 else even, tf.int64)
        shape = tf.constant(dense.shape, tf.int64)
        gradients[name] = tf.IndexedSlices(dense[rows], indices, shape)

    return make_sparse


def _build_variable(path, value):
    """A variable whose Keras path is that of the reference."""
    *scopes, name = path.split("/")
    with contextlib.ExitStack() as stack:
        for scope in scopes:
            stack.enter_context(keras.name_scope(scope))
        return keras.Variable(value, name=name)
