"""Builds TensorFlow strategies and reports hosts that are missing or differ."""

import contextlib
import functools
import hashlib
import json
import logging
import os
import re
import reprlib
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf import errors
from electra_tf import fusion
from electra_tf.config import finetuning as finetuning_config
from electra_tf.inputs import pipeline

Settings = config.TrainingConfig | finetuning_config.FinetuningTrainingConfig

_LOST = (tf.errors.AbortedError, tf.errors.CancelledError,
         tf.errors.DeadlineExceededError, tf.errors.InternalError,
         tf.errors.UnavailableError)  # fmt: skip
_CAUSE = re.compile("Collective ops is aborted by: (.*)")
_TASKS = re.compile(r"/job:(\w+)/(?:replica:0/)?task:(\d+)")
# The longest wait for other hosts, and when a message first says so.
START_SECONDS, _REPORT_SECONDS = 600, 10.0


def configure_process(settings: Settings, is_shared: bool = False) -> None:
    """Configures TensorFlow in this process, before it computes anything.

    `is_shared` is `devices.Cut.is_shared`.
    """
    if settings.deterministic:
        tf.config.experimental.enable_op_determinism()
    has_gpu = bool(tf.config.list_physical_devices("GPU"))
    if has_gpu:
        # By default XLA keeps float32 numbers that a step rounds to bfloat16,
        # and kernels move twice as many bytes.
        given = os.environ.get("XLA_FLAGS", "")
        excess = "--xla_allow_excess_precision=false"
        os.environ["XLA_FLAGS"] = f"{excess} {given}"
    if settings.precision == "float32" and not has_gpu:
        # Graph optimizers do not make steps faster, and delay the first one
        # from 5.5 to 7.8 s.
        options = {"disable_meta_optimizer": True}
        tf.config.optimizer.set_experimental_options(options)
    if is_shared and settings.strategy == "one_device" and not has_gpu:
        # One thread for each operation is faster then. TensorFlow refuses the
        # setting after a first computation.
        with contextlib.suppress(RuntimeError):
            tf.config.threading.set_intra_op_parallelism_threads(1)


def build_strategy(settings: Settings) -> tf.distribute.Strategy:
    """Builds the strategy of a config; call it before any device is used.

    `mirrored` uses all GPUs of this host (or all logical CPUs);
    `multi_worker` reads the addresses of all hosts from `TF_CONFIG`.
    """
    # TensorFlow logs every all-reduce that it plans.
    tf.get_logger().setLevel(logging.WARNING)
    if settings.strategy == "mirrored":
        list_devices = tf.config.list_logical_devices
        devices = list_devices("GPU") or list_devices("CPU")
        return _mirrored_strategy(tuple(device.name for device in devices))
    if settings.strategy == "multi_worker":
        _wait_for_workers(*read_cluster(os.environ.get("TF_CONFIG", "")))
        # If another host ends now, the first worker would wait forever.
        signal.alarm(START_SECONDS)
        try:
            return tf.distribute.MultiWorkerMirroredStrategy()
        finally:
            signal.alarm(0)
    if settings.strategy == "tpu":
        name, tpu = settings.tpu or "local", tf.distribute.cluster_resolver
        try:
            resolver = tpu.TPUClusterResolver(name)
            tf.config.experimental_connect_to_cluster(resolver)
            tf.tpu.experimental.initialize_tpu_system(resolver)
        except (OSError, RuntimeError, ValueError, tf.errors.OpError) as error:
            raise ValueError(
                f"No TPU answers to the name {name!r}: "
                f"{str(error).partition(chr(10))[0]}. Run on a TPU VM with the "
                "extra `tpu` installed, or name the TPU with "
                "--config.training.tpu."
            ) from error
        return tf.distribute.TPUStrategy(resolver)
    gpus = tf.config.list_physical_devices("GPU")
    if len(gpus) > 1:
        # TensorFlow would reserve the memory of all GPUs.
        with contextlib.suppress(RuntimeError):
            tf.config.set_visible_devices(gpus[:1], "GPU")
    return tf.distribute.get_strategy()


# A process has one strategy, because the collectives of a second one would get
# the same numbers.
_mirrored_strategy = functools.cache(tf.distribute.MirroredStrategy)


def read_cluster(text: str) -> tuple[str, dict[str, str]]:
    """Reads this host's address, and task to address of the other hosts."""
    try:
        tf_config = json.loads(text)
        task, cluster = tf_config["task"], tf_config["cluster"]
        local = cluster[task["type"]][task["index"]]
        return local, {
            f"{job} {index}": address
            for job in ("chief", "worker")
            for index, address in enumerate(cluster.get(job, ()))
            if address != local
        }
    except (ValueError, LookupError, TypeError) as error:
        raise ValueError(
            "The strategy multi_worker needs the environment variable "
            "TF_CONFIG on every host, such as "
            '{"cluster": {"worker": ["host1:2222", "host2:2222"]}, '
            f'"task": {{"type": "worker", "index": 0}}}}. Received: {text!r}. '
            "On one host use --config.training.strategy=mirrored."
        ) from error


def _wait_for_workers(local: str, others: Mapping[str, str]) -> None:
    """Waits until all other hosts listen, and prints the missing ones.

    TensorFlow would wait without a message, and the first worker forever.
    """

    def is_missing(address: str) -> bool:
        host, _, port = address.rpartition(":")
        with contextlib.suppress(OSError):
            socket.create_connection((host, int(port)), 5).close()
            return False
        return True

    start, next_report = time.monotonic(), _REPORT_SECONDS
    port = int(local.rpartition(":")[2])
    with socket.create_server(("", port), backlog=999):
        while others := {n: a for n, a in others.items() if is_missing(a)}:
            seconds = time.monotonic() - start
            names = ", ".join(f"{n} ({a})" for n, a in others.items())
            if seconds > START_SECONDS:
                raise errors.WorkerLostError(
                    f"After {seconds:.0f} s nothing answers from {names}. "
                    "Start the same command there, too, or correct TF_CONFIG."
                )
            if seconds > next_report:
                next_report = 2 * seconds
                text = f"Waiting for {names}, {START_SECONDS} s at the most."
                print(text, file=sys.stderr, flush=True)
            time.sleep(0.5)


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process writes checkpoints, logs and pictures."""
    if not _has_workers(strategy):
        return True
    resolver = strategy.cluster_resolver
    chief = "chief" if "chief" in resolver.cluster_spec().jobs else "worker"
    return (resolver.task_type, resolver.task_id) == (chief, 0)


def _has_workers(strategy: tf.distribute.Strategy) -> bool:
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


def distribute_endless(
    strategy: tf.distribute.Strategy,
    build_fn: Callable[[tf.distribute.InputContext], tf.data.Dataset],
) -> Any:
    """Distributes the datasets of `build_fn`, repeated without end.

    For a finite dataset, workers would ask each other before every batch
    whether one is left, and shapes would not be static.
    """
    return strategy.distribute_datasets_from_function(
        lambda context: build_fn(context).repeat(),
        pipeline.input_options(strategy),
    )


def mean_over_workers(strategy: tf.distribute.Strategy, value: float) -> float:
    """Returns the mean of a number over all hosts; all hosts must call it."""
    if not _has_workers(strategy):
        return value
    mean = _mean_fn(strategy)(tf.constant(value, tf.float64))
    return float(strategy.experimental_local_results(mean)[0])


@functools.cache
def _mean_fn(strategy: tf.distribute.Strategy) -> Callable[[tf.Tensor], Any]:
    def average(value: tf.Tensor) -> tf.Tensor:
        # `identity` puts the argument on the replica's device.
        context = tf.distribute.get_replica_context()
        return context.all_reduce("MEAN", tf.identity(value))

    return tf.function(
        lambda value: strategy.run(average, args=(value,)), autograph=False
    )


def require_same(
    strategy: tf.distribute.Strategy, values: Mapping[str, Any]
) -> None:
    """Raises `ValueError` unless the named values are equal on all hosts."""
    # Names are compared first, because another version may have other values.
    names = {"settings, so the same version of electra_tf": ", ".join(values)}
    with naming_lost_workers(strategy):
        for name, value in (names | dict(values)).items():
            digest = hashlib.sha256(repr(value).encode()).digest()
            # 40 bits, so that float64 sums over thousands of hosts are exact.
            number = int.from_bytes(digest[:5], "big")
            if mean_over_workers(strategy, number) != number:
                raise ValueError(
                    f"All hosts must have the same {name}. Received: "
                    f"{reprlib.repr(value)} on this host, another on others. "
                    "Start the same command on all hosts, with an output "
                    "folder that all of them mount."
                )


def require_same_weights(
    strategy: tf.distribute.Strategy, variables: Iterable[Any]
) -> None:
    """Raises `ValueError` unless variables have equal values on all hosts."""
    if _has_workers(strategy):
        digest = hashlib.sha256()
        for variable in variables:
            digest.update(np.asarray(variable).tobytes())
        name = "weights to begin with, so the same `init_from` and checkpoint"
        require_same(strategy, {name: digest.hexdigest()[:16]})


@contextlib.contextmanager
def naming_lost_workers(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Turns TensorFlow's errors about a lost host into `WorkerLostError`."""
    try:
        yield
    except tf.errors.OpError as error:
        if not (_has_workers(strategy) and isinstance(error, _LOST)):
            raise
        message, resolver = error.message, strategy.cluster_resolver
        jobs = resolver.cluster_spec().as_dict()
        tasks = {(job, int(index)) for job, index in _TASKS.findall(message)}
        tasks -= {(resolver.task_type, resolver.task_id)}
        if not tasks and "CoordinationService/Heartbeat" in message:
            tasks = {("chief" if "chief" in jobs else "worker", 0)}
        names = [f"{job} {i} ({jobs[job][i]})" for job, i in sorted(tasks)]
        cause = _CAUSE.search(message)
        raise errors.WorkerLostError(
            f"{', '.join(names).capitalize() or 'Another worker'} has stopped "
            f"or cannot be reached{f' ({cause[1].strip()})' if cause else ''}. "
            "Start the same command on all hosts again: they go on from the "
            "last checkpoint."
        ) from error


def xla_scope(settings: Settings) -> fusion.Scope:
    """Returns the parts of a step that XLA compiles.

    By default these are whole steps on GPUs and loops on CPUs. On TPUs they
    are always whole steps.
    """
    choice, strategy = settings.jit_compile, settings.strategy
    has_gpu = bool(tf.config.list_logical_devices("GPU"))
    if choice == "on" and not has_gpu and strategy != "one_device":
        raise errors.ConfigError(
            "`training.jit_compile` can be `on` for one device or for GPUs. "
            f"Received: strategy={strategy} without a GPU. Set it to `auto`."
        )
    if strategy == "tpu":
        return fusion.Scope.STEP
    if choice == "off":
        return fusion.Scope.NOTHING
    is_whole = choice == "on" or has_gpu
    return fusion.Scope.STEP if is_whole else fusion.Scope.LOOPS


def device_description(strategy: tf.distribute.Strategy) -> str:
    """Describes the hardware for logs: number and name of the devices."""
    kind, gpus = "CPU", tf.config.list_physical_devices("GPU")
    if isinstance(strategy, tf.distribute.TPUStrategy):
        kind = "TPU"
    elif gpus:
        details = tf.config.experimental.get_device_details(gpus[0])
        kind = details.get("device_name", "GPU")
    return f"{strategy.num_replicas_in_sync} x {kind}"
