"""Gradients and training steps of pre-training models.

The steps run through `TrainableModel.training_step`, with the reference's
randomness and without dropout. They are fed the reference's samples: a near
tie between two logits, decided otherwise by rounding, would else send the
rest of the trajectory elsewhere. What we would have sampled is checked apart.
"""

import functools
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf.formats import tf1
from electra_tf.pretraining import losses
from electra_tf.training import step as step_lib
from tests.golden import comparison
from tests.golden import loading
from tests.golden.checks.replay import Replay
from tests.golden.checks.replay import Trace
from tests.golden.comparison import Line

_GRADIENT_TOLERANCE = 1e-4  # of the largest entry of each array
_EARLY_TOLERANCE = 1e-4  # relative, losses of the first half of the steps
_LATE_TOLERANCE = 1e-2  # relative, losses of the other half
_RATE_TOLERANCE = 1e-6  # of the largest rate
_TIE_TOLERANCE = 1e-3  # between noisy logits; a draw closer than that is open
_NEGLIGIBLE = 1e-6  # of the largest entry of all arrays
_LOOKUP = "train_lookup"


def list_checks(
    replay: Replay,
) -> Iterator[tuple[str, Callable[[], Iterable[Line]]]]:
    """Gradients and the runs of a configuration, and how to check them."""
    yield "gradients", functools.partial(_check_gradients, replay)
    for run in ("train_one_hot", _LOOKUP):
        path = replay.folder / f"{run}.npz"
        if run in replay.info or path.is_file():
            yield run, functools.partial(_check_run, replay, run)


def name_losses(
    replay: Replay, trace: Trace, means: Mapping[str, Any]
) -> dict[str, Any]:
    """The losses of a pass by the reference's names.

    There the generator's loss is `mlm_loss`. A two-tower generator learns by
    `cloze_loss`; its `mlm_loss` is that of the masked positions, which the
    reference notes too.

    Args:
        replay: ran the pass.
        trace: of the pass.
        means: by our names.
    """
    named = dict(means)
    if "gen_loss" not in named:
        return named
    generator_loss = named.pop("gen_loss")
    if not replay.is_two_tower:
        return named | {"mlm_loss": generator_loss}
    (_, masked), (_, generated) = trace.masked[-1], trace.generated[-1]
    total = losses.masked_lm_loss(
        generated.logits, masked.masked_ids, masked.masked_weights
    )
    mean = step_lib.weighted_mean(total, tf.reduce_sum(masked.masked_weights))
    return named | {"mlm_loss": mean, "cloze_loss": generator_loss}


def compare_scaled(
    line: Line, prefix: str, ours: loading.Arrays, expected: loading.Arrays
) -> None:
    """Errors as shares of each array's largest entry.

    Arrays far below all others count as zero: the gradient of a key's bias
    is zero but for rounding, because softmax cancels what all keys share.
    """
    largest = max(np.max(np.abs(array)) for array in expected.values())

    def measure(own: np.ndarray, theirs: np.ndarray) -> float:
        if max(np.max(np.abs(own)), np.max(np.abs(theirs))) < (
            _NEGLIGIBLE * largest
        ):
            return 0.0
        return comparison.scaled_error(own, theirs)

    line.compare_all(
        {prefix + name: array for name, array in ours.items()},
        {prefix + name: array for name, array in expected.items()},
        measure,
    )


def _check_gradients(replay: Replay) -> Iterator[Line]:
    """The unclipped gradient of every variable, and the gradient's norm."""
    name, model = replay.name, replay.model
    replay.reset()
    statistics, trace = replay.run(model.training_step, replay.features)
    norm = float(statistics["gradient_norm"][0])
    expected_norm = replay.info["gradient_global_norm_dense"]
    line = Line(f"{name}, gradient norm", _GRADIENT_TOLERANCE)
    line.compare("norm", norm, expected_norm, comparison.relative_error)
    yield line
    path = replay.folder / "gradients.npz"
    if path.is_file():
        # Clipping divided by the norm, where that was larger than allowed.
        scale = max(norm / model.clip_norm, 1.0)
        (_, clipped, *_), _ = trace.updated[-1]
        ours = replay.split_all([scale * gradient for gradient in clipped])
        line = Line(f"{name}, gradients", _GRADIENT_TOLERANCE)
        compare_scaled(line, "", ours, loading.read_arrays(path))
        yield line


def _check_run(replay: Replay, run: str) -> Iterator[Line]:
    """Training steps on one batch.

    A run that was clipped by another norm than the true one is skipped.
    """
    title, info = f"{replay.name}, {run}", replay.info
    if run == _LOOKUP and info["gradient_sparse_variables"]:
        reason = "clipped by a norm over un-summed rows of lookups"
        yield Line(title, skipped=reason)
        return
    expected = loading.read_arrays(replay.folder / f"{run}.npz")
    replay.reset()
    ours = _train(replay, expected["sampled_ids"])
    weights = replay.split_all(replay.model.trainable_variables)
    yield from _compare_losses(title, ours, expected)
    line = Line(f"{title}, learning_rate", _RATE_TOLERANCE)
    line.compare(
        "learning_rate",
        ours["learning_rate"],
        expected["learning_rate"],
        comparison.scaled_error,
    )
    yield line
    line = Line(f"{title}, samples and labels", _TIE_TOLERANCE)
    line.add("sampled_ids", np.max(ours["sample_margin"]))
    line.compare(
        "is_fake", ours["is_fake"], expected["is_fake"], comparison.count_unequal
    )
    yield line
    # About what an entry moves at most: rounding errors of the steps are
    # shares of the movement, not of the value.
    movement = float(np.sum(expected["learning_rate"]))
    yield _compare_sums(title, weights, expected, movement)
    after = replay.folder / "after_training"
    source = info.get(
        "after_training_checkpoint_from", _LOOKUP if after.is_dir() else None
    )
    if source == run:
        line = Line(f"{title}, checkpoint", _LATE_TOLERANCE)
        checkpoint = tf1.read_checkpoint(after)
        _compare_checkpoint(line, replay, weights, checkpoint, movement)
        yield line


def _train(replay: Replay, samples: np.ndarray) -> loading.Arrays:
    """Runs the steps; what the reference recorded of them, `[T, ...]`."""
    model = replay.model
    history: dict[str, list[Any]] = {}

    def note(**values: Any) -> None:
        for name, value in values.items():
            history.setdefault(name, []).append(np.asarray(value))

    for step_samples in samples:
        replay.samples = step_samples
        statistics, trace = replay.run(model.training_step, replay.features)
        means = _summarize(replay, statistics)
        total_loss = means.pop("loss")
        means = {name: means[name] for name in model.loss_coefficients}
        _, labels = replay.corrupted(trace)
        _, rate = trace.updated[-1]
        note(
            total_loss=total_loss,
            **name_losses(replay, trace, means),
            gradient_global_norm=statistics["gradient_norm"][0],
            learning_rate=rate,
            sample_margin=trace.sample_margin,
            is_fake=labels,
        )
    # The reference notes the loss once more, without saying what it sampled.
    replay.samples = None
    batch = tf.constant(0, tf.int64)
    statistics, _ = replay.run(model.evaluation_step, replay.features, batch)
    note(total_loss=_summarize(replay, statistics)["loss"])
    return {name: np.stack(values) for name, values in history.items()}


def _summarize(replay: Replay, statistics: Any) -> dict[str, float]:
    names = replay.model.statistic_sizes
    return replay.model.summarize(
        {name: statistics[name].numpy() for name in names}
    )


def _compare_losses(
    title: str, ours: loading.Arrays, expected: loading.Arrays
) -> Iterator[Line]:
    """Losses and norms, early and late."""

    def choose(arrays: loading.Arrays, steps: slice) -> loading.Arrays:
        return {
            name: array[steps]
            for name, array in arrays.items()
            if name.endswith("_loss") or name == "gradient_global_norm"
        }

    half = len(expected["learning_rate"]) // 2 + 1
    for part, steps, tolerance in (
        ("first half", slice(half), _EARLY_TOLERANCE),
        ("second half", slice(half, None), _LATE_TOLERANCE),
    ):
        line = Line(f"{title}, losses and norms, {part}", tolerance)
        line.compare_all(
            choose(ours, steps),
            choose(expected, steps),
            comparison.relative_error,
        )
        yield line


def _compare_sums(
    title: str,
    weights: loading.Arrays,
    expected: loading.Arrays,
    movement: float,
) -> Line:
    """Mean and root mean square of each trained variable."""
    line = Line(f"{title}, final mean and RMS", _LATE_TOLERANCE)
    sums = loading.with_prefix(expected, "final_sum_and_sumsq/")
    ours, theirs = {}, {}
    for name, weight in weights.items():
        values = weight.astype(np.float64)
        ours[f"{name} mean"] = np.mean(values) / movement
        ours[f"{name} RMS"] = np.sqrt(np.mean(values**2)) / movement
    for name, pair in sums.items():
        mean, square = pair / weights[name].size
        theirs[f"{name} mean"] = mean / movement
        theirs[f"{name} RMS"] = np.sqrt(square) / movement
    line.compare_all(ours, theirs, comparison.absolute_error)
    return line


def _compare_checkpoint(
    line: Line,
    replay: Replay,
    weights: loading.Arrays,
    checkpoint: tf1.OriginalCheckpoint,
    movement: float,
) -> None:
    """Every weight, both moments and the step of the final checkpoint."""
    line.compare_all(
        weights,
        checkpoint.variables,
        lambda ours, theirs: comparison.absolute_error(ours, theirs) / movement,
    )
    optimizer = replay.model.optimizer
    for title, ours, theirs, unit in (
        ("m", optimizer.first_moments, checkpoint.first_moments, np.array),
        # The root has the unit of the first moment.
        ("root of v", optimizer.second_moments, checkpoint.second_moments, np.sqrt),
    ):
        compare_scaled(
            line,
            f"{title} of ",
            replay.split_all([unit(moment) for moment in ours]),
            {name: unit(moment) for name, moment in theirs.items()},
        )
    steps = int(optimizer.iterations.numpy())
    line.compare("global_step", steps, checkpoint.global_step or 0)
