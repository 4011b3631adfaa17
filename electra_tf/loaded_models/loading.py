"""Loads a model from files of any format."""

import os
import pathlib
import tempfile

from electra_tf import config
from electra_tf import installed
from electra_tf import storage
from electra_tf.config import schema
from electra_tf.finetuning import portable_trial
from electra_tf.finetuning import results
from electra_tf.formats import portable
from electra_tf.formats import reading
from electra_tf.loaded_models import finetuned
from electra_tf.loaded_models import pretrained


def load(
    path: str | os.PathLike[str],
    format: str = "",
    generator_path: str | os.PathLike[str] | None = None,
    precision: str = "float32",
    task: str = "",
) -> pretrained.PretrainedModel | finetuned.FinetunedModel:
    """Loads what lies at a path; `electra_tf.load` says how."""
    schema.require_choice("precision", precision, config.PRECISIONS)
    folder = installed.find_model(path)
    trial = results.find_trial(folder, task)
    schema.require(
        not (trial and format),
        "`format` is of a model from elsewhere. Received: "
        f"{format!r} for {folder}, a fine-tuning. Leave it out.",
    )
    model = None if trial else reading.read_model(folder, format)
    if model is not None and model.task is None and not task:
        if generator_path is not None:
            second = reading.read_model(storage.path(generator_path))
            model = portable.join(
                portable.split(model).get("discriminator", model),
                portable.split(second).get("generator", second),
            )
        return pretrained.PretrainedModel.from_portable(model, precision)
    schema.require(
        not generator_path and (trial is not None or not task),
        "`task` is for a fine-tuning on several, `generator_path` for a "
        f"pre-trained model. Received: one of them for {folder}. Leave it out.",
    )
    if model is None:
        return finetuned.FinetunedModel(trial or folder, task, precision)
    with tempfile.TemporaryDirectory() as scratch:
        portable_trial.write_trial(model, pathlib.Path(scratch))
        loaded = finetuned.FinetunedModel(pathlib.Path(scratch), "", precision)
    loaded.origin, loaded.notes = model.origin, model.notes
    return loaded
