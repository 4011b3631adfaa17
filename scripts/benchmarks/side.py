"""The process of a side: it builds a step once, then answers requests.

Requests and replies are lines of JSON. This module imports the standard library
only, because a peer's interpreter may lack everything else.
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
    """A step that is ready to be timed."""

    step: Callable[[Any], float]  # starts a batch; returns its units of work
    sizes: dict[str, Any]  # of the work; all sides must have the same
    packages: Sequence[str]  # whose versions are reported
    # Methods beside those of `serve`, or in their place.
    methods: Mapping[str, Callable[..., Any]] = {}
    flops_per_unit: float = 0.0  # operations of a unit's matrix products
    wait: Callable[[], Any] = lambda: None  # until started batches are done
    # Whether a step starts before the previous one is done, as on GPUs.
    runs_ahead: bool = False


def peak_memory() -> int:
    """Returns the most bytes of host memory that this process has used."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def processor_seconds() -> float:
    """Returns processor time of this process and its finished children."""
    return sum(os.times()[:4])


def time_steps(built: Built, batches: list) -> dict[str, Any]:
    """`seconds` and `units` of every batch, `processor` seconds of all.

    Steps that run ahead are waited for once and share the time equally.
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
    """Builds a side that scores how likely the tokens of texts are replaced.

    `score` returns probabilities and the mask of tokens, `[B, S]` arrays. The
    method `answer` of the side gives the probabilities of each text's tokens.
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
    # Libraries print to stdout: send that to stderr, apart from the replies.
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
    answer = built.sizes, versions, built.flops_per_unit
    print(json.dumps(answer), file=replies)
    for line in sys.stdin:
        method, arguments = json.loads(line)
        print(json.dumps(methods[method](*arguments)), file=replies)
