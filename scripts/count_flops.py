r"""Counts floating-point operations of a config, without building a model.

    python scripts/count_flops.py --config=configs/pretrain/electra_small.py \
        [--config.encoder.vocab_size=30522] [--convention=original]

`original` is how the paper counts, `exact` what the matrix products of our
graph execute (`electra_tf/modeling/flops.py`). A row is a sequence of the
config's length. An objective with phases shows a row and a step of each.
"""

from absl import flags
from ml_collections import config_flags

from electra_tf import command_line
from electra_tf import config

FLAGS = flags.FLAGS
config_flags.DEFINE_config_file("config", None, "Config to count.")
_CONVENTIONS = ["original", "exact"]
flags.DEFINE_enum(
    "convention", "both", ["both", *_CONVENTIONS], "How to count."
)
# What a config that takes its dataset's vocabulary is counted with.
_PAPERS_VOCABULARY = 30_522
_PARTS = {
    "generator": "generator",
    "encoder, replaced-token head": "discriminator",
    "encoder, masked-LM head": "masked_lm",
    "encoder, vocabulary and copy heads on all tokens": "all_tokens_masked_lm",
}


def main() -> None:
    """Prints one table, a column per convention."""
    if not FLAGS.config.encoder.vocab_size:
        FLAGS.config.encoder.vocab_size = _PAPERS_VOCABULARY
    settings = config.freeze(FLAGS.config)
    print(f"Vocabulary: {settings.encoder.vocab_size:,} entries.")
    is_both = FLAGS.convention == "both"
    columns = _CONVENTIONS if is_both else [FLAGS.convention]
    counts = [_count(settings, name) for name in columns]
    width = max(map(len, counts[0]))
    print("  ".join([" " * width, *(f"{name:>20}" for name in columns)]))
    for title in counts[0]:
        cells = [f"{column[title]:20.15g}" for column in counts]
        print("  ".join([title.ljust(width), *cells]))


def _count(settings: config.ExperimentConfig, name: str) -> dict[str, float]:
    """Title to operations, in the order of the lines."""
    from electra_tf.pretraining import cost

    counted = cost.Cost(settings, name)
    convention, training = counted.convention, settings.training
    starts = counted.phase_starts
    counts = {}
    for start in starts:
        where = f" from step {start:,}" if len(starts) > 1 else ""
        counts[f"training, a row{where}"] = counted.row_flops(start)
        counts[f"training, a step{where}"] = counted.step_flops(start)
    counts[f"training, all {training.num_train_steps:,} steps"] = (
        counted.run_flops()
    )
    counts["inference, a row"] = counted.inference_flops()
    for title, part in _PARTS.items():
        counts[f"forward, a row: {title}"] = getattr(convention, part)().forward
    return counts


if __name__ == "__main__":
    command_line.run(main, required=["config"])
