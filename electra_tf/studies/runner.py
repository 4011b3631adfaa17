"""Runs a study: one process per run, resumable at any time.

A run with a `result.json` is never repeated; a stopped run continues from its
checkpoint; a failed run is repeated by the next call. Runs with other settings
are refused before anything starts.
"""

import dataclasses
import functools
import itertools
import os
import pathlib
import time
from collections.abc import Sequence
from typing import NamedTuple

from electra_tf import errors
from electra_tf.config import schema
from electra_tf.objectives import registry
from electra_tf.processes import atomic
from electra_tf.processes import locks
from electra_tf.processes import pool as pool_lib
from electra_tf.processes import progress as progress_lib
from electra_tf.processes import stopping
from electra_tf.records import manifest
from electra_tf.studies import definition
from electra_tf.studies import report
from electra_tf.studies import study_run
from electra_tf.studies.study_run import RunRequest

_LINE_SECONDS = 60.0
_UPDATE_SECONDS = 2.0


class Failure(NamedTuple):
    """A run that ended without a result."""

    request: RunRequest
    reason: str

    def __str__(self) -> str:
        return f"{self.request}: {self.reason}"


def run_study(
    plan: definition.StudyPlan,
    dataset_dir: pathlib.Path,
    output_dir: pathlib.Path,
    tasks_dir: pathlib.Path | None = None,
    num_parallel: int = 1,
    run_fn: study_run.RunFn = study_run.perform,
) -> list[Failure]:
    """Runs all unfinished runs, and rewrites the report after each of them.

    Args:
        plan: the arms and seeds.
        dataset_dir: the pre-training dataset.
        output_dir: the folder of runs and report.
        tasks_dir: data of the tasks; None measures no tasks.
        num_parallel: number of parallel runs, which share the cores.
        run_fn: performs one run.

    Returns:
        The failed runs.

    Raises:
        Stopped: after a signal.
        FileNotFoundError: if data of the tasks are missing.
        ConfigError: if existing runs have other settings.
    """
    if tasks_dir is not None:
        if not tasks_dir.is_dir():
            raise FileNotFoundError(
                f"There is no folder {str(tasks_dir)!r} for --tasks_dir. "
                "Without the flag, only held-out losses are measured."
            )
        study_run.require_tasks(plan.study.tasks, tasks_dir)
    folders = dataset_dir, output_dir, tasks_dir
    requests = build_requests(plan, *folders, num_parallel)
    for request in requests:
        _require_same_request(request)
    # Each run has its own process, as TensorFlow keeps the seeds, options and
    # memory of earlier runs.
    pool = pool_lib.ProcessPool(
        functools.partial(study_run.start, run_fn),
        num_parallel,
        lambda request: request.log_file,
    )
    with locks.hold(output_dir), stopping.StopRequest() as stop:
        for folder in (output_dir, *(r.folder for r in requests)):
            atomic.remove_partial(folder)
        failures: list[Failure] = []
        with _StudyProgress(requests) as progress, pool:
            for outcome in pool.outcomes(
                progress.waiting,
                on_start=progress.start,
                on_wait=progress.update,
                stop=stop,
            ):
                if outcome.result is not None:
                    progress.finish(outcome.task, outcome.result)
                elif not stop.signal_name:
                    error = outcome.error or "Stopped by a signal from outside."
                    reason = str(error).splitlines()[0]
                    failures.append(Failure(outcome.task, reason))
                    progress.fail(failures[-1])
                report.write(output_dir, plan, requests, failures)
        report.write(output_dir, plan, requests, failures)
    if stop.signal_name:
        print("Stopped. Repeat the command to continue.", flush=True)
        raise errors.Stopped
    return failures


def build_requests(
    plan: definition.StudyPlan,
    dataset_dir: pathlib.Path,
    output_dir: pathlib.Path,
    tasks_dir: pathlib.Path | None = None,
    num_parallel: int = 1,
) -> list[RunRequest]:
    """Lists the runs seed by seed, so that a stopped study has all arms."""
    dataset = {
        split: manifest.file_sha256(path)
        for split in (manifest.TRAIN, manifest.VALIDATION)
        if (path := dataset_dir / split / "manifest.json").is_file()
    }
    study, threads = plan.study, 0
    measures = {
        field: getattr(study, field)
        for field in (
            *("tasks", "finetune_steps", "max_examples"),
            *("finetune_epochs", "finetune_trials"),
        )
    }
    if tasks_dir is None:
        measures = {"tasks": (), "finetune_steps": 0, "max_examples": 0}
    if num_parallel > 1:
        threads = max(1, (os.cpu_count() or 1) // num_parallel)
    requests = []
    for seed, arm in itertools.product(study.seeds, plan.arms):
        folder = output_dir / "runs" / arm.name / f"seed-{seed}"
        settings = schema.replace_fields(arm.settings, training={"seed": seed})
        asked = study_run.RunIdentity(
            registry.complete(settings),
            dataset,
            is_trained=arm.is_trained,
            **measures,
        )
        requests.append(
            RunRequest(folder, arm, asked, dataset_dir, tasks_dir, threads)
        )
    return requests


def _require_same_request(request: RunRequest) -> None:
    path = request.folder / study_run.REQUEST_FILE
    changed = []
    if path.is_file():
        before = schema.read_file(study_run.RunIdentity, path)
        settings = registry.complete(before.settings)
        before = dataclasses.replace(before, settings=settings)
        changed = schema.find_differences(before, request.asked)
    elif (request.folder / study_run.RESULT_FILE).exists():
        changed = [f"unknown, without {path.name}"]
    schema.require(
        not changed,
        f"{request.folder} has a run with other settings. Old and new values: "
        f"{'; '.join(changed)}. Restore them, choose another --output_dir, or "
        "delete the folder to repeat the run.",
    )


class _StudyProgress(progress_lib.ProgressBar):
    """Prints events and a bar; estimates the time left from training FLOPs."""

    def __init__(self, requests: Sequence[RunRequest]) -> None:
        super().__init__("Study", _LINE_SECONDS, is_error=False)
        self._requests = requests
        folders = [request.folder for request in requests]
        self._ended = {*filter(study_run.read_result, folders)}
        self._flops = sum(request.arm.flops for request in requests)
        self._time_left = progress_lib.TimeLeft(self._flops)
        self._next_update = 0.0
        if self._ended:
            count = f"{len(self._ended)} of {len(requests)}"
            self.say(f"{count} runs are finished already.")
        self._estimate()  # starts the clock

    @property
    def waiting(self) -> list[RunRequest]:
        return [r for r in self._requests if r.folder not in self._ended]

    def start(self, request: RunRequest) -> None:
        step = _last_step(request)
        text = f"continues; its last step was {step}." if step else "starts."
        self._say_of(request, text)

    def finish(self, request: RunRequest, result: study_run.RunResult) -> None:
        self._ended.add(request.folder)
        scores = ", ".join(f"{k} {v:.3f}" for k, v in result.tasks.items())
        if not scores and "loss" in result.held_out:
            scores = f"held-out loss {result.held_out['loss']:.3f}"
        self._say_of(
            request,
            f"finished in {progress_lib.format_time(result.seconds)}: "
            f"{scores or 'no measures'}. Study: {len(self._ended)}/"
            f"{len(self._requests)}, {self._estimate()} left.",
        )

    def fail(self, failure: Failure) -> None:
        request, reason = failure.request, failure.reason
        self._ended.add(request.folder)
        self._say_of(request, f"FAILED: {reason} See {request.log_file}.")

    def update(self, active: Sequence[RunRequest]) -> None:
        if time.monotonic() < self._next_update:
            return
        self._next_update = time.monotonic() + _UPDATE_SECONDS
        parts = []
        for request in active:
            step, steps = _last_step(request), request.arm.num_steps
            state = f"step {step}/{steps}" if step < steps else "measuring"
            parts.append(f"{request}: {state}")
        share = self._count_done() / max(1.0, self._flops)
        self.show(share, f"{'; '.join(parts)}; {self._estimate()} left")

    def _estimate(self) -> str:
        left = self._time_left.estimate(self._count_done())
        return progress_lib.format_time(left)

    def _count_done(self) -> float:
        """Sums the FLOPs of finished steps; ended runs count completely."""
        return sum(
            request.arm.flops
            if request.folder in self._ended
            else request.arm.flops_per_step * _last_step(request)
            for request in self._requests
        )

    def _say_of(self, request: RunRequest, text: str) -> None:
        number = self._requests.index(request) + 1
        self.say(f"Run {number}/{len(self._requests)} {request}: {text}")


def _last_step(request: RunRequest) -> int:
    lines = study_run.read_metrics(request.folder)
    return lines[-1]["step"] if lines else 0
