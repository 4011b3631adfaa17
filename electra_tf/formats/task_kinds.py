"""The kinds of tasks, as formats keep their fine-tuned models."""

from typing import NamedTuple

_SEQUENCE = "ElectraForSequenceClassification"


class Kind(NamedTuple):
    """What sets a kind of task apart."""

    hugging_face: str  # the class there
    problem_type: str | None = None  # what a config there calls it
    has_labels: bool = False  # outputs have names; otherwise there is one
    takes_pairs: bool = False  # of texts, if the user's files have them
    dense: str = "classifier.out_proj"  # the output layer there
    hidden: str = "classifier.dense"  # the one before; empty if there is none


KINDS = {
    "classification": Kind(
        _SEQUENCE, "single_label_classification", True, True
    ),
    "multilabel": Kind(_SEQUENCE, "multi_label_classification", True, True),
    "regression": Kind(_SEQUENCE, "regression", takes_pairs=True),
    "multiple_choice": Kind(
        "ElectraForMultipleChoice",
        dense="classifier",
        hidden="sequence_summary.summary",
    ),
    # A cross-encoder; a field of our own tells it from regression.
    "ranking": Kind(_SEQUENCE),
    "tagging": Kind(
        "ElectraForTokenClassification",
        None,
        True,
        dense="classifier",
        hidden="",
    ),
    "qa": Kind("ElectraForQuestionAnswering", dense="qa_outputs", hidden=""),
}
"""Every one of `finetuning_config.OWN_KINDS`."""
