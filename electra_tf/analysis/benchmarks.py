"""How fast a training step and the input pipeline run on this machine."""

import pathlib
import resource
import statistics
import time
from typing import NamedTuple

import tensorflow as tf

from electra_tf import config
from electra_tf.inputs import dataset
from electra_tf.inputs import pipeline
from electra_tf.inputs import streams
from electra_tf.pretraining import cost
from electra_tf.pretraining import model as model_lib
from electra_tf.pretraining import run
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import distribution


class StepTiming(NamedTuple):
    """What `time_training_step` measured; rates are at the median step."""

    startup_seconds: float  # building, tracing, compiling, the first step
    step_seconds: tuple[float, ...]  # each further step, in order
    tokens_per_second: float
    share_of_peak: float  # of the device's matrix products
    peak_memory_bytes: int  # of the accelerator, or of the process on a CPU
    last_losses: dict[str, float]  # metrics of the last step


def time_training_step(
    settings: config.ExperimentConfig, num_steps: int, vocab_size: int = 30522
) -> StepTiming:
    """Times the training step on random ids, one device, one call per step."""
    start = time.perf_counter()
    if settings.training.deterministic:
        tf.config.experimental.enable_op_determinism()
    tokens = tuple(f"[unused{i}]" for i in range(vocab_size - 5))
    vocabulary = vocabulary_lib.Vocabulary(
        vocabulary_lib.SPECIAL_TOKENS + tokens,
        vocabulary_lib.TokenizerSettings(),
    )
    model = run.build_model_and_optimizer(settings, vocabulary)
    features = _random_features(settings, vocab_size)
    step = tf.function(
        model.training_step,
        autograph=False,
        jit_compile=distribution.compiles_with_xla(settings.training) or None,
    )
    seconds = []
    for _ in range(num_steps + 1):
        sums = {name: value.numpy() for name, value in step(features).items()}
        seconds.append(time.perf_counter() - start)
        start = time.perf_counter()
    median = statistics.median(seconds[1:])
    operations = cost.Cost(model_lib.resolve(settings, vocab_size))
    device = distribution.device_description(tf.distribute.get_strategy())
    peak = distribution.peak_flops(device, settings.training.precision)
    return StepTiming(
        startup_seconds=seconds[0],
        step_seconds=tuple(seconds[1:]),
        tokens_per_second=tf.size(features["input_ids"]).numpy() / median,
        share_of_peak=operations.step_flops() / median / peak if peak else 0.0,
        peak_memory_bytes=_peak_memory(),
        last_losses=model.summarize(sums),
    )


def time_input_pipeline(
    dataset_dir: pathlib.Path,
    settings: config.ExperimentConfig,
    num_batches: int,
) -> float:
    """Tokens per second that the input pipeline alone delivers."""
    vocabulary = dataset.load_vocabulary(dataset_dir)
    length = settings.data.max_seq_length
    split = dataset.open_split(dataset_dir / "train", vocabulary, length)
    rows = settings.training.train_batch_size
    order = streams.StreamOrder(
        split.shard_sizes,
        settings.data.num_streams,
        rows,
        settings.training.seed,
        settings.data.shuffle_block,
    )
    iterator = iter(pipeline.build_training_dataset(split, order))
    next(iterator)
    start = time.perf_counter()
    for _ in range(num_batches):
        next(iterator)
    return num_batches * rows * length / (time.perf_counter() - start)


def _random_features(
    settings: config.ExperimentConfig, vocab_size: int
) -> dict[str, tf.Tensor]:
    num_streams = settings.data.num_streams
    rows = settings.training.train_batch_size // num_streams
    shape = [num_streams, rows, settings.data.max_seq_length]
    ids = tf.random.stateless_uniform(shape, [1, 2], 5, vocab_size, tf.int32)
    return {
        "input_ids": ids,
        "input_mask": tf.ones_like(ids),
        "segment_ids": tf.zeros_like(ids),
        "stream_ids": tf.range(num_streams, dtype=tf.int64),
    }


def _peak_memory() -> int:
    if tf.config.list_physical_devices("GPU"):
        return tf.config.experimental.get_memory_info("GPU:0")["peak"]
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
