"""The tasks of GLUE: what is published, in one table.

Columns are counted, not named, as their names differ between releases; a
negative place counts from the end.
"""

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple


class Columns(NamedTuple):
    """Where in a line the texts and the label are.

    Attributes:
        text: place of the first text.
        pair: of the second one, or None.
        label: of the label, or None where it is not told.
        has_header: whether the first line holds the names of the columns.
    """

    text: int
    pair: int | None = None
    label: int | None = None
    has_header: bool = True

    @property
    def least_width(self) -> int:
        """Fewest fields in which all places exist; the number, if no header."""
        places = (self.text, self.pair, self.label)
        return max(p + 1 if p >= 0 else -p for p in places if p is not None)


class Split(NamedTuple):
    """One file of a task.

    Attributes:
        file_names: the official name first.
        columns: of its lines.
        counts: examples it may have; releases differ for QQP.
        tfds: data set and split of TensorFlow Datasets.
        folders: where it is, if not in the task's folder.
    """

    file_names: tuple[str, ...]
    columns: Columns
    counts: tuple[int, ...]
    tfds: tuple[str, str]
    folders: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class GlueTask:
    """A task as it is published.

    Attributes:
        name: in the catalog; submissions are named by it.
        title: what errors call it.
        folders: names of its folder: the official one, the original's.
        splits: name to file.
        labels: classes in the original's order, as the site spells them; none
            for a regression.
        metrics: names in `scores`; the first decides.
        tfds_features: what TensorFlow Datasets calls the texts.
        tfds_labels: and the classes, in the order of `labels`.
        num_train_epochs: the original's.
        is_unordered: whether the texts of a pair can change places.
        skips_bad_lines: whether lines with another number of fields are left
            out, their numbers used up, instead of refused.
    """

    name: str
    title: str
    folders: tuple[str, ...]
    splits: Mapping[str, Split]
    labels: tuple[str, ...] = ("0", "1")
    metrics: tuple[str, ...] = ("accuracy",)
    tfds_features: tuple[str, ...] = ("sentence1", "sentence2")
    tfds_labels: tuple[str, ...] = ()
    num_train_epochs: float = 3.0
    is_unordered: bool = False
    skips_bad_lines: bool = False

    @property
    def dev_splits(self) -> tuple[str, ...]:
        """Those to score on, the deciding one first."""
        return tuple(name for name in self.splits if name.startswith("dev"))

    @property
    def has_pairs(self) -> bool:
        """Whether texts come in pairs."""
        return all(s.columns.pair is not None for s in self.splits.values())


MIN_SCORE, MAX_SCORE = 0.0, 5.0
"""The range of the scores of STS-B."""


def _splits(
    tfds: str,
    counts: tuple[int | tuple[int, ...], ...],
    labelled: Columns,
    unlabelled: Columns,
) -> dict[str, Split]:
    """`train`, `dev` and `test` with files of these names."""
    splits = {}
    for name, tfds_name, columns, count in zip(
        ("train", "dev", "test"),
        ("train", "validation", "test"),
        (labelled, labelled, unlabelled),
        counts,
        strict=True,
    ):
        known = count if isinstance(count, tuple) else (count,)
        splits[name] = Split(
            (f"{name}.tsv",), columns, known, (f"glue/{tfds}", tfds_name)
        )
    return splits


# index, first text, second text, label.
_PAIRS = Columns(1, 2, 3), Columns(1, 2)
_MNLI_TEST = Columns(8, 9)
_ENTAILMENT = ("entailment", "not_entailment")
_AX = Split(
    ("diagnostic.tsv", "AX.tsv"),
    Columns(1, 2),
    (1_104,),
    ("glue/ax", "test"),
    ("diagnostic", "AX", "MNLI"),
)
# The last column is `gold_label`.
_MNLI = Columns(8, 9, -1)
_MNLI_SPLITS = {
    name: Split(
        (f"{name}.tsv",), columns, (count,), ("glue/mnli", tfds_name)
    )
    for name, columns, count, tfds_name in (
        ("train", _MNLI, 392_702, "train"),
        ("dev_matched", _MNLI, 9_815, "validation_matched"),
        ("dev_mismatched", _MNLI, 9_832, "validation_mismatched"),
        ("test_matched", _MNLI_TEST, 9_796, "test_matched"),
        ("test_mismatched", _MNLI_TEST, 9_847, "test_mismatched"),
    )
} | {"ax": _AX}  # fmt: skip

TASKS: Mapping[str, GlueTask] = {
    task.name: task
    for task in (
        GlueTask(
            "cola",
            "CoLA",
            ("CoLA",),
            _splits(
                "cola",
                (8_551, 1_043, 1_063),
                Columns(3, label=1, has_header=False),
                Columns(1),
            ),
            metrics=("mcc",),
            tfds_features=("sentence",),
            tfds_labels=("unacceptable", "acceptable"),
        ),
        GlueTask(
            "sst2",
            "SST-2",
            ("SST-2", "sst", "sst2"),
            _splits(
                "sst2",
                (67_349, 872, 1_821),
                Columns(0, label=1),
                Columns(1),
            ),
            tfds_features=("sentence",),
            tfds_labels=("negative", "positive"),
        ),
        GlueTask(
            "mrpc",
            "MRPC",
            ("MRPC",),
            _splits(
                "mrpc",
                (3_668, 408, 1_725),
                Columns(3, 4, 0),
                Columns(3, 4),
            ),
            metrics=("accuracy", "f1"),
            tfds_labels=("not_equivalent", "equivalent"),
            is_unordered=True,
        ),
        GlueTask(
            "stsb",
            "STS-B",
            ("STS-B", "sts", "stsb"),
            _splits(
                "stsb",
                (5_749, 1_500, 1_379),
                Columns(-3, -2, -1),
                Columns(-2, -1),
            ),
            labels=(),
            metrics=("spearman", "pearson", "mse"),
            num_train_epochs=10.0,
            is_unordered=True,
        ),
        # Some lines of the official file break off; the original leaves them
        # out. The older release has three more examples than the cleaned one.
        GlueTask(
            "qqp",
            "QQP",
            ("QQP",),
            _splits(
                "qqp",
                ((363_846, 363_849), 40_430, 390_965),
                Columns(3, 4, 5),
                Columns(1, 2),
            ),
            metrics=("accuracy", "f1"),
            tfds_features=("question1", "question2"),
            tfds_labels=("not_duplicate", "duplicate"),
            skips_bad_lines=True,
        ),
        GlueTask(
            "mnli",
            "MNLI",
            ("MNLI",),
            _MNLI_SPLITS,
            labels=("contradiction", "entailment", "neutral"),
            tfds_features=("premise", "hypothesis"),
            tfds_labels=("contradiction", "entailment", "neutral"),
        ),
        GlueTask(
            "qnli",
            "QNLI",
            ("QNLI",),
            _splits("qnli", (104_743, 5_463, 5_463), *_PAIRS),
            labels=_ENTAILMENT,
            tfds_features=("question", "sentence"),
            tfds_labels=_ENTAILMENT,
        ),
        GlueTask(
            "rte",
            "RTE",
            ("RTE",),
            _splits("rte", (2_490, 277, 3_000), *_PAIRS),
            labels=_ENTAILMENT,
            tfds_labels=_ENTAILMENT,
            num_train_epochs=10.0,
        ),
        GlueTask(
            "wnli",
            "WNLI",
            ("WNLI",),
            _splits("wnli", (635, 71, 146), *_PAIRS),
            tfds_labels=("not_entailment", "entailment"),
        ),
    )
}
"""Name in the catalog to task."""

BENCHMARK = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte")
"""The tasks whose dev scores papers average: all but WNLI, whose dev set is
drawn so that it misleads. AX is predicted by the model of MNLI."""
