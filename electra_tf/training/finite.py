"""Stops a run whose losses are no longer numbers, before anything is saved."""

from collections.abc import Mapping
from collections.abc import Sequence

import numpy as np

# A float16 run that skips this many steps in a row has diverged.
MAX_SKIPPED_STEPS = 50


class NonFiniteLossError(ArithmeticError):
    """The loss stopped being a number; the last good checkpoint is kept."""


def check_statistics(
    statistics: Mapping[str, np.ndarray],
    first: int,
    last: int,
    num_skipped_before: int = 0,
) -> None:
    """Raises if a statistic is not finite or if no step is taken any more.

    Args:
        statistics: sums over steps `first + 1` to `last`, or more.
        first, last: updates made before and after the steps in question.
        num_skipped_before: steps that were skipped just before those of
            `statistics`.

    Raises:
        NonFiniteLossError: names the statistics and the range of steps.
    """
    broken = [n for n, v in statistics.items() if not np.isfinite(v).all()]
    if broken:
        raise _non_finite(f"between steps {first + 1} and {last}", broken)
    steps = int(statistics["num_steps"][0])
    skipped = int(statistics["num_skipped_steps"][0])
    num_skipped = num_skipped_before + skipped
    if skipped == steps and num_skipped >= MAX_SKIPPED_STEPS:
        raise _non_finite(
            f"in the {num_skipped} steps up to {last}",
            ["the gradient of every step"],
        )


def check_held_out(metrics: Mapping[str, float], step: int) -> None:
    """Raises `NonFiniteLossError` if a held-out metric is not finite.

    Args:
        metrics: name to value.
        step: updates made so far.
    """
    broken = [n for n, value in metrics.items() if not np.isfinite(value)]
    if broken:
        raise _non_finite(f"on held-out data at step {step}", broken)


def _non_finite(where: str, names: Sequence[str]) -> NonFiniteLossError:
    return NonFiniteLossError(
        f"Not a finite number {where}: {', '.join(names)}. Nothing was saved "
        "since, the last checkpoint is good. Start again from it with a lower "
        "learning rate or a longer warm-up (in a new model_dir), or in "
        "float32 or bfloat16."
    )
