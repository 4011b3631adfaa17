"""What a process does that is compared: builds once, then does as it is told.

Requests and replies are lines of JSON. Python alone is needed: the interpreter
may be one where only another library is installed.
"""

import importlib.metadata
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple


class Built(NamedTuple):
    """What a side has built."""

    step: Callable[[Any], float]  # begins a batch, returns how much work it is
    sizes: dict[str, Any]  # of the work, which must be equal on all sides
    packages: Sequence[str]  # whose versions matter
    methods: Mapping[str, Callable[..., Any]] = {}  # beside those of `serve`
    flops_per_unit: float = 0.0  # operations of matrix products
    wait: Callable[[], Any] = lambda: None  # until what was begun is done
    # Whether training begins a step before the one before is done, as on GPUs.
    runs_ahead: bool = False


def peak_memory() -> int:
    """Bytes that this process has held at most, on the host."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def processor_seconds() -> float:
    """Of this process and of those that it has waited for."""
    return sum(os.times()[:4])


def time_steps(built: Built, batches: list) -> dict[str, Any]:
    """Seconds and amount of work of every batch; processor seconds of all.

    Steps that run ahead are waited for once, and share the seconds equally.
    """
    seconds, units, processor = [], [], processor_seconds()
    first = time.perf_counter()
    for batch in batches:
        start = time.perf_counter()
        units.append(built.step(batch))
        if not built.runs_ahead:
            built.wait()
        seconds.append(time.perf_counter() - start)
    if built.runs_ahead:
        built.wait()
        share = (time.perf_counter() - first) / len(batches)
        seconds = [share] * len(batches)
    processor = processor_seconds() - processor
    return {"seconds": seconds, "units": units, "processor": processor}


def build_scorer(
    score: Callable[[list[str]], tuple[Any, Any]],
    packages: Sequence[str],
    **sizes: Any,
) -> Built:
    """A side that says which tokens of texts look replaced.

    `score` gives probabilities and the mask of tokens, `[B, S]` arrays; the
    method `answer` the probabilities of each text's tokens.
    """

    def answer(texts: list[str]) -> list[list[float]]:
        rows = zip(*score(texts), strict=True)
        return [row[mask > 0].round(9).tolist() for row, mask in rows]

    def step(texts: list[str]) -> float:
        score(texts)
        return len(texts)

    return Built(step, sizes, packages, {"answer": answer})


def serve(builders: Mapping[str, Callable[..., Built]]) -> None:
    """Builds what the first line describes, then answers line by line."""
    # What libraries print must not come between the replies.
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    described = json.loads(sys.stdin.readline())
    built = builders[described.pop("kind")](**described)
    methods: dict[str, Callable[..., Any]] = {
        "step": lambda batches: time_steps(built, batches),
        "peak_memory": peak_memory,
        "peak_rates": dict,
        "processor_seconds": processor_seconds,
        **built.methods,
    }
    versions = {p: importlib.metadata.version(p) for p in built.packages}
    found = built.sizes, versions, built.flops_per_unit
    print(json.dumps(found), file=replies)
    for line in sys.stdin:
        method, arguments = json.loads(line)
        print(json.dumps(methods[method](*arguments)), file=replies)
