"""Trials side by side, one process each: on GPUs of their own, or on a CPU.

Each process writes to a log of its own. A signal is passed on: the trials save
and end, and the same command goes on from there.
"""

import multiprocessing
import os
import pathlib
import signal
import sys
import time
from typing import Any

from electra_tf.finetuning.trials import results
from electra_tf.finetuning.trials import session as session_lib
from electra_tf.training import stopping

_POLL_SECONDS = 0.5
# Exit code of a trial that was asked to stop.
_STOPPED = 75
_KILLED = (-signal.SIGTERM, -signal.SIGINT)


def list_gpus() -> list[str]:
    """The GPUs of this host, as `CUDA_VISIBLE_DEVICES` names them."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name for name in visible.split(",") if name]
    nodes = pathlib.Path("/dev").glob("nvidia[0-9]*")
    return [str(number) for number in range(len(list(nodes)))]


def run_trials(request: session_lib.Request, devices: list[str]) -> bool:
    """Runs all trials of a request, `num_parallel` at a time.

    Args:
        request: what is asked for.
        devices: the GPUs, as `CUDA_VISIBLE_DEVICES` names them; a trial takes
            the one with the fewest trials. Empty where there is none.

    Returns:
        False if a signal asked to stop; all is saved then.

    Raises:
        ValueError: if a trial failed, with the last line of its log. The
            others were finished first.
    """
    waiting = list(range(1, request.num_trials + 1))
    running: dict[int, Any] = {}
    taken: dict[int, str] = {}
    told: set[int] = set()
    failed: list[int] = []
    is_stopped = False
    with stopping.StopRequest() as stop:
        while waiting or running:
            while (
                waiting
                and len(running) < request.num_parallel
                and not stop.signal_name
            ):
                number = waiting.pop(0)
                busy = [taken[other] for other in running if devices]
                device = min(devices, key=busy.count, default="")
                taken[number] = device
                running[number] = _start(request, number, device)
            if stop.signal_name:
                waiting.clear()
                # A second signal would end them without saving.
                for number in running.keys() - told:
                    running[number].terminate()
                    told.add(number)
            for number in [n for n, p in running.items() if not p.is_alive()]:
                code = running.pop(number).exitcode
                if number in told and code in _KILLED:
                    # It had not got so far as to save anything.
                    code = _STOPPED
                is_stopped |= code == _STOPPED
                if code not in (0, _STOPPED):
                    failed.append(number)
                _report(request, number, code)
            time.sleep(_POLL_SECONDS)
    if failed:
        log = _log_of(request, failed[0])
        raise ValueError(
            f"{len(failed)} of {request.num_trials} trials failed: "
            f"{', '.join(map(str, failed))}. {log} ends with: "
            f"{_last_line(log)}"
        )
    return not (is_stopped or stop.signal_name)


def _start(request: session_lib.Request, number: int, device: str) -> Any:
    environment = {}
    if device:
        environment["CUDA_VISIBLE_DEVICES"] = device
        # Two trials may have to share one.
        environment["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"
    log = _log_of(request, number)
    log.parent.mkdir(parents=True, exist_ok=True)
    # A forked process would inherit TensorFlow's threads, locked.
    process = multiprocessing.get_context("spawn").Process(
        target=_run_child, args=(request, number, environment, log)
    )
    process.start()
    print(f"Trial {number} started; its log is {log}.", flush=True)
    return process


def _run_child(
    request: session_lib.Request,
    number: int,
    environment: dict[str, str],
    log: pathlib.Path,
) -> None:
    # Ctrl-C in a terminal reaches the whole group: the parent alone shall get
    # it, and tell us once.
    os.setpgrp()
    os.environ.update(environment)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    try:
        with stopping.StopRequest() as stop:
            is_done = session_lib.Session(request).run(number, stop)
    except Exception as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        sys.exit(1)
    sys.exit(0 if is_done else _STOPPED)


def _report(request: session_lib.Request, number: int, code: int) -> None:
    if code == 0:
        trial = results.read_trials(request.output_dir)[number]
        print(
            f"Trial {number} is done after {trial.seconds:.0f} s.", flush=True
        )
    else:
        how = "stopped" if code == _STOPPED else "failed"
        print(f"Trial {number} has {how}.", flush=True)


def _log_of(request: session_lib.Request, number: int) -> pathlib.Path:
    return request.output_dir / "logs" / f"trial_{number:02d}.txt"


def _last_line(log: pathlib.Path) -> str:
    lines = log.read_text("utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "nothing"
