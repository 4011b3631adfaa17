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

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from tests.drill import damage
from tests.drill import kinds as kinds_lib
from tests.drill import victims

_MOST_KILLS = 10  # of one folder
_OUTCOMES = ("equal bits", "one error", "WRONG")


class Wrong(Exception):
    """An end that is not allowed."""


class Drill:
    """Kills of one kind of command, in a folder."""

    def __init__(self, name, home, seed):
        self.name, self.home, self.seed = name, home, seed
        self.kind = kinds_lib.all_kinds(home)[name]
        self.counts = collections.Counter()
        whole, again = home / f"whole-{name}", home / f"again-{name}"
        if not whole.exists():
            self._finish(whole)
        self.expected = kinds_lib.snapshot(whole)
        self.length = self._finish(again)
        self.worst = 0.0

    def _finish(self, folder):
        """Lets the command end; its seconds, if its result is right."""
        seconds = 0.0
        # A folder that is created at the end may stand before its command dies.
        if not (self.kind.is_created and folder.exists()):
            for victim in [victim.wait() for victim in self.kind.start(folder)]:
                if victim.code != 0:
                    lines = victim.lines[-8:]
                    raise Wrong(f"exit code {victim.code}: {lines}")
                seconds = max(seconds, victim.seconds)
        if folder.name.startswith("whole"):
            return seconds
        received = kinds_lib.snapshot(folder)
        if names := kinds_lib.differences(self.expected, received):
            raise Wrong(f"other bits in {names}")
        return seconds

    def chain(self, number, most):
        """Kills one command again and again, then lets it finish."""
        rng = random.Random(f"{self.seed}/{self.name}/{number}")
        folder = self.home / f"chain-{self.name}"
        shutil.rmtree(folder, ignore_errors=True)
        for _ in range(min(most, rng.randint(2, _MOST_KILLS))):
            is_done = not self._kill(folder, rng)
            if is_done or (self.kind.is_created and folder.exists()):
                break
        self.worst = max(self.worst, self._finish(folder))

    def _kill(self, folder, rng):
        """One attempt; False if it ended before it was hit."""
        aim, prepare = rng.choice(("time", "change", "inside")), lambda: None
        if aim == "inside" and self.kind.places:
            aim, most = rng.choice([*self.kind.places.items()])
            how = aim, rng.randint(1, 2), rng.uniform(0, most)
            prepare = functools.partial(victims.die_inside, *how)
        elif aim != "time":
            aim, number = "change", 1 + int(60 * rng.random() ** 2)
            prepare = functools.partial(
                victims.die_before_change, number, folder
            )
        target = rng.randrange(self.kind.num_workers)
        started = self.kind.start(folder, prepare, target)
        if aim == "time":
            after = rng.uniform(0, self.length)
            victims.kill_after(started[target], after, rng)
        ended = [victim.wait() for victim in started]
        codes = {victim.code for victim in ended}
        if codes == {0}:
            return False
        for victim in ended:
            if victim.code not in (-9, 0) and not victim.error():
                raise Wrong(f"exit code {victim.code}: {victim.lines[-12:]}")
            if not victim.has_left_none():
                raise Wrong(f"processes live on after {victim.pid}")
        self.counts[aim.rpartition(".")[2]] += 1
        self.counts["one error" if codes - {-9, 0} else "equal bits"] += 1
        return True


def _do_kills(name, home, options):
    """Kills so many of a kind; returns the line of the table."""
    number, count = options.chain, 0
    try:
        drill = Drill(name, home, options.seed)
        while count < options.kills:
            drill.chain(number, options.kills - count)
            number += 1
            count = sum(drill.counts[outcome] for outcome in _OUTCOMES)
            print(f"{name}: chain {number}, {dict(drill.counts)}", flush=True)
    except Wrong as error:
        _complain(error, f"{name} --chain={number} --kills=1", options)
        return [f"kill: {name}", count, "", "", 1, ""]
    ends = [drill.counts[outcome] for outcome in _OUTCOMES]
    return [f"kill: {name}", count, *ends, f"{drill.worst:.1f}"]


def _complain(what, repeat, options):
    command = f"python -m tests.drill --seed={options.seed} --only={repeat}"
    print(f"WRONG {what}\nrepeat: {command}", flush=True)


def _do_faults(home, options):
    """Does each fault so many times; yields the lines of the table."""
    expected = kinds_lib.snapshot(home / "whole-trainer")
    for name, fault in damage.FAULTS.items():
        if options.fault not in name:
            continue
        counts = collections.Counter()
        for number in range(options.chain, options.chain + options.faults):
            rng = random.Random(f"{options.seed}/{name}/{number}")
            outcome = damage.do(fault, home, rng, expected)
            if outcome.startswith("WRONG"):
                repeat = f'faults --fault="{name}" --chain={number} --faults=1'
                _complain(f"{name}: {outcome}", repeat, options)
                outcome = "WRONG"
            counts[outcome] += 1
        ends = [counts[outcome] for outcome in _OUTCOMES]
        yield [name, options.faults, *ends, ""]


def main():
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
    home.chmod(0o755)  # The read-only folder is tried as another user.
    names = [*kinds_lib.all_kinds(home), "faults"]
    chosen = options.only.split(",") if options.only else names
    if {*chosen} - {*names}:
        parser.error(f"--only must be of {', '.join(names)}")
    print(f"seed {options.seed}, in {home}", flush=True)
    prepare = functools.partial(kinds_lib.write_inputs, home)
    if victims.start([], home / "inputs.log", prepare).wait().code:
        sys.exit((home / "inputs.log").read_text())
    if {"conversion", "export", "faults"} & {*chosen}:
        Drill("trainer", home, options.seed)
        shutil.rmtree(home / "again-trainer")
    lines = [["fault", "times", *_OUTCOMES, "worst s"]]
    for name in chosen:
        if name == "faults":
            lines += _do_faults(home, options)
        else:
            lines.append(_do_kills(name, home, options))
    for title, *cells in lines:
        print(f"{title:<28}", *(f"{cell:>10}" for cell in cells))
    if any(line[4] for line in lines[1:]):
        return 1
    shutil.rmtree(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
