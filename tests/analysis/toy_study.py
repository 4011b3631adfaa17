"""A study of two arms, whose runs a stub makes; also a script that runs it."""

import pathlib
import sys

from electra_tf import config
from electra_tf.analysis import studies
from electra_tf.analysis import study_plan
from electra_tf.analysis import study_runner
from tests.analysis import stub_runs

# Without tests/tiny.py, whose TensorFlow each process would have to import.
BASE = config.ExperimentConfig(
    encoder=config.EncoderConfig(vocab_size=0),
    optimizer=config.OptimizerConfig(num_warmup_steps=2),
    training=config.TrainingConfig(num_train_steps=10),
)


def build_study(**fields) -> studies.Study:
    values = {
        "name": "toy",
        "question": "Which toy?",
        "base": BASE,
        "arms": {"electra": {}, "mlm": {"objective": {"name": "mlm"}}},
        "budget": "flops",
        "reference_arm": "electra",
        "seeds": (1, 2),
        "tasks": ("cola", "sst2"),
        "finetune_steps": 3,
    }
    return studies.Study(**(values | fields))


def flops(settings: config.ExperimentConfig) -> float:
    """A step of `mlm` costs half."""
    step = 100.0 if settings.objective.name == "mlm" else 200.0
    return step * settings.training.num_train_steps


def build_plan(
    num_train_steps: int = 0, has_tasks: bool = False, **fields
) -> study_plan.Plan:
    return study_plan.plan_study(
        build_study(**fields), 50, flops, num_train_steps, has_tasks
    )


def write_folders(folder: pathlib.Path) -> study_runner.Options:
    """A dataset of which only the manifest exists, and a folder of tasks."""
    (folder / "dataset" / "train").mkdir(parents=True, exist_ok=True)
    (folder / "dataset" / "train" / "manifest.json").write_text("{}")
    (folder / "tasks").mkdir(exist_ok=True)
    return study_runner.Options(
        folder / "dataset", folder / "study", folder / "tasks"
    )


if __name__ == "__main__":
    study_runner.run_study(
        build_plan(num_train_steps=int(sys.argv[2])),
        write_folders(pathlib.Path(sys.argv[1])),
        stub_runs.take_steps,
    )
