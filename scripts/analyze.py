r"""Analyses what a trained model has learned.

    electra-analyze calibration --model=tiny-en --data=TEXT --output_dir=DIR

Writes findings.json, table.md and picture.png to DIR/ANALYSIS. A finished
analysis is shown again, a stopped one is continued. `electra-analyze report`,
with the same model, puts all analyses in DIR on one page. docs/analysis.md
describes the analyses and their data.
"""

from absl import flags

from electra_tf import command_line
from electra_tf import installed
from electra_tf import storage

FLAGS = flags.FLAGS
_REPORT = "report"
flags.DEFINE_string("analysis", None, "Also the first argument.")
flags.DEFINE_string("model", None, "Any model that electra_tf.load can load.")
flags.DEFINE_string("data", "", "Data of the analysis.")
flags.DEFINE_string("output_dir", "analysis", "Parent of the analysis' folder.")
flags.DEFINE_float("mask_prob", 0.15, "Share of tokens that are masked.")
flags.DEFINE_string("other_model", "", "A model to compare with.")
flags.DEFINE_integer("limit", 0, "Maximum of items; 0: the default.", 0)
flags.DEFINE_integer("seed", 1, "Seed of all random draws.", 0)


def main() -> None:
    """Runs an analysis and prints its table."""
    model = installed.find_model(FLAGS.model)
    # Imported late, as TensorFlow takes seconds to import.
    from analyses import analysis
    from analyses import report

    from electra_tf.loaded_models import pretrained

    module = None
    if FLAGS.analysis != _REPORT:
        module = analysis.find_analysis(FLAGS.analysis)
    if not FLAGS.data:
        expected = module.DATA if module else "a corpus of sentences to show"
        raise ValueError(f"--data must be {expected}. Received: nothing.")
    request = analysis.Request(
        FLAGS.data,
        FLAGS.limit,
        FLAGS.seed,
        FLAGS.mask_prob,
        FLAGS.model,
        FLAGS.other_model,
    )
    electra = pretrained.load_pretrained(model)
    output_dir = storage.path(FLAGS.output_dir)
    if module is None:
        print(f"Page: {report.write(electra, request, output_dir)}")
        return
    findings = analysis.run(FLAGS.analysis, electra, request, output_dir)
    print(findings.describe(analysis.question_of(module)))
    print(f"Picture: {output_dir / FLAGS.analysis / analysis.PICTURE}")


if __name__ == "__main__":
    command_line.run(main, ["analysis", "model"], first="analysis")
