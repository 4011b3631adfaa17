"""Gradients and training steps of pre-training models against references.

The steps run through `TrainableModel.training_step`, with the reference's
randomness and without dropout. They are fed the reference's samples: a near
tie between two logits, decided otherwise by rounding, would else send the
rest of the trajectory elsewhere. What we would have sampled is checked apart.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf.formats import parameter_names
from electra_tf.formats import tf1
from electra_tf.pretraining import optimizer
from electra_tf.verification import comparison
from electra_tf.verification import fed_model
from electra_tf.verification import forward_outputs
from electra_tf.verification import reference
from electra_tf.verification.report import CheckResult

GRADIENT_TOLERANCE = 1e-4  # of the largest entry of each array
EARLY_TOLERANCE = 1e-4  # relative, losses of the first half of the steps
LATE_TOLERANCE = 1e-2  # relative, losses of the other half
RATE_TOLERANCE = 1e-6  # of the largest rate
TIE_TOLERANCE = 1e-3  # between noisy logits; a draw closer than that is open
NEGLIGIBLE = 1e-6  # of the largest entry of all arrays
AFTER_TRAINING = "after_training"
KIND = "forward"  # the folder that holds them
LOOKUP = "train_lookup"
RUNS = ("train_one_hot", LOOKUP)


def check_gradients(
    configuration: fed_model.Configuration,
) -> list[CheckResult]:
    """The unclipped gradient of every variable, and the gradient's norm.

    Args:
        configuration: as loaded; its weights are changed.

    Returns:
        A line for the norm, and one for the gradients where the reference
        holds them.
    """
    name, info = configuration.name, configuration.info
    _reset(configuration)
    statistics = configuration.model.training_step(configuration.features())
    norm = float(statistics["gradient_norm"][0])
    line = comparison.Comparison(
        KIND, f"{name}, gradient norm", GRADIENT_TOLERANCE
    )
    expected_norm = info["gradient_global_norm_dense"]
    line.add("norm", abs(norm - expected_norm) / expected_norm)
    results = [line.result()]
    path = configuration.folder / "gradients.npz"
    if path.is_file():
        # Clipping divided by the norm, where that was larger than allowed.
        scale = max(norm / configuration.model.clip_norm, 1.0)
        ours = _split_all(
            configuration.model,
            [
                scale * gradient.numpy()
                for gradient in configuration.model.trace.gradients
            ],
        )
        expected = reference.read_arrays(path)
        line = comparison.Comparison(
            KIND, f"{name}, gradients", GRADIENT_TOLERANCE
        )
        _add_scaled(line, "", ours, expected)
        results.append(line.result())
    return results


def check_training(
    configuration: fed_model.Configuration, run_name: str
) -> list[CheckResult]:
    """A run of training steps on one batch.

    Args:
        configuration: as loaded; its weights are changed.
        run_name: one of `RUNS`, the reference's file without suffix.

    Returns:
        Lines for losses and gradient norms (early and late steps), learning
        rates, samples, labels, final weights, and the checkpoint after
        training where there is one. A run that was clipped by another norm
        than the true one is skipped.
    """
    info = configuration.info
    title = f"{configuration.name}, {run_name}"
    if run_name == LOOKUP and info["gradient_sparse_variables"]:
        reason = "clipped by a norm over un-summed rows of lookups"
        return [CheckResult.skipped(KIND, title, reason)]
    expected = reference.read_arrays(configuration.folder / f"{run_name}.npz")
    _reset(configuration)
    ours = _train(configuration, expected["sampled_ids"])
    model = configuration.model
    weights = _split_all(model, [v.numpy() for v in model.trainable_variables])
    total_rate = float(np.sum(expected["learning_rate"]))
    results = [
        *_compare_losses(title, ours, expected),
        _compare_rates(title, ours, expected),
        _compare_samples(title, ours, expected),
        _compare_sums(title, weights, expected, total_rate),
    ]
    if _checkpoint_source(configuration) == run_name:
        results.append(
            _compare_checkpoint(title, configuration, weights, total_rate)
        )
    return results


def _checkpoint_source(configuration: fed_model.Configuration) -> str | None:
    """The run that the checkpoint after training belongs to, if any."""
    has_checkpoint = (configuration.folder / AFTER_TRAINING).is_dir()
    return configuration.info.get(
        "after_training_checkpoint_from", LOOKUP if has_checkpoint else None
    )


def _reset(configuration: fed_model.Configuration) -> None:
    """Gives the model its first weights and a fresh optimizer."""
    model = configuration.model
    model.fed_samples = None
    checkpoint = tf1.read_checkpoint(configuration.folder)
    tf1.assign_variables(model.trainable_variables, checkpoint)
    model.optimizer = optimizer.build_optimizer(configuration.settings)
    model.optimizer.build(model.trainable_variables)


def _train(
    configuration: fed_model.Configuration, samples: np.ndarray
) -> reference.Arrays:
    """Runs the steps; what the reference recorded of them, `[T, ...]`."""
    model, features = configuration.model, configuration.features()
    history: dict[str, list[Any]] = {}

    def note(**values: Any) -> None:
        for name, value in values.items():
            history.setdefault(name, []).append(np.asarray(value))

    for step_samples in samples:
        model.fed_samples = step_samples
        statistics = model.training_step(features)
        means = _summarize(model, statistics)
        note(
            total_loss=means["loss"],
            **forward_outputs.name_losses(
                model, {name: means[name] for name in model.loss_coefficients}
            ),
            gradient_global_norm=statistics["gradient_norm"][0],
            learning_rate=model.trace.rate,
            sample_margin=model.trace.sample_margin,
            is_fake=model.detection_labels(),
        )
    # The reference notes the loss once more, without saying what it sampled.
    model.fed_samples = None
    batch = tf.constant(0, tf.int64)
    means = _summarize(model, model.evaluation_step(features, batch))
    note(total_loss=means["loss"])
    return {name: np.stack(values) for name, values in history.items()}


def _summarize(model: fed_model.FedModel, statistics: Any) -> dict[str, float]:
    names = model.statistic_sizes
    return model.summarize({name: statistics[name].numpy() for name in names})


def _split_all(
    model: fed_model.FedModel, values: Sequence[np.ndarray]
) -> reference.Arrays:
    """One value per variable, by the reference's names."""
    parts: reference.Arrays = {}
    for variable, value in zip(model.trainable_variables, values, strict=True):
        parts |= parameter_names.split(variable.path, value)
    return parts


def _add_scaled(
    line: comparison.Comparison,
    prefix: str,
    ours: reference.Arrays,
    expected: reference.Arrays,
) -> None:
    """Errors as shares of each array's largest entry.

    Arrays far below all others count as zero: the gradient of a key's bias
    is zero but for rounding, because softmax cancels what all keys share.
    """
    negligible = NEGLIGIBLE * max(np.max(np.abs(a)) for a in expected.values())
    for name in sorted({*ours, *expected}):
        if name not in ours or name not in expected:
            line.add(f"{prefix}{name} on one side only", np.inf)
            continue
        largest = [np.max(np.abs(side[name])) for side in (ours, expected)]
        error = comparison.compute_scaled_error(ours[name], expected[name])
        line.add(prefix + name, 0.0 if max(largest) < negligible else error)


def _compare_losses(
    title: str, ours: reference.Arrays, expected: reference.Arrays
) -> list[CheckResult]:
    names = [
        name
        for name in sorted({*ours, *expected})
        if name.endswith("_loss") or name == "gradient_global_norm"
    ]
    half = len(expected["learning_rate"]) // 2 + 1
    parts = {
        "first half": (slice(half), EARLY_TOLERANCE),
        "second half": (slice(half, None), LATE_TOLERANCE),
    }
    results = []
    for part, (steps, tolerance) in parts.items():
        line = comparison.Comparison(
            KIND, f"{title}, losses and norms, {part}", tolerance
        )
        for name in names:
            if name not in ours or name not in expected:
                line.add(f"{name} on one side only", np.inf)
            elif ours[name].shape != expected[name].shape:
                line.add(f"{name} has another length", np.inf)
            else:
                error = comparison.compute_relative_error(
                    ours[name][steps], expected[name][steps]
                )
                line.add(name, error)
        results.append(line.result())
    return results


def _compare_rates(
    title: str, ours: reference.Arrays, expected: reference.Arrays
) -> CheckResult:
    name = "learning_rate"
    line = comparison.Comparison(KIND, f"{title}, {name}", RATE_TOLERANCE)
    error = comparison.compute_scaled_error(ours[name], expected[name])
    line.add(name, error)
    return line.result()


def _compare_samples(
    title: str, ours: reference.Arrays, expected: reference.Arrays
) -> CheckResult:
    """Labels must be equal; a sample may be a near tie at most."""
    line = comparison.Comparison(
        KIND, f"{title}, samples and labels", TIE_TOLERANCE
    )
    line.add("sampled_ids", float(np.max(ours["sample_margin"])))
    line.add(
        "is_fake",
        comparison.count_unequal(ours["is_fake"], expected["is_fake"]),
    )
    return line.result()


def _compare_sums(
    title: str,
    weights: reference.Arrays,
    expected: reference.Arrays,
    total_rate: float,
) -> CheckResult:
    """Mean and root mean square of each trained variable.

    In units of the learning rates' sum, about what an entry moves at most:
    rounding errors of the steps are shares of the movement, not of the value.
    """
    line = comparison.Comparison(
        KIND, f"{title}, final mean and RMS", LATE_TOLERANCE
    )
    prefix = "final_sum_and_sumsq/"
    sums = {
        name.removeprefix(prefix): pair
        for name, pair in expected.items()
        if name.startswith(prefix)
    }
    for name in sorted({*weights, *sums}):
        if name not in weights or name not in sums:
            line.add(f"{name} on one side only", np.inf)
            continue
        ours = weights[name].astype(np.float64)
        mean, square = sums[name] / ours.size
        line.add(f"{name} mean", abs(np.mean(ours) - mean) / total_rate)
        rms = np.sqrt(np.mean(ours**2))
        line.add(f"{name} RMS", abs(rms - np.sqrt(square)) / total_rate)
    return line.result()


def _compare_checkpoint(
    title: str,
    configuration: fed_model.Configuration,
    weights: reference.Arrays,
    total_rate: float,
) -> CheckResult:
    """Every weight, both moments and the step of the final checkpoint."""
    checkpoint = tf1.read_checkpoint(configuration.folder / AFTER_TRAINING)
    line = comparison.Comparison(KIND, f"{title}, checkpoint", LATE_TOLERANCE)
    for name in sorted({*weights, *checkpoint.variables}):
        if name not in weights or name not in checkpoint.variables:
            line.add(f"{name} on one side only", np.inf)
            continue
        difference = weights[name] - checkpoint.variables[name]
        line.add(name, np.max(np.abs(difference)) / total_rate)
    model, optimizer = configuration.model, configuration.model.optimizer
    first = [moment.numpy() for moment in optimizer.first_moments]
    # The root has the unit of the first moment.
    second = [np.sqrt(moment.numpy()) for moment in optimizer.second_moments]
    expected_second = {
        name: np.sqrt(value)
        for name, value in checkpoint.second_moments.items()
    }
    _add_scaled(
        line, "m of ", _split_all(model, first), checkpoint.first_moments
    )
    _add_scaled(
        line, "root of v of ", _split_all(model, second), expected_second
    )
    steps = int(optimizer.iterations.numpy())
    line.add("global_step", abs(steps - (checkpoint.global_step or 0)))
    return line.result()
