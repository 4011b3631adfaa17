"""How fast a training step and the input pipeline run on this machine."""

import dataclasses
import pathlib
import resource
import statistics
import time

import tensorflow as tf

from electra_tf import config
from electra_tf.inputs import pipeline
from electra_tf.inputs import streams
from electra_tf.pretraining import compute
from electra_tf.pretraining import dataset
from electra_tf.pretraining import model as model_lib
from electra_tf.pretraining import run
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import distribution


@dataclasses.dataclass(frozen=True)
class StepTiming:
    """What `time_training_step` measured.

    Attributes:
        startup_seconds: building, tracing, compiling and the first step.
        step_seconds: each further step, in order.
        tokens_per_step: rows times row length.
        share_of_peak: of the device's matrix products, at the median step.
        peak_memory_bytes: of the accelerator, or of the process on a CPU.
        last_losses: metrics of the last step.
    """

    startup_seconds: float
    step_seconds: tuple[float, ...]
    tokens_per_step: int
    share_of_peak: float
    peak_memory_bytes: int
    last_losses: dict[str, float]

    @property
    def tokens_per_second(self) -> float:
        """At the median step."""
        return self.tokens_per_step / statistics.median(self.step_seconds)


def time_training_step(
    settings: config.ExperimentConfig, num_steps: int, vocab_size: int = 30522
) -> StepTiming:
    """Times the training step on random ids, one device, one call per step.

    Args:
        settings: model, batch, precision and compilation.
        num_steps: steps to time after the first.
        vocab_size: of the made-up vocabulary.

    Returns:
        The timings.
    """
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
    startup, *timed = seconds
    rows = settings.training.train_batch_size
    length = settings.data.max_seq_length
    operations = compute.Compute(
        model_lib.resolve(settings, vocab_size)
    ).step_flops()
    device = distribution.device_description(tf.distribute.get_strategy())
    peak = distribution.peak_flops(device, settings.training.precision)
    achieved = operations / statistics.median(timed)
    return StepTiming(
        startup_seconds=startup,
        step_seconds=tuple(timed),
        tokens_per_step=rows * length,
        share_of_peak=achieved / peak if peak else 0.0,
        peak_memory_bytes=_peak_memory(),
        last_losses=model.summarize(sums),
    )


def time_input_pipeline(
    dataset_dir: pathlib.Path,
    settings: config.ExperimentConfig,
    num_batches: int,
) -> float:
    """Tokens per second that the input pipeline alone delivers.

    Args:
        dataset_dir: a dataset of rows of the config's length.
        settings: batch size, streams and shuffling.
        num_batches: global batches to take after the first.
    """
    vocabulary = dataset.load_vocabulary(dataset_dir)
    length = settings.data.max_seq_length
    split = pipeline.open_split(dataset_dir / "train", vocabulary, length)
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
