"""A run stops when its numbers are none, and says where."""

import re

import numpy as np
import pytest

from electra_tf.training import finite


def _statistics(steps=4.0, skipped=0.0, loss=1.0):
    values = {"num_steps": steps, "num_skipped_steps": skipped, "loss": loss}
    return {name: np.array([value]) for name, value in values.items()}


@pytest.mark.parametrize("loss", [np.nan, np.inf, -np.inf])
def test_a_broken_sum_is_named_with_its_steps(loss):
    message = "between steps 8 and 11: loss. Nothing was saved since"
    with pytest.raises(finite.NonFiniteLossError, match=re.escape(message)):
        finite.check_statistics(_statistics(loss=loss), 7, 11)


def test_good_sums_and_skipped_steps_pass():
    finite.check_statistics(_statistics(), 7, 11)
    finite.check_statistics(_statistics(skipped=3.0), 7, 11, 1000)
    finite.check_statistics(_statistics(skipped=4.0), 7, 11, 45)


def test_a_run_that_skips_every_step_stops():
    with pytest.raises(finite.NonFiniteLossError, match="in the 50 steps up"):
        finite.check_statistics(_statistics(skipped=4.0), 7, 11, 46)


def test_a_broken_held_out_metric_is_named_with_its_step():
    finite.check_held_out({"loss": 1.0, "disc_auc": 0.5}, 20)
    message = "held-out data at step 20: disc_auc"
    with pytest.raises(finite.NonFiniteLossError, match=message):
        finite.check_held_out({"loss": 1.0, "disc_auc": np.nan}, 20)
