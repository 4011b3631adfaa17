"""How time and memory of a pre-training step grow with each of its sizes."""

import copy
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas

from benchmarks import pretrain
from benchmarks import timing
from electra_tf import figures

# Settings that each size scales; those without a section are the encoder's.
_SIZES = {
    "length": "data.max_seq_length max_position_embeddings",
    "width": "hidden_size intermediate_size num_attention_heads",
    "depth": "num_hidden_layers",
    "vocabulary": "vocab_size",
    "batch": "training.train_batch_size",
}
_FACTORS = 1, 2, 4, 8, 16


def list_sides(config: Any, precision: str, batch: int) -> Iterator[Any]:
    """Yields the config's step with each size at 1 to 8 (16) times its own."""
    vocab_size = config.encoder.vocab_size or pretrain.VOCAB_SIZE
    config.encoder.vocab_size = vocab_size
    config.training.train_batch_size = batch
    config.training.num_micro_batches = 1  # whatever the batch
    for size, paths in _SIZES.items():
        for factor in _FACTORS if size == "length" else _FACTORS[:-1]:
            scaled = copy.deepcopy(config)
            for path in paths.split():
                section, _, name = path.rpartition(".")
                scaled[section or "encoder"][name] *= factor
            rows = scaled.training.train_batch_size
            settings = pretrain.prepare(scaled, precision, rows)
            (side,) = pretrain.list_sides(settings, ["electra_tf"])
            side.name, side.group = f"x {factor}", size
            yield side


def fit(sides: Sequence[timing.Side]) -> pandas.DataFrame:
    """Fits `time = fixed + operations / rate` to the steps of each size.

    A row has the line with the least squares of relative errors, the largest of
    these (`off`), and the powers with which time and memory grow from the last
    but one step to the last.
    """
    rows = []
    for size, operations, seconds, memory in _measured(sides):
        # Divided by the time, so that short steps count as much as long ones.
        matrix = np.stack([1 / seconds, operations / seconds], 1)
        fixed, slope = np.linalg.lstsq(matrix, np.ones(len(seconds)))[0]
        off = 100 * np.abs(matrix @ [fixed, slope] - 1).max()
        growth = np.log2([v[-1] / v[-2] for v in (operations, seconds, memory)])
        powers = growth[1] / growth[0], *growth[1:]
        rows.append((size, 1e3 * fixed, 1e-9 / slope, off, *powers))
    names = "size,fixed ms,GFLOP/s,off %,time/operations,time/size,memory/size"
    return pandas.DataFrame(rows, columns=names.split(","))


def draw(path: pathlib.Path, sides: Sequence[timing.Side], _: str) -> None:
    """Draws times over operations, with the fitted lines, and memory."""
    lines = fit(sides).set_index("size")
    with figures.saving_figure(path, 1, 2, (11, 4)) as (_, (left, right)):
        for size, operations, seconds, memory in _measured(sides):
            billions, line = operations / 1e9, lines.loc[size]
            (points,) = left.loglog(billions, seconds, "o", label=size)
            fitted = line["fixed ms"] / 1e3 + billions / line["GFLOP/s"]
            left.loglog(billions, fitted, color=points.get_color())
            right.semilogx(_FACTORS[: len(memory)], memory / 2**30, "o-")
        left.set(xlabel="10^9 operations of a step", ylabel="seconds")
        right.set(xlabel="times the config's size", ylabel="GiB")
        left.legend()


def _measured(sides: Sequence[timing.Side]) -> Iterator[tuple[Any, ...]]:
    """Yields each size with operations, seconds (5 %) and bytes of steps."""
    for size in _SIZES:
        own = [side for side in sides if side.group == size]
        # The quantile that other work on the machine changes least.
        seconds = [summary["low"] for summary in timing.summarize(own)]
        flops = [s.rounds[0]["units"][0] * s.flops_per_unit for s in own]
        memory = [side.peak_memory for side in own]
        yield size, *map(np.array, (flops, seconds, memory))
