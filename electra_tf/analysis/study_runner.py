"""Runs a study: one process per run, resumable at any time.

A run that has its `result.json` is never run again; one that was stopped goes
on from its checkpoint; one that failed is tried again by the next call. What
was made with other settings is refused before anything starts.
"""

import contextlib
import dataclasses
import fcntl
import json
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import signal
import time
from collections.abc import Iterator
from typing import Any
from typing import NamedTuple

from electra_tf import config
from electra_tf.analysis import studies
from electra_tf.analysis import study_curves
from electra_tf.analysis import study_plan
from electra_tf.analysis import study_progress
from electra_tf.analysis import study_report
from electra_tf.analysis import study_run
from electra_tf.records import manifest

_POLL_SECONDS = 2.0
# A run that was asked to stop saves after at most one call of its loop.
_GRACE_SECONDS = 60.0


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
            raise studies.StudyError(
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
        StudyError: if the folder holds runs of other settings, or another
            process is at work in it.
        KeyboardInterrupt: if SIGINT or SIGTERM came; all runs are saved.
    """
    requests = build_requests(plan, options)
    for request in requests:
        _require_same_request(request)
    options.output_dir.mkdir(parents=True, exist_ok=True)
    with _locked(options.output_dir), _interrupted_by_sigterm():
        scheduler = _Scheduler(plan, requests, options, run_fn)
        failures = scheduler.run()
        scheduler.report(failures)
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
            raise studies.StudyError(
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
        raise studies.StudyError(
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


class _Scheduler:
    """Starts processes, watches them, and tells how far everything is."""

    def __init__(
        self,
        plan: study_plan.Plan,
        requests: list[study_run.RunRequest],
        options: Options,
        run_fn: study_run.RunFn,
    ) -> None:
        self._plan = plan
        self._requests = requests
        self._options = options
        self._run_fn = run_fn
        self._active: dict[Any, study_run.RunRequest] = {}
        self._progress = study_progress.StudyProgress(
            {arm.name: arm for arm in plan.arms}, requests, options.num_parallel
        )

    def run(self) -> list[Failure]:
        """Runs everything that has no result; returns what failed."""
        waiting = [
            request
            for request in reversed(self._requests)
            if study_run.read_result(request.path) is None
        ]
        failures: list[Failure] = []
        self._progress.announce()
        try:
            while waiting or self._active:
                while (
                    waiting and len(self._active) < self._options.num_parallel
                ):
                    self._start(waiting.pop())
                for process in self._wait():
                    failures += self._collect(process)
                    self.report(failures)
                self._progress.show(list(self._active.values()))
        except KeyboardInterrupt:
            self._stop()
            raise
        return failures

    def report(self, failures: list[Failure]) -> None:
        """Rewrites results.json, table.md, study.png and curves.png."""
        rows = [
            study_report.RunRow(request.arm, request.seed, result)
            for request in self._requests
            if (result := study_run.read_result(request.path)) is not None
        ]
        failed = [f"{f.arm}, seed {f.seed}: {f.reason}" for f in failures]
        study_report.write_report(
            self._options.output_dir,
            self._plan,
            rows,
            failed,
            has_tasks=self._options.tasks_dir is not None,
        )
        study_curves.draw(
            self._options.output_dir / "curves.png",
            {
                arm.name: [
                    request.path / study_run.MODEL_FOLDER
                    for request in self._requests
                    if request.arm == arm.name
                ]
                for arm in self._plan.arms
                if arm.is_trained
            },
        )

    def _start(self, request: study_run.RunRequest) -> None:
        request.path.mkdir(parents=True, exist_ok=True)
        path = request.path / study_run.REQUEST_FILE
        if not path.is_file():
            study_run.write_json(path, request.identity())
        # A fresh interpreter: TensorFlow neither survives a fork nor forgets
        # the seeds, options and memory of a former run.
        process: Any = multiprocessing.get_context("spawn").Process(
            target=study_run.child_main,
            args=(self._run_fn, request),
            daemon=True,
        )
        process.start()
        self._active[process] = request
        self._progress.started(request)

    def _wait(self) -> list[Any]:
        """Processes that have ended, after a moment at most."""
        sentinels = {process.sentinel: process for process in self._active}
        ended = multiprocessing.connection.wait(
            list(sentinels), timeout=_POLL_SECONDS
        )
        return [sentinels[sentinel] for sentinel in ended]

    def _collect(self, process: Any) -> list[Failure]:
        """Takes the result of a process that has ended."""
        process.join()
        request = self._active.pop(process)
        result = study_run.read_result(request.path)
        if result is not None:
            self._progress.finished(request, result)
            return []
        log = request.path / study_run.LOG_FILE
        failure = Failure(
            request.arm, request.seed, _reason(process.exitcode, log), log
        )
        self._progress.failed(request, failure.reason, log)
        return [failure]

    def _stop(self) -> None:
        """Asks the runs to save and end; a second interrupt kills them."""
        self._progress.say(
            f"Stopping: {len(self._active)} run(s) in progress save and end. "
            "A second Ctrl-C ends them at once."
        )
        try:
            for process in self._active:
                process.terminate()
            end = time.monotonic() + _GRACE_SECONDS
            for process in self._active:
                process.join(max(0.0, end - time.monotonic()))
        finally:
            for process in self._active:
                process.kill()
            self._progress.say("Stopped. The same command goes on from here.")


def _reason(exit_code: int, log: pathlib.Path) -> str:
    if exit_code == study_run.STOPPED:
        return "it was stopped by a signal from outside"
    if exit_code < 0:
        name = signal.Signals(-exit_code).name
        hint = " (often: memory ran out)" if name == "SIGKILL" else ""
        return f"it was killed by {name}{hint}"
    lines = log.read_text("utf-8", "replace").split("\nerror: ")
    if len(lines) > 1:
        return lines[-1].strip().splitlines()[0]
    return f"it ended with exit code {exit_code}"


@contextlib.contextmanager
def _locked(folder: pathlib.Path) -> Iterator[None]:
    """Keeps a second process out of the folder while this one works."""
    path = folder / ".lock"
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise studies.StudyError(
                f"Another process is running a study in {folder}. Wait for it, "
                "or choose another --output_dir."
            ) from error
        yield


@contextlib.contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """SIGTERM does what Ctrl-C does."""
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
