r"""Analyses what a trained model has learned.

    electra-analyze calibration --model=tiny-en --data=TEXT --output_dir=DIR

Leaves findings.json, table.md and picture.png in DIR/ANALYSIS. An analysis that
was measured already is shown again, one that was stopped goes on.
`electra-analyze report`, with the same model, puts all of DIR into one page.
docs/analysis.md says what each analysis asks and what it takes.
"""

from absl import flags

from electra_tf import command_line
from electra_tf import installed
from electra_tf import storage

FLAGS = flags.FLAGS
_REPORT = "report"
flags.DEFINE_string("analysis", None, "Also the first argument.")
flags.DEFINE_string("model", None, "In any format that electra_tf.load takes.")
flags.DEFINE_string("data", "", "What the analysis reads.")
flags.DEFINE_string("output_dir", "analysis", "For its folder.")
flags.DEFINE_float("mask_prob", 0.15, "Share that the generator fills.")
flags.DEFINE_string("other_model", "", "What the model is compared with.")
flags.DEFINE_integer("limit", 0, "Items that are taken; 0: as usual.", 0)
flags.DEFINE_integer("seed", 1, "Of all that is drawn.", 0)


def main() -> None:
    """Runs an analysis and prints its table."""
    model = installed.find_model(FLAGS.model)
    # TensorFlow takes seconds to import; a mistaken flag is reported before.
    from analyses import analysis
    from analyses import report

    from electra_tf.loaded_models import pretrained

    asked = None
    if FLAGS.analysis != _REPORT:
        asked = analysis.find_analysis(FLAGS.analysis)
    if not FLAGS.data:
        what = asked.DATA if asked else "a corpus, to show sentences of"
        raise ValueError(f"--data must be {what}. Received: nothing.")
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
    if asked is None:
        print(f"Page: {report.write(electra, request, output_dir)}")
        return
    findings = analysis.run(FLAGS.analysis, electra, request, output_dir)
    print(findings.describe(analysis.question_of(asked)))
    print(f"Picture: {output_dir / FLAGS.analysis / analysis.PICTURE}")


if __name__ == "__main__":
    command_line.run(main, ["analysis", "model"], first="analysis")
