"""Optimizer trajectories against references, driven by a folder's own files.

A case is `<name>.json` (optimizer, hyperparameters, variables) and
`<name>.npz` (the values before every update, the gradients fed). It comes from
the original's optimizer (keys `lr`, `wd`, `layerwise`, ...) or from
tensorflow-addons (key `optimizer`). Nothing here knows names or sizes.
"""

import contextlib
import json
import re
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from electra_tf.training import optimizers
from electra_tf.training import parameter_rules
from electra_tf.training import schedules
from electra_tf.training.replica_optimizer import ReplicaOptimizer
from electra_tf.verification.report import CheckResult

KIND = "optimizer"
TRAJECTORY_TOLERANCE = 5e-6  # absolute, along the whole trajectory
RATE_TOLERANCE = 1e-6  # relative to the largest rate of the array
NORM_TOLERANCE = 1e-5  # relative

Arrays = Mapping[str, np.ndarray]
Config = Mapping[str, Any]
# From the number of the step and the stored gradients to those fed.
Prepare = Callable[[int, list[Any]], list[Any]]


class _Case(NamedTuple):
    name: str
    config: Config
    arrays: Arrays
    variables: list[keras.Variable]

    def check(
        self, what: str, errors: Sequence[float], tolerance: float
    ) -> CheckResult:
        # `max` of Python can lose a NaN; NumPy's keeps it.
        return CheckResult(
            KIND,
            f"{self.name}, {what}",
            len(errors),
            float(np.max(errors)),
            tolerance,
        )


def check_optimizer(folder: Path) -> list[CheckResult]:
    """Every case of the folder, recomputed with our optimizers.

    Args:
        folder: holds pairs of `<name>.json` and `<name>.npz`.

    Returns:
        For each case one line for the trajectory, and one each for final
        moments, learning rates and gradient norms if the case has them.

    Raises:
        FileNotFoundError: if there is no case, or an `.npz` is missing.
    """
    paths = sorted(Path(folder).glob("*.json"))
    if not paths:
        raise FileNotFoundError(
            f"Expected optimizer cases (*.json with *.npz) in {folder}. "
            "Received a folder without any."
        )
    return [result for path in paths for result in check_case(path)]


def check_case(path: Path) -> list[CheckResult]:
    """One case, recomputed with our optimizers.

    Args:
        path: its JSON file; the arrays stand beside it, `.npz`.
    """
    config = json.loads(path.read_text(encoding="utf-8"))
    with np.load(path.with_suffix(".npz")) as archive:
        arrays = {name: archive[name] for name in archive.files}
    variables = [
        _build_variable(name, arrays[f"values/{name}"][0])
        for name in config["variables"]
    ]
    case = _Case(path.stem, config, arrays, variables)
    if "optimizer" in config:
        return _check_addons(case)
    return _check_original(case)


def _check_original(case: _Case) -> list[CheckResult]:
    config = case.config
    schedule = schedules.PolynomialDecayTimesWarmup(
        config["lr"],
        config["steps"],
        num_warmup_steps=config["warmup_steps"],
        warmup_proportion=config["warmup_prop"],
        power=config["power"],
    )
    rules = None
    if config["layerwise"] > 0:
        rules = parameter_rules.layerwise_learning_rate_rules(
            config["layerwise"], config["n_transformer_layers"]
        )
    optimizer = optimizers.AdamWeightDecay(
        schedule,
        weight_decay=config["wd"],
        beta_1=config["beta_1"],
        beta_2=config["beta_2"],
        epsilon=config["epsilon"],
        exclude_from_weight_decay=config["exclude_from_weight_decay"],
        learning_rate_multipliers=rules,
    )
    errors, rates, norms = _run(case, optimizer, clip_norm=config["clip_norm"])
    results = [case.check("trajectory", errors, TRAJECTORY_TOLERANCE)]
    results += _check_moments(case, optimizer)
    results += _check_rates(case, rates, rules)
    if "global_norm_before_clipping" in case.arrays:
        expected = case.arrays["global_norm_before_clipping"]
        scale = np.maximum(expected, 1e-12)
        relative = np.abs(np.array(norms) - expected) / scale
        results.append(case.check("norm", list(relative), NORM_TOLERANCE))
    return results


def _check_moments(
    case: _Case, optimizer: ReplicaOptimizer
) -> list[CheckResult]:
    errors = [
        float(np.max(np.abs(moment - case.arrays[key])))
        for name, variable in zip(
            case.config["variables"], case.variables, strict=True
        )
        for slot, moment in zip(
            ("adam_m", "adam_v"), optimizer.moments_of(variable), strict=True
        )
        if (key := f"final_slots/{name}/{slot}") in case.arrays
    ]
    if not errors:
        return []
    return [case.check("final moments", errors, TRAJECTORY_TOLERANCE)]


def _check_rates(
    case: _Case,
    rates: Sequence[float],
    rules: Sequence[parameter_rules.Rule] | None,
) -> list[CheckResult]:
    """Rates by step; under layer-wise rules for every key, used or not."""
    errors = []
    for name, expected in case.arrays.items():
        prefix, _, key = name.partition("/")
        if prefix != "learning_rate":
            continue
        factor = 1.0
        if key:
            (factor,) = parameter_rules.resolve_rules(
                rules or (), [key], "learning rate"
            )
        difference = np.abs(np.array(rates) * factor - expected)
        errors += list(difference / np.max(expected))
    if not errors:
        return []
    return [case.check("learning rate", errors, RATE_TOLERANCE)]


def _check_addons(case: _Case) -> list[CheckResult]:
    config = case.config
    try:
        optimizer = _build_addons_optimizer(config)
        prepare = _read_sparse_rule(config)
    except _UnknownReferenceError as error:
        return [CheckResult.skipped(KIND, case.name, str(error))]
    errors, rates, _ = _run(case, optimizer, prepare)
    results = [case.check("trajectory", errors, TRAJECTORY_TOLERANCE)]
    return results + _check_rates(case, rates, None)


class _UnknownReferenceError(ValueError):
    """A case that describes something this module does not know."""


def _build_addons_optimizer(config: Config) -> ReplicaOptimizer:
    named = config["optimizer"].split(".")[-1]
    options = {
        key: config[key]
        for key in ("beta_1", "beta_2", "exclude_from_weight_decay")
        if key in config
    }
    options["weight_decay"] = _read_rate(
        config.get("weight_decay", config.get("base_weight_decay"))
    )
    options["learning_rate"] = _read_rate(
        config.get("learning_rate", config.get("base_learning_rate"))
    )
    # The default of both classes in tensorflow-addons where it is not given.
    if "epsilon" in config:
        options["epsilon"] = config["epsilon"]
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
        return optimizers.LAMB(
            **options, exclude_from_layer_adaptation=excluded
        )
    raise _UnknownReferenceError(f"optimizer {config['optimizer']!r}")


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
        raise _UnknownReferenceError(f"rule {config['rule']!r}")
    top = int(match.group(1))
    return [
        (f"^{re.escape(name)}$", config["layer_decay"] ** (top - depth))
        for name, depth in config["depth"].items()
    ]


def _read_sparse_rule(config: Config) -> Prepare | None:
    """What makes a lookup gradient of the stored dense one, if a case does.

    The sentence in `sparse_gradient` names the variable, the rows of the
    stored array that are values, and their indices at odd and even steps.
    """
    if not config.get("sparse_gradient"):
        return None
    sentence = config["sparse_gradient"]
    name = sentence.split(":")[0]
    rows = re.search(r"rows \[([\d, ]*)\]", sentence)
    indices = {
        parity: [int(index) for index in listed.split(",")]
        for listed, parity in re.findall(
            r"\[([\d, ]+)\] for (odd|even) t", sentence
        )
    }
    if rows is None or set(indices) != {"odd", "even"}:
        raise _UnknownReferenceError(f"sparse gradient {sentence!r}")
    position = list(config["variables"]).index(name)
    value_rows = [int(row) for row in rows.group(1).split(",")]

    def make_sparse(step: int, gradients: list[Any]) -> list[Any]:
        dense = gradients[position]
        sparse = tf.IndexedSlices(
            tf.constant(dense[value_rows]),
            tf.constant(indices["odd" if step % 2 else "even"], tf.int64),
            tf.constant(dense.shape, tf.int64),
        )
        return gradients[:position] + [sparse] + gradients[position + 1 :]

    return make_sparse


def _run(
    case: _Case,
    optimizer: ReplicaOptimizer,
    prepare: Prepare | None = None,
    clip_norm: float | None = None,
) -> tuple[list[float], list[float], list[float]]:
    """Feeds the gradients of all steps to the optimizer.

    Returns:
        The largest error of every variable after every update, and rate and
        gradient norm of every step.
    """
    optimizer.build(case.variables)
    names = list(case.config["variables"])

    @tf.function
    def update(gradients: list[Any]) -> tuple[tf.Tensor, tf.Tensor]:
        norm = tf.constant(0.0)
        if clip_norm is not None:
            gradients, norm = optimizers.clip_by_global_norm(
                gradients, clip_norm
            )
        return optimizer.apply_in_replica_context(gradients), norm

    errors, rates, norms = [], [], []
    for step in range(len(case.arrays[f"gradients/{names[0]}"])):
        gradients = [case.arrays[f"gradients/{name}"][step] for name in names]
        if prepare is not None:
            gradients = prepare(step, gradients)
        rate, norm = update(gradients)
        rates.append(float(rate))
        norms.append(float(norm))
        for name, variable in zip(names, case.variables, strict=True):
            expected = case.arrays[f"values/{name}"][step + 1]
            errors.append(_difference(variable, expected))
    return errors, rates, norms


def _difference(variable: keras.Variable, expected: np.ndarray) -> float:
    return float(np.max(np.abs(variable.numpy() - expected)))


def _build_variable(path: str, value: np.ndarray) -> keras.Variable:
    """A variable whose Keras path is that of the reference."""
    *scopes, name = path.split("/")
    with contextlib.ExitStack() as stack:
        for scope in scopes:
            stack.enter_context(keras.name_scope(scope))
        return keras.Variable(value, name=name)
