"""Errors between our arrays and reference arrays."""

import math

import numpy as np
import pytest

from electra_tf.verification import comparison


@pytest.mark.parametrize(
    "function",
    [
        comparison.compute_error,
        comparison.compute_relative_error,
        comparison.compute_scaled_error,
        comparison.count_unequal,
    ],
)
def test_equal_is_zero_another_shape_and_nan_are_not(function):
    array = np.array([1.0, -2.0, 0.0])
    assert function(array, array) == 0
    assert function(array[:2], array) == math.inf
    assert function(np.array([1.0, math.nan, 0.0]), array) > 0


def test_the_error_is_that_of_allclose():
    ours, theirs = np.array([1.5, 104.0]), np.array([1.0, 100.0])
    assert comparison.compute_error(ours, theirs) == 0.25
    assert np.allclose(ours, theirs, atol=0.2501, rtol=0.2501)
    assert not np.allclose(ours, theirs, atol=0.2499, rtol=0.2499)


def test_equal_infinities_agree_and_others_do_not():
    theirs = np.array([-math.inf, 1.0])
    assert comparison.compute_error(theirs, theirs) == 0
    assert comparison.compute_error(-theirs, theirs) == math.inf
    assert comparison.compute_error([0.0, 1.0], theirs) == math.inf


def test_relative_and_scaled_errors_have_different_units():
    ours, theirs = np.array([1.1, 10.0]), np.array([1.0, 10.0])
    assert comparison.compute_relative_error(ours, theirs) == pytest.approx(0.1)
    assert comparison.compute_scaled_error(ours, theirs) == pytest.approx(0.01)


def test_a_line_passes_within_its_tolerance_only():
    line = comparison.Comparison("kind", "case", 0.5)
    line.add("good", 0.5)
    assert line.result().passed
    assert line.result().case == "case"
    line.add("bad", 0.6)
    assert not line.result().passed
    assert line.result().case == "case (worst: bad)"
    assert line.result().num_cases == 2


def test_not_a_number_and_nothing_compared_are_misses():
    line = comparison.Comparison("kind", "case", 0.5)
    assert not line.result().passed
    line.add("broken", math.nan)
    assert line.result().largest_error == math.inf
