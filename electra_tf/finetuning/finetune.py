"""Fine-tuning from a config and two folders: trials, scores, predictions.

    output_dir/
        trial_01/, trial_02/, ...   see `trial`
        results.json, results.txt   all scores, with median, mean and spread
        predictions/TASK/           of the best trial, in the official forms
        logs/                       of trials that ran side by side

Everything can be stopped and started again: trials that are done are read, one
that was under way goes on.
"""

import dataclasses
import functools
import gc
import os
import pathlib
from collections.abc import Sequence

from electra_tf.finetuning import benchmark
from electra_tf.finetuning import results
from electra_tf.finetuning import session as session_lib
from electra_tf.finetuning import trial as trial_lib
from electra_tf.processes import pool as pool_lib
from electra_tf.processes import stopping


def finetune(
    request: session_lib.Request,
) -> results.Summary | benchmark.Report | None:
    """Does what is asked, and prints a table of the scores.

    One model learns several tasks together; those of a benchmark get a model
    each.

    Returns:
        All scores, or None if a signal asked to stop or nothing was scored.

    Raises:
        ValueError: for settings, data or folders that do not fit.
        FileNotFoundError: for a file that is not there.
        NonFiniteLossError: if a loss stops being a number.
    """
    names = benchmark.task_names(request.settings.task.names)
    if not names:
        return _finetune_model(request)[1]
    benchmark.require_ready(request, names)
    lines: list[benchmark.Line] = []
    report = None
    for place, name in enumerate(names, 1):
        own = benchmark.request_of(request, name)
        print(f"{name}, task {place} of {len(names)}:", flush=True)
        is_done, summary = _finetune_model(own)
        if not is_done:
            return None
        if summary is not None:
            lines.append(benchmark.line_of(name, own.settings, summary))
            # After each, as the next one may take days.
            report = benchmark.build_report(lines)
            results.write(
                request.output_dir,
                report,
                benchmark.format_table(report),
                request.settings,
            )
    if report is not None:
        print(f"\n{benchmark.format_table(report)}", flush=True)
    return report


def _finetune_model(
    request: session_lib.Request,
) -> tuple[bool, results.Summary | None]:
    """Makes one model of all tasks named; False if a signal asked to stop."""
    if request.num_parallel > 1:
        is_done, is_chief = run_side_by_side(request, list_gpus()), True
    else:
        session = session_lib.Session(request)
        is_done, is_chief = _run_in_turn(session), session.is_chief
    if not is_done or not is_chief:
        return is_done, None
    summary = None
    if {"train", "eval"} & set(request.actions):
        summary = results.summarize(request.output_dir)
        if request.settings.own.test_file:
            best = _load_best(request)
            test = best.evaluate(best.prepared.labelled_test_splits())
            summary = dataclasses.replace(summary, test=test)
        table = results.format_table(summary)
        results.write(request.output_dir, summary, table, request.settings)
        print(table, flush=True)
    if "predict" in request.actions:
        write_predictions(
            _load_best(request),
            request.output_dir / "predictions",
            request.splits,
        )
    return True, summary


def _load_best(request: session_lib.Request) -> trial_lib.Trial:
    """Loads the best trial on one device: the chief alone works with it."""
    settings = request.settings
    if settings.training.strategy == "multi_worker":
        # The strategy would wait for the others.
        training = dataclasses.replace(settings.training, strategy="one_device")
        settings = dataclasses.replace(settings, training=training)
    alone = dataclasses.replace(
        request, settings=settings, actions=("predict",), num_parallel=1
    )
    number = results.best_trial(request.output_dir)
    return session_lib.Session(alone).load(number)


def write_predictions(
    trial: trial_lib.Trial, folder: pathlib.Path, splits: Sequence[str] = ()
) -> None:
    """Predicts splits of all tasks, into a folder for each task.

    No splits means all but `train` for which there is a file.
    """
    written: list[pathlib.Path] = []
    for name, task in trial.prepared.tasks.items():
        if not set(splits) <= set(task.splits):
            raise ValueError(
                f"The splits of {name} are {', '.join(task.splits)}. Received: "
                f"{', '.join(splits)}. Correct --splits."
            )
        for split in splits or [s for s in task.splits if s != "train"]:
            try:
                examples = trial.prepared.examples(name, split)
            except FileNotFoundError as error:
                if splits:
                    raise
                print(f"Not predicted, {name} {split}: {error}", flush=True)
                continue
            own_folder = folder / name
            own_folder.mkdir(parents=True, exist_ok=True)
            written += task.write_predictions(
                own_folder, split, examples, trial.predict(name, split)
            )
    if not written:
        raise FileNotFoundError(
            "There must be a file to predict. Received: none for any split of "
            f"{', '.join(trial.prepared.tasks)}. Name one, for example by "
            "--config.own.test_file or --config.task.data_dir."
        )
    for path in written:
        print(f"Wrote {path}", flush=True)


def _run_in_turn(session: session_lib.Session) -> bool:
    """Runs trials one after another; False if a signal asked to stop."""
    request = session.request
    numbers = list(range(1, request.num_trials + 1))
    if "train" not in request.actions:
        # All that there are, so that one table compares like with like.
        numbers = sorted(results.read_trials(request.output_dir))
    with stopping.StopRequest() as stop:
        for number in numbers:
            if not session.run(number, stop):
                return False
            # A model that has been trained is a heap of cycles.
            gc.collect()
    return not stop.signal_name


def list_gpus() -> list[str]:
    """Lists the GPUs of this host, as `CUDA_VISIBLE_DEVICES` names them."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name for name in visible.split(",") if name]
    nodes = pathlib.Path("/dev").glob("nvidia[0-9]*")
    return [str(number) for number in range(len(list(nodes)))]


def run_side_by_side(request: session_lib.Request, devices: list[str]) -> bool:
    """Runs trials in processes of their own, `num_parallel` at a time.

    Each writes to a log of its own; they share the GPUs `devices` evenly. A
    signal is passed on: the trials save and end (the result is False), and the
    same command goes on from there.
    """

    def log_file(number: int) -> pathlib.Path:
        return request.output_dir / "logs" / f"trial_{number:02d}.txt"

    def say(number: int, what: str) -> None:
        print(f"Trial {number} {what}.", flush=True)

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
        for number, is_done, error in pool.outcomes(
            range(1, request.num_trials + 1),
            on_start=lambda number: say(
                number, f"started; its log is {log_file(number)}"
            ),
            stop=stop,
        ):
            if error is not None and not stop.signal_name:
                failed[number] = error
                say(number, "has failed")
            elif is_done:
                trial = results.read_trials(request.output_dir)[number]
                say(number, f"is done after {trial.seconds:.0f} s")
            else:
                is_stopped = True
                say(number, "has stopped")
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
    """Runs a trial in its process; False if it was asked to stop."""
    del report
    with stopping.StopRequest() as stop:
        return session_lib.Session(request).run(number, stop)
