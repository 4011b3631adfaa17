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


def test_a_calibrated_scorer_has_no_error_and_an_extreme_one_has():
    pieces = _pieces(LOGITS)
    own = calibration.judge(pieces, special.expit(LOGITS), seed=1)
    sure = calibration.judge(pieces, special.expit(4 * LOGITS), seed=1)
    assert own["ECE"] < 0.01
    assert own["low"] <= own["ECE"] <= own["high"]
    assert sure["ECE"] > 0.08
    assert sure["low"] > own["high"]
    # What the best possible answers still miss: the variance of the truth.
    share = special.expit(LOGITS)
    assert own["Brier"] == pytest.approx(np.mean(share * (1 - share)), rel=0.03)
    assert sure["Brier"] > own["Brier"]


def test_the_error_of_two_bins_by_hand():
    pieces = pd.DataFrame({"sentence": [0, 0, 1, 1]})
    pieces["is_replaced"] = [True, False, True, True]
    # Probability 0.25 in a bin with a share of 0.5, 0.9 in one with 1.
    found = calibration.judge(pieces, np.array([0.25, 0.25, 0.9, 0.9]), seed=1)
    assert found["ECE"] == pytest.approx((2 * 0.25 + 2 * 0.1) / 4)
    assert found["Brier"] == pytest.approx((0.75**2 + 0.25**2 + 2 * 0.1**2) / 4)
    assert found["replaced"] == 0.75
