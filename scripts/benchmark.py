r"""Times the training step of a config, and the input pipeline of a dataset.

    python scripts/benchmark.py --config=configs/pretrain/electra_small.py \
        --precisions=float32,bfloat16 [--dataset_dir=DIR]

The batch is 16 rows unless --batch_size says otherwise. Compare by ratio
within one run: machines differ and are noisy.
"""

import dataclasses
import pathlib

from absl import flags
from ml_collections import config_flags

from electra_tf import command_line
from electra_tf import config

_CONFIG = config_flags.DEFINE_config_file("config", None, "Config to time.")
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 16, "Rows of a step.")
_NUM_STEPS = flags.DEFINE_integer("num_steps", 10, "Steps to time.", 1)
_PRECISIONS = flags.DEFINE_list(
    "precisions", ["float32", "bfloat16"], "Precisions, in turn."
)
_DATASET_DIR = flags.DEFINE_string(
    "dataset_dir", None, "Dataset whose input pipeline is timed."
)


def main() -> None:
    """Prints one line per measurement."""
    settings = config.freeze(_CONFIG.value)
    from electra_tf.analysis import benchmarks

    if _DATASET_DIR.value:
        rate = benchmarks.time_input_pipeline(
            pathlib.Path(_DATASET_DIR.value), settings, num_batches=200
        )
        print(f"input pipeline     {rate:14,.0f} tokens/s")
    for precision in _PRECISIONS.value:
        timing = benchmarks.time_training_step(
            _with_batch(settings, precision), _NUM_STEPS.value
        )
        print(
            f"step {precision:<13} {timing.tokens_per_second:14,.0f} tokens/s  "
            f"median of {_NUM_STEPS.value}; fastest "
            f"{1e3 * min(timing.step_seconds):,.1f} ms, slowest "
            f"{1e3 * max(timing.step_seconds):,.1f} ms; "
            f"{100 * timing.share_of_peak:.1f} % of peak; memory "
            f"{timing.peak_memory_bytes / 2**20:,.0f} MiB; start-up "
            f"{timing.startup_seconds:.1f} s; loss "
            f"{timing.last_losses['loss']:.4f}"
        )


def _with_batch(
    settings: config.ExperimentConfig, precision: str
) -> config.ExperimentConfig:
    """The config with another batch, its streams as many as divide it."""
    batch = _BATCH_SIZE.value
    streams = settings.data.num_streams
    while batch % streams:
        streams -= 1
    return dataclasses.replace(
        settings,
        data=dataclasses.replace(settings.data, num_streams=streams),
        training=dataclasses.replace(
            settings.training, train_batch_size=batch, precision=precision
        ),
    )


if __name__ == "__main__":
    command_line.run(main, required=["config"])
