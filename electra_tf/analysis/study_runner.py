"""Runs a study: one process per run, resumable at any time.

A run that has its `result.json` is never run again; one that was stopped goes
on from its checkpoint; one that failed is tried again by the next call. What
was made with other settings is refused before anything starts.
"""

import contextlib
import dataclasses
import fcntl
import functools
import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any
from typing import NamedTuple

from electra_tf import config
from electra_tf import errors
from electra_tf.analysis import studies
from electra_tf.analysis import study_curves
from electra_tf.analysis import study_plan
from electra_tf.analysis import study_progress
from electra_tf.analysis import study_report
from electra_tf.analysis import study_run
from electra_tf.processes import pool as pool_lib
from electra_tf.processes import stopping
from electra_tf.records import manifest


@dataclasses.dataclass(frozen=True)
class Options:
    """Where a study reads and writes, and how many runs at a time.

    Attributes:
        dataset_dir: made by build_pretraining_dataset.py.
        output_dir: of the whole study; made if absent.
        tasks_dir: folder of the tasks' files; None measures none.
        num_parallel: runs at a time; they share the cores.
    """

    dataset_dir: pathlib.Path
    output_dir: pathlib.Path
    tasks_dir: pathlib.Path | None = None
    num_parallel: int = 1

    def __post_init__(self) -> None:
        if self.num_parallel < 1:
            raise errors.ConfigError(
                "`num_parallel` must be at least 1. Received: "
                f"{self.num_parallel}."
            )
        if self.tasks_dir is not None and not self.tasks_dir.is_dir():
            raise FileNotFoundError(
                f"There is no folder {str(self.tasks_dir)!r} for --tasks_dir. "
                "Without the flag, only held-out losses are measured."
            )


class Failure(NamedTuple):
    """A run that ended without a result: which, why, and where it says so."""

    arm: str
    seed: int
    reason: str
    log: pathlib.Path


def run_study(
    plan: study_plan.Plan,
    options: Options,
    run_fn: study_run.RunFn = study_run.perform,
) -> list[Failure]:
    """Runs what is not finished yet, and rewrites the report after each run.

    Args:
        plan: the runs.
        options: where.
        run_fn: does a run; a function of a module, called in a new process.

    Returns:
        The runs that failed.

    Raises:
        ConfigError: if the folder holds runs of other settings, or another
            process is at work in it.
        KeyboardInterrupt: if SIGINT or SIGTERM came; all runs are saved.
    """
    requests = build_requests(plan, options)
    for request in requests:
        _require_same_request(request)
    options.output_dir.mkdir(parents=True, exist_ok=True)
    with _locked(options.output_dir), stopping.StopRequest() as stop:
        failures = _run_all(plan, requests, options, run_fn, stop)
        _report(plan, requests, options, failures)
    if stop.signal_name:
        print("Stopped. The same command goes on from here.", flush=True)
        raise KeyboardInterrupt
    return failures


def run_folder(output_dir: pathlib.Path, arm: str, seed: int) -> pathlib.Path:
    """The folder of a run."""
    return output_dir / "runs" / arm / f"seed-{seed}"


def build_requests(
    plan: study_plan.Plan, options: Options
) -> list[study_run.RunRequest]:
    """All runs in the order in which they are made.

    Seed by seed: a study that is stopped early has compared all arms.
    """
    dataset = {
        split: manifest.file_sha256(path)
        for split in (manifest.TRAIN, manifest.VALIDATION)
        if (path := options.dataset_dir / split / "manifest.json").is_file()
    }
    cores = os.cpu_count() or 1
    num_threads = max(1, cores // options.num_parallel)
    has_tasks = options.tasks_dir is not None
    return [
        study_run.RunRequest(
            folder=str(run_folder(options.output_dir, arm.name, seed)),
            arm=arm.name,
            seed=seed,
            settings=config.to_json(
                studies.replace_fields(
                    arm.settings,
                    training={"seed": seed},
                    data={"dataset_dir": str(options.dataset_dir)},
                )
            ),
            dataset=dataset,
            tasks_dir=str(options.tasks_dir or ""),
            tasks=plan.study.tasks if has_tasks else (),
            finetune_steps=plan.study.finetune_steps if has_tasks else 0,
            max_examples=plan.study.max_examples if has_tasks else 0,
            num_threads=num_threads if options.num_parallel > 1 else 0,
            is_trained=arm.is_trained,
        )
        for seed in plan.study.seeds
        for arm in plan.arms
    ]


def _require_same_request(request: study_run.RunRequest) -> None:
    """Refuses a folder whose run was asked for something else."""
    path = request.path / study_run.REQUEST_FILE
    if not path.is_file():
        if (request.path / study_run.RESULT_FILE).exists():
            raise errors.ConfigError(
                f"{request.path} holds a result but not {path.name}, so its "
                "settings are not known. Delete the folder to run it again, or "
                "choose another --output_dir."
            )
        return
    before = _flatten(_with_defaults(json.loads(path.read_text("utf-8"))))
    now = _flatten(_with_defaults(request.identity()))
    changed = [
        f"{name} was {before.get(name, 'absent')!r}, now "
        f"{now.get(name, 'absent')!r}"
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name)
    ]
    if changed:
        raise errors.ConfigError(
            f"{request.path} was made with other settings: "
            f"{'; '.join(changed)}. Restore them, choose another --output_dir, "
            "or delete the folder to run it again."
        )


def _with_defaults(identity: dict[str, Any]) -> dict[str, Any]:
    """Names settings that a request from an earlier version does not know."""
    settings = dataclasses.asdict(config.freeze(identity["settings"]))
    return identity | {"settings": settings}


def _flatten(tree: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(tree, dict):
        return {prefix: tree}
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= _flatten(value, f"{prefix}.{key}" if prefix else key)
    return flat


def _run_all(
    plan: study_plan.Plan,
    requests: list[study_run.RunRequest],
    options: Options,
    run_fn: study_run.RunFn,
    stop: stopping.StopRequest,
) -> list[Failure]:
    """Runs everything that has no result; returns what failed."""
    # TensorFlow does not forget the seeds, options and memory of a former
    # run, so each has a process of its own.
    pool = pool_lib.ProcessPool(
        functools.partial(study_run.start, run_fn),
        options.num_parallel,
        lambda request: request.path / study_run.LOG_FILE,
    )
    progress = study_progress.StudyProgress(
        {arm.name: arm for arm in plan.arms}, requests, options.num_parallel
    )
    waiting = [r for r in requests if study_run.read_result(r.path) is None]
    failures: list[Failure] = []

    def on_start(request: study_run.RunRequest) -> None:
        path = request.path / study_run.REQUEST_FILE
        if not path.is_file():
            request.path.mkdir(parents=True, exist_ok=True)
            study_run.write_json(path, request.identity())
        progress.started(request)

    with progress, pool:
        progress.announce()
        for request, result, error in pool.outcomes(
            waiting, on_start=on_start, on_wait=progress.update, stop=stop
        ):
            if result is not None:
                progress.finished(request, result)
            elif not stop.signal_name:
                reason = "It was stopped by a signal from outside."
                if error is not None:
                    reason = str(error).splitlines()[0]
                log = request.path / study_run.LOG_FILE
                failures.append(Failure(request.arm, request.seed, reason, log))
                progress.failed(request, reason, log)
            _report(plan, requests, options, failures)
    return failures


def _report(
    plan: study_plan.Plan,
    requests: list[study_run.RunRequest],
    options: Options,
    failures: list[Failure],
) -> None:
    """Rewrites results.json, table.md, study.png and curves.png."""
    rows = [
        study_report.RunRow(request.arm, request.seed, result)
        for request in requests
        if (result := study_run.read_result(request.path)) is not None
    ]
    study_report.write_report(
        options.output_dir,
        plan,
        rows,
        [f"{f.arm}, seed {f.seed}: {f.reason}" for f in failures],
        has_tasks=options.tasks_dir is not None,
    )
    study_curves.draw(
        options.output_dir / "curves.png",
        {
            arm.name: [
                request.path / study_run.MODEL_FOLDER
                for request in requests
                if request.arm == arm.name
            ]
            for arm in plan.arms
            if arm.is_trained
        },
    )


@contextlib.contextmanager
def _locked(folder: pathlib.Path) -> Iterator[None]:
    """Keeps a second process out of the folder while this one works."""
    path = folder / ".lock"
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise errors.ConfigError(
                f"Another process is running a study in {folder}. Wait for it, "
                "or choose another --output_dir."
            ) from error
        yield
