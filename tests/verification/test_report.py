"""The table that the golden runner prints."""

import pytest

from electra_tf.verification.report import CheckResult
from electra_tf.verification.report import format_table


@pytest.mark.parametrize(
    ("num_cases", "error", "passed"),
    [
        (3, 1e-6, True),
        (3, 1e-5, True),
        (3, 2e-5, False),
        (3, float("nan"), False),
        (3, float("inf"), False),
        (0, 0.0, False),
    ],
)
def test_a_check_passes_only_within_its_tolerance(num_cases, error, passed):
    result = CheckResult("forward", "logits", num_cases, error, 1e-5)
    assert result.passed is passed


def test_a_skipped_check_is_no_miss_and_says_why():
    result = CheckResult.skipped("finetuning", "heads", "not part of this")
    assert result.passed
    assert format_table([result]).endswith("skipped: not part of this")


def test_the_table_is_aligned():
    table = format_table(
        [
            CheckResult("tokenization", "ids", 2862, 0.0, 0.0),
            CheckResult("optimizer", "tfa_lamb", 60, 2e-5, 5e-6),
            CheckResult.skipped("flops", "table", "later"),
        ]
    )
    assert table.split("\n") == [
        "what                 cases  largest error  tolerance  verdict",
        "tokenization: ids     2862              0          0  pass",
        "optimizer: tfa_lamb     60          2e-05      5e-06  MISS",
        "flops: table             -              -          -  skipped: later",
    ]
