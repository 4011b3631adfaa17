"""Fine-tuning from a config and two folders: trials, scores, predictions.

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
import pathlib

from electra_tf.finetuning import parallel
from electra_tf.finetuning import predictions as predictions_lib
from electra_tf.finetuning import results
from electra_tf.finetuning import session as session_lib
from electra_tf.finetuning.tasks import catalog
from electra_tf.training import stopping


def finetune(request: session_lib.Request) -> results.Summary | None:
    """Does what is asked, and prints a table of the scores.

    Returns:
        All scores; None if a signal asked to stop, or nothing was scored.

    Raises:
        ValueError: for settings, data or folders that do not fit.
        FileNotFoundError: for a file that is not there.
        NonFiniteLossError: if a loss stops being a number.
    """
    if "train" in request.actions and request.num_parallel > 1:
        done = parallel.run_trials(request, parallel.list_gpus())
    else:
        session = session_lib.Session(request)
        with stopping.StopRequest() as stop:
            done = all(
                session.run(number, stop)
                for number in range(1, request.num_trials + 1)
            )
    if not done:
        return None
    summary = None
    if {"train", "eval"} & set(request.actions):
        summary = results.summarize(request.output_dir, _metrics(request))
        results.write(request.output_dir, summary, request.settings)
        print(results.format_table(summary), flush=True)
    if "predict" in request.actions:
        predict(request)
    return summary


def predict(request: session_lib.Request) -> list[pathlib.Path]:
    """Writes the best trial's predictions in the tasks' official forms.

    Returns:
        The files written.
    """
    number = results.best_trial(request.output_dir, _metrics(request))
    trial = session_lib.Session(dataclasses.replace(request, actions=())).load(
        number
    )
    return predictions_lib.write(
        trial, request.output_dir / "predictions", request.splits
    )


def _metrics(request: session_lib.Request) -> dict[str, str]:
    """Task name to its deciding metric."""
    tasks = catalog.build_tasks(request.settings)
    return {task.name: task.metric for task in tasks}
