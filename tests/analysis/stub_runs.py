"""What stands for a run in tests of the study runner: quick, and traceable.

A run takes steps of `STEP_SECONDS` and notes each in `steps.txt` of its
folder, which is its checkpoint too.
"""

import os
import pathlib
import signal
import time

from electra_tf import config
from electra_tf.analysis import study_run

STEP_SECONDS = 0.02


def steps_taken(folder: pathlib.Path) -> list[str]:
    path = folder / "steps.txt"
    return path.read_text().split() if path.exists() else []


def take_steps(request: study_run.RunRequest) -> study_run.RunResult | None:
    """A run whose score is its seed plus the length of its arm's name."""
    if not request.is_trained:
        scores = {"cola_probe": 0.25, "sst2_probe": 0.5}
        guessing = {"cola": 0.0, "sst2": 0.5}
        return study_run.RunResult({}, scores, 0.0, 0.5, guessing)
    settings = config.from_json(request.settings)
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
    first = len(steps_taken(request.path))
    for step in range(first, settings.training.num_train_steps):
        with (request.path / "steps.txt").open("a") as file:
            file.write(f"{step}\n")
        time.sleep(STEP_SECONDS)
        if stop:
            return None
    score = request.seed + len(request.arm)
    return study_run.RunResult(
        held_out={"loss": 9.0, "gen_loss": 5.0 + request.seed},
        tasks={"cola_probe": score, "sst2_probe": 10.0 * score},
        training_seconds=1.5,
        measuring_seconds=0.5,
    )


def fail_for_mlm(request: study_run.RunRequest) -> study_run.RunResult | None:
    if request.arm == "mlm":
        raise ValueError("Expected tea. Received: coffee.")
    return take_steps(request)


def die_for_mlm(request: study_run.RunRequest) -> study_run.RunResult | None:
    if request.arm == "mlm":
        os.kill(os.getpid(), signal.SIGKILL)
    return take_steps(request)


def check_environment(request: study_run.RunRequest) -> study_run.RunResult:
    """Notes that a run begins in a fresh process of its own."""
    print("said by", request.arm, os.getpid())
    return study_run.RunResult({"loss": 1.0}, {}, 1.0, 0.0)
