r"""Says what a training takes: memory, time, operations, disk; builds nothing.

    electra-plan configs/pretrain/electra_base.py
    electra-plan my_model.py --device=A100 --count=8
    electra-plan configs/pretrain/electra_small.py --operations

Times are estimates; docs/pretraining.md compares them with measured runs. With
--compiled=FILE memory and the least time are what compilers told
`electra-benchmark compile --output=FILE`.
`--operations` counts by part instead: `original` is how the paper counts,
`exact` what the matrix products of our graph execute. A row is a sequence of
the config's length.
"""

import json
import math
from typing import Any

import pandas
from absl import flags

from electra_tf import command_line
from electra_tf import config
from electra_tf import storage
from electra_tf.text import vocabulary

FLAGS = flags.FLAGS
flags.DEFINE_string("config", None, "Also the first argument.")
flags.DEFINE_string("device", "", "Such as A100; without, all known ones.")
flags.DEFINE_integer("count", 1, "Devices that train together.", 1)
flags.DEFINE_string("compiled", "", "Output of `electra-benchmark compile`.")
flags.DEFINE_bool("operations", False, "Count operations by part instead.")
# The vocabulary size of a config without a vocabulary or a dataset.
_PAPERS_VOCABULARY = 30_522
_PARTS = {
    "generator": "generator",
    "encoder, replaced-token head": "discriminator",
    "encoder, masked-LM head": "masked_lm",
    "encoder, vocabulary and copy heads on all tokens": "copying_masked_lm",
}


def main() -> None:
    """Prints one table."""
    if not FLAGS.config.encoder.vocab_size:
        last = config.split_phases(config.freeze(FLAGS.config))[-1]
        dataset, size = last.settings.data.dataset_dir, _PAPERS_VOCABULARY
        if dataset:
            size = vocabulary.Vocabulary.load(dataset).size
        FLAGS.config.encoder.vocab_size = size
    settings = config.freeze(FLAGS.config)
    print(f"Vocabulary: {settings.encoder.vocab_size:,} entries.")
    if FLAGS.operations:
        _print_operations(settings)
    else:
        _print_plan(settings)


def _print_plan(settings: config.ExperimentConfig) -> None:
    from electra_tf.objectives import registry
    from electra_tf.pretraining import cost
    from electra_tf.training import devices

    if FLAGS.device:
        names = dict.fromkeys(device.name for device in devices.DEVICES)
        config.require_choice("--device", FLAGS.device, names)
    weights = cost.count_weights(settings)
    print(
        f"{weights / 1e6:,.1f} M weights in all networks; a checkpoint takes "
        f"{cost.CHECKPOINT_BYTES * weights / 1e9:.2f} GB."
    )
    for phase in config.split_phases(settings):
        length, tokens = phase.settings.data.max_seq_length, phase.num_tokens
        # Fitted to records of 32 and of 128 tokens.
        size, millions = tokens * (60 / length + 4), tokens / 1e6
        print(
            f"{phase.end - phase.start:,} steps of "
            f"{phase.settings.training.train_batch_size:,} rows of {length} "
            f"tokens: {millions:,.{millions < 10:d}f} M tokens, "
            f"{size / 1e9:,.1f} GB of records (a tenth for 10 epochs)."
        )
    operations = cost.Cost(settings).run_flops()
    print(
        f"{operations:.3g} operations; as the paper counts, "
        f"{cost.Cost(settings, 'original').run_flops():.3g}."
    )
    is_masked_lm = settings.objective["name"] == registry.MASKED_LM
    if operations < cost.ELECTRA_PAYS and not is_masked_lm:
        print(
            f"In our runs a masked LM of the same cost learned more up to "
            f"{cost.MASKED_LM_PAYS:.2g} operations, ELECTRA at "
            f"{cost.ELECTRA_PAYS:.3g}; compare with scaled.py:mlm:128x2:40M."
        )
    _print_devices(settings, weights)


def _print_devices(settings: config.ExperimentConfig, weights: int) -> None:
    from electra_tf.pretraining import cost
    from electra_tf.training import devices

    print(
        "\ndevice       precision  micro-batches  state GB  activations GB"
        "    tokens/s      hours"
    )
    fits, compiled = True, {}
    if FLAGS.compiled:
        text = storage.path(FLAGS.compiled).read_text("utf-8")
        cores = json.loads(text)["cores"]
        compiled = {c["name"]: c for c in cores if "error" not in c}
    for device in devices.DEVICES:
        if FLAGS.device in ("", device.name):
            need = cost.estimate(settings, device, FLAGS.count, weights)
            core = compiled.get(device.name.removeprefix("TPU"))
            if core and device.precision == "bfloat16":
                share = cost.Cost(settings).step_flops() / FLAGS.count
                need = _quote(need, core, share / device.num_cores, settings)
            fits &= need.cut is not None
            cut = need.cut.num_parts if need.cut else "do not fit"
            print(
                f"{FLAGS.count:>4} {device.name:<7} {device.precision:<10} "
                f"{cut:>13} {need.state_bytes / 1e9:9.2f} "
                f"{need.activation_bytes / 1e9:15.2f} "
                f"{need.tokens_per_second:11,.0f} "
                f"{need.hours:10,.{0 if need.hours > 100 else 2}f}"
            )
    if not fits:
        print(
            "Where a batch does not fit, take more devices, or more streams "
            "(--config.data.num_streams, which must divide the batch)."
        )


def _quote(
    need: Any, core: Any, share: float, settings: config.ExperimentConfig
) -> Any:
    """Replaces an estimate's operations by a compiler's figures for a core."""
    from electra_tf.training import devices

    parts = round(share / core["flops"])
    config.require(
        parts and math.isclose(parts * core["flops"], share),
        "--compiled must be of this config, without phases, and of the rows "
        f"of a core or a part of them. Received: {core['flops']:.5g} "
        f"operations for a core that has {share:.5g} in a step.",
    )
    seconds = parts * max(core["product_seconds"], core["memory_seconds"])
    least = settings.training.num_train_steps * seconds / 3600
    hours = max(need.hours, least)
    return need._replace(
        cut=devices.Cut(parts),
        state_bytes=core["arguments"],
        activation_bytes=core["program"] + core["temporary"],
        tokens_per_second=need.tokens_per_second * need.hours / hours,
        hours=hours,
    )


def _print_operations(settings: config.ExperimentConfig) -> None:
    columns = {name: _count(settings, name) for name in ("original", "exact")}
    table = pandas.DataFrame(columns)
    print(table.to_string(float_format="{:20.15g}".format))


def _count(settings: config.ExperimentConfig, name: str) -> dict[str, float]:
    from electra_tf.pretraining import cost

    counted, counts = cost.Cost(settings, name), {}
    for start in counted.starts:
        where = f" from step {start:,}" if len(counted.starts) > 1 else ""
        counts[f"training, a row{where}"] = counted.row_flops(start)
        counts[f"training, a step{where}"] = counted.step_flops(start)
    num_steps = settings.training.num_train_steps
    counts[f"training, all {num_steps:,} steps"] = counted.run_flops()
    counts["inference, a row"] = counted.inference_flops()
    for title, part in _PARTS.items():
        operations = getattr(counted.convention, part)()
        counts[f"forward, a row: {title}"] = operations.forward
    return counts


if __name__ == "__main__":
    command_line.run(main, required=["config"], first="config")
