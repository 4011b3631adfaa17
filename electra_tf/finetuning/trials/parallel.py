"""Trials side by side, one process each: on GPUs of their own, or on a CPU.

Each process writes to a log of its own. A signal is passed on: the trials save
and end, and the same command goes on from there.
"""

import functools
import os
import pathlib

from electra_tf.finetuning.trials import results
from electra_tf.finetuning.trials import session as session_lib
from electra_tf.processes import pool as pool_lib
from electra_tf.processes import stopping


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
        devices: the GPUs, as `CUDA_VISIBLE_DEVICES` names them; the trials at
            work share them evenly. Empty where there is none.

    Returns:
        False if a signal asked to stop; all is saved then.

    Raises:
        ValueError: if a trial failed; says why. The others were finished
            first.
    """
    folder = request.output_dir / "logs"

    def log_file(number: int) -> pathlib.Path:
        return folder / f"trial_{number:02d}.txt"

    def say_start(number: int) -> None:
        print(f"Trial {number} started; its log is {log_file(number)}.",
              flush=True)  # fmt: skip

    # Two trials may have to share a device.
    growth = {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}
    pool = pool_lib.ProcessPool(
        functools.partial(_start, request),
        request.num_parallel,
        log_file,
        [{"CUDA_VISIBLE_DEVICES": name, **growth} for name in devices],
    )
    failed: dict[int, Exception] = {}
    is_stopped = False
    with stopping.StopRequest() as stop, pool:
        for outcome in pool.outcomes(
            range(1, request.num_trials + 1), on_start=say_start, stop=stop
        ):
            number = outcome.task
            if outcome.error is not None and not stop.signal_name:
                failed[number] = outcome.error
                print(f"Trial {number} has failed.", flush=True)
            elif outcome.result:
                trial = results.read_trials(request.output_dir)[number]
                print(
                    f"Trial {number} is done after {trial.seconds:.0f} s.",
                    flush=True,
                )
            else:
                is_stopped = True
                print(f"Trial {number} has stopped.", flush=True)
    if failed:
        first = min(failed)
        raise ValueError(
            f"{len(failed)} of {request.num_trials} trials failed: "
            f"{', '.join(map(str, sorted(failed)))}. Trial {first}: "
            f"{failed[first]} See {log_file(first)}."
        )
    return not (is_stopped or stop.signal_name)


def _start(request: session_lib.Request) -> pool_lib.Handler:
    return functools.partial(_run_trial, request)


def _run_trial(
    request: session_lib.Request, number: int, report: pool_lib.Report
) -> bool:
    """A trial in its process; False if it was asked to stop."""
    del report
    with stopping.StopRequest() as stop:
        return session_lib.Session(request).run(number, stop)
