"""What a training takes on a device: memory and time, before it is run.

Products take their operations at a share of the device's peak; all else passes
over the saved activations, `_PASSES` times, at the bandwidth of its memory.
docs/pretraining.md compares that with measured runs.
"""

import os
import re
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf import errors
from electra_tf.config import schema
from electra_tf.pretraining import model as model_lib
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import devices
from electra_tf.training import distribution

# Fitted to NVIDIA's runs of Base on a V100 and an A100.
_PASSES = 8
# Of a device's memory; the rest is for what is not counted.
USABLE = 0.8
# Of a weight, its gradient and two moments; all but the gradient are saved.
_STATE_BYTES, CHECKPOINT_BYTES = 16, 12
# Of a micro-batch on a CPU: smaller ones are slower (docs/performance.md).
_CPU_TOKENS = 1024


class Topology(NamedTuple):
    """Hosts of equal devices; each device is a replica."""

    device: devices.Device
    num_hosts: int
    num_local: int  # devices of a host
    strategy: str  # `training.strategy`

    @property
    def num_replicas(self) -> int:
        """Devices of all hosts."""
        return self.num_hosts * self.num_local


class Cut(NamedTuple):
    """How a device takes its part of a batch."""

    num_parts: int  # micro-batches
    at_a_time: int = 1  # of them, side by side

    @property
    def is_shared(self) -> bool:
        """Whether each of several processors has parts of its own."""
        return 1 < self.at_a_time <= self.num_parts


class Plan(NamedTuple):
    """What a training takes on some devices of a kind."""

    cut: Cut | None  # None: none that the streams allow fits
    state_bytes: float  # weights, gradients and moments, on each device
    activation_bytes: float  # of what a device works on at a time
    tokens_per_second: float  # of all devices, padding included
    hours: float  # of all steps


def plan(
    settings: config.ExperimentConfig,
    device: devices.Device,
    count: int,
    num_weights: int,
) -> Plan:
    """Plans a training on `count` devices; speed is taken as linear in them.

    The config names the size of the vocabulary; `num_weights` are those of
    `count_weights`. `ConfigError` if the devices cannot share the streams.
    """
    precision = {"precision": device.precision}
    settings = schema.replace_fields(settings, training=precision)
    settings.check_devices(count)
    training, data = settings.training, settings.data
    work, saved = model_lib.Cost(settings), model_lib.Cost(settings, "saved")
    peak = device.peak or devices.peak_flops(device.name, device.precision)
    seconds = work.run_flops() / peak / device.efficiency
    seconds += _PASSES * saved.run_flops() / (1e9 * device.bandwidth)
    seconds /= count
    state = num_weights * (_STATE_BYTES + 4.0 * (training.ema_decay > 0))
    room = max(1.0, USABLE * 1e9 * device.memory - state)
    cut = cut_batch(settings, count, device.name == "CPU")
    shares = data.num_streams // count
    later = range(cut.num_parts, shares + 1)
    cuts = [cut, *(Cut(n) for n in later if shares % n == 0)]
    sizes = [activation_bytes(settings, count, num_weights, c) for c in cuts]
    first = next((i for i, size in enumerate(sizes) if size <= room), None)
    num_tokens = sum(p.num_tokens for p in config.split_phases(settings))
    return Plan(
        cut=None if first is None else cuts[first],
        state_bytes=state,
        activation_bytes=sizes[-1 if first is None else first],
        tokens_per_second=num_tokens / seconds,
        hours=seconds / 3600,
    )


def activation_bytes(
    settings: config.ExperimentConfig, count: int, num_weights: int, cut: Cut
) -> float:
    """What each of `count` devices holds of the parts that it works on."""
    work = model_lib.Cost(settings, "saved")
    largest = max(map(work.step_flops, work.phase_starts)) / count
    at_once = min(cut.at_a_time, cut.num_parts)
    # Each part has gradients of its own until they are added.
    own = 4.0 * num_weights * at_once if cut.num_parts > 1 else 0.0
    return largest * at_once / cut.num_parts + own


def cut_batch(
    settings: config.ExperimentConfig, count: int, is_cpu: bool
) -> Cut:
    """How each of `count` devices takes its part of a batch.

    In `training.num_micro_batches` parts, one after the other. Where that is 0,
    whole; on CPUs in as many parts as have enough tokens, side by side.
    """
    training, data = settings.training, settings.data
    is_whole = not is_cpu or training.jit_compile == "on"
    if training.num_micro_batches or is_whole:
        return Cut(training.num_micro_batches or 1)
    shares = data.num_streams // count
    num_tokens = training.train_batch_size * data.max_seq_length // count
    most = max(1, min(shares, num_tokens // _CPU_TOKENS))
    number = next(n for n in range(most, 0, -1) if shares % n == 0)
    return Cut(number, devices.num_processors())


def count_weights(settings: config.ExperimentConfig) -> int:
    """Trainable weights of all networks; none of them is allocated."""
    size, special = settings.encoder.vocab_size, vocabulary_lib.SPECIAL_TOKENS
    others = tuple(f"[unused{i}]" for i in range(size - len(special)))
    vocabulary = vocabulary_lib.Vocabulary(special + others)
    with tf.Graph().as_default():
        counts = np.ones(size, np.int64)
        model = model_lib.build_pretraining_model(settings, vocabulary, counts)
    return sum(v.value.shape.num_elements() for v in model.trainable_variables)


def read_topology(text: str, training: config.TrainingConfig) -> Topology:
    """The devices of `v4-32`, a TPU slice, of `4x8xA100`; "": this machine's.

    A slice counts cores, 8 on a host; the two of a v4 chip are one replica.
    """
    if not text:
        return _this_machine(training)
    names = sorted(
        {d.name for d in devices.DEVICES if not d.name.startswith("TPU")}
    )
    grid = re.fullmatch(rf"([1-9]\d*)x([1-9]\d*)x({'|'.join(names)})", text)
    if grid:
        hosts, local = int(grid[1]), int(grid[2])
        strategy = "mirrored" if local > 1 else "one_device"
        strategy = "multi_worker" if hosts > 1 else strategy
        device = _find_device(grid[3], training.precision)
        return Topology(device, hosts, local, strategy)
    part = re.fullmatch(r"v([234])-([1-9]\d*)", text)
    if part is None or int(part[2]) % 8:
        raise errors.ConfigError(
            "--topology must be a TPU slice of v2, v3 or v4 with a multiple of "
            "8 cores, such as v4-32, or HOSTSxDEVICESxNAME, such as 4x8xA100, "
            f"with one of {', '.join(names)}. Received: {text!r}."
        )
    device = _find_device(f"TPUv{part[1]}", training.precision)
    if part[1] == "4":
        return Topology(device, int(part[2]) // 8, 4, "tpu")
    half = {n: getattr(device, n) / 2 for n in ("memory", "bandwidth", "peak")}
    return Topology(device._replace(**half), int(part[2]) // 8, 8, "tpu")


def _this_machine(training: config.TrainingConfig) -> Topology:
    strategy, hosts = training.strategy, 1
    config.require(strategy != "tpu", "Name the TPU, such as --topology=v4-8.")
    if strategy == "multi_worker":
        others = distribution.read_cluster(os.environ.get("TF_CONFIG", ""))[1]
        hosts += len(others)
    kind = distribution.device_description(tf.distribute.get_strategy())
    names = [
        d.name for d in devices.DEVICES if re.search(rf"\b{d.name}\b", kind)
    ]
    gpus = tf.config.list_physical_devices("GPU")
    local = 1 if strategy == "one_device" else max(1, len(gpus))
    config.require(
        bool(names),
        f"Nothing is known of {kind}. Name the nearest device: "
        f"--topology={hosts}x{local}xA100.",
    )
    device = _find_device(names[0], training.precision)
    return Topology(device, hosts, local, strategy)


def _find_device(name: str, precision: str) -> devices.Device:
    known = {d.precision: d for d in devices.DEVICES if d.name == name}
    if name == "CPU" or precision == "float32":
        known.setdefault(precision, next(iter(known.values())))
    config.require_choice(f"precision on {name}", precision, tuple(known))
    return known[precision]._replace(precision=precision)
