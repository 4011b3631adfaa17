r"""Pre-trains a model from a config; the same command resumes it.

    electra-pretrain \
        --config=configs/pretrain/electra_small.py \
        --config.data.dataset_dir=DIR --model_dir=DIR

    electra-pretrain --config=... --dry_run --topology=v4-32

Any field of the config can be set: --config.optimizer.learning_rate=1e-4. A
run that SIGTERM, SIGHUP or Ctrl-C ended is saved; the exit code is then 75. It
is 69 if another host was lost, 70 after a crash; --max_restarts tries again.
"""

import shlex
import sys
from typing import Any

from absl import flags
from ml_collections import config_flags

from electra_tf import command_line
from electra_tf import config
from electra_tf import errors
from electra_tf import installed
from electra_tf import storage
from electra_tf.processes import pool
from electra_tf.records import manifest

FLAGS = flags.FLAGS
_SHOWN_SHARDS = 8
config_flags.DEFINE_config_file("config", None, "A file of configs/pretrain.")
flags.DEFINE_string("model_dir", None, "Folder for everything written.")
flags.DEFINE_string(
    "init_from",
    "",
    "A model to start from, with a fresh optimizer: a run, a Hugging Face "
    "folder or a name of the hub, a KerasHub preset, a TF1 checkpoint, or "
    "tiny-en. Short for --config.training.init_from.",
)
flags.DEFINE_bool(
    "extend",
    False,
    "Make the run in model_dir longer, to --config.training.num_train_steps. "
    "Its learning-rate schedule is stretched over all steps.",
)
flags.DEFINE_integer(
    "max_restarts",
    0,
    "Start again from the last checkpoint after a crash or the loss of another "
    "host, so many times.",
    0,
)
flags.DEFINE_bool(
    "dry_run",
    False,
    "Plan the run and trace a step, but run none and write nothing: replicas, "
    "memory, time, what each host reads, or why it cannot work.",
)
flags.DEFINE_string(
    "topology",
    "",
    "What --dry_run plans for, without: this machine. A TPU slice such as "
    "v4-32, or hosts, devices of each and their name, such as 4x8xA100.",
)


@flags.multi_flags_validator(
    ["model_dir", "dry_run", "topology"],
    "Give --model_dir, or --dry_run; --topology is for --dry_run.",
)
def _check_flags(values: dict[str, Any]) -> bool:
    is_dry = values["dry_run"]
    return bool(is_dry or (values["model_dir"] and not values["topology"]))


def main() -> int | None:
    """Freezes the config and trains."""
    if FLAGS.max_restarts and not FLAGS.dry_run:
        command = [__file__, *sys.argv[1:], "--max_restarts=0"]
        return pool.run_restarting(command, FLAGS.max_restarts)
    if FLAGS.init_from:
        FLAGS.config.training.init_from = FLAGS.init_from
    settings = config.freeze(FLAGS.config)
    phases = config.split_phases(settings)
    for phase in phases:
        manifest.require_dataset(storage.path(phase.settings.data.dataset_dir))
    if FLAGS.dry_run:
        for phase in phases:
            _dry_run(phase)
        return None
    model_dir = storage.path(FLAGS.model_dir)
    origin = settings.training.init_from
    if origin and not (model_dir / "config.json").exists():
        installed.find_model(origin)
    # TensorFlow takes seconds to import; a mistake in the config is reported
    # before that.
    from electra_tf.pretraining import run

    if not run.pretrain(settings, model_dir, FLAGS.extend):
        raise errors.Stopped
    if settings.training.strategy == "multi_worker":
        return None  # All hosts would say it.
    model = shlex.quote(f"{model_dir}")
    print(
        "\nTo try it in the browser, fine-tune, and export it:\n"
        f"  electra-serve-demo --model={model}\n"
        "  electra-finetune --config=configs/finetune/own.py:classification "
        "--config.own.train_file=train.csv --config.own.dev_file=dev.csv "
        f"--pretrained_dir={model} --output_dir=finetuned\n"
        f"  electra-export --model_dir={model} "
        f"--export_dir={shlex.quote(f'{model_dir}/export')}"
    )
    return None


def _dry_run(phase: config.RowPhase) -> None:
    from electra_tf.inputs import dataset as dataset_lib
    from electra_tf.pretraining import model
    from electra_tf.pretraining import plan
    from electra_tf.pretraining import run

    settings = phase.settings
    training, data = settings.training, settings.data
    topology = plan.read_topology(FLAGS.topology, training)
    folder = storage.path(data.dataset_dir)
    dataset = dataset_lib.open_dataset(folder, data.max_seq_length)
    settings = model.resolve(settings, dataset.vocabulary.size)
    order = run.build_order(settings, dataset.train)
    count, device = topology.num_replicas, topology.device
    cut = plan.cut_batch(settings, count, device.name == "CPU")
    weights = plan.count_weights(settings)
    found = plan.plan(settings, device, count, weights)
    rows = training.train_batch_size // count
    print(
        f"Replicas: {count} of {device.name}, {device.precision}; hosts: "
        f"{topology.num_hosts}; "
        f"--config.training.strategy={topology.strategy}.\n"
        f"A replica: {rows} rows of {data.max_seq_length} tokens in "
        f"micro-batches of {rows // cut.num_parts}; streams: "
        f"{data.num_streams // count} of {data.num_streams}."
    )
    held = plan.activation_bytes(settings, count, weights, cut)
    _print_memory(topology, weights, found, cut, held)
    num_steps = phase.end - phase.start
    hours = found.hours * num_steps / training.num_train_steps
    print(
        f"Time: {num_steps:,} steps, "
        f"{num_steps / order.batches_per_epoch:,.2f} epochs, about "
        f"{hours:,.2f} hours at {found.tokens_per_second:,.0f} tokens/s."
    )
    _print_reading(order, topology.num_hosts)
    _trace(settings, dataset, order, topology, cut)


def _print_memory(
    topology: Any, num_weights: int, found: Any, cut: Any, held: float
) -> None:
    from electra_tf.pretraining import plan

    sizes = {
        "weights": 4 * num_weights,
        "gradients": 4 * num_weights,
        "moments": found.state_bytes - 8 * num_weights,
        "activations": held,
    }
    memory = topology.device.memory
    print(
        "Memory of a replica, GB: "
        + ", ".join(f"{name} {size / 1e9:.2f}" for name, size in sizes.items())
        + f"; {sum(sizes.values()) / 1e9:.2f} of {memory:.4g}."
    )
    remedy = (
        "more devices, a smaller model, or more streams, which must divide "
        "the batch (--config.data.num_streams)"
    )
    if found.cut:
        number = found.cut.num_parts
        remedy = f"--config.training.num_micro_batches={number}"
    config.require(
        found.cut == cut,
        f"In {cut.num_parts} micro-batches, {cut.at_a_time} at a time at most, "
        f"a step takes more than {plan.USABLE:.0%} of the {memory:.4g} GB of a "
        f"{topology.device.name}. Take {remedy}.",
    )


def _print_reading(order: Any, num_hosts: int) -> None:
    import tensorflow as tf

    print("host  streams        examples an epoch  shards of the first epoch")
    owned = order.num_streams // num_hosts
    read = tf.function(order.stream_pieces, autograph=False)
    for host in range(num_hosts):
        first = host * owned
        shards = set[int]()
        for stream in range(first, first + owned):
            place = tf.unstack(tf.constant([0, stream, 0], tf.int64))
            shards |= {*read(*place)[0].numpy().tolist()}
        names = " ".join(map(str, sorted(shards)[:_SHOWN_SHARDS]))
        rest = len(shards) - _SHOWN_SHARDS
        print(
            f"{host:>4}  {f'{first}-{first + owned - 1}':<13}"
            f"{owned * order.examples_per_stream:>19,}  {names}"
            f"{f' and {rest} more' if rest > 0 else ''}"
        )
    print(
        "Shards are dealt anew in every epoch: each host must reach all "
        f"{len(order.shard_sizes)} of them."
    )


def _trace(
    settings: config.ExperimentConfig,
    dataset: Any,
    order: Any,
    topology: Any,
    cut: Any,
) -> None:
    """Traces the training step of a replica in each phase, and runs none."""
    import tensorflow as tf

    from electra_tf.inputs import pipeline
    from electra_tf.pretraining import run
    from electra_tf.training import distribution

    folder = storage.path(settings.data.dataset_dir, manifest.TRAIN)
    counts = manifest.load_token_counts(folder, settings.encoder.vocab_size)
    model = run.build_model_and_optimizer(
        settings, dataset.vocabulary, counts, dataset.train.is_packed
    )
    model.num_micro_batches, model.num_parallel = cut
    context = tf.distribute.InputContext(
        topology.num_hosts, 0, topology.num_replicas
    )
    features = pipeline.build_training_dataset(
        dataset.train, order, context=context
    ).element_spec
    for phase, start in enumerate(model.phase_starts):
        model.enter_phase(phase, is_beginning=True)
        step = tf.function(model.training_step, autograph=False)
        traced = step.get_concrete_function(features)
        unfit = distribution.find_unfit(traced)
        config.require(
            topology.strategy != "tpu" or not unfit,
            "No TPU can run the training step of the objective "
            f"{settings.objective.name!r}: {'; '.join(unfit[:5])}. Write that "
            "another way.",
        )
        number = len(traced.graph.get_operations())
        print(
            f"Traced, not run: a step from {start:,} on, {number:,} operations."
        )


if __name__ == "__main__":
    command_line.run(main, required=["config"])
