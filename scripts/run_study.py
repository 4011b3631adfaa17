r"""Runs a study: several configs over several seeds, compared at equal cost.

    python scripts/run_study.py configs/studies/table5.py \
        --dataset_dir=DIR --tasks_dir=DIR --output_dir=DIR
    python scripts/run_study.py configs/studies/table5.py --list

The same command goes on after a stop. See BUILD.md for what it writes.
"""

import pathlib
import sys

from absl import flags

from electra_tf import command_line

_STUDY = flags.DEFINE_string(
    "study", None, "File of configs/studies.", required=True
)
_DATASET_DIR = flags.DEFINE_string("dataset_dir", None, "Pre-training records.")
_TASKS_DIR = flags.DEFINE_string(
    "tasks_dir", None, "Else the study's, or none."
)
_OUTPUT_DIR = flags.DEFINE_string("output_dir", None, "Everything goes there.")
_SEEDS = flags.DEFINE_list("seeds", [], "Seeds; none: those of the study.")
_ARMS = flags.DEFINE_list("arms", [], "Arms; none: all of the study.")
_NUM_PARALLEL = flags.DEFINE_integer("num_parallel", 1, "Runs at a time.")
_NUM_TRAIN_STEPS = flags.DEFINE_integer(
    "num_train_steps", 0, "Of the reference arm; 0: the study's.", 0
)
_LIST = flags.DEFINE_bool("list", False, "Print the plan and end.")
# Of `make pretrain`; for --list without a dataset.
_USUAL_VOCABULARY = 8192


def main() -> int:
    """Plans, runs, and says where the report is."""
    from electra_tf.analysis import studies
    from electra_tf.analysis import study_plan
    from electra_tf.analysis import study_runner
    from electra_tf.inputs import dataset
    from electra_tf.pretraining import cost

    study = studies.load_study(pathlib.Path(_STUDY.value))
    if _SEEDS.value:
        study = studies.with_seeds(study, _SEEDS.value)
    size, folder = _USUAL_VOCABULARY, _DATASET_DIR.value
    if folder:
        size = dataset.load_vocabulary(pathlib.Path(folder)).size
    tasks = _TASKS_DIR.value or study.tasks_dir
    plan = study_plan.plan_study(
        study,
        size,
        lambda settings: cost.Cost(settings).run_flops(),
        _NUM_TRAIN_STEPS.value,
        has_tasks=bool(tasks) or _LIST.value,
    )
    plan = study_plan.select_arms(plan, _ARMS.value)
    print(f"{study_plan.format_plan(plan)}\nVocabulary: {size:,} entries.")
    if _LIST.value:
        return 0
    if not (folder and _OUTPUT_DIR.value):
        raise ValueError("Give --dataset_dir and --output_dir, or --list.")
    options = study_runner.Options(
        pathlib.Path(folder),
        pathlib.Path(_OUTPUT_DIR.value),
        pathlib.Path(tasks) if tasks else None,
        _NUM_PARALLEL.value,
    )
    try:
        failures = study_runner.run_study(plan, options)
    except KeyboardInterrupt:
        return 130
    print(f"Wrote {_OUTPUT_DIR.value}: results.json, table.md, study.png.")
    for failure in failures:
        print(f"FAILED: {failure.arm}, seed {failure.seed}: {failure.log}")
    return 1 if failures else 0


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        sys.argv[1] = f"--study={sys.argv[1]}"
    command_line.run(main)
