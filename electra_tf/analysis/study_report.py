"""What a study found: results.json, table.md and study.png.

Rewritten after every finished run, so that a study in progress can be read.
Spread is the sample standard deviation over seeds.
"""

import math
import pathlib
import re
import statistics
from collections.abc import Mapping
from collections.abc import Sequence

import pandas as pd

from electra_tf.analysis import studies
from electra_tf.analysis import study_pictures
from electra_tf.analysis import study_run
from electra_tf.processes import atomic

AVERAGE = "average"
_NOTHING = "–"
# Endings of names of measures whose larger, or smaller, values are better;
# others, such as the share of replaced tokens, are not judged.
_LARGER_IS_BETTER = (
    *("accuracy", "auc", "precision", "recall", "f1"),
    *("_probe", "_finetune", "blimp"),
)
_SMALLER_IS_BETTER = ("_loss",)
_NOT_JUDGED = ("unigram_accuracy", "kept_accuracy", "mlm_kept_accuracy")

Results = Mapping[tuple[str, int], study_run.RunResult]
"""Name of a planned arm and seed to what the run found."""


def write_report(
    output_dir: pathlib.Path,
    plan: studies.Plan,
    results: Results,
    failed: Sequence[str] = (),
    has_tasks: bool = True,
) -> None:
    """Writes results.json, table.md and study.png."""
    study_run.write_json(
        output_dir / "results.json", _to_json(plan, results, failed)
    )
    with atomic.replacing_file(output_dir / "table.md") as partial:
        text = format_tables(plan, results, failed, has_tasks)
        partial.write_text(text, "utf-8")
    measures = _task_frame(results)
    if measures.empty:
        measures = _frame(results, "held_out")
        judged = [n for n in measures if is_larger_better(n) is not None]
        measures = measures[judged]
    if not measures.empty:
        study_pictures.draw_measures(output_dir / "study.png", plan, measures)


def _to_json(
    plan: studies.Plan, results: Results, failed: Sequence[str]
) -> dict[str, object]:
    arms = {arm.name: arm for arm in plan.arms}
    return {
        "study": plan.study.name,
        "question": plan.study.question,
        "budget": plan.study.budget,
        "reference_arm": plan.study.reference_arm,
        "num_planned_runs": plan.num_runs,
        "failed": list(failed),
        "guessing": _guessing(results),
        "runs": [
            {
                "name": name,
                "arm": arms[name].arm,
                "budget_fraction": arms[name].fraction,
                "seed": seed,
                "steps": arms[name].num_steps,
                "warmup_steps": arms[name].num_warmup_steps,
                "flops": arms[name].flops,
                "held_out": result.held_out,
                "tasks": result.tasks,
                "training_seconds": round(result.training_seconds, 3),
                "measuring_seconds": round(result.measuring_seconds, 1),
            }
            for (name, seed), result in results.items()
        ],
    }


def _guessing(results: Results) -> dict[str, float]:
    """Task to score; every run of the untrained arm found the same."""
    return {
        task: score
        for run in results.values()
        for task, score in run.guessing.items()
    }


def _frame(results: Results, field: str) -> pd.DataFrame:
    """A row per run, named by its arm, and a column per measure."""
    rows = [getattr(result, field) for result in results.values()]
    return pd.DataFrame(rows, index=[arm for arm, _ in results])


def _task_frame(results: Results) -> pd.DataFrame:
    """The scores of the tasks, and before several of them their average."""
    scores = _frame(results, "tasks")
    if len(scores.columns) > 1:
        scores.insert(0, AVERAGE, scores.mean(axis=1))
    return scores


def format_tables(
    plan: studies.Plan,
    results: Results,
    failed: Sequence[str] = (),
    has_tasks: bool = True,
) -> str:
    """The tables as Markdown; arguments as of `write_report`."""
    study = plan.study
    cost = "the same training FLOPs (exact count)"
    if study.budget == "steps":
        cost = "the same number of steps"
    held_out = _frame(results, "held_out")
    trained = [arm for arm in plan.arms if arm.is_trained]
    at_budget = " at that budget" if len(study.budget_fractions) > 1 else ""
    lines = [
        f"# {study.name}",
        "",
        study.question,
        "",
        f"Every arm had {cost} as `{study.reference_arm}`, and a schedule of "
        "its own; warm-up is the same share of the steps everywhere. "
        f"{len(results)} of {plan.num_runs} runs have finished.",
        "",
        *(f"FAILED: {text}\n" for text in failed),
        "## Arms",
        "",
        *_arms_table(plan, results),
        "",
        "## Tasks",
        "",
        *_tasks_section(plan, results, has_tasks),
        "",
        "## Held-out text",
        "",
        *_measures_table(trained, held_out),
        "",
        "Losses and accuracies of different objectives, generators or masking "
        "rates answer different questions; compare them between arms that "
        "share these.",
        "",
        "Cells: mean ± sample standard deviation over seeds (number of runs). "
        f"**Bold**: best mean{at_budget}.",
    ]
    return "\n".join(lines) + "\n"


def _arms_table(plan: studies.Plan, results: Results) -> list[str]:
    rows = []
    for arm in plan.arms:
        own = [
            run.seconds
            for (name, _), run in results.items()
            if name == arm.name
        ]
        minutes = f"{statistics.fmean(own) / 60:.1f}" if own else _NOTHING
        numbers = f"{arm.num_steps:,}", f"{arm.num_warmup_steps:,}"
        cost = f"{arm.flops:.4e}"
        rows.append([f"`{arm.name}`", *numbers, cost, str(len(own)), minutes])
    header = ["arm", "steps", "warm-up", "FLOPs", "n", "minutes a run"]
    return _markdown(header, rows)


def _tasks_section(
    plan: studies.Plan, results: Results, has_tasks: bool
) -> list[str]:
    if not plan.study.tasks:
        return ["Not measured: no tasks."]
    if not has_tasks:
        return ["Not measured: no --tasks_dir was given."]
    notes = [f"`{AVERAGE}` is the mean of a run's other columns."]
    if not all(arm.is_trained for arm in plan.arms):
        notes.append(
            f"`{studies.UNTRAINED}` is the model of "
            f"`{plan.study.reference_arm}` with random weights. Guessing is "
            "to say the commonest label of the training data everywhere, and "
            "between two sentences to go by how frequent their tokens are."
        )
    if studies.BLIMP in plan.study.tasks:
        notes.append(
            f"`{studies.BLIMP}` is the share of minimal pairs whose "
            "acceptable sentence the model finds likelier; chance is 0.5."
        )
    scores, guessing = _task_frame(results), _guessing(results)
    table = _measures_table(plan.arms, scores, guessing)
    return [*table, "", " ".join(notes)]


def _measures_table(
    arms: Sequence[studies.PlannedArm],
    measured: pd.DataFrame,
    guessing: Mapping[str, float] | None = None,
) -> list[str]:
    """One row per arm, one column per measure."""
    measures = list(measured.columns)
    if not measures:
        return ["No run has finished."]
    names = [arm.name for arm in arms]
    groups = measured.groupby(level=0)
    means, spreads = groups.mean().reindex(names), groups.std().reindex(names)
    counts = groups.count().reindex(names, fill_value=0)
    columns = [[f"`{name}`" for name in names]]
    for measure in measures:
        numbers = [table[measure] for table in (means, spreads, counts)]
        is_best = _find_best(measure, means[measure], arms)
        columns.append(list(map(_format_cell, *numbers, is_best)))
    rows = [list(row) for row in zip(*columns, strict=True)]
    if guessing:
        rows.append(_guessing_cells(measures, guessing))
    return _markdown(["arm", *measures], rows)


def _find_best(
    measure: str, means: pd.Series, arms: Sequence[studies.PlannedArm]
) -> pd.Series:
    """Whether each arm's mean is the best of the arms of its budget."""
    larger = is_larger_better(measure)
    if larger is None:
        return pd.Series(False, means.index)
    rivals = means.groupby([arm.fraction for arm in arms])
    best = rivals.transform("max" if larger else "min")
    return (means == best) & (rivals.transform("nunique") > 1)


def _format_cell(
    mean: float, spread: float = 0.0, count: int = 0, is_best: bool = False
) -> str:
    if math.isnan(mean):
        return _NOTHING
    text = format_number(mean)
    cell = f"**{text}**" if is_best else text
    if count > 1:
        # As many decimals as the mean has.
        decimals = len(text.partition(".")[2])
        style = ".0e" if "e" in text else f",.{decimals}f"
        cell += f" ± {spread:{style}}"
    return f"{cell} ({count})" if count else cell


def _guessing_cells(
    measures: Sequence[str], guessing: Mapping[str, float]
) -> list[str]:
    """The row of guessing, which is the same for probe and fine-tune."""
    tasks = [re.sub("_(probe|finetune)$", "", name) for name in measures]
    found = pd.Series(guessing).reindex(tasks)
    found = found.where(found.index != AVERAGE, found.mean())
    return ["guessing", *(_format_cell(score) for score in found)]


def is_larger_better(name: str) -> bool | None:
    """Whether a larger value of a measure is better; None: not judged.

    The total `loss` is not judged: its parts and weights differ by objective.
    Nor is what the corpus gives away, or what [MASK] does not hide.

    Example:
        >>> is_larger_better("cola_probe"), is_larger_better("gen_loss")
        (True, False)
        >>> is_larger_better("replaced_fraction") is None
        True
    """
    if name in _NOT_JUDGED:
        return None
    if name.endswith(_SMALLER_IS_BETTER):
        return False
    is_score = name == AVERAGE or name.endswith(_LARGER_IS_BETTER)
    return True if is_score else None


def format_number(value: float) -> str:
    """Three decimals, fewer for large numbers, an exponent for tiny ones."""
    if value == 0 or 0.001 <= abs(value) < 100:
        return f"{value:.3f}"
    if abs(value) < 0.001:
        return f"{value:.0e}"
    digits = max(0, 4 - math.floor(math.log10(abs(value))) - 1)
    return f"{value:,.{digits}f}"


def _markdown(header: list[str], rows: list[list[str]]) -> list[str]:
    rule = ["---"] + ["---:"] * (len(header) - 1)
    return [f"| {' | '.join(row)} |" for row in (header, rule, *rows)]
