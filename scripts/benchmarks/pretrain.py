"""The pre-training step: ours, transformers' and KerasHub's."""

import dataclasses
import sys
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

from benchmarks import side
from benchmarks import timing
from electra_tf import config

SIDES = ("electra_tf", "keras_hub", "transformers", "transformers_compiled")
# What a config is timed with that takes its dataset's vocabulary.
_VOCAB_SIZE = 30_522


def describe(settings: config.ExperimentConfig) -> dict[str, Any]:
    """What the peers must know of a config, as JSON.

    `ConfigError` for what their step is not written for.
    """
    objective, generator = settings.objective, settings.generator
    config.require(
        objective.name == "electra"
        and generator.weight_tying == "embeddings"
        and not (generator.two_tower_generator or settings.masking.whole_word)
        and generator.has_encoder,
        "The peers' step is that of ELECTRA with a generator that shares its "
        f"embeddings alone. Received: {objective.name} and {generator}. Take "
        "--sides=electra_tf.",
    )
    encoders = settings.encoder, generator.encoder_config(settings.encoder)
    return {
        "encoders": [dataclasses.asdict(encoder) for encoder in encoders],
        "rows": settings.training.train_batch_size,
        "length": settings.data.max_seq_length,
        "precision": settings.training.precision,
        "mask_prob": settings.masking.mask_prob,
        "replace_prob": settings.masking.replace_prob,
        "factors": [objective.gen_weight, objective.disc_weight],
        "optimizer": dataclasses.asdict(settings.optimizer),
    }


def prepare(
    settings: Any, precision: str, batch_size: int
) -> config.ExperimentConfig:
    """The config as it is timed: a `ConfigDict`, changed and frozen."""
    settings.training.precision = precision
    settings.training.train_batch_size = batch_size
    settings.encoder.vocab_size = settings.encoder.vocab_size or _VOCAB_SIZE
    while batch_size % settings.data.num_streams:
        settings.data.num_streams -= 1
    return config.freeze(settings)


def programs(
    variants: Sequence[config.ExperimentConfig],
    sides: Sequence[str],
    peer: dict[str, Any],
    peer_python: str,
    kind: str = "pretrain",
) -> list[timing.Program]:
    """A program for each side and precision, those of a precision together."""
    found = []
    for settings in variants:
        for name in sides:
            module, python = kind, sys.executable
            if name == "electra_tf":
                described = {"settings": dataclasses.asdict(settings)}
            else:
                module, described = "keras_hub_peer", describe(settings)
            if name.startswith("transformers"):
                module, python = "torch_peer", peer_python
                compiles = name == "transformers_compiled"
                described |= {**peer, "compiles": compiles}
            described["kind"] = kind
            group = settings.training.precision
            found.append(timing.Program(name, group, module, described, python))
    return found


def build(settings: dict[str, Any]) -> side.Built:
    """Our step on random ids, after its first run."""
    import tensorflow as tf

    from electra_tf.pretraining import cost
    from electra_tf.pretraining import run
    from electra_tf.text import vocabulary as vocabulary_lib
    from electra_tf.training import distribution

    experiment = config.freeze(settings)
    training, data = experiment.training, experiment.data
    distribution.configure_process(training)
    vocab_size = experiment.encoder.vocab_size
    special = vocabulary_lib.SPECIAL_TOKENS
    tokens = (f"[unused{i}]" for i in range(vocab_size - len(special)))
    model = run.build_model_and_optimizer(
        experiment, vocabulary_lib.Vocabulary((*special, *tokens))
    )
    rows = training.train_batch_size // data.num_streams
    shape = [data.num_streams, rows, data.max_seq_length]
    ids = tf.random.stateless_uniform(shape, [1, 2], 5, vocab_size, tf.int32)
    features = {
        "input_ids": ids,
        "input_mask": tf.ones_like(ids),
        "segment_ids": tf.zeros_like(ids),
        "stream_ids": tf.range(data.num_streams, dtype=tf.int64),
    }
    masked = model.prepare(features, tf.constant(0, tf.int64), True).masked
    sizes = {
        "rows": training.train_batch_size,
        "length": data.max_seq_length,
        "masked positions": masked.masked_positions.shape[1],
        "weights": model.count_params(),
        "dropout": experiment.encoder.hidden_dropout_prob,
    }
    flops = cost.Cost(experiment).row_flops() / data.max_seq_length
    return build_step(model, features, training, sizes, flops)


def build_step(
    model: Any,
    features: dict[str, Any],
    training: config.TrainingConfig,
    sizes: dict[str, Any],
    flops_per_unit: float = 0.0,
) -> side.Built:
    """The training step of a model of ours that has its optimizer."""
    import tensorflow as tf

    from electra_tf.training import distribution

    run_step = tf.function(
        model.training_step,
        autograph=False,
        jit_compile=distribution.compiles_with_xla(training) or None,
    )

    def step(_: Any) -> float:
        # What it returns is there once all of it is done.
        for value in run_step(features).values():
            value.numpy()
        return sizes["rows"] * sizes["length"]

    step(None)
    methods = tensorflow_methods(training.precision)
    packages = "tensorflow", "keras", "electra-tf"
    return side.Built(step, sizes, packages, methods, flops_per_unit)


def tensorflow_methods(precision: str) -> dict[str, Callable[..., Any]]:
    """The memory and the peak rates of TensorFlow's device."""
    import tensorflow as tf

    is_gpu = bool(tf.config.list_physical_devices("GPU"))

    def product(size: int) -> Callable[[], Any]:
        matrix = tf.ones([size, size], tf.as_dtype(precision)) / size
        return lambda: tf.matmul(matrix, matrix)[0, 0].numpy()

    def addition(count: int) -> Callable[[], Any]:
        array, ones = tf.Variable(tf.zeros(count)), tf.ones(count)
        return lambda: array.assign_add(ones)[0].numpy()

    def peak_memory() -> int:
        if is_gpu:
            return tf.config.experimental.get_memory_info("GPU:0")["peak"]
        return side.peak_memory()

    return {
        "peak_memory": peak_memory,
        "peak_rates": lambda: side.peak_rates(product, addition, is_gpu),
    }


if __name__ == "__main__":
    side.serve({"pretrain": build})
