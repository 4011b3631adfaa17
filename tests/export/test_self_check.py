import numpy as np
import pytest

from electra_tf import errors
from electra_tf.export.checks import self_check
from electra_tf.export.pretrained import serving_module
from electra_tf.export.pretrained import tower_answers
from electra_tf.text import tokenizer as tokenizer_lib

ANSWERS = {"p": np.float32([0.5, 0.25]), "i": np.int32([1, 2])}


@pytest.mark.parametrize(
    ("received", "message"),
    [
        ({"p": np.float32([0.5, 0.2501])}, "9.99.*e-05 in p"),
        ({"p": np.float32([0.5, np.nan])}, "inf in p"),
        ({"i": np.int32([1, 2]), "p": np.float32([np.nan, 0.25])}, "inf in p"),
        ({"p": np.float32([0.5])}, "inf in p"),
        ({"p": np.float64([0.5, 0.25])}, "inf in p"),
        ({"i": np.int32([1, 3])}, "inf in i"),
        ({"q": np.int32([1, 3])}, r"unknown: \['q'\]"),
    ],
)
def test_self_check_refuses_answers_that_differ(received, message):
    with pytest.raises(errors.ExportError, match=message):
        self_check.compare(ANSWERS, ANSWERS | received, 1e-5)


def test_self_check_measures_the_largest_difference():
    received = ANSWERS | {"p": ANSWERS["p"] + np.float32([0, 2**-20])}
    assert self_check.compare(ANSWERS, received, 1e-5) == 2**-20
    large = {"f": np.float32([100.0, -3.0])}
    near = {"f": np.float32([100.0, -3.5])}
    assert self_check.compare(large, near, 0.1) == pytest.approx(0.005)


@pytest.mark.parametrize(
    ("received", "probabilities", "is_refused"),
    [
        ([7, 8, 9], [0.5, 0.3, 0.2], False),
        ([8, 7, 9], [0.5, 0.3, 0.2], True),
        ([8, 7, 9], [0.400015, 0.4, 0.1], False),
        # The third could be any that is as probable and did not make it.
        ([7, 8, 6], [0.5, 0.3, 0.2], False),
        ([7, 6, 9], [0.5, 0.3, 0.2], True),
        ([7, 8], [0.5, 0.3, 0.2], True),
    ],
)
def test_order_of_predictions_may_differ_only_among_equals(
    received, probabilities, is_refused
):
    row = {"1/top_probabilities": np.float32([[probabilities]])}
    expected = row | {"1/top_ids": np.int32([[[7, 8, 9]]])}
    answers = row | {"1/top_ids": np.int32([[received]])}
    if not is_refused:
        assert self_check.compare(expected, answers, 1e-5) == 0
        return
    with pytest.raises(errors.ExportError, match="inf in 1/top_ids"):
        self_check.compare(expected, answers, 1e-5)


def test_folder_that_does_not_load_fails_the_self_check(tiny_run, tmp_path):
    module = serving_module.ServingModule(
        tower_answers.Detector(tiny_run.discriminator),
        tokenizer_lib.Tokenizer(tiny_run.vocabulary),
    )
    with pytest.raises(errors.ExportError, match="must load and answer"):
        self_check.check(tmp_path, module, 1e-5)
