"""One run of a study, in a process of its own: pre-train, measure, write.

The folder of a run holds `request.json` (what is asked, written first),
`model/` (the pre-training run), `log.txt` and, once all is done,
`result.json`. Nothing here imports TensorFlow before the process has decided
how many threads it may use.
"""

import dataclasses
import functools
import json
import pathlib
import time
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from electra_tf import config
from electra_tf.processes import pool as pool_lib
from electra_tf.records import atomic

REQUEST_FILE = "request.json"
RESULT_FILE = "result.json"
LOG_FILE = "log.txt"
MODEL_FOLDER = "model"


@dataclasses.dataclass(frozen=True)
class RunRequest:
    """Everything a run needs, as plain data.

    Attributes:
        folder: of the run.
        arm: name of the planned arm.
        seed: of pre-training and of measuring.
        settings: JSON of the config, with seed and dataset.
        dataset: split to the checksum of its manifest.
        tasks_dir: folder of the tasks' files; empty measures none.
        tasks: their names.
        finetune_steps: of the short fine-tune; 0 is none.
        max_examples: most training examples of a task; 0 is all.
        num_threads: of TensorFlow's kernels; 0 leaves it the choice.
        is_trained: False measures random weights.
    """

    folder: str
    arm: str
    seed: int
    settings: str
    dataset: Mapping[str, str]
    tasks_dir: str
    tasks: tuple[str, ...]
    finetune_steps: int
    max_examples: int
    num_threads: int = 0
    is_trained: bool = True

    def __str__(self) -> str:
        return f"{self.arm}, seed {self.seed}"

    @property
    def path(self) -> pathlib.Path:
        """The folder."""
        return pathlib.Path(self.folder)

    def identity(self) -> dict[str, Any]:
        """What decides the result; folders and threads do not."""
        settings = json.loads(self.settings)
        settings["data"].pop("dataset_dir")
        # Named for these alone: requests of earlier versions lack it.
        untrained = {} if self.is_trained else {"is_trained": False}
        return untrained | {
            "settings": settings,
            "dataset": dict(self.dataset),
            "tasks": list(self.tasks),
            "finetune_steps": self.finetune_steps,
            "max_examples": self.max_examples,
        }


@dataclasses.dataclass(frozen=True)
class RunResult:
    """What a run found.

    Attributes:
        held_out: metrics of the held-out split at the last step.
        tasks: measure to score.
        training_seconds: in training steps, without starting and saving.
        measuring_seconds: on the tasks.
        guessing: task to the score of who reads nothing; empty for a trained
            model.
    """

    held_out: Mapping[str, float]
    tasks: Mapping[str, float]
    training_seconds: float
    measuring_seconds: float
    guessing: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Training and measuring."""
        return self.training_seconds + self.measuring_seconds


RunFn = Callable[[RunRequest], RunResult | None]


def perform(request: RunRequest) -> RunResult | None:
    """Pre-trains and measures; goes on where a former process stopped.

    Returns:
        The result, or None if a signal asked to stop: all is saved.
    """
    import tensorflow as tf

    if request.num_threads:
        threads = request.num_threads
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
    from electra_tf.pretraining import run

    model_dir = request.path / MODEL_FOLDER
    if request.is_trained and not run.pretrain(
        config.from_json(request.settings), model_dir
    ):
        return None
    from electra_tf.analysis import study_measures

    start = time.monotonic()
    if not request.is_trained:
        tasks, guessing = study_measures.measure_untrained(request)
        return RunResult({}, tasks, 0.0, time.monotonic() - start, guessing)
    tasks = study_measures.measure_run(request, model_dir)
    seconds = time.monotonic() - start
    held_out, training_seconds = _read_metrics(model_dir)
    return RunResult(held_out, tasks, training_seconds, seconds)


def _read_metrics(model_dir: pathlib.Path) -> tuple[dict[str, float], float]:
    """Last held-out metrics, and seconds of all training steps."""
    from electra_tf.training import reporting

    held_out: dict[str, float] = {}
    seconds, last_step = 0.0, 0
    for line in reporting.read_lines(model_dir / "metrics.jsonl"):
        timing = line.pop("timing", {})
        step, split = line.pop("step"), line.pop("split")
        # The plan has it already.
        line.pop("train_flops", None)
        if split == "validation":
            held_out = line
        else:
            seconds += timing.get("seconds_per_step", 0.0) * (step - last_step)
            last_step = step
    return held_out, seconds


def start(run_fn: RunFn) -> pool_lib.Handler:
    """What the process of a run executes.

    Args:
        run_fn: `perform`, or what stands for it in a test.
    """
    return functools.partial(_run_and_write, run_fn)


def _run_and_write(
    run_fn: RunFn, request: RunRequest, report: pool_lib.Report
) -> RunResult | None:
    del report
    result = run_fn(request)
    if result is not None:
        write_json(request.path / RESULT_FILE, dataclasses.asdict(result))
    return result


def write_json(path: pathlib.Path, content: Any) -> None:
    """Writes indented JSON; the file appears complete or not at all."""
    text = json.dumps(content, indent=2, allow_nan=False) + "\n"
    with atomic.replacing_file(path) as partial:
        partial.write_text(text, "utf-8")


def read_result(folder: pathlib.Path) -> RunResult | None:
    """The result in a run's folder, or None if it has not finished."""
    path = folder / RESULT_FILE
    if not path.is_file():
        return None
    return RunResult(**json.loads(path.read_text("utf-8")))
