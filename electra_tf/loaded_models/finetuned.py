"""What all loaded models can, fine-tuning included, and fine-tuned ones."""

import abc
import dataclasses
import hashlib
import json
import os
import pathlib
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from electra_tf import config
from electra_tf import errors
from electra_tf import storage
from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import schema
from electra_tf.export import conversion
from electra_tf.export import saved_model
from electra_tf.export.clients import text_models
from electra_tf.finetuning import finetune
from electra_tf.finetuning import model as model_lib
from electra_tf.finetuning import results
from electra_tf.formats import portable
from electra_tf.formats import reading
from electra_tf.processes import atomic
from electra_tf.tasks import base

_CONFIG = "configs/finetune/own.py"
_PAIR = "text_pair"
# Columns of rows that are tuples, by their number of values.
_COLUMNS = {2: ["text", "label"], 3: ["text", _PAIR, "label"]}


class LoadedModel(abc.ABC):
    """A trained model in memory.

    Attributes:
        text_model: what answers raw text, by the signatures of an export.
        origin: one line, where the weights come from.
        notes: what was left out or changed in reading, one line each.
    """

    text_model: text_models.TextModel
    origin: str
    notes: tuple[str, ...]

    @property
    @abc.abstractmethod
    def variables(self) -> list[Any]:
        """All its weights."""

    def checksum(self) -> str:
        """Tells its weights apart."""
        return model_lib.checksum(self.variables)

    @property
    @abc.abstractmethod
    def summary(self) -> str:
        """Its parts and their sizes in one line."""

    @abc.abstractmethod
    def to_portable(self) -> portable.PortableModel:
        """The model as every format is written from it."""

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
    ) -> "FinetunedModel":
        """Fine-tunes a copy of the encoder as it is on data of your own.

        The training is that of `electra-finetune`, the task `own`. It begins
        with a new head, also where the model has one.

        Args:
            train: rows `(text, label)`, `(text, second text, label)` or
                `(words, tags)`; or what `pandas.DataFrame` takes, with the
                columns `text`, `text_pair` and `label`, or `question`,
                `context` and `answer`; or a split of a `datasets.Dataset`,
                whose classes keep their names. The kind follows from the
                labels: lists, fractions, names or whole numbers. It is printed.
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
            settings = build_settings(folder, data, sections)
            model = self.to_portable()
            encoder = portable.take_part(model.tensors, portable.MAIN)
            checksum = model_lib.checksum(encoder.values())
            start = folder / f"pretrained-{checksum}"
            if not start.exists():
                conversion.save(model, reading.OURS, start)
            whole = settings, folder, start
            request = finetune.Request(*whole, num_trials=num_trials)
            try:
                finetune.finetune(request)
            except errors.DataError as error:
                text = f"{error}"
                for split, path in settings.own.files.items():
                    text = text.replace(path, f"`{split}`")
                raise errors.DataError(text) from error
            best = results.best_trial(results.read_trials(folder))
            return FinetunedModel(request.folder(best))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.summary}; {self.origin})"


class FinetunedModel(LoadedModel):
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
        self._portable = read = trained.described
        self.metadata = trained.metadata
        known = trained.module, self.metadata
        self.text_model = text_models.InMemoryModel(*known)
        self.labels = self.metadata.labels or ()
        self.keras_model: model_lib.FinetuningModel = trained.keras_model
        self.vocabulary = trained.module.tokenizer.vocabulary
        self.origin, self.notes = read.origin, read.notes
        self._checksum = self.checksum()

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
        Returns a dataclass of the kind of task for each row.
        Raises `ValueError` for other inputs.
        """
        given = {"texts": texts, "text_pairs": pairs}
        given |= {"questions": questions, "contexts": contexts}
        inputs = {
            name: text_models.check_texts(name, column)
            for name, column in given.items()
            if column is not None
        }
        return [answer for _, answer in self.text_model.answer(inputs)]

    def to_portable(self) -> portable.PortableModel:
        """The model as every format is written from it."""
        history = self._portable.history
        if self.checksum() != self._checksum:
            # The scores are those of other weights.
            history = history._replace(result=None)
        tensors = {v.path: v.numpy() for v in self.variables}
        own = {"tensors": tensors, "history": history}
        return dataclasses.replace(self._portable, **own)

    @property
    def variables(self) -> list[Any]:
        """All its weights."""
        return self.keras_model.weights

    @property
    def own(self) -> finetuning_config.OwnTaskConfig:
        """The settings of the files that it was trained on."""
        own: finetuning_config.OwnTaskConfig
        own = self._portable.history.description.settings.own
        return own

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


def build_settings(
    folder: pathlib.Path,
    data: Mapping[str, Any],
    sections: Mapping[str, Mapping[str, Any]],
) -> finetuning_config.FinetuningConfig:
    """Writes data by split into a folder, and builds settings that read them.

    The settings are those of `configs/finetune/own.py`, with other fields of
    some `sections`. What the section `own` does not say is found in the data:
    the kind (but not ranking), which is printed with the reason, a second text.
    """
    import pandas  # Takes a second, and most programs have no use for it.

    own: dict[str, Any] = {}
    frames = {split: _to_frame(split, rows) for split, rows in data.items()}
    for split, frame in frames.items():
        # Named by content: a folder refuses to go on with other data. Not by
        # pandas' `to_json`, which rounds: labels would leave their range.
        filled = frame.astype(object).where(frame.notna(), None)
        rows = filled.to_dict("records")
        lines = "".join(f"{json.dumps(r, default=_to_plain)}\n" for r in rows)
        digest = hashlib.sha256(lines.encode()).hexdigest()[:12]
        path = folder / "data" / f"{split}-{digest}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_text(path, lines)
        own[f"{split}_file"] = str(path)
    frame, given = pandas.concat(frames.values()), sections.get("own", {})
    kind, reason = given.get("kind"), ""
    if not kind:
        kind, reason = _guess_kind(frame, given)
    values = config.run_file(_CONFIG, kind).to_dict()
    known = values["own"] | dict(given)
    own |= base.find_kind(kind).describe_frame(frame, known) | dict(given)
    if reason:
        print(f'Kind: {kind}, because {reason}. Another: own={{"kind": KIND}}.')
    # Deterministic kernels would slow down the rest of the program.
    values["training"]["deterministic"] = False
    for name, fields in {**sections, "own": own}.items():
        values[name] = values.get(name, {}) | dict(fields)
    return schema.build(finetuning_config.FinetuningConfig, values)


def _to_plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _to_frame(split: str, rows: Any) -> Any:
    import pandas

    is_table = hasattr(rows, "to_pandas")
    is_dict = not is_table and hasattr(rows, "column_names")
    if isinstance(rows, str | os.PathLike) or is_dict:
        raise errors.DataError(
            f"`{split}` must be rows: a list, a frame or a split of a dataset. "
            f"Received: {rows!r:.80}. Read a file first, as by "
            "pandas.read_csv; of several splits give one."
        )
    frame = rows.to_pandas() if is_table else pandas.DataFrame(rows)
    for column, feature in (getattr(rows, "features", None) or {}).items():
        inner = feature[0] if isinstance(feature, list) else feature
        names = getattr(getattr(inner, "feature", inner), "names", None)
        if names:
            frame[column] = [_name(value, names) for value in frame[column]]
    if list(frame.columns) == list(range(frame.shape[1])):
        frame.columns = _COLUMNS.get(frame.shape[1], frame.columns)
    names = list(frame.columns)
    if len({*map(str, names)}) < len(names) or frame.columns.nlevels > 1:
        raise errors.DataError(
            f"`{split}` must have columns of different names. Received: "
            f"{', '.join(map(str, names))}. Rename them."
        )
    return frame


def _name(value: Any, names: Sequence[str]) -> Any:
    """The name of a class, or those of a list; -1 is that of none."""
    if hasattr(value, "__len__"):
        return [_name(item, names) for item in value]
    return names[int(value)] if value == value and value >= 0 else None


def _guess_kind(frame: Any, given: Mapping[str, Any]) -> tuple[str, str]:
    """The first kind that recognizes the data, or else the default, and why."""
    own = finetuning_config.OwnTaskConfig(**given)
    for name in finetuning_config.TASK_KINDS:
        if reason := base.find_kind(name).recognizes(frame, own):
            return name, reason
    return own.kind, "its labels are names or whole numbers"
