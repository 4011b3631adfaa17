r"""Runs a study: several configs over several seeds, compared at equal cost.

    python scripts/run_study.py configs/studies/table5.py \
        --dataset_dir=DIR --tasks_dir=DIR --output_dir=DIR
    python scripts/run_study.py configs/studies/table5.py --list

Stop it at any time; the same command goes on. It writes results.json, table.md
and study.png to the output folder, anew after every run.
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
    "tasks_dir", None, "Official files of the tasks. None: held-out loss only."
)
_OUTPUT_DIR = flags.DEFINE_string("output_dir", None, "Everything goes there.")
_SEEDS = flags.DEFINE_list("seeds", [], "Seeds; none: those of the study.")
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
    from electra_tf.pretraining import compute
    from electra_tf.pretraining import dataset

    study = studies.load_study(pathlib.Path(_STUDY.value))
    if _SEEDS.value:
        study = studies.with_seeds(study, _SEEDS.value)
    size = _USUAL_VOCABULARY
    if _DATASET_DIR.value:
        size = dataset.load_vocabulary(pathlib.Path(_DATASET_DIR.value)).size
    plan = study_plan.plan_study(
        study,
        size,
        lambda settings: compute.Compute(settings).run_flops(),
        _NUM_TRAIN_STEPS.value,
    )
    print(f"{study_plan.format_plan(plan)}\nVocabulary: {size:,} entries.")
    if _LIST.value:
        return 0
    if not _DATASET_DIR.value or not _OUTPUT_DIR.value:
        raise ValueError("Give --dataset_dir and --output_dir, or --list.")
    options = study_runner.Options(
        pathlib.Path(_DATASET_DIR.value),
        pathlib.Path(_OUTPUT_DIR.value),
        pathlib.Path(_TASKS_DIR.value) if _TASKS_DIR.value else None,
        _NUM_PARALLEL.value,
    )
    try:
        failures = study_runner.run_study(plan, options)
    except KeyboardInterrupt:
        return 130
    print(f"Wrote {_OUTPUT_DIR.value}: results.json, table.md and study.png.")
    for failure in failures:
        print(f"FAILED: {failure.arm}, seed {failure.seed}: {failure.log}")
    return 1 if failures else 0


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        sys.argv[1] = f"--study={sys.argv[1]}"
    command_line.run(main)
