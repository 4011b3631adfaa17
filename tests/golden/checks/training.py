"""Gradients and training steps of pre-training models.

The steps run through `TrainableModel.training_step`, with the reference's
randomness and without dropout. They are fed the reference's samples: a near
tie between two logits, decided otherwise by rounding, would else send the
rest of the trajectory elsewhere. What we would have sampled is checked apart.
"""

import numpy as np
import tensorflow as tf

from electra_tf.formats import original_model
from electra_tf.formulas import losses
from tests.golden import comparison
from tests.golden import loading
from tests.golden.checks.replay import split_all
from tests.golden.comparison import Line

_GRADIENT_TOLERANCE = 1e-4  # of the largest entry of each array
_EARLY_TOLERANCE = 1e-4  # relative, losses of the first half of the steps
_LATE_TOLERANCE = 1e-2  # relative, losses of the other half
_RATE_TOLERANCE = 1e-6  # of the largest rate
_TIE_TOLERANCE = 1e-3  # between noisy logits; a draw closer than that is open
_NEGLIGIBLE = 1e-6  # of the largest entry of all arrays
_LOOKUP = "train_lookup"
_NORM = "gradient_global_norm"


def list_checks(replay):
    yield "gradients", _check_gradients
    for run in ("train_one_hot", _LOOKUP):
        if run in replay.info or (replay.folder / f"{run}.npz").is_file():
            yield run, _check_run, run


def name_losses(replay, trace, means):
    """The losses of a pass by the reference's names.

    There the generator's loss is `mlm_loss`, of a two-tower one `cloze_loss`;
    its `mlm_loss` is that of the masked positions.
    """
    named = dict(means)
    if replay.is_two_tower:
        named["cloze_loss"], masked = named.pop("gen_loss"), trace.masked
        logits, weights = trace.generated.logits, masked.masked_weights
        total = losses.masked_lm_loss(logits, masked.masked_ids, weights)
        named["mlm_loss"] = total / tf.reduce_sum(weights)
    elif "gen_loss" in named:
        named["mlm_loss"] = named.pop("gen_loss")
    return named


def compare_scaled(line, ours, expected, prefix=""):
    """Errors as shares of each array's largest entry.

    Arrays far below all others count as zero: the gradient of a key's bias
    is zero but for rounding, because softmax cancels what all keys share.
    """
    largest = max(np.max(np.abs(array)) for array in expected.values())

    def measure(own, theirs):
        both = max(np.max(np.abs(own)), np.max(np.abs(theirs)))
        is_negligible = both < _NEGLIGIBLE * largest
        return 0.0 if is_negligible else comparison.scaled_error(own, theirs)

    line.measure = measure
    line.compare_all(ours, expected, prefix)


def _check_gradients(replay):
    replay.reset()
    statistics, trace = replay.run(replay.model.training_step, replay.features)
    (_, clipped, *_), _ = trace.updates[-1]
    path = replay.folder / "gradients.npz"
    expected = loading.read_arrays(path) if path.is_file() else None
    yield from compare_gradients(
        replay.name, replay.model, statistics, clipped, replay.info, expected
    )


def compare_gradients(title, model, statistics, clipped, info, expected):
    """Lines for the norm, and for the gradients if the reference has them."""
    norm = float(statistics["gradient_norm"][0])
    expected_norm = info["gradient_global_norm_dense"]
    line = Line(f"{title}, gradient norm", _GRADIENT_TOLERANCE)
    line.add("norm", comparison.relative_error(norm, expected_norm))
    yield line
    if expected is not None:
        # Clipping divided by the norm, where that was larger than allowed.
        scale = max(norm / model.clip_norm, 1.0)
        ours = split_all(model, [scale * gradient for gradient in clipped])
        line = Line(f"{title}, gradients", _GRADIENT_TOLERANCE)
        compare_scaled(line, ours, expected)
        yield line


def _check_run(replay, run):
    """Training steps on one batch, if clipped by the gradient's true norm."""
    title, info = f"{replay.name}, {run}", replay.info
    if run == _LOOKUP and info["gradient_sparse_variables"]:
        reason = "clipped by a norm over un-summed rows of lookups"
        yield Line(title, skipped=reason)
        return
    expected = loading.read_arrays(replay.folder / f"{run}.npz")
    replay.reset()
    ours = _train(replay, expected["sampled_ids"])
    weights = split_all(replay.model, replay.model.trainable_variables)
    half, names = len(expected["learning_rate"]) // 2 + 1, {*ours, *expected}
    is_loss = {n for n in names if n.endswith("_loss")} | {_NORM}
    for part, steps, tolerance in (
        ("first half", slice(half), _EARLY_TOLERANCE),
        ("second half", slice(half, None), _LATE_TOLERANCE),
    ):
        line = Line(f"{title}, losses and norms, {part}", tolerance)
        line.measure = comparison.relative_error
        both = [
            {name: arrays[name][steps] for name in is_loss & {*arrays}}
            for arrays in (ours, expected)
        ]
        line.compare_all(*both)
        yield line
    rates = "learning_rate", ours["learning_rate"], expected["learning_rate"]
    scaled = comparison.scaled_error
    yield comparison.compare(
        f"{title}, learning_rate", [rates], _RATE_TOLERANCE, scaled
    )
    line = Line(f"{title}, samples and labels", _TIE_TOLERANCE)
    line.add("sampled_ids", np.max(ours["sample_margin"]))
    flips = comparison.count_unequal(ours["is_fake"], expected["is_fake"])
    line.add("is_fake", flips)
    yield line
    # About what an entry moves at most: rounding errors of the steps are
    # shares of the movement, not of the value.
    movement = np.sum(expected["learning_rate"], dtype=np.float64)
    yield _compare_sums(title, weights, expected, movement)
    after = replay.folder / "after_training"
    default = _LOOKUP if after.is_dir() else None
    if info.get("after_training_checkpoint_from", default) == run:
        line = Line(f"{title}, checkpoint", _LATE_TOLERANCE)
        _compare_checkpoint(line, replay.model, weights, after, movement)
        yield line


def _train(replay, samples):
    """Runs the steps; what the reference recorded of them, `[T, ...]`."""
    model, history = replay.model, []

    def summarize(statistics):
        names = model.statistic_sizes
        return model.summarize({n: statistics[n].numpy() for n in names})

    for step_samples in samples:
        replay.samples = step_samples
        statistics, trace = replay.run(model.training_step, replay.features)
        summary = summarize(statistics)
        means = {name: summary[name] for name in model.loss_coefficients}
        noted = {
            "total_loss": summary["loss"],
            _NORM: statistics["gradient_norm"][0],
            "learning_rate": trace.updates[-1][1],
            "sample_margin": trace.sample_margin,
            "is_fake": trace.labels,
        }
        history.append(name_losses(replay, trace, means) | noted)
    # The reference notes the loss once more, without saying what it sampled.
    replay.samples = None
    batch = tf.constant(0, tf.int64)
    statistics, _ = replay.run(model.evaluation_step, replay.features, batch)
    ours = {name: np.stack([n[name] for n in history]) for name in history[0]}
    last = [summarize(statistics)["loss"]]
    ours["total_loss"] = np.concatenate([ours["total_loss"], last])
    return ours


def _compare_sums(title, weights, expected, movement):
    """Mean and root mean square of each trained variable."""
    line = Line(f"{title}, final mean and RMS", _LATE_TOLERANCE)
    sums = loading.with_prefix(expected, "final_sum_and_sumsq/")
    for name in sorted({*weights, *sums}):
        values = weights[name].astype(np.float64)
        mean, square = sums[name] / values.size
        line.add(f"{name} mean", abs(np.mean(values) - mean) / movement)
        rms = np.sqrt(np.mean(values**2))
        line.add(f"{name} RMS", abs(rms - np.sqrt(square)) / movement)
    return line


def _compare_checkpoint(line, model, weights, folder, movement):
    """Every weight, both moments and the step of the final checkpoint."""
    theirs, optimizer = original_model.read_checkpoint(folder), model.optimizer
    line.measure = lambda ours, theirs: (
        comparison.absolute_error(ours, theirs) / movement
    )
    line.compare_all(weights, theirs.variables)
    steps = int(optimizer.iterations.numpy())
    line.add("global_step", abs(steps - (theirs.global_step or 0)))
    first = split_all(model, optimizer.first_moments)
    compare_scaled(line, first, theirs.first_moments, "m of ")
    # The root has the unit of the first moment.
    second = split_all(model, map(np.sqrt, optimizer.second_moments))
    roots = {name: np.sqrt(v) for name, v in theirs.second_moments.items()}
    compare_scaled(line, second, roots, "v of ")
