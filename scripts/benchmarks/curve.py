"""How time and memory of a pre-training step grow with each of its sizes."""

import copy
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas

from benchmarks import pretrain
from benchmarks import timing
from electra_tf.processes import atomic

FACTORS = {
    "length": (1, 2, 4, 8, 16),
    "width": (1, 2, 3, 4),
    "depth": (1, 2, 4, 8),
    "vocabulary": (1, 2, 4, 8),
    "batch": (1, 2, 4, 8),
}
"""Each size is multiplied in turn; the first step of all is the config's."""


def list_sides(
    settings: Any, precision: str, batch_size: int
) -> Iterator[timing.Side]:
    """The config's step, then with one size in turn made larger."""
    for size, factors in FACTORS.items():
        for factor in factors:
            scaled = copy.deepcopy(settings)
            batch = batch_size * (factor if size == "batch" else 1)
            _multiply(scaled, size, factor)
            frozen = pretrain.prepare(scaled, precision, batch)
            side, *_ = pretrain.list_sides(
                frozen, ["electra_tf"], "pretrain", "", ""
            )
            side.name, side.group = f"x {factor}", size
            yield side


def _multiply(settings: Any, size: str, factor: int) -> None:
    encoder = settings.encoder
    encoder.vocab_size = encoder.vocab_size or pretrain.VOCAB_SIZE
    if size == "length":
        length = settings.data.max_seq_length = (
            factor * settings.data.max_seq_length
        )
        places = max(encoder.max_position_embeddings, length)
        encoder.max_position_embeddings = places
    names = {
        "width": ["hidden_size", "intermediate_size", "num_attention_heads"],
        "depth": ["num_hidden_layers"],
        "vocabulary": ["vocab_size"],
    }
    for name in names.get(size, ()):
        encoder[name] *= factor


def fit(sides: Sequence[timing.Side]) -> pandas.DataFrame:
    """A row for each size: a line through seconds over operations, and powers.

    `fixed ms` and `GFLOP/s` are those of `time = fixed + operations / rate`
    (least squares of relative errors), `off by` its largest relative error.
    The powers are slopes of logarithms over the last two points: of the time
    over the operations, where more than 1 is worse than theory, and of time
    and memory over the size.
    """
    rows = []
    for size, factors in FACTORS.items():
        own = [side for side in sides if side.group == size]
        operations, seconds = _measured(own)
        # Divided by the time, so that a short step counts as a long one.
        matrix = np.stack([1 / seconds, operations / seconds], 1)
        fixed, slope = np.linalg.lstsq(matrix, np.ones(len(own)))[0]
        off = np.abs((fixed + slope * operations) / seconds - 1).max()
        memory = [side.peak_memory for side in own]
        powers = {
            "time / operations": (operations, seconds),
            "time / size": (factors, seconds),
            "operations / size": (factors, operations),
            "memory / size": (factors, memory),
        }
        rows.append(
            {"size": size, "fixed ms": 1e3 * fixed, "GFLOP/s": 1e-9 / slope}
            | {"off by": off}
            | {name: _last_power(*pair) for name, pair in powers.items()}
        )
    return pandas.DataFrame(rows)


def draw(path: pathlib.Path, sides: Sequence[timing.Side]) -> None:
    """Draws time over operations, with the fitted lines, and memory."""
    fits = fit(sides).set_index("size")
    with atomic.saving_figure(path, 1, 2, (11, 4)) as (_, (left, right)):
        for size, factors in FACTORS.items():
            own = [side for side in sides if side.group == size]
            operations, seconds = _measured(own)
            (points,) = left.plot(operations / 1e9, seconds, "o", label=size)
            line = fits["fixed ms"][size] / 1e3
            line += operations / 1e9 / fits["GFLOP/s"][size]
            left.plot(operations / 1e9, line, color=points.get_color())
            memory = [side.peak_memory / 2**30 for side in own]
            right.plot(factors, memory, "o-", label=size)
        left.set(xlabel="10^9 operations of a step", ylabel="seconds")
        right.set(xlabel="times the config's size", ylabel="GiB")
        for axes in (left, right):
            axes.set(xscale="log", yscale="log")
            axes.legend()


def _measured(sides: Sequence[timing.Side]) -> tuple[np.ndarray, np.ndarray]:
    """Operations and median seconds of a step of each."""
    tokens = np.array([side.rounds[0]["units"][0] for side in sides])
    operations = tokens * [side.flops_per_unit for side in sides]
    return operations, np.array([s["median"] for s in timing.summarize(sides)])


def _last_power(sizes: Sequence[float], values: Sequence[float]) -> float:
    (before, after), (low, high) = np.log(sizes[-2:]), np.log(values[-2:])
    return (high - low) / (after - before)
