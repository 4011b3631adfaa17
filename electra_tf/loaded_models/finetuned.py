"""A fine-tuned model as one object, for use from Python."""

import dataclasses
import pathlib
from collections.abc import Iterable
from typing import Any

from electra_tf.export import saved_model
from electra_tf.export.clients import predictions
from electra_tf.export.clients import text_models
from electra_tf.finetuning import model as model_lib
from electra_tf.finetuning import portable_trial
from electra_tf.formats import portable
from electra_tf.loaded_models import base


class FinetunedModel(base.LoadedModel):
    """One task of a fine-tuned trial: encoder, head and tokenizer.

    `electra_tf.load` makes one from files, `LoadedModel.finetune` from data.
    All methods use the weights as they are after a `fit` of `keras_model`.

    Examples:
        >>> import contextlib, io
        >>> import electra_tf
        >>> electra = electra_tf.load("tiny-en")
        >>> rows = [("a good film", "good"), ("a bad film", "bad")]
        >>> with contextlib.redirect_stdout(io.StringIO()):  # Its steps.
        ...     model = electra.finetune(rows)
        >>> model.labels
        ('bad', 'good')
        >>> sorted(model.predict(["a film"])[0].probabilities)
        ['bad', 'good']

    Attributes:
        metadata: what an export of it tells: kind, labels, scores and more.
        text_model: what answers raw text, by the signatures of an export.
        labels: of classes or tags, in the order of the outputs, if any.
        keras_model: what training trains, from `[B, S]` rows to the outputs of
            the head; its `save` writes a `.keras` file.
        vocabulary: what the ids mean.
        origin: one line, where the weights come from.
        notes: what was left out or changed in reading, one line each.
    """

    def __init__(
        self, trial: pathlib.Path, task: str = "", precision: str = "float32"
    ) -> None:
        options = saved_model.ExportOptions(precision=precision)
        trained = saved_model.load_task(trial, task, options)
        self._portable = read = portable_trial.read_trial(
            trial, task, is_whole=False
        )
        self.text_model = text_models.InMemoryModel(trained.module)
        self.metadata = trained.describe(trial, options)
        self.labels = self.metadata.labels or ()
        self.keras_model: model_lib.FinetuningModel = trained.model
        self.vocabulary = trained.module.tokenizer.vocabulary
        self.origin, self.notes = read.origin, read.notes
        self._checksum = model_lib.checksum(self.keras_model.weights)

    def predict(
        self,
        texts: Iterable[str] | None = None,
        pairs: Iterable[str] | None = None,
        *,
        questions: Iterable[str] | None = None,
        contexts: Iterable[str] | None = None,
    ) -> list[Any]:
        """Answers for any number of texts, of the kind that the model reads.

        They are `texts`, with `pairs` where it reads two, or `questions` and
        `contexts`; of two inputs one may hold a single text for all rows.
        Returns a dataclass of `export.clients.predictions` for each row.
        Raises `ValueError` for other inputs.
        """
        given = {"texts": texts, "text_pairs": pairs}
        given |= {"questions": questions, "contexts": contexts}
        inputs = {
            name: text_models.check_texts(name, column)
            for name, column in given.items()
            if column is not None
        }
        answers = predictions.predict(self.text_model, self.metadata, inputs)
        return [prediction for _, prediction in answers]

    def load_trial(self, folder: pathlib.Path) -> "FinetunedModel":
        """Loads a trial that `finetune` trained."""
        return FinetunedModel(folder)

    def to_portable(self) -> portable.PortableModel:
        """The model as every format is written from it."""
        variables, history = self.keras_model.weights, self._portable.history
        if model_lib.checksum(variables) != self._checksum:
            # The scores are those of other weights.
            history = history._replace(result=None)
        tensors = {v.path: v.numpy() for v in variables}
        return dataclasses.replace(
            self._portable, tensors=tensors, history=history
        )

    @property
    def summary(self) -> str:
        """Its task, sizes and deciding score in one line."""
        about, result = self.metadata, self._portable.history.result
        parts = [f"{about.kind.replace('_', ' ')} of {about.task}"]
        parts += [f"{len(self.labels)} labels"] * bool(self.labels)
        parts.append(f"{self.keras_model.count_params():,} weights")
        for split, metrics in (about.scores or {}).items():
            name = result.metrics[about.task]
            parts.append(f"{split} {name} {metrics[name]:.2f}")
        return ", ".join(parts)
