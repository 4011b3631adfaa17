"""Estimates operations, memory and time of a training from its config.

The time has two parts: matrix products, at a share of the device's peak rate,
and `_PASSES` passes over the saved activations, at the memory's bandwidth.
docs/pretraining.md compares estimates with measured runs.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf.config import schema
from electra_tf.modeling import flops
from electra_tf.objectives import registry
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import devices

# Fitted to NVIDIA's runs of Base on a V100 and an A100.
_PASSES = 8
MASKED_LM_PAYS, ELECTRA_PAYS = 4.7e14, 1.57e16
"""In docs/results.md masked LM learned more up to the first number of
operations, ELECTRA from the second on. Between them it depended on the task."""
# The share of a device's memory that an estimate may fill.
_USABLE = 0.8
# For each weight: itself, its gradient and two moments, float32. Checkpoints
# have no gradient.
_STATE_BYTES, CHECKPOINT_BYTES = 16, 12


class Cost:
    """Counts the operations of a run by a convention of `modeling.flops`."""

    def __init__(
        self, settings: config.ExperimentConfig, convention: str = "exact"
    ) -> None:
        settings = registry.complete(settings)
        self.settings = settings
        self._objective = registry.find(settings)
        self._phases = [
            (phase, flops.Convention(convention, phase.settings))
            for phase in config.split_phases(settings)
        ]
        self.convention = self._phases[-1][1]
        starts = {phase.start for phase, _ in self._phases}
        starts |= {*self._objective.stages(settings)}
        self.starts = tuple(sorted(starts))

    def row_flops(self, step: int = 0) -> float:
        """Counts the operations of training on one row at a step."""
        convention = self._find_phase(step)[1]
        return self._objective.training_flops(convention, step)

    def step_flops(self, step: int = 0) -> float:
        """Counts the operations of a step on the global batch."""
        batch = self._find_phase(step)[0].settings.training.train_batch_size
        return self.row_flops(step) * batch

    def _find_phase(
        self, step: int
    ) -> tuple[config.RowPhase, flops.Convention]:
        return next(p for p in reversed(self._phases) if p[0].start <= step)

    def flops_until(self, num_steps: int) -> float:
        """Counts the operations of the first `num_steps` steps."""
        ends = (*self.starts[1:], num_steps)
        return sum(
            max(0, min(end, num_steps) - start) * self.step_flops(start)
            for start, end in zip(self.starts, ends, strict=True)
        )

    def run_flops(self) -> float:
        """Counts the operations of the whole run."""
        return self.flops_until(self.settings.training.num_train_steps)

    def inference_flops(self) -> float:
        """Counts the operations of the main network on one row."""
        return self._objective.main_flops(self.convention).forward


class Estimate(NamedTuple):
    """Memory and time of a training on some devices of a kind."""

    cut: devices.Cut | None  # None: the training does not fit into memory
    state_bytes: float  # weights, gradients and moments, on each device
    activation_bytes: float  # saved activations, on each device
    tokens_per_second: float  # of all devices, padding included
    hours: float  # of all steps


def estimate(
    settings: config.ExperimentConfig,
    device: devices.Device,
    count: int,
    num_weights: int,
) -> Estimate:
    """Estimates a training on `count` devices, with a speed linear in `count`.

    The config must have the size of the vocabulary; `num_weights` is the result
    of `count_weights`. Raises `ConfigError` if the devices cannot share the
    streams.
    """
    precision = {"precision": device.precision}
    settings = schema.replace_fields(settings, training=precision)
    settings.check_devices(count)
    training, data = settings.training, settings.data
    work, saved = Cost(settings), Cost(settings, "saved")
    peak = device.peak or devices.peak_flops(device.name, device.precision)
    seconds = work.run_flops() / peak / device.efficiency
    seconds += _PASSES * saved.run_flops() / (1e9 * device.bandwidth)
    seconds /= count
    state = num_weights * (_STATE_BYTES + 4.0 * (training.ema_decay > 0))
    room = max(1.0, _USABLE * 1e9 * device.memory - state)
    least = devices.cut_batch(settings, count, device.name == "CPU")
    shares = data.num_streams // count
    more = range(least.num_parts, shares + 1)
    largest = max(map(saved.step_flops, saved.starts)) / count
    for cut in [least, *(devices.Cut(n) for n in more if shares % n == 0)]:
        at_once = min(cut.at_a_time, cut.num_parts)
        # Micro-batches have separate gradients until these are summed.
        extra = 4.0 * num_weights * at_once if cut.num_parts > 1 else 0.0
        size = largest * at_once / cut.num_parts + extra
        if size <= room:
            break
    num_tokens = sum(p.num_tokens for p in config.split_phases(settings))
    return Estimate(
        cut=cut if size <= room else None,
        state_bytes=state,
        activation_bytes=size,
        tokens_per_second=num_tokens / seconds,
        hours=seconds / 3600,
    )


def count_weights(settings: config.ExperimentConfig) -> int:
    """Counts the trainable weights of all networks without allocating them."""
    size, special = settings.encoder.vocab_size, vocabulary_lib.SPECIAL_TOKENS
    others = tuple(f"[unused{i}]" for i in range(size - len(special)))
    vocabulary = vocabulary_lib.Vocabulary(special + others)
    with tf.Graph().as_default():
        counts = np.ones(size, np.int64)
        model = registry.build_model(settings, vocabulary, counts)
    return sum(v.value.shape.num_elements() for v in model.trainable_variables)
