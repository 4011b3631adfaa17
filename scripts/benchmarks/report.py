"""Shows measurements as a table, a JSON file and a picture."""

import os
import pathlib
import platform
import re
from collections.abc import Sequence
from typing import Any

import pandas

from benchmarks import timing
from electra_tf import figures

Sides = Sequence[timing.Side]


def describe_machine() -> dict[str, Any]:
    """Returns processor, cores and load."""
    cpu = pathlib.Path("/proc/cpuinfo")
    text = cpu.read_text() if cpu.exists() else ""
    name = re.search(r"model name\s*: (.*)", text)
    return {
        "processor": name[1] if name else platform.processor(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
    }


def build_table(sides: Sides, unit: str) -> str:
    """A line for each side; docs/performance.md explains the columns."""
    table = pandas.DataFrame(
        {
            "side": side.name,
            "group": side.group,
            "ms": f"{1e3 * s['median']:,.1f}",
            "5 to 95 %": f"{1e3 * s['low']:,.1f} to {1e3 * s['high']:,.1f}",
            "CPU ms": f"{1e3 * s['processor']:,.1f}",
            f"{unit}/s": f"{s['rate']:,.1f}",
            "% of peak": _format(s["share_of_peak"], 100),
            "MiB": _format(side.peak_memory, 2**-20),
            "start s": _format(side.startup_seconds),
            "time": "{:.2f} ({:.2f} to {:.2f})".format(*s["ratios"]),
        }
        for side, s in zip(sides, timing.summarize(sides), strict=True)
    )
    shown = [name for name in table if (table[name] != "").any()]
    return table[shown].to_string(index=False)


def _format(value: float | None, factor: float = 1.0) -> str:
    return "" if value is None else f"{factor * value:,.1f}"


def describe_peaks(sides: Sides) -> list[str]:
    """A line about the device for each group, where it was measured."""
    return [
        f"Peak, {group}: products {flops / 1e9:,.0f} GFLOP/s, memory "
        f"{timing.find_peak(sides, group, 'bytes') / 1e9:,.1f} GB/s."
        for group in dict.fromkeys(side.group for side in sides)
        if (flops := timing.find_peak(sides, group, "flops"))
    ]


def list_results(sides: Sides) -> list[dict[str, Any]]:
    """All samples of each side, with their summary."""
    return [
        {**vars(side), "process": None, "summary": summary}
        for side, summary in zip(sides, timing.summarize(sides), strict=True)
    ]


def draw(path: pathlib.Path, sides: Sides, unit: str) -> None:
    """Draws the rate of every side, with lines from 5 % to 95 %."""
    names = [f"{side.name} {side.group}".strip() for side in sides]
    found = pandas.DataFrame(timing.summarize(sides))
    rates, middle = found["rate"], found["median"]
    ends = 1 - middle / found["high"], middle / found["low"] - 1
    size = 8, 1 + 0.4 * len(names)
    with figures.saving_figure(path, 1, 1, size) as (_, axes):
        spread = [rates * share for share in ends]
        axes[0].barh(names, rates, xerr=spread, capsize=3)
        axes[0].invert_yaxis()
        axes[0].set_xlabel(f"{unit} a second")
