"""Measures of calibration, on answers whose calibration is known."""

import numpy as np
import pandas as pd
import pytest
from analyses import calibration
from scipy import special


def _pieces(logits):
    """Pieces that are replaced as often as sigmoid of `logits` says."""
    draws = np.random.default_rng(0).random(len(logits))
    return pd.DataFrame(
        {
            "sentence": np.arange(len(logits)) // 20,
            "logit": logits,
            "is_replaced": draws < special.expit(logits),
        }
    )


LOGITS = np.random.default_rng(1).normal(-1.5, 1.5, 40_000)


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0])
def test_the_factor_of_overconfident_logits_is_found(factor):
    pieces = _pieces(LOGITS).assign(logit=LOGITS * factor)
    found = calibration.fit_temperature(pieces)
    assert found == pytest.approx(factor, rel=0.05)


def test_the_error_of_two_bins_by_hand():
    pieces = pd.DataFrame({"sentence": [0, 0, 1, 1]})
    pieces["is_replaced"] = [True, False, True, True]
    # Probability 0.25 in a bin with a share of 0.5, 0.9 in one with 1.
    found = calibration.judge(pieces, np.array([0.25, 0.25, 0.9, 0.9]), seed=1)
    assert found["ECE"] == pytest.approx((2 * 0.25 + 2 * 0.1) / 4)
    assert found["Brier"] == pytest.approx((0.75**2 + 0.25**2 + 2 * 0.1**2) / 4)
    assert found["replaced"] == 0.75
