"""Runs a study: one process per run, resumable at any time.

A run that has its `result.json` is never run again; one that was stopped goes
on from its checkpoint; one that failed is tried again by the next call. What
was made with other settings is refused before anything starts.
"""

import contextlib
import dataclasses
import fcntl
import functools
import os
import pathlib
import time
from collections.abc import Iterator
from collections.abc import Sequence
from typing import NamedTuple

from electra_tf import errors
from electra_tf.analysis import studies
from electra_tf.analysis import study_pictures
from electra_tf.analysis import study_report
from electra_tf.analysis import study_run
from electra_tf.config import schema
from electra_tf.processes import pool as pool_lib
from electra_tf.processes import progress as progress_lib
from electra_tf.processes import stopping
from electra_tf.records import manifest

_LINE_SECONDS = 60.0
_UPDATE_SECONDS = 2.0


@dataclasses.dataclass(frozen=True)
class Options:
    """Where a study reads and writes, and how many runs at a time."""

    dataset_dir: pathlib.Path
    output_dir: pathlib.Path
    tasks_dir: pathlib.Path | None = None  # None measures no tasks
    num_parallel: int = 1  # they share the cores

    def __post_init__(self) -> None:
        number = self.num_parallel
        schema.require(
            number >= 1,
            f"`num_parallel` must be at least 1. Received: {number}.",
        )
        if self.tasks_dir is not None and not self.tasks_dir.is_dir():
            raise FileNotFoundError(
                f"There is no folder {str(self.tasks_dir)!r} for --tasks_dir. "
                "Without the flag, only held-out losses are measured."
            )


class Failure(NamedTuple):
    """A run that ended without a result."""

    request: study_run.RunRequest
    reason: str


def run_study(
    plan: studies.Plan,
    options: Options,
    run_fn: study_run.RunFn = study_run.perform,
) -> list[Failure]:
    """Runs what is not finished yet, and rewrites the report after each run."""
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
    plan: studies.Plan, options: Options
) -> list[study_run.RunRequest]:
    """All runs in the order in which they are made.

    Seed by seed: a study that is stopped early has compared all arms.
    """
    dataset = {
        split: manifest.file_sha256(path)
        for split in (manifest.TRAIN, manifest.VALIDATION)
        if (path := options.dataset_dir / split / "manifest.json").is_file()
    }
    study, has_tasks = plan.study, options.tasks_dir is not None
    num_threads = 0
    if options.num_parallel > 1:
        num_threads = max(1, (os.cpu_count() or 1) // options.num_parallel)
    return [
        study_run.RunRequest(
            run_folder(options.output_dir, arm.name, seed),
            arm.name,
            study_run.RunIdentity(
                studies.replace_fields(arm.settings, training={"seed": seed}),
                dataset,
                study.tasks if has_tasks else (),
                study.finetune_steps if has_tasks else 0,
                study.max_examples if has_tasks else 0,
                arm.is_trained,
            ),
            options.dataset_dir,
            options.tasks_dir,
            num_threads,
        )
        for seed in study.seeds
        for arm in plan.arms
    ]


def _require_same_request(request: study_run.RunRequest) -> None:
    """Refuses a folder whose run was asked for something else."""
    path = request.folder / study_run.REQUEST_FILE
    if not path.is_file():
        schema.require(
            not (request.folder / study_run.RESULT_FILE).exists(),
            f"{request.folder} holds a result but not {path.name}, so its "
            "settings are not known. Delete the folder to run it again, or "
            "choose another --output_dir.",
        )
        return
    before = schema.read(study_run.RunIdentity, path)
    changed = schema.find_differences(before, request.asked)
    schema.require(
        not changed,
        f"{request.folder} was made with other settings. Before and now: "
        f"{'; '.join(changed)}. Restore them, choose another --output_dir, or "
        "delete the folder to run it again.",
    )


def _run_all(
    plan: studies.Plan,
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
        lambda request: request.log_file,
    )
    progress = StudyProgress(plan, requests)
    waiting = [r for r in requests if study_run.read_result(r.folder) is None]
    failures: list[Failure] = []

    def on_start(request: study_run.RunRequest) -> None:
        path = request.folder / study_run.REQUEST_FILE
        if not path.is_file():
            request.folder.mkdir(parents=True, exist_ok=True)
            study_run.write_json(path, request.asked)
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
                failures.append(Failure(request, reason))
                progress.failed(failures[-1])
            _report(plan, requests, options, failures)
    return failures


def _report(
    plan: studies.Plan,
    requests: list[study_run.RunRequest],
    options: Options,
    failures: list[Failure],
) -> None:
    """Rewrites results.json, table.md, study.png and curves.png."""
    study_report.write_report(
        options.output_dir,
        plan,
        {
            (request.arm, request.seed): result
            for request in requests
            if (result := study_run.read_result(request.folder)) is not None
        },
        [f"{failure.request}: {failure.reason}" for failure in failures],
        has_tasks=options.tasks_dir is not None,
    )
    study_pictures.draw_curves(
        options.output_dir / "curves.png",
        {
            request.arm: [r.folder for r in requests if r.arm == request.arm]
            for request in requests
            if request.asked.is_trained
        },
    )


@contextlib.contextmanager
def _locked(folder: pathlib.Path) -> Iterator[None]:
    """Keeps a second process out of the folder while this one works."""
    with (folder / ".lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise errors.ConfigError(
                f"Another process is running a study in {folder}. Wait for it, "
                "or choose another --output_dir."
            ) from error
        yield


class StudyProgress(progress_lib.ProgressBar):
    """Prints a line for every event, and a bar that is kept up to date.

    The time left comes from the operations of training that are left.
    """

    def __init__(
        self, plan: studies.Plan, requests: Sequence[study_run.RunRequest]
    ) -> None:
        super().__init__("Study", _LINE_SECONDS, is_error=False)
        self._arms = {arm.name: arm for arm in plan.arms}
        self._requests = requests
        # The part of each run that is done.
        self._shares = {r.folder: self._read_share(r) for r in requests}
        flops = sum(self._arms[request.arm].flops for request in requests)
        self._time_left = progress_lib.TimeLeft(flops)
        self._num_ended = 0
        self._next_update = 0.0

    def announce(self) -> None:
        """Says how many runs have finished already, and starts the clock."""
        results = [study_run.read_result(r.folder) for r in self._requests]
        total, self._num_ended = len(results), len([*filter(None, results)])
        if self._num_ended:
            self.say(f"{self._num_ended} of {total} runs are finished already.")
        self._estimate()

    def started(self, request: study_run.RunRequest) -> None:
        """A run begins, or goes on from its last checkpoint."""
        share = self._shares[request.folder]
        step = round(share * self._arms[request.arm].num_steps)
        what = f"goes on at step {step}" if share else "starts"
        self._say_of(request, f"{what}.")

    def finished(
        self, request: study_run.RunRequest, result: study_run.RunResult
    ) -> None:
        """A run has its result."""
        self._end(request)
        scores = ", ".join(f"{k} {v:.3f}" for k, v in result.tasks.items())
        if not scores and "loss" in result.held_out:
            scores = f"held-out loss {result.held_out['loss']:.3f}"
        self._say_of(
            request,
            f"finished in {progress_lib.format_time(result.seconds)}: "
            f"{scores or 'no measures'}. Study: {self._num_ended}/"
            f"{len(self._requests)}, {self._estimate()} left.",
        )

    def failed(self, failure: Failure) -> None:
        """A run ended without a result."""
        request = failure.request
        self._end(request)
        log = request.log_file
        self._say_of(request, f"FAILED: {failure.reason} See {log}.")

    def update(self, active: Sequence[study_run.RunRequest]) -> None:
        """Brings the bar up to date; `active` are the runs in progress."""
        if time.monotonic() < self._next_update:
            return
        self._next_update = time.monotonic() + _UPDATE_SECONDS
        parts = []
        for request in active:
            share = self._shares[request.folder] = self._read_share(request)
            steps = self._arms[request.arm].num_steps
            what = f"step {round(share * steps)}/{steps}"
            parts.append(f"{request}: {what if share < 1 else 'measuring'}")
        share = sum(self._shares.values()) / len(self._requests)
        self.show(share, f"{'; '.join(parts)}; {self._estimate()} left")

    def _end(self, request: study_run.RunRequest) -> None:
        self._num_ended += 1
        self._shares[request.folder] = 1.0

    def _estimate(self) -> str:
        done = sum(
            self._arms[request.arm].flops * self._shares[request.folder]
            for request in self._requests
        )
        return progress_lib.format_time(self._time_left.estimate(done))

    def _read_share(self, request: study_run.RunRequest) -> float:
        """Part of a run's training steps that its metrics speak of."""
        if study_run.read_result(request.folder) is not None:
            return 1.0
        lines = study_run.read_metrics(request.folder)
        steps = self._arms[request.arm].num_steps
        return lines[-1]["step"] / steps if lines else 0.0

    def _say_of(self, request: study_run.RunRequest, text: str) -> None:
        number = self._requests.index(request) + 1
        self.say(f"Run {number}/{len(self._requests)} {request}: {text}")
