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
import gc
import pathlib

from electra_tf.finetuning import parallel
from electra_tf.finetuning import predictions as predictions_lib
from electra_tf.finetuning import results
from electra_tf.finetuning import session as session_lib
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
        done, is_chief = (
            parallel.run_trials(request, parallel.list_gpus()),
            True,
        )
    else:
        session = session_lib.Session(request)
        done, is_chief = _run_in_turn(session, request), session.is_chief
    if not done or not is_chief:
        return None
    summary = None
    if {"train", "eval"} & set(request.actions):
        summary = results.summarize(request.output_dir)
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
    number = results.best_trial(request.output_dir)
    settings = request.settings
    if settings.training.strategy == "multi_worker":
        # The chief alone predicts; the strategy would wait for the others.
        training = dataclasses.replace(settings.training, strategy="one_device")
        settings = dataclasses.replace(settings, training=training)
    trial = session_lib.Session(
        dataclasses.replace(request, settings=settings, actions=("predict",))
    ).load(number)
    return predictions_lib.write(
        trial, request.output_dir / "predictions", request.splits
    )


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
    return True
