"""Runs a coverage-guided fuzzer on parsers: `fuzz.py TARGET... [--runs=N]`.

Needs `pip install atheris`. Each target of `targets.py` runs in a process of
its own, with its corpus in `build/fuzz/TARGET`. What is no documented error, a
crash, 2 GB of memory or 30 s for one input ends it; the input is kept there.
"""

import argparse
import collections
import json
import pathlib
import random
import sys
import tempfile
import time

import atheris
from absl import logging

with atheris.instrument_imports(include=["electra_tf"]):
    from tests.fuzz import targets

# What may stand in the place of a value of JSON.
_VALUES = (None, True, 0, -1, 2**70, 1e400, 0.5, "", "a", "\ud800", [], {})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=targets.TARGETS)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=int, default=0, help="0: no limit")
    options = parser.parse_args()
    logging.set_verbosity("error")
    target = targets.TARGETS[options.target]()
    corpus = pathlib.Path("build", "fuzz", options.target)
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds):
        for name in range(len(target.names)):
            (corpus / f"seed-{number}-{name}").write_bytes(bytes([name]) + seed)
    folder = pathlib.Path(tempfile.mkdtemp(dir="/dev/shm"))
    start, outcomes = time.monotonic(), collections.Counter()

    def run_one(data):
        outcomes[targets.run(target, data, folder)] += 1
        if (count := outcomes.total()) % 10_000 == 0:
            seconds = time.monotonic() - start
            told = f"{count} in {seconds:.0f} s, {dict(outcomes)}"
            print(f"{options.target}: {told}", flush=True)

    atheris.Setup(
        [sys.argv[0], f"-runs={options.runs}", "-rss_limit_mb=2500",
         f"-max_total_time={options.seconds}", "-timeout=30", "-max_len=16384",
         f"-artifact_prefix={corpus}/", "-print_final_stats=1", "-verbosity=0",
         str(corpus)],
        run_one,
        custom_mutator=_mutate,
    )  # fmt: skip
    atheris.Fuzz()


def _mutate(data, max_size, seed):
    """Changes bytes; of JSON one time in four a value, so it stays JSON."""
    rng = random.Random(seed)
    try:
        tree = json.loads(data[1:]) if rng.random() < 0.25 else None
    except (ValueError, RecursionError):
        tree = None
    places = [*_places(tree)]
    if not places:
        return atheris.Mutate(data, max_size)
    inside, place = rng.choice(places)
    other, key = rng.choice(places)
    if (action := rng.randrange(4)) == 0:
        del inside[place]
    elif action == 1:
        inside[place] = rng.choice(_VALUES)
    elif action == 2:
        # Not the value itself: what holds itself cannot be written.
        inside[place] = json.loads(json.dumps(other[key]))
    elif isinstance(inside, dict):
        inside[rng.choice(["a", "", f"{place}_"])] = inside.pop(place)
    else:
        inside.append(inside[place])
    return (data[:1] + json.dumps(tree).encode())[:max_size]


def _places(tree):
    """Every container inside a value of JSON, with each key or index."""
    if isinstance(tree, dict | list):
        keys = [*tree] if isinstance(tree, dict) else range(len(tree))
        for key in keys:
            yield tree, key
            yield from _places(tree[key])


if __name__ == "__main__":
    main()
