"""Fine-tuning from a config and two folders: trials, scores, predictions.

Several tasks become one model that learns them together, but those of a
benchmark (`benchmark`) a model each.

    output_dir/
        trial_01/, trial_02/, ...   see `trial`
        results.json, results.txt   all scores, with median, mean and spread
        predictions/TASK/           of the best trial, in the official forms
        logs/                       of trials that ran side by side

Everything can be stopped and started again: trials that are done are read, one
that was under way goes on. Training, evaluation and prediction can be asked
for one by one; the last two need no pre-trained model.
"""

import dataclasses
import gc
import pathlib
from collections.abc import Sequence

from electra_tf.finetuning import benchmark
from electra_tf.finetuning.trials import parallel
from electra_tf.finetuning.trials import results
from electra_tf.finetuning.trials import session as session_lib
from electra_tf.finetuning.trials import trial as trial_lib
from electra_tf.finetuning.trials import trial_dir
from electra_tf.processes import stopping


def finetune(
    request: session_lib.Request,
) -> results.Summary | benchmark.Report | None:
    """Does what is asked, and prints a table of the scores.

    Returns:
        All scores; those of a benchmark if `task.names` names one. None if a
        signal asked to stop, or nothing was scored.

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
            report = benchmark.Report.of(lines)
            benchmark.write(request.output_dir, report, request.settings)
    if report is not None:
        print(f"\n{benchmark.format_table(report)}", flush=True)
    return report


def _finetune_model(
    request: session_lib.Request,
) -> tuple[bool, results.Summary | None]:
    """One model of all tasks named; False if a signal asked to stop."""
    if "train" in request.actions and request.num_parallel > 1:
        is_done = parallel.run_trials(request, parallel.list_gpus())
        is_chief = True
    else:
        session = session_lib.Session(request)
        is_done, is_chief = _run_in_turn(session, request), session.is_chief
    if not is_done or not is_chief:
        return is_done, None
    summary = None
    if {"train", "eval"} & set(request.actions):
        summary = results.summarize(request.output_dir)
        if request.settings.own.test_file:
            summary = dataclasses.replace(summary, test=_score_test(request))
        table = results.format_table(summary)
        results.write(
            request.output_dir,
            dataclasses.asdict(summary),
            table,
            request.settings,
        )
        print(table, flush=True)
    if "predict" in request.actions:
        predict(request)
    return True, summary


def predict(request: session_lib.Request) -> list[pathlib.Path]:
    """Writes the best trial's predictions in the tasks' official forms.

    Returns:
        The files written.
    """
    return write_predictions(
        _load_best(request), request.output_dir / "predictions", request.splits
    )


def write_predictions(
    trial: trial_lib.Trial, folder: pathlib.Path, splits: Sequence[str] = ()
) -> list[pathlib.Path]:
    """Predicts splits of all tasks; labels are not needed.

    Args:
        trial: with trained weights.
        folder: gets one folder for each task; made if absent.
        splits: which; empty: all but `train` for which there is a file, and
            what is left out is said.

    Returns:
        The files written.

    Raises:
        FileNotFoundError: if a split that was asked for has no file, or none
            has.
        ValueError: if a task has no such split.
    """
    written: list[pathlib.Path] = []
    for name, task in trial.prepared.tasks.items():
        _require_known(name, task.splits, splits)
        own_folder = folder / name
        for split in splits or task.splits:
            if split == "train" and not splits:
                continue
            try:
                examples = trial.prepared.examples(name, split)
            except FileNotFoundError as error:
                if splits:
                    raise
                print(f"Not predicted, {name} {split}: {error}", flush=True)
                continue
            own_folder.mkdir(parents=True, exist_ok=True)
            predictions = trial.predict(name, split)
            paths = task.write_predictions(
                own_folder, split, examples, predictions
            )
            for path in paths:
                print(f"Wrote {path}", flush=True)
            written += paths
    if not written:
        raise FileNotFoundError(
            "There must be a file to predict. Received: none for any split of "
            f"{', '.join(trial.prepared.tasks)}. Name one, for example by "
            "--config.own.test_file or --config.task.data_dir."
        )
    return written


def _require_known(
    task: str, known: Sequence[str], asked: Sequence[str]
) -> None:
    unknown = [split for split in asked if split not in known]
    if unknown:
        raise ValueError(
            f"The splits of {task} are {', '.join(known)}. Received: "
            f"{', '.join(unknown)}. Correct --splits."
        )


def _score_test(
    request: session_lib.Request,
) -> dict[str, dict[str, trial_dir.Score]]:
    """The best trial's scores on test files, as far as they have labels."""
    trial = _load_best(request)
    return trial.evaluate(trial.prepared.labelled_test_splits())


def _load_best(request: session_lib.Request) -> trial_lib.Trial:
    """The best trial, on one device: the chief alone works with it."""
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


def _run_in_turn(
    session: session_lib.Session, request: session_lib.Request
) -> bool:
    """Runs trials one after another; False if a signal asked to stop."""
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
