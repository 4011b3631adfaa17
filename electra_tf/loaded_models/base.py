"""The base class of loaded models: saving, and fine-tuning on."""

import abc
import os
import pathlib
import tempfile
import typing
from collections.abc import Mapping
from typing import Any

from electra_tf import errors
from electra_tf import storage
from electra_tf.export import conversion
from electra_tf.finetuning import finetune
from electra_tf.finetuning import memory_data
from electra_tf.finetuning import model as model_lib
from electra_tf.finetuning import results
from electra_tf.formats import portable
from electra_tf.formats import reading

if typing.TYPE_CHECKING:
    from electra_tf.loaded_models import finetuned


class LoadedModel(abc.ABC):
    """A trained model in memory.

    Attributes:
        origin: one line, where the weights come from.
        notes: what was left out or changed in reading, one line each.
    """

    origin: str
    notes: tuple[str, ...]

    @property
    @abc.abstractmethod
    def summary(self) -> str:
        """Its parts and their sizes in one line."""

    @abc.abstractmethod
    def to_portable(self) -> portable.PortableModel:
        """The model as every format is written from it."""

    @abc.abstractmethod
    def load_trial(self, folder: pathlib.Path) -> "finetuned.FinetunedModel":
        """Loads a trial that `finetune` trained."""

    def save(
        self, folder: str | os.PathLike[str], format: str = "huggingface"
    ) -> None:
        """Writes a new folder with the weights as they are.

        `format` is one of `conversion.SAVED_FORMATS`; `huggingface` has a
        README.md for the hub. Raises `OSError` if the folder exists,
        `ValueError` if the format cannot hold the model.
        """
        conversion.save(self.to_portable(), format, storage.path(folder))

    def finetune(
        self,
        train: Any,
        dev: Any = None,
        output_dir: str | os.PathLike[str] | None = None,
        num_trials: int = 1,
        **sections: Mapping[str, Any],
    ) -> "finetuned.FinetunedModel":
        """Fine-tunes a copy of the encoder as it is on data of your own.

        The training is that of `electra-finetune`, the task `own`. It begins
        with a new head, also where the model has one.

        Args:
            train: rows `(text, label)`, `(text, second text, label)` or
                `(words, tags)`; or what `pandas.DataFrame` takes, with the
                columns `text`, `text_pair` and `label`, or `question`,
                `context` and `answer`. Labels that are floats make a
                regression.
            dev: the same, to score the model on.
            output_dir: gets all that the command writes, and the same call
                goes on where it was stopped; None keeps nothing.
            num_trials: trainings with different seeds; the best is returned.
            sections: fields of the config's sections, for example
                `training={"num_train_epochs": 5}`.

        Raises `ValueError` for data or settings that do not fit, or a folder
        of another training; `KeyboardInterrupt` after a signal: with an
        `output_dir` the same call goes on.
        """
        data = {"train": train} | ({} if dev is None else {"dev": dev})
        with tempfile.TemporaryDirectory() as scratch:
            folder = storage.path(output_dir or scratch)
            finetune.refuse_model(folder)
            settings = memory_data.build_settings(folder, data, sections)
            model = self.to_portable()
            encoder = portable.take_part(model.tensors, portable.MAIN)
            checksum = model_lib.checksum(encoder.values())
            start = folder / f"pretrained-{checksum}"
            if not start.exists():
                conversion.save(model, reading.OURS, start)
            request = finetune.Request(
                settings, folder, start, num_trials=num_trials
            )
            try:
                finetune.finetune(request)
            except errors.DataError as error:
                text = f"{error}"
                for split, path in settings.own.files.items():
                    text = text.replace(path, f"`{split}`")
                raise errors.DataError(text) from error
            best = results.best_trial(results.read_trials(folder))
            return self.load_trial(request.folder(best))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.summary}; {self.origin})"
