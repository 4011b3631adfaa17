"""Which devices train together, chosen by one setting."""

import tensorflow as tf

from electra_tf import config


def build_strategy(settings: config.TrainingConfig) -> tf.distribute.Strategy:
    """The distribution strategy that a config names.

    * `one_device`: the first GPU, or the CPU.
    * `mirrored`: all GPUs of this host (or all logical CPUs).
    * `multi_worker`: several hosts; each reads its place from `TF_CONFIG`.
    * `tpu`: a Cloud TPU, `settings.tpu` names it.

    To be called before anything else touches a device.

    Raises:
        ValueError: if there is no such hardware.
    """
    if settings.strategy == "mirrored":
        kind = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
        devices = [d.name for d in tf.config.list_logical_devices(kind)]
        return tf.distribute.MirroredStrategy(devices)
    if settings.strategy == "multi_worker":
        return tf.distribute.MultiWorkerMirroredStrategy()
    if settings.strategy == "tpu":
        return _build_tpu_strategy(settings.tpu)
    return tf.distribute.get_strategy()


def _build_tpu_strategy(name: str) -> tf.distribute.Strategy:
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
            tpu=name or "local"
        )
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, RuntimeError, tf.errors.OpError) as error:
        reason = (str(error).splitlines() or [""])[0]
        raise ValueError(
            f"No TPU answers under the name {name or 'local'!r}: {reason}. "
            "Run on a TPU VM with the extra `tpu` installed, or name the TPU "
            "with --config.training.tpu."
        ) from error
    return tf.distribute.TPUStrategy(resolver)


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process writes checkpoints, logs and pictures."""
    resolver = strategy.cluster_resolver
    if resolver is None or not isinstance(
        strategy, tf.distribute.MultiWorkerMirroredStrategy
    ):
        return True
    return resolver.task_type in (None, "", "chief") or (
        resolver.task_type == "worker"
        and resolver.task_id == 0
        and not resolver.cluster_spec().as_dict().get("chief")
    )


def compiles_with_xla(settings: config.TrainingConfig) -> bool:
    """Whether the step is compiled by XLA: by default on GPUs alone.

    A compiled step on a CPU is several times slower than an ordinary one. TPUs
    compile everything anyway.
    """
    if settings.jit_compile == "auto":
        is_tpu = settings.strategy == "tpu"
        return bool(tf.config.list_logical_devices("GPU")) and not is_tpu
    return settings.jit_compile == "on"


def device_description(strategy: tf.distribute.Strategy) -> str:
    """The hardware in words, for logs: kind, name and number of devices."""
    count = strategy.num_replicas_in_sync
    gpus = tf.config.list_physical_devices("GPU")
    if gpus and not isinstance(strategy, tf.distribute.TPUStrategy):
        details = tf.config.experimental.get_device_details(gpus[0])
        return f"{count} x {details.get('device_name', 'GPU')}"
    kind = "TPU" if isinstance(strategy, tf.distribute.TPUStrategy) else "CPU"
    return f"{count} x {kind}"
