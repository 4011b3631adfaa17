"""Warnings of a run, from its numbers alone."""

import pytest

from electra_tf.pretraining import diagnosis


@pytest.mark.parametrize(
    ("metrics", "num_tokens", "is_told"),
    [
        ({"masked_loss": 5.9}, 12_000_000, True),
        ({"mlm_masked_loss": 5.9}, 12_000_000, True),
        ({"masked_loss": 5.9}, 9_999_999, False),
        ({"masked_loss": 5.6}, 12_000_000, False),
        ({"disc_loss": 5.9}, 12_000_000, False),
    ],
)
def test_a_plateau_is_told_with_a_remedy(metrics, num_tokens, is_told):
    metrics["unigram_entropy"] = 6.0
    text = diagnosis.explain_plateau(metrics, num_tokens)
    assert (text is not None) == is_told
    parts = "12.0 M", "5.90", "6.00", "5.70", "initializer_range=0"
    assert text is None or all(part in text for part in parts)


@pytest.mark.parametrize(
    ("fullness", "epochs", "said"),
    [
        (0.5, 100.0, []),
        (0.3, 1.0, ["30% full", "--packed"]),
        (0.9, 400.0, ["read 400 times", "num_train_steps by 4.0"]),
    ],
)
def test_rows_of_padding_and_many_epochs_are_said(fullness, epochs, said):
    text = diagnosis.warn_of_data(fullness, epochs)
    assert text.count("\nWarning: ") == bool(said)
    assert all(part in text for part in said)


@pytest.mark.parametrize(
    ("losses", "is_told"),
    [
        ([6.2, 5.4, 6.1], True),
        ([6.2, 5.4, 6.1, 7.0], True),
        ([6.2, 5.4, 5.9], False),  # worse, but not back on the line
        ([6.2, 5.8, 6.1], False),  # it never left the line
        ([6.1], False),
        ([], False),
    ],
)
def test_a_loss_above_the_unigram_line_again_is_told(losses, is_told):
    held_out = [{"masked_loss": x, "unigram_entropy": 6.0} for x in losses]
    text = diagnosis.explain_collapse([*held_out, {"masked_loss": 1.0}])
    assert (text is not None) == is_told
    assert text is None or all(p in text for p in ("5.40", "6.00", "clip_norm"))
    for area in (0.5004, 0.5):
        lines = [{"unigram_entropy": 6, "disc_auc": x} for x in (0.55, area)]
        text = diagnosis.explain_collapse([*held_out, *lines])
        assert (text is not None and "two_stage" in text) == (area == 0.5)


@pytest.mark.parametrize(
    ("right", "recall", "is_told"),
    [(0.851, 0.01, 1), (0.859, 0.13, 0), (0.9, 0.4, 0), (None, 0.0, 0)],
)
def test_a_discriminator_that_learned_nothing_is_told(right, recall, is_told):
    line = {"majority_share": 0.85, "disc_recall": recall}
    line |= {"split": "validation", "disc_accuracy": right}
    text = diagnosis.explain_start([line | {"disc_recall": 0.9}, line])
    assert (text is not None) == is_told
    parts = f"{recall:.1%} of the", f"{right or 0:.1%} of all", "85.0%"
    assert text is None or all(part in text for part in parts)
