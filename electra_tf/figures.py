"""Figures of matplotlib, saved as PNG files."""

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
    """Yields a figure and its axes, flat, and saves it as a PNG.

    `options` are those of `Figure.subplots`.
    """
    # Imported here: it takes a second that most programs can save.
    from matplotlib import figure as figure_lib

    figure = figure_lib.Figure(figsize=figsize)
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    yield figure, axes.ravel()
    with atomic.replacing_file(path) as partial:
        # "tight": layouts do not see how wide the names beside cells are.
        figure.savefig(partial, dpi=120, format="png", bbox_inches="tight")
