"""The kinds of tasks, as formats keep their fine-tuned models."""

from typing import NamedTuple

_CLASSIFIER = "ElectraForSequenceClassification"


class Kind(NamedTuple):
    """What sets a kind of task apart."""

    hugging_face: str  # the class there
    problem_type: str | None = None  # what a config there calls it
    has_labels: bool = False  # outputs have names; otherwise there is one
    takes_pairs: bool = False  # of texts, if the user's files have them
    dense: str = "classifier.out_proj"  # the output layer there
    hidden: str = "classifier.dense"  # the one before; empty if there is none


# fmt: off
KINDS = {
    "classification": Kind(
        _CLASSIFIER, "single_label_classification", True, True),
    "multilabel": Kind(_CLASSIFIER, "multi_label_classification", True, True),
    "regression": Kind(_CLASSIFIER, "regression", False, True),
    "multiple_choice": Kind("ElectraForMultipleChoice", dense="classifier",
                            hidden="sequence_summary.summary"),
    # A cross-encoder; a field of our own tells it from regression.
    "ranking": Kind(_CLASSIFIER),
    "tagging": Kind("ElectraForTokenClassification", has_labels=True,
                    dense="classifier", hidden=""),
    "qa": Kind("ElectraForQuestionAnswering", dense="qa_outputs", hidden=""),
}
# fmt: on
"""Every one of `finetuning_config.OWN_KINDS`."""
