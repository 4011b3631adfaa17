"""The table on the console is aligned and fits the terminal."""

import re

import pytest

from electra_tf.training import console

TRAIN = {
    "loss": 37.1739,
    "gen_loss": 9.91,
    "masked_accuracy": 0.029,
    "sampled_accuracy": 0.0,
    "disc_loss": 0.6652,
    "disc_accuracy": 0.6277,
    "disc_precision": 0.1538,
    "disc_recall": 1.0,
    "disc_auc": 0.5082,
    "replaced_fraction": 0.1489,
    "gradient_norm": 39.622,
    "learning_rate": 5e-4,
    "tokens_per_second": 123456.7,
    "share_of_peak": 0.4561,
    "seconds_per_step": 0.5,
}
HELD_OUT = {
    name: TRAIN[name] for name in ("loss", "gen_loss", "disc_loss", "disc_auc")
}


def _print(num_characters, total_steps=1_000_000, num_lines=1):
    table = console.Table(total_steps, set(TRAIN), num_characters)
    lines = table.lines("train", 100, None, TRAIN)
    lines += table.lines("validation", 100, 90_061, HELD_OUT)
    for step in range(3, num_lines + 1):
        lines += table.lines("train", 100 * step, 3_725, TRAIN)
    return lines


def test_a_worked_example():
    heading, train, held_out = _print(None, 1_000)
    assert heading == (
        "     step/total      left    loss    gen masked sampled   disc   acc"
        "  prec   rec   auc  fake    grad       lr     tok/s % peak"
    )
    assert train == (
        "train  100/1000         -  37.174  9.910  0.029   0.000 0.6652 0.628"
        " 0.154 1.000 0.508 0.149   39.62 5.00e-04   123,457   45.6"
    )
    assert held_out == (
        "valid  100/1000  1d 01:01  37.174  9.910                0.6652      "
        "             0.508"
    )


@pytest.mark.parametrize("num_characters", [80, 100, 120, 160])
def test_every_line_fits_and_the_columns_stand_below_each_other(
    num_characters,
):
    heading, *lines = _print(num_characters)
    assert max(len(line) for line in [heading, *lines]) == len(heading)
    assert len(heading) <= num_characters
    for label in re.finditer(r"% peak|\S+", heading):
        begin, end = label.span()
        for line in lines:
            assert line[end : end + 1].strip() == "", "runs over the column"
            if label[0] in ("loss", "gen", "disc"):
                assert line[begin:end].strip(), "no number below the label"


def test_a_narrow_terminal_keeps_what_matters_most():
    heading = _print(80)[0].split()
    for label in ("step/total", "left", "loss", "gen", "disc", "tok/s", "auc"):
        assert label in heading
    assert "prec" not in heading
    assert "prec" in _print(160)[0]


def test_the_heading_comes_again():
    lines = _print(None, num_lines=45)
    assert [i for i, line in enumerate(lines) if "left" in line] == [0, 21, 42]


def test_a_number_too_large_for_its_column_stays_inside():
    table = console.Table(1000, {"loss", "gradient_norm"})
    heading, line = table.lines(
        "train", 5, 1.0, {"loss": 123456.789, "gradient_norm": 3e9}
    )
    assert len(heading) == len(line)
    assert line.endswith(" 1.2e+05 3.0e+09")


def test_metrics_that_a_run_does_not_have_get_no_column():
    assert "gen" not in console.Table(10, {"loss", "disc_loss"}).heading()
