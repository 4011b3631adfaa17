r"""Shows what an exported fine-tuned model answers.

    python scripts/predict_text.py --saved_model=DIR --text="A good film."
    python scripts/predict_text.py --saved_model=DIR --text="A cat sat." \\
        --text_pair="A cat was sitting."
    python scripts/predict_text.py --saved_model=DIR --question="Who sat?" \\
        --context="The cat sat on the mat."

Labels with probabilities, a score, words with tags, or an answer with its
place in the context. Flags may be given again for further rows.
"""

from absl import flags

from electra_tf import command_line

_SAVED_MODEL = flags.DEFINE_string(
    "saved_model", None, "Folder made by export_saved_model.py.", required=True
)
_INPUTS = {
    "texts": flags.DEFINE_multi_string("text", [], "A text."),
    "text_pairs": flags.DEFINE_multi_string(
        "text_pair", [], "The second text of a pair."
    ),
    "questions": flags.DEFINE_multi_string("question", [], "A question."),
    "contexts": flags.DEFINE_multi_string(
        "context", [], "Where its answer is; one may serve all questions."
    ),
}


def main() -> None:
    """Prints the answers, one block for each row."""
    # TensorFlow takes seconds to import; a mistaken flag is reported before.
    from electra_tf.export.clients import display
    from electra_tf.export.clients import text_models

    export = text_models.LoadedExport(_SAVED_MODEL.value)
    inputs = {name: flag.value for name, flag in _INPUTS.items()}
    for lines in display.describe_predictions(export, inputs):
        print(lines)


if __name__ == "__main__":
    command_line.run(main)
