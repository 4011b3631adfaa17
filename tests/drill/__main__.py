"""The fault drill.

    python -m tests.drill --seed=7 --kills=50 --only=trainer,builder

Its last table says how often each fault was done and how it ended. Exits
with 1 on an end that is not allowed, with the command that repeats it.
"""

import argparse
import collections
import functools
import os
import pathlib
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from tests.drill import damage
from tests.drill import kinds as kinds_lib
from tests.drill import victims

_MOST_KILLS = 10  # of one folder


class Wrong(Exception):
    """An end that is not allowed."""


class Drill:
    """The drill of one kind of command, in a folder."""

    def __init__(self, name: str, home: pathlib.Path, seed: int) -> None:
        self.name, self.home, self.seed = name, home, seed
        self.kind = kinds_lib.all_kinds(home)[name]
        self.counts: collections.Counter[str] = collections.Counter()
        self.worst = 0.0
        folder = home / f"whole-{name}"
        self.length, self.expected = 0.0, {}
        if not folder.exists():
            # The first one also fills the caches of the disk.
            self.length = self._finish(folder)
        self.expected = kinds_lib.snapshot(folder)
        folder = home / f"again-{name}"
        self.length = self._finish(folder)
        self._compare(folder)

    def _finish(self, folder: pathlib.Path) -> float:
        if self.kind.is_created and folder.exists():
            return 0.0  # The kill came after it had got its name.
        ended = [v.wait() for v in self.kind.start(folder)]
        for victim in ended:
            if victim.code != 0:
                raise Wrong(f"exit code {victim.code}: {victim.lines[-8:]}")
        return max(victim.seconds for victim in ended)

    def _compare(self, folder: pathlib.Path) -> None:
        found = kinds_lib.snapshot(folder)
        if names := kinds_lib.differences(self.expected, found):
            raise Wrong(f"other bits in {names}")

    def chain(self, number: int, most: int) -> None:
        """Kills one command again and again, then lets it finish."""
        rng = random.Random(f"{self.seed}/{self.name}/{number}")
        folder = self.home / f"chain-{self.name}"
        shutil.rmtree(folder, ignore_errors=True)
        for _ in range(min(most, rng.randint(2, _MOST_KILLS))):
            if not self._kill(folder, rng) or (
                self.kind.is_created and folder.exists()
            ):
                break
        self.worst = max(self.worst, self._finish(folder))
        self._compare(folder)
        self.counts["equal bits"] += 1

    def line(self) -> list[Any]:
        """Its line of the table."""
        kills, told = self.counts["kills"], self.counts["told"]
        worst = f"{self.worst:.1f}"
        return [f"kill: {self.name}", kills, kills - told, told, 0, worst]

    def _kill(self, folder: pathlib.Path, rng: random.Random) -> bool:
        """One attempt; False if it ended before it was hit."""
        aim, prepare = rng.choice(("at a time", "a change", "inside")), None
        if aim == "inside" and self.kind.places:
            place = rng.choice([*self.kind.places])
            seconds = rng.uniform(0, self.kind.places[place])
            aim = place.rpartition(".")[2].strip("_")
            prepare = functools.partial(
                victims.die_inside, place, rng.randint(1, 2), seconds
            )
        elif aim != "at a time":
            # Most have few.
            aim, number = "a change", 1 + int(60 * rng.random() ** 2)
            prepare = functools.partial(
                victims.die_before_change, number, folder
            )
        target = rng.randrange(self.kind.num_workers)
        started = self.kind.start(folder, prepare or (lambda: None), target)
        if prepare is None:
            after = rng.uniform(0, self.length)
            victims.kill_after(started[target], after, rng)
        ended = [victim.wait() for victim in started]
        codes = [victim.code for victim in ended]
        if set(codes) == {0}:
            return False
        for victim in ended:
            if victim.code not in (-9, 0) and not victim.error():
                raise Wrong(f"exit code {victim.code}: {victim.lines[-12:]}")
            self._require_no_orphans(victim)
        self.counts[aim] += 1
        self.counts["kills"] += 1
        self.counts["told"] += any(code not in (-9, 0) for code in codes)
        return True

    def _require_no_orphans(self, victim: victims.Victim) -> None:
        deadline = time.monotonic() + 30
        while victim.session():
            if time.monotonic() > deadline:
                victim.end_all()
                raise Wrong(f"processes live on after {victim.pid}")
            time.sleep(0.05)


def _drill(name: str, home: pathlib.Path, options: Any) -> Drill | None:
    command = f"python -m tests.drill --seed={options.seed} --only={name}"
    number, drill = options.chain, None
    try:
        drill = Drill(name, home, options.seed)
        while drill.counts["kills"] < options.kills:
            left = options.kills - drill.counts["kills"]
            drill.chain(number, left)
            number += 1
            print(f"{name}: chain {number}, {dict(drill.counts)}", flush=True)
    except Wrong as error:
        print(f"WRONG {error}\nrepeat: {command} --chain={number} --kills=1")
        print(f"its files: {home}", flush=True)
        return None
    return drill


def _do_faults(home: pathlib.Path, options: Any) -> Iterator[list[Any]]:
    """Does each fault so many times; yields the lines of the table."""
    expected = kinds_lib.snapshot(home / "whole-trainer")
    for name, fault in damage.FAULTS.items():
        counts: collections.Counter[str] = collections.Counter()
        if options.fault not in name:
            continue
        for number in range(options.chain, options.chain + options.faults):
            rng = random.Random(f"{options.seed}/{name}/{number}")
            outcome = damage.do(fault, home, rng, expected)
            if outcome.startswith("WRONG"):
                print(
                    f"{name}: {outcome}\nrepeat: python -m tests.drill "
                    f"--seed={options.seed} --only=faults --fault='{name}' "
                    f"--chain={number} --faults=1",
                    flush=True,
                )
                outcome = "WRONG"
            counts[outcome] += 1
        yield [name, options.faults, *map(counts.__getitem__, _OUTCOMES), 0]


_OUTCOMES = ("equal bits", "one error", "WRONG")


def _print_table(lines: list[list[Any]]) -> None:
    heading = ["fault", "times", *_OUTCOMES, "worst s"]
    for line in [heading, *lines]:
        cells = [f"{cell:>10}" for cell in line[1:]]
        print(f"{line[0]:<32}", *cells, flush=True)


def main() -> int:
    """Drills what the flags name; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.drill")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**6)
    parser.add_argument("--kills", type=int, default=50, help="of each kind")
    parser.add_argument("--faults", type=int, default=5, help="of each other")
    parser.add_argument("--only", default="", help="kinds, or faults")
    parser.add_argument("--fault", default="", help="part of its name")
    parser.add_argument("--chain", type=int, default=0, help="first number")
    options = parser.parse_args()
    home = pathlib.Path(tempfile.mkdtemp(prefix="drill-"))
    home.chmod(0o755)
    print(f"seed {options.seed}, in {home}", flush=True)
    prepare = functools.partial(kinds_lib.write_inputs, home)
    victims.in_fork(prepare, home / "inputs.log")
    names = [*kinds_lib.all_kinds(home), "faults"]
    chosen = options.only.split(",") if options.only else names
    if {"conversion", "export", "faults"} & {*chosen}:
        Drill("trainer", home, options.seed)
    lines = []
    for name in chosen:
        if name == "faults":
            lines += _do_faults(home, options)
        elif drill := _drill(name, home, options):
            lines.append(drill.line())
        else:
            lines.append([f"kill: {name}", "", "", "", 1, ""])
    _print_table(lines)
    if any(line[4] for line in lines):
        return 1
    shutil.rmtree(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
