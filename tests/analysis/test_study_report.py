"""Tables and picture from known results."""

import math

import pytest

from electra_tf.analysis import study_report
from electra_tf.analysis import study_run
from tests.analysis import toy_study


def _row(arm, seed, **measures):
    tasks = {k: v for k, v in measures.items() if "loss" not in k}
    held_out = {k: v for k, v in measures.items() if "loss" in k}
    result = study_run.RunResult(held_out, tasks, 90.0, 30.0)
    return study_report.RunRow(arm, seed, result)


def _cells(text, arm):
    """The cells of an arm in every table, by the table's header."""
    found = {}
    header = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] == "arm":
            header = cells
        elif cells[0] == f"`{arm}`":
            found |= dict(zip(header, cells, strict=True))
    return found


def test_a_table_has_mean_spread_and_number_of_every_measure():
    rows = [
        _row("electra", 1, cola_probe=0.125, sst2_probe=0.75, gen_loss=5.0),
        _row("electra", 2, cola_probe=0.375, sst2_probe=1.0, gen_loss=7.0),
        _row("mlm", 1, cola_probe=0.5, sst2_probe=0.625, gen_loss=5.5),
    ]
    text = study_report.format_tables(toy_study.build_plan(), rows)
    electra, mlm = _cells(text, "electra"), _cells(text, "mlm")
    # Sample standard deviation: of 0.125 and 0.375, 0.25 / sqrt(2).
    assert electra["cola_probe"] == f"0.250 ± {0.25 / math.sqrt(2):.3f} (2)"
    assert electra["sst2_probe"] == "**0.875** ± 0.177 (2)"
    # Equal means: neither is best.
    assert electra["average"] == "0.562 ± 0.177 (2)"
    assert mlm["cola_probe"] == "**0.500** (1)"
    assert mlm["average"] == "0.562 (1)"
    assert electra["gen_loss"] == "6.000 ± 1.414 (2)"
    assert mlm["gen_loss"] == "**5.500** (1)"
    assert (electra["steps"], electra["FLOPs"]) == ("10", "2.0000e+03")
    assert (mlm["steps"], mlm["warm-up"]) == ("20", "4")
    assert (electra["n"], electra["minutes a run"]) == ("2", "2.0")
    assert "3 of 4 runs have finished" in text


def test_best_is_judged_at_each_budget_and_never_for_the_total_loss():
    plan = toy_study.build_plan(budget_fractions=(0.5, 1.0))
    rows = [
        _row("electra_x0.5", 1, cola_probe=0.2, loss=30.0),
        _row("mlm_x0.5", 1, cola_probe=0.1, loss=5.0),
        _row("electra_x1", 1, cola_probe=0.3, loss=29.0),
        _row("mlm_x1", 1, cola_probe=0.4, loss=4.0),
    ]
    text = study_report.format_tables(plan, rows)
    assert _cells(text, "electra_x0.5")["cola_probe"] == "**0.200** (1)"
    assert _cells(text, "electra_x1")["cola_probe"] == "0.300 (1)"
    assert _cells(text, "mlm_x1")["cola_probe"] == "**0.400** (1)"
    assert _cells(text, "mlm_x1")["loss"] == "4.000 (1)"


def test_an_arm_without_results_keeps_its_row():
    text = study_report.format_tables(
        toy_study.build_plan(), [_row("mlm", 1, cola_probe=0.5)], ["mlm: tea"]
    )
    assert _cells(text, "electra")["cola_probe"] == "–"
    assert _cells(text, "electra")["minutes a run"] == "–"
    # Alone, it is not best.
    assert _cells(text, "mlm")["cola_probe"] == "0.500 (1)"
    assert "FAILED: mlm: tea" in text


def _untrained_row(seed, guessing, **tasks):
    result = study_run.RunResult({}, tasks, 0.0, 30.0, guessing)
    return study_report.RunRow("untrained", seed, result)


def test_random_weights_and_guessing_are_the_last_rows_and_never_best():
    plan = toy_study.build_plan(has_tasks=True, tasks=("cola", "blimp"))
    guessing = {"cola": 0.0, "blimp": 0.5}
    rows = [
        _row("electra", 1, cola_probe=0.25, blimp=0.5),
        _row("mlm", 1, cola_probe=0.125, blimp=0.625),
        _untrained_row(1, guessing, cola_probe=0.75, blimp=0.25),
        _untrained_row(2, guessing, cola_probe=0.75, blimp=0.5),
    ]
    text = study_report.format_tables(plan, rows)
    tasks, held_out = text.split("## Tasks")[1].split("## Held-out text")
    assert tasks.splitlines()[2:8] == [
        "| arm | average | cola_probe | blimp |",
        "| --- | ---: | ---: | ---: |",
        "| `electra` | 0.375 (1) | **0.250** (1) | 0.500 (1) |",
        "| `mlm` | 0.375 (1) | 0.125 (1) | **0.625** (1) |",
        "| `untrained` | 0.562 ± 0.088 (2) | 0.750 ± 0.000 (2) | "
        "0.375 ± 0.177 (2) |",
        "| guessing | 0.250 | 0.000 | 0.500 |",
    ]
    assert "the model of `electra` with random weights" in tasks
    assert "chance is 0.5" in tasks
    assert "untrained" not in held_out


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0.000"), (0.12345, "0.123"), (-0.5, "-0.500"), (37.1744, "37.174"),
     (123.456, "123.5"), (12345.6, "12,346"), (0.00012, "1e-04")],
)  # fmt: skip
def test_numbers_are_short(value, text):
    assert study_report.format_number(value) == text


@pytest.mark.parametrize("fractions", [(1.0,), (0.5, 1.0)])
@pytest.mark.parametrize("has_tasks", [True, False])
def test_a_picture_is_drawn_of_scores_or_of_losses(
    tmp_path, fractions, has_tasks
):
    plan = toy_study.build_plan(budget_fractions=fractions, has_tasks=has_tasks)
    measures = {"gen_loss": 5.0, "loss": 9.0}
    if has_tasks:
        measures["cola_probe"] = 0.5
    rows = [_row(plan.arms[0].name, 1, **measures)]
    if has_tasks:
        rows.append(_untrained_row(1, {"cola": 0.0}, cola_probe=0.25))
    study_report.write_report(tmp_path, plan, rows, has_tasks=has_tasks)
    assert (tmp_path / "study.png").stat().st_size > 5_000
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "results.json",
        "study.png",
        "table.md",
    ]
