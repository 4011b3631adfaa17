"""The catalogue of devices, their measured rates, and micro-batches on them.

Memory, bandwidth and peak rates are from the vendors' data sheets.
"""

import os
import re
import time
from collections.abc import Callable
from concurrent import futures
from typing import Any, NamedTuple

import tensorflow as tf

from electra_tf import config

# The shares of the peak rate that matrix products reach with and without
# matrix units, fitted to NVIDIA's runs of Base on a V100 and an A100.
_MATRIX_UNITS, _OTHER_UNITS = 0.4, 0.65


class Device(NamedTuple):
    """A device in one precision."""

    name: str
    precision: str
    memory: float  # GB
    bandwidth: float  # GB a second
    efficiency: float = _MATRIX_UNITS  # share of the peak that products reach
    peak: float = 0.0  # operations a second; 0: see `peak_flops`
    num_cores: int = 1  # how many devices a program sees


DEVICES = (
    # Two cores of an AMD EPYC; docs/performance.md has the measurement.
    Device("CPU", "float32", 16, 50, _OTHER_UNITS, 145e9),
    Device("T4", "float16", 16, 320),
    Device("V100", "float32", 16, 900, _OTHER_UNITS),
    Device("V100", "float16", 16, 900),
    Device("A100", "float32", 40, 1555),
    Device("A100", "bfloat16", 40, 1555),
    Device("H100", "float32", 80, 3350),
    Device("H100", "bfloat16", 80, 3350),
    Device("H200", "float32", 141, 4800),
    Device("H200", "bfloat16", 141, 4800),
    # Each entry is one chip.
    Device("TPUv2", "bfloat16", 16, 700, peak=46e12, num_cores=2),
    Device("TPUv3", "bfloat16", 32, 900, peak=123e12, num_cores=2),
    Device("TPUv4", "bfloat16", 32, 1228, peak=275e12),
    Device("TPUv5e", "bfloat16", 16, 819, peak=197e12),
    Device("TPUv6e", "bfloat16", 32, 1638, peak=918e12),
)
# Peak operations a second of dense matrix products in 16 and in 32 bits (TF32
# where the device has it), by a part of the driver's name for the device.
_PEAKS = {
    "H200": (989e12, 494e12),
    "GH200": (989e12, 494e12),
    "H100 PCIe": (756e12, 378e12),
    "H100": (989e12, 494e12),
    "A100": (312e12, 156e12),
    "L40S": (362e12, 183e12),
    "L4": (121e12, 60e12),
    "A10": (125e12, 62e12),
    "A10G": (70e12, 35e12),
    "V100": (125e12, 15.7e12),
    "T4": (65e12, 8.1e12),
}
# Smaller micro-batches are slower on CPUs (docs/performance.md).
_CPU_TOKENS = 1024


class Cut(NamedTuple):
    """The micro-batches of a device."""

    num_parts: int  # micro-batches in a step
    at_a_time: int = 1  # micro-batches that are computed side by side

    @property
    def is_shared(self) -> bool:
        """Whether several processors compute different micro-batches."""
        return 1 < self.at_a_time <= self.num_parts


def cut_batch(
    settings: config.ExperimentConfig, count: int, is_cpu: bool
) -> Cut:
    """Chooses the micro-batches of each of `count` devices.

    `training.num_micro_batches` are computed one after another. If it is 0,
    there is one, but on CPUs as many as have 1,024 tokens, side by side.
    """
    training, data = settings.training, settings.data
    is_whole = not is_cpu or training.jit_compile == "on"
    if training.num_micro_batches or is_whole:
        return Cut(training.num_micro_batches or 1)
    shares = data.num_streams // count
    num_tokens = training.train_batch_size * data.max_seq_length // count
    most = max(1, min(shares, num_tokens // _CPU_TOKENS))
    number = next(n for n in range(most, 0, -1) if shares % n == 0)
    return Cut(number, num_processors())


def peak_flops(description: str, precision: str) -> float:
    """Returns a device's peak rate of matrix products, in operations a second.

    `description` comes from `distribution.device_description`. CPUs are
    measured, for half a second; unknown accelerators have the rate 0.
    """
    for name, (half, single) in _PEAKS.items():
        if re.search(rf"\b{name}\b", description):
            return single if precision == "float32" else half
    if "CPU" in description:
        return measure_products(precision, 1024, 0.5)
    return 0.0


def measure_products(precision: str, size: int, seconds: float) -> float:
    """Measures the operations a second of products of square matrices."""
    matrix = tf.ones([size, size], tf.as_dtype(precision)) / size
    # Reading an entry waits for the whole product.
    return best_rate(
        lambda _: tf.matmul(matrix, matrix)[0, 0].numpy(),
        2.0 * size**3,
        seconds,
    )


def best_rate(
    work: Callable[[int], Any], amount: float, seconds: float
) -> float:
    """Returns the highest rate of `work` in some seconds of repetitions.

    The highest is taken because other processes disturb most repetitions. A
    call of `work` does an `amount`, for example of operations. It gets the
    number of a thread: if operations have one thread, each processor calls it.
    """
    threads = tf.config.threading.get_intra_op_parallelism_threads()
    count = num_processors() if threads == 1 else 1
    with futures.ThreadPoolExecutor(count) as pool:
        best, end = 0.0, time.perf_counter() + seconds
        while (start := time.perf_counter()) < end:
            [*pool.map(work, range(count))]
            best = max(best, count * amount / (time.perf_counter() - start))
    return best


def num_processors() -> int:
    """Returns the number of processors that TensorFlow uses in this process."""
    chosen: int = tf.config.threading.get_inter_op_parallelism_threads()
    if not chosen and hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))  # a container may have fewer
    return chosen or os.cpu_count() or 1
