"""What a process does that is compared: builds once, then does as it is told.

Requests and replies are lines of JSON. It needs Python alone, as the
interpreter may be one where only another library is installed.
"""

import importlib.metadata
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

BEST_SECONDS = 0.2


class Built(NamedTuple):
    """What a side has built."""

    step: Callable[[Any], float]  # one batch; returns how much work it was
    sizes: dict[str, Any]  # of the work, equal on all sides
    packages: Sequence[str]  # whose versions matter
    # Further ones; `peak_memory` and `peak_rates` in place of those of `serve`.
    methods: dict[str, Callable[..., Any]] = {}
    flops_per_unit: float = 0.0  # operations of matrix products


def peak_memory() -> int:
    """Bytes that this process has held at most, on the host."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def processor_seconds() -> float:
    """Of this process and of those that it has waited for."""
    return sum(os.times()[:4])


def best_rate(work: Callable[[], Any], amount: float) -> float:
    """The highest of many rates of `amount` a second: others disturb most."""
    work()
    best, end = 0.0, time.perf_counter() + BEST_SECONDS
    while (start := time.perf_counter()) < end:
        work()
        best = max(best, amount / (time.perf_counter() - start))
    return best


def peak_rates(
    product: Callable[[int], Callable[[], Any]],
    addition: Callable[[int], Callable[[], Any]],
    is_gpu: bool,
) -> dict[str, float]:
    """Operations and bytes a second of products and of adding up arrays.

    `product` takes the size of square matrices, `addition` the number of
    float32 entries; both give what does the work and waits until it is done.
    """
    sizes = (4096, 8192) if is_gpu else (512, 1024, 2048)
    count = 2**28 if is_gpu else 2**24
    flops = max(best_rate(product(size), 2.0 * size**3) for size in sizes)
    # Two arrays are read, one is written.
    return {"flops": flops, "bytes": best_rate(addition(count), 12.0 * count)}


def time_steps(step: Callable[[Any], float], batches: list) -> dict[str, Any]:
    """Seconds and amount of work of every batch; processor seconds of all."""
    seconds, units = [], []
    processor = processor_seconds()
    for batch in batches:
        start = time.perf_counter()
        units.append(step(batch))
        seconds.append(time.perf_counter() - start)
    processor = processor_seconds() - processor
    return {"seconds": seconds, "units": units, "processor": processor}


def build_scorer(
    score: Callable[[list[str]], tuple[Any, Any]],
    packages: Sequence[str],
    **sizes: Any,
) -> Built:
    """A side that says which tokens of texts look replaced.

    `score` gives probabilities and the mask of tokens, `[B, S]` arrays. The
    method `answer` gives the probabilities of each text's tokens.
    """

    def step(texts: list[str]) -> float:
        score(texts)
        return len(texts)

    def answer(texts: list[str]) -> list[list[float]]:
        rows = zip(*score(texts), strict=True)
        return [row[mask > 0].round(9).tolist() for row, mask in rows]

    return Built(step, sizes, packages, {"answer": answer})


def serve(builders: dict[str, Callable[..., Built]]) -> None:
    """Builds what the first line describes, then answers line by line."""
    # What libraries print must not come between the replies.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    described = json.loads(sys.stdin.readline())
    built = builders[described.pop("kind")](**described)
    methods = {
        "peak_memory": peak_memory,
        "peak_rates": dict,
        "processor_seconds": processor_seconds,
        "step": lambda batches: time_steps(built.step, batches),
    } | built.methods
    versions = {name: importlib.metadata.version(name)
                for name in built.packages}  # fmt: skip
    first = built.sizes, versions, built.flops_per_unit
    print(json.dumps(first), file=replies, flush=True)
    for line in sys.stdin:
        method, arguments = json.loads(line)
        print(json.dumps(methods[method](*arguments)), file=replies, flush=True)
