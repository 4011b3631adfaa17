"""What goes wrong beside kills: damaged files, disks, clocks, numbers."""

import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import random
import resource
import shutil
import sys
import time
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

from tests.drill import kinds as kinds_lib

_DAY = 86_400.0


@dataclasses.dataclass(frozen=True)
class Fault:
    """Something done to a copy of a half-done run and of its dataset.

    `damage` changes files below a folder; `prepare` is called in the process.
    """

    damage: Callable[[random.Random, pathlib.Path], str] | None = None
    prepare: Callable[[random.Random, pathlib.Path], None] | None = None
    is_on_run: bool = True  # else on the dataset
    is_bound_to_fail: bool = False
    names_path: bool = True  # whether its error does


def _truncate(rng: random.Random, path: pathlib.Path) -> None:
    os.truncate(path, rng.randrange(max(1, path.stat().st_size)))


def _flip(rng: random.Random, path: pathlib.Path) -> None:
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def _remove(rng: random.Random, path: pathlib.Path) -> None:
    del rng
    path.unlink()


def _like(rng: random.Random, path: pathlib.Path) -> pathlib.Path:
    """Another file of its kind: of another step, or another shard."""
    others = [
        other
        for other in path.parent.parent.glob("*/*")
        if other != path and other.name[:9] == path.name[:9]
    ]
    return rng.choice(sorted(others) or [path])


def _swap(rng: random.Random, path: pathlib.Path) -> None:
    other = _like(rng, path)
    data = path.read_bytes()
    path.write_bytes(other.read_bytes())
    other.write_bytes(data)


def _duplicate(rng: random.Random, path: pathlib.Path) -> None:
    path.write_bytes(_like(rng, path).read_bytes())


def _on_files(
    patterns: str, change: Callable[[random.Random, pathlib.Path], None]
) -> Callable[[random.Random, pathlib.Path], str]:
    """Changes one of the newest files that match."""

    def damage(rng: random.Random, folder: pathlib.Path) -> str:
        found = [p for one in patterns.split() for p in folder.glob(one)]
        path = rng.choice(sorted(found))
        change(rng, path)
        return f"{change.__name__[1:]} {path.relative_to(folder)}"

    return damage


def _edit(path: str, **fields: Any) -> Callable[..., str]:
    def damage(unused_rng: random.Random, folder: pathlib.Path) -> str:
        file = max(folder.glob(path))
        file.write_text(json.dumps(json.loads(file.read_text()) | fields))
        return f"{path} says {fields}"

    return damage


def _copy_step(rng: random.Random, folder: pathlib.Path) -> str:
    steps = sorted(folder.glob("checkpoints/step-*"))
    shutil.copytree(rng.choice(steps), steps[-1].with_name("step-00000025"))
    return "a checkpoint under another step"


def _fill_disk(rng: random.Random, unused_folder: pathlib.Path) -> None:
    size = int(10 ** rng.uniform(2, 4.7))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def _write_protect(unused_rng: random.Random, folder: pathlib.Path) -> None:
    for path in (folder, folder / "checkpoints"):
        path.chmod(0o555)
    if os.geteuid() == 0:  # whom no permission stops
        os.seteuid(65_534)


def _jump_clock(rng: random.Random, unused_folder: pathlib.Path) -> None:
    """Lets the clock jump by a day at every look, the steady one forwards."""
    wall, steady, lead = time.time, time.monotonic, 0.0

    def jumping() -> float:
        nonlocal lead
        lead += rng.random()
        return steady() + lead

    time.time = lambda: wall() + rng.uniform(-_DAY, _DAY)
    time.monotonic = jumping


def _break_optimizer(rng: random.Random, unused_folder: pathlib.Path) -> None:
    training_run = sys.modules["electra_tf.training.training_run"]
    original = training_run.TrainingRun._advance
    step = rng.randint(24, 40)

    def advance(self: Any, iterator: Any, first: int) -> int:
        if first >= step:
            for variable in self.model.optimizer.variables[2:]:
                variable.assign(variable * float("nan"))
        return original(self, iterator, first)

    training_run.TrainingRun._advance = advance


def _break_weights(rng: random.Random, unused_folder: pathlib.Path) -> None:
    """Lets a weight of the checkpoint that is read be no number."""
    lib = sys.modules["electra_tf.training.checkpoints"]
    original = lib._read

    def read(checkpoint: pathlib.Path, beginning: str) -> Any:
        tensors = original(checkpoint, beginning)
        names = [name for name in tensors if name.endswith("kernel")]
        name = rng.choice(sorted(n for n in names if n.startswith("model/")))
        tensors[name] = tensors[name] * float("nan")
        return tensors

    lib._read = read


_CHECKPOINT = "checkpoints/step-00000024/*"
_SHARDS = "*/pretrain_data*"
_CHANGES = (_truncate, _flip, _remove, _swap, _duplicate)
FAULTS = {
    **{
        f"checkpoint: {change.__name__[1:]}": Fault(
            _on_files(_CHECKPOINT, change)
        )
        for change in _CHANGES
    },
    **{
        f"shard: {change.__name__[1:]}": Fault(
            _on_files(_SHARDS, change), is_on_run=False
        )
        for change in _CHANGES
    },
    **{
        f"files of the run: {change.__name__[1:]}": Fault(
            _on_files("config.json vocab.txt metrics.jsonl", change)
        )
        for change in _CHANGES[:3]
    },
    **{
        f"files of the dataset: {change.__name__[1:]}": Fault(
            _on_files("*.* */manifest.json */*.npy", change), is_on_run=False
        )
        for change in _CHANGES[:3]
    },
    "checkpoint: another step's": Fault(_copy_step, is_bound_to_fail=True),
    "checkpoint: newer version": Fault(
        _edit(f"{_CHECKPOINT[:-1]}state.json", format=2), is_bound_to_fail=True
    ),
    "run: newer version": Fault(
        _edit("config.json", later={"field": 1}), is_bound_to_fail=True
    ),
    "dataset: newer version": Fault(
        _edit("train/manifest.json", version=99, format=99, later=1),
        is_on_run=False,
        is_bound_to_fail=True,
    ),
    "disk: full": Fault(prepare=_fill_disk),
    "disk: read-only": Fault(prepare=_write_protect, is_bound_to_fail=True),
    "clock: jumps": Fault(prepare=_jump_clock),
    "weights: NaN": Fault(prepare=_break_weights, is_bound_to_fail=True),
    "optimizer: NaN": Fault(
        prepare=_break_optimizer, is_bound_to_fail=True, names_path=False
    ),
}


@contextlib.contextmanager
def _copies(home: pathlib.Path) -> Iterator[tuple[pathlib.Path, pathlib.Path]]:
    """The run as it was after half of its steps, and its dataset."""
    dataset, run = home / "dataset", home / "run"
    hidden = home / "dataset-as-it-was"
    shutil.copytree(dataset, hidden)
    shutil.copytree(home / "whole-trainer", run)
    for path in run.glob("checkpoints/*"):
        if path.name > "step-00000024":
            shutil.rmtree(path)
    for path in (run, run / "checkpoints"):
        path.chmod(0o777)
    shutil.copytree(run, home / "run-as-it-was")
    try:
        yield run, dataset
    finally:
        for path in (run, dataset, home / "run-as-it-was"):
            shutil.rmtree(path)
        hidden.rename(dataset)


def do(
    fault: Fault, home: pathlib.Path, rng: random.Random, expected: Any
) -> str:
    """Does it; returns how it ended, or a line that begins with WRONG."""
    kind = kinds_lib.all_kinds(home)["trainer"]
    with _copies(home) as (run, dataset):
        what, target = "", run if fault.is_on_run else dataset
        if fault.damage:
            what = fault.damage(rng, target)
        prepare = functools.partial(fault.prepare or (lambda *_: None), rng)
        (victim,) = kind.start(run, functools.partial(prepare, run))
        told, outcome = victim.wait().error(), ""
        if victim.code == 0 and not fault.is_bound_to_fail:
            outcome = "equal bits"
        elif (
            victim.code == 1
            and told
            and (str(home) in told or not fault.names_path)
            # Expected, received, remedy: not what the system says alone.
            and "[Errno" not in told.partition(". ")[0]
        ):
            outcome = "one error"
        else:
            return f"WRONG {what}: {victim.code} {victim.lines[-6:]}"
        if outcome == "one error":
            # The cause is gone, what was written since is not.
            for folder in (run, dataset):
                folder.chmod(0o777)
                shutil.copytree(
                    home / f"{folder.name}-as-it-was",
                    folder,
                    dirs_exist_ok=True,
                )
            shutil.rmtree(run / "checkpoints/step-00000025", True)
            (run / "checkpoints").chmod(0o777)
            (again,) = kind.start(run)
            if again.wait().code != 0:
                return f"WRONG {what}, again: {again.lines[-4:]}"
        names = kinds_lib.differences(expected, kinds_lib.snapshot(run))
        # What was damaged and is not read stays as it is.
        names = [name for name in names if not what.endswith(name)]
        print(f"  {what}: {outcome}: {told}", flush=True)
        return f"WRONG {what}: other bits in {names}" if names else outcome
