"""Our side of each kind of benchmark."""

import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks import programs
from benchmarks import side
from electra_tf import config
from electra_tf import fusion
from electra_tf import storage
from electra_tf.inputs import dataset
from electra_tf.inputs import pipeline
from electra_tf.pretraining import run
from electra_tf.records import manifest
from electra_tf.training import devices
from electra_tf.training import distribution

_BUILDER = pathlib.Path(__file__).parents[1] / "build_pretraining_dataset.py"
_SIGNATURE = "score_text"
# Batches in a step of input, many more than are prefetched.
_NUM_BATCHES = 50
_PEAK_SECONDS = 0.2


def pretrain(settings: dict[str, Any], generator: Any = None) -> side.Built:
    """Builds our pre-training step on random ids and runs it once."""
    experiment = config.freeze(settings)
    cut = devices.cut_batch(experiment, 1, True)
    distribution.configure_process(experiment.training, cut.is_shared)
    model, features, row_flops = programs.build_pretraining(experiment)
    masked = model.prepare(features, tf.zeros([], tf.int64), True).masked
    sizes = {"masked": masked.masked_ids.shape[1]}
    return _build_own_step(experiment, model, features, row_flops, **sizes)


def finetune(settings: dict[str, Any], generator: Any = None) -> side.Built:
    """Builds the step of a classifier with the head of transformers."""
    experiment = config.freeze(settings)
    distribution.configure_process(experiment.training)
    built = programs.build_finetuning(experiment, "classification", 2)
    return _build_own_step(experiment, *built)


def _build_own_step(
    settings: config.ExperimentConfig,
    model: Any,
    features: dict[str, Any],
    row_flops: float,
    **sizes: Any,
) -> side.Built:
    """Builds the training step of a model of ours that has its optimizer."""
    scope = distribution.xla_scope(settings.training)
    fusion.start_compiler()
    compiled = tf.function(
        model.training_step,
        autograph=False,
        jit_compile=scope is fusion.Scope.STEP or None,
    )
    flops_per_unit = row_flops / settings.data.max_seq_length
    return build_step(
        lambda: compiled(features), model.trained_variables, settings,
        ("tensorflow", "keras", "electra-tf"), flops_per_unit, **sizes,
    )  # fmt: skip


def build_step(
    train: Callable[[], Any],
    weights: Iterable[Any],
    settings: config.ExperimentConfig,
    packages: Sequence[str],
    flops_per_unit: float = 0.0,
    **sizes: Any,
) -> side.Built:
    """Runs `train`, a training step in TensorFlow, once; returns its side."""
    shape = settings.training.train_batch_size, settings.data.max_seq_length
    begun: Any = ()

    def step(_: Any) -> float:
        nonlocal begun
        begun = train()
        return shape[0] * shape[1]

    def wait() -> None:
        # The results exist only when the whole step is done.
        tf.nest.map_structure(lambda value: value.numpy(), begun)

    step(None)
    wait()
    sizes |= {
        "batch": list(shape),
        "weights": sum(v.numpy().size for v in weights),
        "dropout": settings.encoder.hidden_dropout_prob,
    }
    methods = {"peak_rates": lambda: _measure_peaks(settings)}
    if has_gpu := bool(tf.config.list_physical_devices("GPU")):
        info = tf.config.experimental.get_memory_info
        methods["peak_memory"] = lambda: info("GPU:0")["peak"]
    return side.Built(
        step, sizes, packages, methods, flops_per_unit, wait, has_gpu
    )


def _measure_peaks(settings: config.ExperimentConfig) -> dict[str, float]:
    """`flops` and `bytes` a second at the device's best.

    Of products of square matrices, and of adding one large array to another
    (two are read, one is written).
    """
    precision = settings.training.precision
    is_gpu = bool(tf.config.list_physical_devices("GPU"))
    rate = max(
        devices.measure_products(precision, size, _PEAK_SECONDS)
        for size in ((4096, 8192) if is_gpu else (512, 1024, 2048))
    )
    ones = tf.ones([2**28 if is_gpu else 2**25])
    count = 1 if is_gpu else devices.num_processors()
    arrays = [tf.Variable(ones) for _ in range(count)]
    num_bytes = devices.best_rate(
        lambda i: arrays[i].assign_add(ones)[0].numpy(),
        12.0 * tf.size(ones).numpy(),
        _PEAK_SECONDS,
    )
    return {"flops": rate, "bytes": num_bytes}


def infer(folder: str) -> side.Built:
    """Loads an exported discriminator and returns its scorer."""
    from electra_tf.export import export_metadata
    from electra_tf.export.clients import text_models

    model = text_models.load_saved_model(pathlib.Path(folder))
    if _SIGNATURE not in model.signatures:
        raise SystemExit(
            f"The export must have the signature {_SIGNATURE!r}. Received: "
            f"{folder}. Export a run that trained a discriminator."
        )

    def score(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        answers = model.signatures[_SIGNATURE](texts=tf.constant(texts))
        probabilities = answers["replaced_probability"].numpy()
        return probabilities, answers["input_mask"].numpy()

    length = export_metadata.read_metadata(pathlib.Path(folder)).max_length
    return side.build_scorer(score, ("tensorflow",), max_length=length)


def read_input(settings: dict[str, Any]) -> side.Built:
    """Returns a step that takes the next batches of a dataset."""
    experiment = config.freeze(settings)
    data, rows = experiment.data, experiment.training.train_batch_size
    folder, length = storage.path(data.dataset_dir), data.max_seq_length
    split = dataset.open_dataset(folder, length).train
    order = run.build_order(experiment, split)
    iterator = iter(pipeline.build_training_dataset(split, order))

    def step(_: Any) -> float:
        for _ in range(_NUM_BATCHES):
            next(iterator)
        return _NUM_BATCHES * rows * length

    return side.Built(step, {"batch": [rows, length]}, ["tensorflow"])


def build_dataset(
    corpus: str, vocab_file: str, num_processes: int
) -> side.Built:
    """Returns a step that builds a dataset in a new process."""

    def step(_: Any) -> float:
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder, "dataset")
            command = [sys.executable, str(_BUILDER), f"--corpus={corpus}"]
            command += [f"--vocab_file={vocab_file}", f"--output_dir={output}"]
            command.append(f"--num_processes={num_processes}")
            finished = subprocess.run(command, capture_output=True, text=True)
            if finished.returncode:
                sys.exit(finished.stderr)
            splits = manifest.Index.load(output).splits.values()
            return sum(split.num_examples for split in splits)

    # Several processes work, so there is no memory of one to report.
    return side.Built(step, {}, ("electra-tf",), {"peak_memory": lambda: None})


if __name__ == "__main__":
    side.serve({"pretrain": pretrain, "finetune": finetune, "infer": infer,
                "input": read_input, "build": build_dataset})  # fmt: skip
