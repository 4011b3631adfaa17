"""The devices and hosts that train together, as a TensorFlow strategy."""

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
# How long to wait for the other hosts to start.
START_SECONDS, _REPORT_SECONDS = 600, 10.0


def configure_process(settings: Settings, is_shared: bool = False) -> None:
    """Configures TensorFlow in this process, before it computes anything.

    `is_shared` says whether each processor has micro-batches of its own.
    """
    if settings.deterministic:
        tf.config.experimental.enable_op_determinism()
    has_gpu = bool(tf.config.list_physical_devices("GPU"))
    if has_gpu:
        # Otherwise XLA keeps in float32 what a step rounds to bfloat16, and its
        # kernels write and read twice as much.
        given = os.environ.get("XLA_FLAGS", "")
        excess = "--xla_allow_excess_precision=false"
        os.environ["XLA_FLAGS"] = f"{excess} {given}"
    if settings.precision == "float32" and not has_gpu:
        # The graph optimizers do not make the step faster, and the first call
        # of a traced step takes 5.5 s without and 7.8 s with them.
        options = {"disable_meta_optimizer": True}
        tf.config.optimizer.set_experimental_options(options)
    if is_shared and settings.strategy == "one_device" and not has_gpu:
        # One thread for each operation is faster then. TensorFlow refuses this
        # if the program has computed something.
        with contextlib.suppress(RuntimeError):
            tf.config.threading.set_intra_op_parallelism_threads(1)


def build_strategy(settings: Settings) -> tf.distribute.Strategy:
    """The strategy that a config names; before anything touches a device.

    `mirrored` takes all GPUs of this host (or all logical CPUs);
    `multi_worker` reads the place of each host from `TF_CONFIG`.
    """
    # TensorFlow logs every all-reduce that it plans.
    tf.get_logger().setLevel(logging.WARNING)
    if settings.strategy == "mirrored":
        list_devices = tf.config.list_logical_devices
        devices = list_devices("GPU") or list_devices("CPU")
        return _mirrored_strategy(tuple(device.name for device in devices))
    if settings.strategy == "multi_worker":
        _wait_for_workers(*read_cluster(os.environ.get("TF_CONFIG", "")))
        # If another host ends now, the first worker waits for it without limit.
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
                f"No TPU answers under the name {name!r}: "
                f"{str(error).partition(chr(10))[0]}. Run on a TPU VM with the "
                "extra `tpu` installed, or name the TPU with "
                "--config.training.tpu."
            ) from error
        return tf.distribute.TPUStrategy(resolver)
    gpus = tf.config.list_physical_devices("GPU")
    if len(gpus) > 1:
        # TensorFlow would reserve the memory of all of them.
        with contextlib.suppress(RuntimeError):
            tf.config.set_visible_devices(gpus[:1], "GPU")
    return tf.distribute.get_strategy()


# One strategy for a process: TensorFlow numbers the collectives of each anew,
# and those of a second one clash with the first one's.
_mirrored_strategy = functools.cache(tf.distribute.MirroredStrategy)


def read_cluster(text: str) -> tuple[str, dict[str, str]]:
    """The address of this host and those of the others, by task."""
    try:
        described = json.loads(text)
        task, cluster = described["task"], described["cluster"]
        own = cluster[task["type"]][task["index"]]
        return own, {
            f"{job} {index}": address
            for job in ("chief", "worker")
            for index, address in enumerate(cluster.get(job, ()))
            if address != own
        }
    except (ValueError, LookupError, TypeError) as error:
        raise ValueError(
            "The strategy multi_worker needs the environment variable "
            "TF_CONFIG on every host, such as "
            '{"cluster": {"worker": ["host1:2222", "host2:2222"]}, '
            f'"task": {{"type": "worker", "index": 0}}}}. Received: {text!r}. '
            "On one host use --config.training.strategy=mirrored."
        ) from error


def _wait_for_workers(own: str, others: Mapping[str, str]) -> None:
    """Waits until all other hosts listen, and names those that do not.

    TensorFlow would wait without a message, the first worker without limit.
    """

    def is_missing(address: str) -> bool:
        host, _, port = address.rpartition(":")
        with contextlib.suppress(OSError):
            socket.create_connection((host, int(port)), 5).close()
            return False
        return True

    start, next_report = time.monotonic(), _REPORT_SECONDS
    with socket.create_server(("", int(own.rpartition(":")[2])), backlog=999):
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
    """Distributes the dataset of each worker's context, repeated without end.

    Otherwise workers ask each other before every batch whether one is left, and
    shapes are not static.
    """
    return strategy.distribute_datasets_from_function(
        lambda context: build_fn(context).repeat(),
        pipeline.input_options(strategy),
    )


def mean_over_workers(strategy: tf.distribute.Strategy, value: float) -> float:
    """The mean of a number over all hosts, which all have to call this."""
    if not _has_workers(strategy):
        return value
    mean = _mean_fn(strategy)(tf.constant(value, tf.float64))
    return float(strategy.experimental_local_results(mean)[0])


@functools.cache
def _mean_fn(strategy: tf.distribute.Strategy) -> Callable[[tf.Tensor], Any]:
    def average(own: tf.Tensor) -> tf.Tensor:
        # `identity` puts the argument on the replica's device.
        context = tf.distribute.get_replica_context()
        return context.all_reduce("MEAN", tf.identity(own))

    return tf.function(
        lambda own: strategy.run(average, args=(own,)), autograph=False
    )


def require_same(
    strategy: tf.distribute.Strategy, values: Mapping[str, Any]
) -> None:
    """Raises `ValueError` unless the named values are equal on all hosts."""
    # First the names: hosts of other versions would wait for each other.
    names = {"settings, so the same version of electra_tf": ", ".join(values)}
    with naming_lost_workers(strategy):
        for name, value in (names | dict(values)).items():
            digest = hashlib.sha256(repr(value).encode()).digest()
            # 40 bits: float64 is exact for the sum over thousands of hosts.
            number = int.from_bytes(digest[:5], "big")
            if mean_over_workers(strategy, number) != number:
                raise ValueError(
                    f"All hosts must have the same {name}. Received: "
                    f"{reprlib.repr(value)} on this one, another on others. "
                    "Start the same command on all of them, with a folder for "
                    "its output that all of them mount."
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
    """The parts of a step that XLA compiles.

    By default all on GPUs and loops on CPUs. TPUs compile every step whole.
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
    """The hardware in words, for logs: kind, name and number of devices."""
    kind, gpus = "CPU", tf.config.list_physical_devices("GPU")
    if isinstance(strategy, tf.distribute.TPUStrategy):
        kind = "TPU"
    elif gpus:
        details = tf.config.experimental.get_device_details(gpus[0])
        kind = details.get("device_name", "GPU")
    return f"{strategy.num_replicas_in_sync} x {kind}"
