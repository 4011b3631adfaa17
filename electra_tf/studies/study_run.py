"""One run of a study, in its own process: pre-train, measure, write.

Its folder holds `request.json` (the `RunIdentity`, written first), `model/`
(the pre-training run), `log.txt` and, at the end, `result.json`.
"""

import dataclasses
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pydantic

from electra_tf import storage
from electra_tf.config import ExperimentConfig
from electra_tf.config import schema
from electra_tf.processes import atomic
from electra_tf.processes import pool as pool_lib
from electra_tf.studies import definition

REQUEST_FILE = "request.json"
RESULT_FILE = "result.json"
MODEL_FOLDER = "model"

Measures = Mapping[str, pydantic.FiniteFloat]


@schema.frozen
class RunIdentity:
    """All settings on which the result of a run depends."""

    settings: ExperimentConfig  # with the seed, without `dataset_dir`
    dataset: Mapping[str, str]  # checksum of the manifest, by split
    tasks: tuple[str, ...]
    finetune_steps: schema.Count
    max_examples: schema.Count
    is_trained: bool = True  # False measures random weights
    finetune_epochs: float = 0.0
    finetune_trials: schema.Count = 1


@dataclasses.dataclass(frozen=True)
class RunRequest:
    """The input of a run's process."""

    folder: pathlib.Path
    arm: definition.PlannedArm
    asked: RunIdentity
    dataset_dir: pathlib.Path
    tasks_dir: pathlib.Path | None = None  # None measures no tasks
    num_threads: int = 0  # of TensorFlow; 0: its default

    def __str__(self) -> str:
        return f"{self.arm.name}, seed {self.seed}"

    @property
    def seed(self) -> int:
        """The seed of pre-training and of measuring."""
        return self.asked.settings.training.seed

    @property
    def log_file(self) -> pathlib.Path:
        """The file with the output of the run's process."""
        return self.folder / "log.txt"


@schema.frozen
class RunResult:
    """Measures of a finished run."""

    held_out: Measures  # of the held-out split at the last step
    tasks: Measures  # scores by measure
    training_seconds: float  # in steps, without starting and saving
    measuring_seconds: float
    # Scores of guessing, by task; only beside random weights.
    guessing: Measures = dataclasses.field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """The seconds of training and measuring."""
        return self.training_seconds + self.measuring_seconds


RunFn = Callable[[RunRequest], RunResult | None]


def perform(request: RunRequest) -> RunResult | None:
    """Pre-trains and measures; continues from an earlier process' checkpoint.

    Returns None after a signal; the checkpoint is saved then.
    """
    import tensorflow as tf

    if threads := request.num_threads:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
    # Imported late: the number of threads must be set before the first tensor.
    from electra_tf.pretraining import run

    data = {"dataset_dir": str(request.dataset_dir)}
    settings = schema.replace_fields(request.asked.settings, data=data)
    model_dir = request.folder / MODEL_FOLDER
    if request.asked.is_trained and not run.pretrain(settings, model_dir):
        return None
    start = time.monotonic()
    scores, guessing = measure_tasks(request, settings)
    seconds = time.monotonic() - start
    held_out, training_seconds = _summarize_metrics(request.folder)
    return RunResult(held_out, scores, training_seconds, seconds, guessing)


def require_tasks(tasks: Sequence[str], folder: pathlib.Path) -> None:
    """Reads the data of tasks, so that missing files fail before training."""
    from electra_tf.finetuning import measure
    from electra_tf.scoring import blimp

    if definition.BLIMP in tasks:
        blimp.read_pairs(folder)
    if names := [name for name in tasks if name != definition.BLIMP]:
        measure.read_tasks(folder, names)


def measure_tasks(
    request: RunRequest, settings: ExperimentConfig
) -> tuple[dict[str, float], dict[str, float]]:
    """Measures the last checkpoint of a run, or random weights.

    Returns scores from 0 to 1 by measure; and for random weights, by task, the
    scores of guessing by the frequency of labels or tokens.
    """
    from electra_tf.finetuning import measure
    from electra_tf.finetuning import model as finetuning_model
    from electra_tf.objectives import registry
    from electra_tf.records import manifest
    from electra_tf.scoring import blimp
    from electra_tf.scoring import sentence_scores

    scores, guessing = dict[str, float](), dict[str, float]()
    asked, folder = request.asked, request.tasks_dir
    if folder is None or not asked.tasks:
        return scores, guessing
    model_dir, main = request.folder / MODEL_FOLDER, None
    if asked.is_trained:
        loaded = finetuning_model.load_encoder(model_dir)
    else:
        loaded, main = _build_random(settings, request.seed)
    if definition.BLIMP in asked.tasks:
        # The same pairs for all models, whatever their seeds.
        pairs = blimp.read_pairs(folder)
        sentences = blimp.list_sentences(pairs)
        if main is None:
            scorer = sentence_scores.load_scorer(model_dir)
        else:
            scorer = sentence_scores.SentenceScorer(
                main, loaded.vocabulary, registry.find(settings).answer
            )
            guess = sentence_scores.score_frequencies(
                loaded.vocabulary,
                manifest.load_token_counts(request.dataset_dir / "train"),
                sentences,
            )
            guessing[definition.BLIMP] = float(blimp.judge(guess, pairs).mean())
        points = blimp.judge(scorer.score(sentences), pairs)
        print(blimp.tabulate(points.to_frame("right")).round(3), flush=True)
        scores[definition.BLIMP] = float(points.mean())
    if names := [n for n in asked.tasks if n != definition.BLIMP]:
        scores |= measure.measure_loaded_encoder(
            loaded,
            folder,
            names,
            seed=request.seed,
            max_examples=asked.max_examples,
            finetune_steps=asked.finetune_steps,
            finetune_epochs=asked.finetune_epochs,
            finetune_trials=asked.finetune_trials,
        )
        if main is not None:
            guessing |= measure.measure_guessing(loaded, folder, names)
    return scores, guessing


def _build_random(settings: ExperimentConfig, seed: int) -> tuple[Any, Any]:
    """Builds a main network with random weights; returns its encoder first."""
    import keras

    from electra_tf.finetuning import model as finetuning_model
    from electra_tf.inputs import dataset
    from electra_tf.objectives import base
    from electra_tf.objectives import registry

    folder = storage.path(settings.data.dataset_dir)
    vocabulary = dataset.load_vocabulary(folder)
    resolved = base.resolve(settings, vocabulary.size)
    keras.utils.set_random_seed(seed)
    main = registry.find(resolved).build_main(resolved.encoder, None)
    return finetuning_model.LoadedEncoder(
        main.encoder, vocabulary, resolved.encoder, "random weights"
    ), main


def start(run_fn: RunFn) -> pool_lib.Handler:
    """Returns the handler of a run's process; `run_fn` is `perform`."""

    def handle(request: RunRequest, _: pool_lib.Report) -> RunResult | None:
        path = request.folder / REQUEST_FILE
        if not path.is_file():
            atomic.write_text(path, schema.to_json(request.asked))
        result = run_fn(request)
        if result is not None:
            path = request.folder / RESULT_FILE
            atomic.write_text(path, schema.to_json(result))
        return result

    return handle


def read_result(folder: pathlib.Path) -> RunResult | None:
    """Reads the result in a run's folder; None if the run has not finished."""
    path = folder / RESULT_FILE
    return schema.read_file(RunResult, path) if path.is_file() else None


def read_metrics(folder: pathlib.Path) -> list[dict[str, Any]]:
    """Reads the metrics that pre-training has logged in a run's folder."""
    path = folder / MODEL_FOLDER / "metrics.jsonl"
    if not path.is_file():
        return []
    # Imported late, because the module imports TensorFlow.
    from electra_tf.training import reporting

    return reporting.read_lines(path)


def _summarize_metrics(folder: pathlib.Path) -> tuple[dict[str, float], float]:
    held_out, seconds, last_step = dict[str, float](), 0.0, 0
    for line in read_metrics(folder):
        timing = line.pop("timing", {})
        step, split = line.pop("step"), line.pop("split")
        line.pop("train_flops", None)  # in the report from the plan
        if split == "validation":
            held_out = line
        else:
            seconds += timing.get("seconds_per_step", 0.0) * (step - last_step)
            last_step = step
    return held_out, seconds
