"""Our side of each kind of benchmark."""

import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks import pretrain as steps
from benchmarks import side
from electra_tf import config
from electra_tf import fusion
from electra_tf import storage
from electra_tf.inputs import dataset
from electra_tf.inputs import pipeline
from electra_tf.modeling import flops
from electra_tf.pretraining import cost
from electra_tf.pretraining import run
from electra_tf.records import manifest
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import devices
from electra_tf.training import distribution

_BUILDER = pathlib.Path(__file__).parents[1] / "build_pretraining_dataset.py"
_SIGNATURE = "score_text"
# Of a step of input: enough that the batches that were prefetched do not count.
_NUM_BATCHES = 50
_PEAK_SECONDS = 0.2


def pretrain(settings: dict[str, Any], generator: Any = None) -> side.Built:
    """Builds our pre-training step on random ids and runs it once."""
    experiment = config.freeze(settings)
    cut = devices.cut_batch(experiment, 1, True)
    distribution.configure_process(experiment.training, cut.is_shared)
    model, features = _build_model(experiment)
    masked = model.prepare(features, tf.zeros([], tf.int64), True).masked
    row_flops = cost.Cost(experiment).row_flops()
    sizes = {"masked": masked.masked_ids.shape[1]}
    return _build_own_step(model, features, experiment, row_flops, **sizes)


def write_program(
    experiment: config.ExperimentConfig, path: pathlib.Path
) -> None:
    """Writes our step as the HLO that the compiler of a device gets."""
    model, features = _build_model(experiment)
    model.xla_scope = fusion.Scope.STEP
    step = tf.function(model.training_step, autograph=False, jit_compile=True)
    compiled = step.experimental_get_compiler_ir(features)
    path.write_bytes(compiled(stage="hlo_serialized"))


def _build_model(
    experiment: config.ExperimentConfig,
) -> tuple[Any, dict[str, tf.Tensor]]:
    """The model of a config, and a batch of random rows."""
    vocab_size = experiment.encoder.vocab_size
    special = vocabulary_lib.SPECIAL_TOKENS
    tokens = (f"[unused{i}]" for i in range(vocab_size - len(special)))
    model = run.build_model_and_optimizer(
        experiment, vocabulary_lib.Vocabulary((*special, *tokens))
    )
    data = experiment.data
    features = {
        name: tf.reshape(rows, [data.num_streams, -1, data.max_seq_length])
        for name, rows in steps.random_rows(experiment).items()
    }
    numbers = tf.range(data.num_streams, dtype=tf.int64)
    return model, features | {"stream_ids": numbers}


def finetune(settings: dict[str, Any], generator: Any = None) -> side.Built:
    """Builds the step of a classifier with the head of transformers."""
    # Here, because they would count in the start of `pretrain`.
    from electra_tf.finetuning import model as finetuning_model
    from electra_tf.modeling import task_heads

    experiment = config.freeze(settings)
    distribution.configure_process(experiment.training)
    encoder = finetuning_model.build_encoder(
        experiment.encoder, experiment.training.precision
    )
    head = task_heads.ClassificationHead(
        2, seed=1, has_hidden_layer=True, dtype=encoder.dtype_policy
    )
    head.build((None, None, experiment.encoder.hidden_size))
    model = finetuning_model.FinetuningModel(
        encoder, {"own": head}, clip_norm=experiment.optimizer.clip_norm
    )
    model.optimizer = run.build_optimizer(experiment)
    model.optimizer.build(model.trained_variables)
    numbers = tf.range(experiment.training.train_batch_size)
    features = steps.random_rows(experiment) | {
        "task_id": tf.zeros_like(numbers),
        "own/label": numbers % 2,
    }
    count = flops.Convention("exact", experiment)
    # The head is applied to the first token only, not to all of them.
    others = (experiment.data.max_seq_length - 1) * count.row_head().total
    row_flops = count.discriminator().total - others
    return _build_own_step(model, features, experiment, row_flops)


def _build_own_step(
    model: Any,
    features: dict[str, Any],
    settings: config.ExperimentConfig,
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
    """Measures how fast the device can be: the best of many tries.

    Returns:
        `flops`, operations a second of products of square matrices, and
        `bytes` a second of adding one large array to another (two are read,
        one is written).
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
