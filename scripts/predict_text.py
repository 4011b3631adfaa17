r"""Shows what an exported fine-tuned model answers.

    electra-predict --saved_model=DIR --text="A good film."
    electra-predict --saved_model=DIR --text="A cat sat." \
        --text_pair="A cat was sitting."
    electra-predict --saved_model=DIR --question="Who sat?" \
        --context="The cat sat on the mat."

Labels with probabilities, a score, words with tags, or an answer with its
place in the context. Flags may be given again for further rows.
"""

from absl import flags

from electra_tf import command_line
from electra_tf import installed

FLAGS = flags.FLAGS
flags.DEFINE_string("saved_model", None, "Folder made by electra-export.")
flags.DEFINE_multi_string("text", [], "A text.")
flags.DEFINE_multi_string("text_pair", [], "The second text of a pair.")
flags.DEFINE_multi_string("question", [], "A question.")
flags.DEFINE_multi_string("context", [], "One serves all questions.")
_INPUTS = ("text", "text_pair", "question", "context")


def main() -> None:
    """Prints the answers, one block for each row."""
    folder = installed.find_export(FLAGS.saved_model)
    # TensorFlow takes seconds to import; a mistaken flag is reported before.
    from electra_tf.export.clients import predictions
    from electra_tf.export.clients import text_models

    export = text_models.LoadedExport(folder)
    inputs = {f"{name}s": getattr(FLAGS, name) for name in _INPUTS}
    for lines in predictions.describe(export, inputs):
        print(lines)


if __name__ == "__main__":
    command_line.run(main, required=["saved_model"])
