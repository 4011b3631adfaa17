"""Saves figures of matplotlib as PNG files."""

import contextlib
import pathlib
from collections.abc import Iterator
from typing import Any

from electra_tf.processes import atomic


@contextlib.contextmanager
def saving_figure(
    path: pathlib.Path,
    rows: int,
    columns: int,
    figsize: tuple[float, float],
    **options: Any,
) -> Iterator[tuple[Any, Any]]:
    """Yields a figure and a flat array of its axes; saves it afterwards.

    `options` are passed to `Figure.subplots`.
    """
    # Imported late, as matplotlib takes a second to import.
    from matplotlib import figure as figure_lib

    figure = figure_lib.Figure(figsize=figsize)
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    yield figure, axes.ravel()
    with atomic.replacing_file(path) as partial:
        # "tight", as layouts ignore the widths of tick labels.
        figure.savefig(partial, dpi=120, format="png", bbox_inches="tight")
