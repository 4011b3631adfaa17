"""A study of two arms, and quick runs that stand for those of a study.

A run takes steps of `STEP_SECONDS` and notes each in `steps.txt` of its
folder, which is its checkpoint too. The process of each run imports this
module, so it must not import TensorFlow or pandas.
"""

import dataclasses
import os
import signal
import time

from electra_tf import config
from electra_tf.studies import definition
from electra_tf.studies import study_run

STEP_SECONDS = 0.02
BASE = config.ExperimentConfig(
    encoder=config.EncoderConfig(vocab_size=0),
    optimizer=config.OptimizerConfig(num_warmup_steps=2),
    training=config.TrainingConfig(num_train_steps=10),
)
_STUDY = definition.Study(
    name="toy",
    question="Which toy?",
    base=BASE,
    arms={"electra": {}, "mlm": {"objective": {"name": "mlm"}}},
    budget="flops", reference_arm="electra", seeds=(1, 2),
    tasks=("cola", "sst2"), finetune_steps=3,
)  # fmt: skip


def build_study(**fields):
    return dataclasses.replace(_STUDY, **fields)


def _count_flops(settings):
    """A step of `mlm` costs half."""
    step = 100.0 if settings.objective["name"] == "mlm" else 200.0
    return step * settings.training.num_train_steps


def build_plan(num_train_steps=0, has_tasks=False, **fields):
    return definition.plan_study(
        build_study(**fields), 50, _count_flops, lambda _: 1_500_000,
        num_train_steps, has_tasks,
    )  # fmt: skip


def steps_taken(folder):
    path = folder / "steps.txt"
    return path.read_text().split() if path.exists() else []


def take_steps(request):
    """A run whose score is its seed plus the length of its arm's name."""
    if not request.asked.is_trained:
        scores = {"cola_probe": 0.25, "sst2_probe": 0.5}
        guessing = {"cola": 0.0, "sst2": 0.5}
        return study_run.RunResult({}, scores, 0.0, 0.5, guessing)
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
    first = len(steps_taken(request.folder))
    for step in range(first, request.asked.settings.training.num_train_steps):
        with (request.folder / "steps.txt").open("a") as file:
            file.write(f"{step}\n")
        time.sleep(STEP_SECONDS)
        if stop:
            return None
    score = request.seed + len(request.arm.name)
    return study_run.RunResult(
        held_out={"loss": 9.0, "gen_loss": 5.0 + request.seed},
        tasks={"cola_probe": score, "sst2_probe": 10.0 * score},
        training_seconds=1.5,
        measuring_seconds=0.5,
    )


def fail_for_mlm(request):
    if request.arm.name == "mlm":
        raise ValueError("Expected tea. Received: coffee.")
    return take_steps(request)


def print_process(request):
    print("said by", request.arm.name, os.getpid())
    return study_run.RunResult({"loss": 1.0}, {}, 1.0, 0.0)
