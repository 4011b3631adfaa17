"""Faults beside kills: damaged files, full disks, clocks, numbers."""

import functools
import json
import os
import resource
import shutil
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

from tests.drill import kinds as kinds_lib

_DAY = 86_400.0
_NEWEST, _COPY = "step-00000024", "step-00000025"


class Fault(NamedTuple):
    """Damage to a run that has half of its steps, or to its dataset.

    Its functions take a `random.Random` and the folder.
    """

    damage: Callable | None = None  # says what it did
    prepare: Callable = lambda *_: None  # is called in the process
    is_on_run: bool = True  # else on the dataset
    must_fail: bool = True
    names_path: bool = True  # whether its error does


def _truncate(rng, path):
    os.truncate(path, rng.randrange(max(1, path.stat().st_size)))


def _flip(rng, path):
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def _remove(_, path):
    path.unlink()


def _swap(rng, path, is_copy=False):
    """With another of its kind: of another step, or another shard."""
    files = sorted(path.parent.parent.glob(f"*/{path.name[:9]}*"))
    other = rng.choice([file for file in files if file != path])
    data = path.read_bytes()
    path.write_bytes(other.read_bytes())
    if not is_copy:
        other.write_bytes(data)


def _duplicate(rng, path):
    _swap(rng, path, is_copy=True)


def _on_files(patterns, change):
    def damage(rng, folder):
        paths = [p for one in patterns.split() for p in folder.glob(one)]
        path = rng.choice(sorted(paths))
        change(rng, path)
        return f"{change.__name__[1:]} {path.relative_to(folder)}"

    return damage


def _edit(path, **fields):
    def damage(_, folder):
        content = json.loads((folder / path).read_text()) | fields
        (folder / path).write_text(json.dumps(content))
        return f"{fields} in {path}"

    return damage


def _copy_step(rng, folder):
    step = rng.choice(sorted(folder.glob("checkpoints/step-*")))
    shutil.copytree(step, folder / "checkpoints" / _COPY)
    return f"{step.name} as {_COPY}"


def _fill_disk(rng, _):
    size = int(10 ** rng.uniform(2, 4.7))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def _write_protect(_, folder):
    for path in (folder, folder / "checkpoints"):
        path.chmod(0o555)
    if os.geteuid() == 0:  # whom no permission stops
        os.seteuid(65_534)


def _jump_clock(rng, _):
    wall, steady, lead = time.time, time.monotonic, [0.0]

    def jump():
        lead[0] += rng.random()
        return steady() + lead[0]

    time.time = lambda: wall() + rng.uniform(-_DAY, _DAY)
    time.monotonic = jump


def _break_optimizer(rng, _):
    run = sys.modules["electra_tf.training.training_run"].TrainingRun
    original, step = run._advance, rng.randint(24, 40)

    def advance(self, iterator, first):
        if first >= step:
            for variable in self.model.optimizer.variables[2:]:
                variable.assign(variable * float("nan"))
        return original(self, iterator, first)

    run._advance = advance


def _break_weights(rng, _):
    checkpoints = sys.modules["electra_tf.training.checkpoints"]
    original = checkpoints.read_tensors

    def read(prefix, beginning=""):
        tensors = original(prefix, beginning)
        names = [n for n in tensors if n.startswith("model/")]
        name = rng.choice(sorted(n for n in names if n.endswith("kernel")))
        return tensors | {name: tensors[name] * float("nan")}

    checkpoints.read_tensors = read


_CHANGES = (_truncate, _flip, _remove, _swap, _duplicate)
_FILES = {  # patterns, whether they are of the run, the changes that they bear
    "checkpoint": (f"checkpoints/{_NEWEST}/*", True, _CHANGES),
    "shard": ("*/pretrain_data*", False, _CHANGES),
    "run": ("config.json vocab.txt metrics.jsonl", True, _CHANGES[:3]),
    "dataset": ("*.* */manifest.json */*.npy", False, _CHANGES[:3]),
}
FAULTS = {
    f"{name}: {change.__name__[1:]}": Fault(
        _on_files(patterns, change), is_on_run=is_on_run, must_fail=False
    )
    for name, (patterns, is_on_run, changes) in _FILES.items()
    for change in changes
} | {
    "checkpoint: another step's": Fault(_copy_step),
    "checkpoint: newer version": Fault(
        _edit(f"checkpoints/{_NEWEST}/state.json", format=2)
    ),
    "run: newer version": Fault(_edit("config.json", later={"field": 1})),
    "dataset: newer version": Fault(
        _edit("train/manifest.json", format_version=99), is_on_run=False
    ),
    "disk: full": Fault(prepare=_fill_disk, must_fail=False),
    "disk: read-only": Fault(prepare=_write_protect),
    "clock: jumps": Fault(prepare=_jump_clock, must_fail=False),
    "NaN: weights": Fault(prepare=_break_weights),
    "NaN: optimizer": Fault(prepare=_break_optimizer, names_path=False),
}


def _copy_half(home):
    for name in ("run", "run-as-it-was"):
        shutil.rmtree(home / name, ignore_errors=True)
        shutil.copytree(home / "whole-trainer", home / name)
        for path in home.glob(f"{name}/checkpoints/*"):
            if path.name > _NEWEST:
                shutil.rmtree(path)


def _mend(home):
    """Takes the cause away; what was written since stays."""
    for name in ("run", "run/checkpoints"):
        (home / name).chmod(0o777)
    shutil.rmtree(home / "run/checkpoints" / _COPY, ignore_errors=True)
    for name in ("run", "dataset"):
        before = home / f"{name}-as-it-was"
        shutil.copytree(before, home / name, dirs_exist_ok=True)


def do(fault, home, rng, expected):
    """Does it; returns how it ended, or a line that begins with WRONG."""
    kind, what = kinds_lib.all_kinds(home)["trainer"], ""
    run, hidden = home / "run", home / "dataset-as-it-was"
    if not hidden.exists():
        shutil.copytree(home / "dataset", hidden)
    _copy_half(home)
    run.chmod(0o777)
    if fault.damage:
        what = fault.damage(rng, run if fault.is_on_run else home / "dataset")
    prepare = functools.partial(fault.prepare, rng, run)
    (victim,) = kind.start(run, prepare)
    told = victim.wait().error() or ""
    # Expected, received, remedy: not what the system says alone.
    is_clear = told and not told.startswith("error: [Errno")
    is_named = str(home) in told or not fault.names_path
    if victim.code == 0 and not fault.must_fail:
        outcome = "equal bits"
    elif victim.code == 1 and is_clear and is_named:
        outcome = "one error"
    else:
        outcome = f"WRONG {what}: {victim.code} {victim.lines[-6:]}"
    if outcome != "equal bits":
        _mend(home)
    if outcome == "one error":
        (again,) = kind.start(run)
        if again.wait().code != 0:
            return f"WRONG {what}, again: {again.lines[-4:]}"
    elif outcome.startswith("WRONG"):
        return outcome
    print(f"  {what}: {outcome}: {told}", flush=True)
    names = kinds_lib.differences(expected, kinds_lib.snapshot(run))
    _mend(home)
    # A file that was changed and is not read stays as it is.
    names = [name for name in names if not what.endswith(name)]
    return f"WRONG {what}: other bits in {names}" if names else outcome
