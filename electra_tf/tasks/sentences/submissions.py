"""Predictions as files: our own table, and what the GLUE site takes."""

import pathlib
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

import numpy as np

from electra_tf.records import atomic

GLUE_FILES: Mapping[tuple[str, str], str] = {
    ("cola", "test"): "CoLA.tsv",
    ("sst2", "test"): "SST-2.tsv",
    ("mrpc", "test"): "MRPC.tsv",
    ("stsb", "test"): "STS-B.tsv",
    ("qqp", "test"): "QQP.tsv",
    ("mnli", "test_matched"): "MNLI-m.tsv",
    ("mnli", "test_mismatched"): "MNLI-mm.tsv",
    ("qnli", "test"): "QNLI.tsv",
    ("rte", "test"): "RTE.tsv",
    ("wnli", "test"): "WNLI.tsv",
    ("mnli", "ax"): "AX.tsv",
}
"""Task and split to the name under which the site expects predictions."""


def write_glue(
    folder: pathlib.Path,
    task: str,
    split: str,
    indices: Sequence[int | str],
    predictions: Sequence[str],
) -> list[pathlib.Path]:
    """Writes the file of a split that the GLUE site scores.

    Args:
        folder: exists.
        task: name in the catalog.
        split: of the task.
        indices: N numbers of rows in the official file, from 0.
        predictions: N labels as the site spells them, or numbers.

    Returns:
        The file, or none if the site takes none for this split.
    """
    name = GLUE_FILES.get((task, split))
    if name is None:
        return []
    rows = sorted(
        zip(map(int, indices), predictions, strict=True),
        key=lambda row: row[0],
    )
    return [write_table(folder / name, ("index", "prediction"), rows)]


def write_classes(
    path: pathlib.Path,
    ids: Sequence[int | str],
    labels: Sequence[str],
    classes: np.ndarray,
    probabilities: np.ndarray,
) -> pathlib.Path:
    """Writes label and probabilities of every example.

    Args:
        path: of the file.
        ids: N, one for each example.
        labels: C names of classes.
        classes: `[N]` integer, predicted.
        probabilities: `[N, C]` float.
    """
    columns = ("index", "label", *(f"probability_{name}" for name in labels))
    rows = (
        (index, labels[choice], *(f"{share:.6f}" for share in shares))
        for index, choice, shares in zip(
            ids, classes, probabilities, strict=True
        )
    )
    return write_table(path, columns, rows)


def write_numbers(
    path: pathlib.Path, ids: Sequence[int | str], numbers: np.ndarray
) -> pathlib.Path:
    """Writes the number predicted for every example.

    Args:
        path: of the file.
        ids: N, one for each example.
        numbers: `[N]` float.
    """
    rows = ((index, f"{n:.6f}") for index, n in zip(ids, numbers, strict=True))
    return write_table(path, ("index", "prediction"), rows)


def format_scores(
    numbers: np.ndarray, min_value: float, max_value: float
) -> list[str]:
    """Numbers within a range, with three decimals, as the site takes them."""
    return [f"{n:.3f}" for n in np.clip(numbers, min_value, max_value)]


def write_table(
    path: pathlib.Path,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
) -> pathlib.Path:
    """Writes tab-separated rows under a header, all of them or no file.

    Args:
        path: of the file.
        columns: names for the first line.
        rows: values without tabs or line ends.
    """
    with (
        atomic.replacing_file(path) as partial,
        partial.open("w", encoding="utf-8", newline="\n") as file,
    ):
        for row in (columns, *rows):
            file.write("\t".join(map(str, row)) + "\n")
    return path
