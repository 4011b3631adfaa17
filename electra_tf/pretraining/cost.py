"""What a training costs: operations, memory and time, from its config alone.

In an estimate products take their operations at a share of the device's peak;
all else passes over the saved activations, `_PASSES` times, at the bandwidth of
its memory. docs/pretraining.md compares that with measured runs.
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
"""Operations up to which masked LM learned more in docs/results.md, and from
which ELECTRA did. Between them nothing was measured."""
# Of a device's memory; the rest is for what is not counted.
_USABLE = 0.8
# Of a weight, its gradient and two moments; all but the gradient are saved.
_STATE_BYTES, CHECKPOINT_BYTES = 16, 12


class Cost:
    """Training operations of a run, counted `original` or `exact`."""

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
        """Operations of training on one row at a step."""
        convention = self._find_phase(step)[1]
        return self._objective.training_flops(convention, step)

    def step_flops(self, step: int = 0) -> float:
        """Operations of a step on the global batch."""
        batch = self._find_phase(step)[0].settings.training.train_batch_size
        return self.row_flops(step) * batch

    def _find_phase(
        self, step: int
    ) -> tuple[config.RowPhase, flops.Convention]:
        return next(p for p in reversed(self._phases) if p[0].start <= step)

    def flops_until(self, num_steps: int) -> float:
        """Operations of the first `num_steps` steps of a run."""
        ends = (*self.starts[1:], num_steps)
        return sum(
            max(0, min(end, num_steps) - start) * self.step_flops(start)
            for start, end in zip(self.starts, ends, strict=True)
        )

    def run_flops(self) -> float:
        """Operations of the whole run."""
        return self.flops_until(self.settings.training.num_train_steps)

    def inference_flops(self) -> float:
        """Operations of the main network on one row."""
        return self._objective.main_flops(self.convention).forward


class Estimate(NamedTuple):
    """Memory and time of a training on some devices of a kind."""

    cut: devices.Cut | None  # None: none that the streams allow fits
    state_bytes: float  # weights, gradients and moments, on each device
    activation_bytes: float  # of what a device works on at a time
    tokens_per_second: float  # of all devices, padding included
    hours: float  # of all steps


def estimate(
    settings: config.ExperimentConfig,
    device: devices.Device,
    count: int,
    num_weights: int,
) -> Estimate:
    """Estimates a training on `count` devices, with speed linear in them.

    The config names the size of the vocabulary; `num_weights` are those of
    `count_weights`. `ConfigError` if the devices cannot share the streams.
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
        # Each part has gradients of its own until they are added.
        own = 4.0 * num_weights * at_once if cut.num_parts > 1 else 0.0
        size = largest * at_once / cut.num_parts + own
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
    """Trainable weights of all networks; none of them is allocated."""
    size, special = settings.encoder.vocab_size, vocabulary_lib.SPECIAL_TOKENS
    others = tuple(f"[unused{i}]" for i in range(size - len(special)))
    vocabulary = vocabulary_lib.Vocabulary(special + others)
    with tf.Graph().as_default():
        counts = np.ones(size, np.int64)
        model = registry.build_model(settings, vocabulary, counts)
    return sum(v.value.shape.num_elements() for v in model.trainable_variables)
