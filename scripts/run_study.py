r"""Runs a study: several configs over several seeds, compared at equal cost.

    electra-study configs/studies/table5.py \
        --dataset_dir=DIR --tasks_dir=DIR --output_dir=DIR
    electra-study configs/studies/table5.py --list
    electra-study configs/studies/table1.py:192x4:600M --list
    electra-study --list

After a stop (SIGTERM, SIGHUP, Ctrl-C: exit code 75), repeat the command to
continue. docs/studies.md describes the output.
"""

import pathlib
from typing import Any

from absl import flags

from electra_tf import command_line
from electra_tf import installed
from electra_tf import storage
from electra_tf.records import manifest

FLAGS = flags.FLAGS
flags.DEFINE_string("study", None, "A file of configs/studies, and :ARGUMENT.")
flags.DEFINE_string("dataset_dir", None, "Pre-training dataset.")
flags.DEFINE_string("tasks_dir", None, "Official files; none: no tasks.")
flags.DEFINE_string("output_dir", None, "Folder of all output.")
flags.DEFINE_list("seeds", [], "Seeds; none: the study's.")
flags.DEFINE_list("arms", [], "Arms, at one budget as mlm_x0.5; none: all.")
flags.DEFINE_integer("num_parallel", 1, "Number of parallel runs.")
flags.DEFINE_integer("num_train_steps", 0, "Of the reference arm.", 0)
flags.DEFINE_bool("list", False, "Print the plan, or all studies, and end.")
# For --list without a dataset: the vocabulary of `make pretrain`.
_USUAL_VOCABULARY = 8192


@flags.multi_flags_validator(
    ["study", "list"], "Give --study=FILE; --list shows all studies."
)
def _has_study(given: dict[str, Any]) -> bool:
    return bool(given["study"] or given["list"])


def list_studies() -> None:
    """Prints the studies of the package with their questions."""
    from electra_tf.studies import definition

    for name in installed.config_names("studies"):
        path = installed.find_config(name)
        if "def get_study" in pathlib.Path(path).read_text("utf-8"):
            print(f"{name}: {definition.load_study(path).question}")


def main() -> int:
    """Plans and runs a study, and prints the path of the report."""
    if not FLAGS.study:
        list_studies()
        return 0
    folder = FLAGS.dataset_dir
    if folder:
        manifest.Index.load(storage.path(folder))
    if not (FLAGS.list or (folder and FLAGS.output_dir)):
        raise ValueError("Give --dataset_dir and --output_dir, or --list.")
    from electra_tf.inputs import dataset
    from electra_tf.pretraining import cost
    from electra_tf.studies import definition
    from electra_tf.studies import runner

    study = definition.load_study(FLAGS.study)
    if FLAGS.seeds:
        study = definition.with_seeds(study, FLAGS.seeds)
    size = _USUAL_VOCABULARY
    if folder:
        size = dataset.load_vocabulary(storage.path(folder)).size
    tasks = FLAGS.tasks_dir
    plan = definition.plan_study(
        study,
        size,
        lambda settings: cost.Cost(settings).run_flops(),
        cost.count_weights,
        FLAGS.num_train_steps,
        has_tasks=bool(tasks) or FLAGS.list,
    )
    plan = definition.select_arms(plan, FLAGS.arms)
    print(f"{definition.format_plan(plan)}\nVocabulary: {size:,} entries.")
    if FLAGS.list:
        return 0
    for length in {arm.settings.data.max_seq_length for arm in plan.arms}:
        dataset.open_dataset(storage.path(folder), length)
    failures = runner.run_study(
        plan,
        storage.path(folder),
        storage.path(FLAGS.output_dir),
        storage.path(tasks) if tasks else None,
        FLAGS.num_parallel,
    )
    print(f"Wrote {FLAGS.output_dir}: results.json, table.md, study.png.")
    for failure in failures:
        print(f"FAILED: {failure.request}: {failure.request.log_file}")
    return 1 if failures else 0


if __name__ == "__main__":
    command_line.run(main, first="study")
