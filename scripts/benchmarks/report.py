"""What was measured, as a table, a JSON file and a picture."""

import dataclasses
import json
import os
import pathlib
import platform
import re
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import pandas

from benchmarks import timing
from electra_tf.processes import atomic


def describe_machine() -> dict[str, Any]:
    """Processor, cores, load and versions that all sides share."""
    cpu = pathlib.Path("/proc/cpuinfo")
    text = cpu.read_text() if cpu.exists() else ""
    name = re.search(r"model name\s*: (.*)", text)
    return {
        "processor": name[1] if name else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def build_table(summaries: Sequence[timing.Summary], unit: str) -> str:
    """A line for each side; docs/performance.md explains the columns."""
    frame = pandas.DataFrame(
        {
            "side": s.name,
            "compared": s.group,
            "median ms": f"{1e3 * s.median:,.1f}",
            "5 to 95 %": f"{1e3 * s.low:,.1f} to {1e3 * s.high:,.1f}",
            "CPU ms": f"{1e3 * s.processor:,.1f}",
            f"{unit}/s": f"{s.rate:,.0f}",
            "of peak": _format(s.share_of_peak, 100, " %"),
            "MiB": _format(s.peak_memory, 2**-20),
            "start s": _format(s.startup_seconds),
            "time, ours 1": f"{s.ratio:.2f} ({s.ratio_low:.2f} to "
            f"{s.ratio_high:.2f})",
        }
        for s in summaries
    )
    shown = [name for name in frame if (frame[name] != "").any()]
    return frame[shown].to_string(index=False)


def _format(value: float | None, factor: float = 1, unit: str = "") -> str:
    return "" if value is None else f"{factor * value:,.1f}{unit}"


def describe_peaks(sides: Sequence[timing.Side]) -> list[str]:
    """A line for what the device could do in each group, where measured."""
    lines = []
    for group in dict.fromkeys(side.group for side in sides):
        flops, moved = (
            timing.find_peak(sides, group, name) for name in ("flops", "bytes")
        )
        if flops:
            lines.append(
                f"Peak, {group}: products {flops / 1e9:,.0f} GFLOP/s, memory "
                f"{moved / 1e9:,.1f} GB/s."
            )
    return lines


def write_json(
    path: pathlib.Path,
    sides: Sequence[timing.Side],
    summaries: Sequence[timing.Summary],
    described: Mapping[str, Any],
) -> None:
    """Writes all samples, with the machine and what was asked for."""
    found = [
        {name: value for name, value in vars(side).items() if name != "ask"}
        | {"summary": dataclasses.asdict(summary)}
        for side, summary in zip(sides, summaries, strict=True)
    ]
    with atomic.replacing_file(path) as partial:
        partial.write_text(
            json.dumps({**described, "sides": found}, indent=1, default=str)
        )


def draw(
    path: pathlib.Path, summaries: Sequence[timing.Summary], unit: str
) -> None:
    """Draws the rate of every side, with lines from 5 % to 95 %."""
    names = [f"{s.name} {s.group}".strip() for s in summaries]
    rates = [s.rate for s in summaries]
    amounts = [s.rate * s.median for s in summaries]
    pairs = list(zip(amounts, summaries, strict=True))
    spread = [
        [s.rate - amount / s.high for amount, s in pairs],
        [amount / s.low - s.rate for amount, s in pairs],
    ]
    size = 8, 1 + 0.4 * len(names)
    with atomic.saving_figure(path, 1, 1, size) as (_, axes):
        axes[0].barh(names, rates, xerr=spread, capsize=3)
        axes[0].invert_yaxis()
        axes[0].set_xlabel(f"{unit} a second")
