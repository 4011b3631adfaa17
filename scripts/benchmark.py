r"""Times the training step of a config, and the input pipeline of a dataset.

    electra-benchmark --config=configs/pretrain/electra_small.py \
        --precisions=float32,bfloat16 [--dataset_dir=DIR]

The batch is 16 rows unless --batch_size says otherwise. Compare by ratio
within one run: machines differ and are noisy.
"""

from absl import flags
from ml_collections import config_flags

from electra_tf import command_line
from electra_tf import config
from electra_tf import storage
from electra_tf.records import manifest

FLAGS = flags.FLAGS
config_flags.DEFINE_config_file("config", None, "Config to time.")
flags.DEFINE_integer("batch_size", 16, "Rows of a step.")
flags.DEFINE_integer("num_steps", 10, "Steps to time.", 1)
flags.DEFINE_list("precisions", ["float32", "bfloat16"], "To time.")
flags.DEFINE_string("dataset_dir", None, "Dataset whose pipeline is timed.")


def main() -> None:
    """Prints one line per measurement."""
    settings = config.freeze(FLAGS.config)
    if FLAGS.dataset_dir:
        manifest.require_dataset(storage.path(FLAGS.dataset_dir))
    from electra_tf.analysis import benchmarks

    if FLAGS.dataset_dir:
        rate = benchmarks.time_input_pipeline(
            storage.path(FLAGS.dataset_dir), settings, num_batches=200
        )
        print(f"input pipeline     {rate:14,.0f} tokens/s")
    FLAGS.config.training.train_batch_size = FLAGS.batch_size
    while FLAGS.batch_size % FLAGS.config.data.num_streams:
        FLAGS.config.data.num_streams -= 1
    for precision in FLAGS.precisions:
        FLAGS.config.training.precision = precision
        settings = config.freeze(FLAGS.config)
        timing = benchmarks.time_training_step(settings, FLAGS.num_steps)
        print(
            f"step {precision:<13} {timing.tokens_per_second:14,.0f} tokens/s  "
            f"median of {FLAGS.num_steps}; fastest "
            f"{1e3 * min(timing.step_seconds):,.1f} ms, slowest "
            f"{1e3 * max(timing.step_seconds):,.1f} ms; "
            f"{100 * timing.share_of_peak:.1f} % of peak; memory "
            f"{timing.peak_memory_bytes / 2**20:,.0f} MiB; start-up "
            f"{timing.startup_seconds:.1f} s; loss "
            f"{timing.last_losses['loss']:.4f}"
        )


if __name__ == "__main__":
    command_line.run(main, required=["config"])
