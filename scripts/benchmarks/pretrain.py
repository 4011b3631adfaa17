"""The pre-training step of a config: the sides, and ours."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from benchmarks import side as side_lib
from benchmarks import timing
from electra_tf import config

TORCH_SIDES = ("transformers", "transformers_compiled")
SIDES = ("electra_tf", *TORCH_SIDES, "keras_hub")
# For configs that take the size from their dataset's vocabulary.
VOCAB_SIZE = 30_522
_PEAK_SECONDS = 0.2


def prepare(
    settings: Any, precision: str, batch_size: int
) -> config.ExperimentConfig:
    """Changes a `ConfigDict` to what is timed, and freezes it."""
    settings.data.phases = ""  # only the last phase is timed
    settings.training.precision = precision
    settings.training.train_batch_size = batch_size
    settings.encoder.vocab_size = settings.encoder.vocab_size or VOCAB_SIZE
    while batch_size % settings.data.num_streams:
        settings.data.num_streams -= 1
    return config.freeze(settings)


def list_sides(
    settings: config.ExperimentConfig,
    names: Sequence[str],
    kind: str = "pretrain",
    attention: str = "",
    peer_python: str = "",
) -> list[timing.Side]:
    """Returns the named sides; `ConfigError` if one lacks the objective."""
    # Imports TensorFlow, which mistaken flags need not wait for.
    from electra_tf.objectives import registry

    settings = registry.complete(settings)
    tying = settings.generator.weight_tying
    is_joint = settings.objective["name"] == "electra" and tying == "embeddings"
    config.require(
        is_joint or kind == "finetune" or {*names} == {"electra_tf"},
        "Only electra_tf has other objectives than ELECTRA with shared "
        f"embeddings. Received: objective {settings.objective['name']}, "
        f"sharing of {tying}. Take --sides=electra_tf, or another config.",
    )
    generator = settings.generator.encoder_config(settings.encoder)
    described = {
        "kind": kind,
        "settings": dataclasses.asdict(settings),
        "generator": dataclasses.asdict(generator),
    }
    group, sides = settings.training.precision, []
    for name in names:
        side = timing.Side(name, group, kind, described)
        if name == "keras_hub":
            side.module = "keras_hub_peer"
        if name in TORCH_SIDES:
            side.module, side.python = "torch_peer", peer_python
            compiles = name == "transformers_compiled"
            options = {"attention": attention, "compiles": compiles}
            side.description = described | options
        sides.append(side)
    return sides


def build(settings: dict[str, Any], generator: Any = None) -> side_lib.Built:
    """Builds our step on random ids and runs it once."""
    import tensorflow as tf

    from electra_tf.pretraining import cost
    from electra_tf.pretraining import micro_batches
    from electra_tf.pretraining import run
    from electra_tf.text import vocabulary as vocabulary_lib
    from electra_tf.training import distribution

    experiment = config.freeze(settings)
    cut = micro_batches.cut_batch(experiment, 1, True)
    distribution.configure_process(experiment.training, cut.is_shared)
    vocab_size = experiment.encoder.vocab_size
    special = vocabulary_lib.SPECIAL_TOKENS
    tokens = (f"[unused{i}]" for i in range(vocab_size - len(special)))
    model = run.build_model_and_optimizer(
        experiment, vocabulary_lib.Vocabulary((*special, *tokens))
    )
    data = experiment.data
    streams, length = data.num_streams, data.max_seq_length
    features = {
        name: tf.reshape(rows, [streams, -1, length])
        for name, rows in random_rows(experiment).items()
    } | {"stream_ids": tf.range(streams, dtype=tf.int64)}
    masked = model.prepare(features, tf.zeros([], tf.int64), True).masked
    flops, slots = cost.Cost(experiment).row_flops(), masked.masked_ids
    return build_step(
        model, features, experiment, flops / length, masked=slots.shape[1]
    )


def random_rows(settings: config.ExperimentConfig) -> dict[str, Any]:
    """Returns a batch of random ids without padding, `[B, S]` int32."""
    import tensorflow as tf

    shape = settings.training.train_batch_size, settings.data.max_seq_length
    size, seed = settings.encoder.vocab_size, [1, 2]
    ids = tf.random.stateless_uniform(shape, seed, 5, size, tf.int32)
    rest = {"input_mask": tf.ones_like(ids), "segment_ids": tf.zeros_like(ids)}
    return {"input_ids": ids, **rest}


def build_step(
    model: Any,
    features: dict[str, Any],
    settings: config.ExperimentConfig,
    flops_per_unit: float = 0.0,
    **sizes: Any,
) -> side_lib.Built:
    """Builds the training step of a model of ours that has its optimizer."""
    import tensorflow as tf

    from electra_tf import fusion
    from electra_tf.training import distribution

    training, length = settings.training, settings.data.max_seq_length
    scope = distribution.xla_scope(training)
    fusion.start_compiler()
    compiled = tf.function(
        model.training_step,
        autograph=False,
        jit_compile=scope is fusion.Scope.STEP or None,
    )

    begun: Any = ()

    def step(_: Any) -> float:
        nonlocal begun
        begun = compiled(features)
        return training.train_batch_size * length

    def wait() -> None:
        # The statistics exist only when the whole step is done.
        tf.nest.map_structure(lambda value: value.numpy(), begun)

    step(None)
    wait()
    sizes |= {
        "batch": [training.train_batch_size, length],
        "weights": sum(v.numpy().size for v in model.trained_variables),
        "dropout": settings.encoder.hidden_dropout_prob,
    }
    methods = {"peak_rates": lambda: measure_peaks(training.precision)}
    if has_gpu := bool(tf.config.list_physical_devices("GPU")):
        info = tf.config.experimental.get_memory_info
        methods["peak_memory"] = lambda: info("GPU:0")["peak"]
    packages = "tensorflow", "keras", "electra-tf"
    return side_lib.Built(
        step, sizes, packages, methods, flops_per_unit, wait, has_gpu
    )


def measure_peaks(precision: str) -> dict[str, float]:
    """Measures how fast the device can be: the best of many tries.

    Returns:
        `flops`, operations a second of products of square matrices, and
        `bytes` a second of adding one large array to another (two are read,
        one is written).
    """
    import tensorflow as tf

    from electra_tf.training import devices

    is_gpu = bool(tf.config.list_physical_devices("GPU"))
    flops = max(
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
    return {"flops": flops, "bytes": num_bytes}


if __name__ == "__main__":
    side_lib.serve({"pretrain": build})
