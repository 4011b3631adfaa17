"""What a training takes on a device: memory and time, before it is run.

Products take their operations at a share of the device's peak; all else passes
over the saved activations, `_PASSES` times, at the bandwidth of its memory.
docs/pretraining.md compares that with measured runs.
"""

import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf.config import schema
from electra_tf.pretraining import cost
from electra_tf.pretraining import model as model_lib
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import distribution

# Both fitted to NVIDIA's runs of Base on a V100 and an A100.
_PASSES = 8
_MATRIX_UNITS, _OTHER_UNITS = 0.4, 0.65
# Of a device's memory; the rest is for what is not counted.
_USABLE = 0.8
_GB = 1e9
# Weight, gradient and two moments; the last three for each checkpoint.
_STATE_BYTES, _CHECKPOINT_BYTES = 16, 12


class Device(NamedTuple):
    """A device in one precision, from its data sheet."""

    name: str
    precision: str
    memory: float  # bytes
    bandwidth: float  # bytes a second
    efficiency: float = _MATRIX_UNITS  # share of the peak that products reach
    peak: float = 0.0  # operations a second; 0: see `distribution.peak_flops`

    @property
    def flops(self) -> float:
        """Operations a second of its matrix products in a training."""
        peak = self.peak or distribution.peak_flops(self.name, self.precision)
        return self.efficiency * peak


DEVICES = (
    # Two cores of an AMD EPYC, as docs/performance.md measures them.
    Device("CPU", "float32", 16 * _GB, 50 * _GB, _OTHER_UNITS, 145e9),
    Device("T4", "float16", 16 * _GB, 320 * _GB),
    Device("V100", "float32", 16 * _GB, 900 * _GB, _OTHER_UNITS),
    Device("V100", "float16", 16 * _GB, 900 * _GB),
    Device("A100", "float32", 40 * _GB, 1555 * _GB),
    Device("A100", "bfloat16", 40 * _GB, 1555 * _GB),
    Device("H100", "float32", 80 * _GB, 3350 * _GB),
    Device("H100", "bfloat16", 80 * _GB, 3350 * _GB),
    # A chip each.
    Device("TPUv2", "bfloat16", 16 * _GB, 700 * _GB, peak=46e12),
    Device("TPUv3", "bfloat16", 32 * _GB, 900 * _GB, peak=123e12),
    Device("TPUv4", "bfloat16", 32 * _GB, 1200 * _GB, peak=275e12),
)


class Plan(NamedTuple):
    """What a training takes on some devices of a kind."""

    num_micro_batches: int  # 0: no number that the streams allow fits
    state_bytes: float  # weights, gradients and moments, on each device
    activation_bytes: float  # of a micro-batch, on each device
    tokens_per_second: float  # of all devices, padding included
    hours: float  # of all steps


def plan(
    settings: config.ExperimentConfig,
    device: Device,
    count: int,
    num_weights: int,
) -> Plan:
    """Plans a training on `count` devices; speed is taken as linear in them.

    The config names the size of the vocabulary. `num_weights` is
    `count_weights`. `ConfigError` if the devices cannot share the streams.
    """
    settings = schema.replace_fields(
        settings, training={"precision": device.precision}
    )
    settings.check_devices(count)
    training, data = settings.training, settings.data
    work, saved = cost.Cost(settings), cost.Cost(settings, "saved")
    seconds = work.run_flops() / device.flops
    seconds += _PASSES * saved.run_flops() / device.bandwidth
    seconds /= count
    num_bytes = _STATE_BYTES + 4 * (training.ema_decay > 0)
    state = float(num_weights * num_bytes)
    largest = max(map(saved.step_flops, saved.phase_starts)) / count
    room = _USABLE * device.memory - state
    shares = data.num_streams // count
    parts = max(training.num_micro_batches, math.ceil(largest / max(room, 1)))
    fitting = (n for n in range(parts, shares + 1) if shares % n == 0)
    number = next(fitting, 0)
    rows = training.num_train_steps * training.train_batch_size
    return Plan(
        num_micro_batches=number,
        state_bytes=state,
        activation_bytes=largest / (number or shares),
        tokens_per_second=rows * data.max_seq_length / seconds,
        hours=seconds / 3600,
    )


def count_weights(settings: config.ExperimentConfig) -> int:
    """Trainable weights of all networks; none of them is allocated."""
    size = settings.encoder.vocab_size
    tokens = vocabulary_lib.SPECIAL_TOKENS
    tokens += tuple(f"[unused{i}]" for i in range(size - len(tokens)))
    with tf.Graph().as_default():
        model = model_lib.build_pretraining_model(
            settings, vocabulary_lib.Vocabulary(tokens), np.ones(size, np.int64)
        )
    return sum(v.value.shape.num_elements() for v in model.trainable_variables)


def checkpoint_bytes(num_weights: int) -> int:
    """Size of a checkpoint on disk."""
    return _CHECKPOINT_BYTES * num_weights


def record_bytes(max_seq_length: int) -> int:
    """Size of a row in the records, about; fitted to rows of 32 and 128."""
    return 60 + 4 * max_seq_length
