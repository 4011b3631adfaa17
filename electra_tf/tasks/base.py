"""The interface of a downstream task, and of a kind of tasks.

A task reads its files, builds rows and a head, and decodes, scores and writes
predictions. Its class is the kind of task. The class also defines how a model
is exported and stored in other formats, so no other file names a kind.
"""

import abc
import dataclasses
import functools
import hashlib
import importlib
import inspect
import json
import pathlib
import pkgutil
import textwrap
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from electra_tf import errors
from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import schema
from electra_tf.modeling import task_heads
from electra_tf.processes import atomic
from electra_tf.tasks import rows as rows_lib
from electra_tf.text import terminal
from electra_tf.text import tokenizer as tokenizer_lib
from electra_tf.text import vocabulary as vocabulary_lib

Examples = Sequence[Any]
"""The examples of a split, in the order of the file."""
Readers = Mapping[str, Callable[[], Examples]]
"""Maps a split to the function that reads its examples."""
Outputs = Mapping[str, Sequence[np.ndarray]]
"""Maps the name of a head's output to an array (or a scalar) for each row.

Arrays with a padded axis (`TaskHead.padded_outputs`) are cut to the number of
tokens or words of the row.
"""
Row = Mapping[str, np.ndarray]
"""Maps the name of a signature's output to its value for one row."""
Rows = rows_lib.EncodedRows
OwnSettings = finetuning_config.OwnTaskConfig
Settings = finetuning_config.FinetuningConfig
Tensors = dict[str, tf.Tensor]
Texts = tuple[bytes, ...]
"""The texts of one row, in UTF-8: the inputs of a raw-text signature."""
OWN = "own"
"""The name of the task that reads a user's own files."""

_MAX_SHOWN = 300  # characters of the first row that `describe` prints
_EXAMPLE = """\
print(model.signatures["{signature}"](
    {inputs}
))"""


@schema.frozen
class NoOptions:
    """The `Task.options_class` of a kind without options."""


class Task(abc.ABC):
    """A downstream task, with a function that reads each of its splits.

    The split `train` is for training. The splits `dev...` have labels and are
    for evaluation; the score on the first one ranks trials. All other splits
    are for prediction. `name` is the task's name in the catalog and the
    variable scope of its head.
    """

    # A key of `finetuning_config.TASK_KINDS`, or, in a module outside of the
    # package, `__name__`
    kind: str
    export_name: str = ""  # the kind's name in an export; empty: `kind`
    head_class: type[task_heads.TaskHead]
    outputs_are_labels: bool = False  # whether the head has an output per label
    # Signatures are `<signature>_text` (or `_pair_text`) and `<signature>_ids`
    signature: str
    takes_hidden_layer: bool = False  # see `TaskConfig.hidden_layer`
    takes_pairs: bool = False  # whether a user's texts may come in pairs
    is_trained_alone: bool = False  # whether other tasks cannot share the model
    # The class of Hugging Face that has this head, empty if there is none, and
    # the `problem_type` in its config.json
    hugging_face: str = ""
    problem_type: str | None = None
    # A frozen dataclass; its fields are also fields of Hugging Face's
    # config.json
    options_class: type = NoOptions

    num_headings: int | None = None  # texts shown above an answer; None: all

    has_pairs: bool = False  # whether texts come in pairs
    metric: str  # the key of `score` that ranks trials
    lower_is_better: tuple[str, ...] = ()  # keys of `score`
    max_seq_length: int = 128  # tokens of a row, unless a config sets it
    num_train_epochs: float = 3.0  # unless a config sets it
    # Splits on which the best trial is scored if they have labels
    test_splits: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()  # name of each output of the head, if any
    # A dataclass of facts about the training file that predictions depend on,
    # for example the tag scheme
    conventions: Any = None
    conventions_class: type | None = None
    has_hidden_layer: bool = False

    def __init__(self, name: str, readers: Readers) -> None:
        self.name = name
        self.use_readers(readers)

    def use_readers(self, readers: Readers) -> None:
        """Sets the functions that read the splits; each is called once."""
        self._readers = {s: functools.cache(r) for s, r in readers.items()}
        self.splits = tuple(readers)
        self.dev_splits = tuple(s for s in readers if s.startswith("dev"))

    # Data.

    @classmethod
    def build_own(cls, settings: Settings, labels: Sequence[str] = ()) -> Any:
        """Builds the task of a user's own files from the section `own`.

        `labels` are the labels of a trained model. Without them the method
        takes the labels from the settings or the training file.
        """
        raise ValueError(f"{cls.__name__} has no method `build_own`. Add it.")

    @classmethod
    def recognizes(cls, frame: Any, own: OwnSettings) -> str:
        """Returns the reason why a pandas frame fits this kind, or "".

        The reason completes a sentence that ends with "because".
        """
        return ""

    @classmethod
    def describe_frame(cls, frame: Any, own: Mapping[str, Any]) -> dict:
        """Returns fields of the section `own` that fit a frame's columns."""
        labels = map(str.strip, own["label_column"].split(","))
        names = [own["text_column"], *labels]
        if not len(frame) or not {*names} <= {*frame}:
            raise errors.DataError(
                f"Data must be rows of {' and '.join(names)}, or of questions. "
                f"Received: {len(frame)} rows of {', '.join(map(str, frame))}. "
                'Name other columns by own={"text_column": NAME, '
                '"label_column": NAME}; a column for each label by '
                '{"kind": "multilabel", "label_column": "A,B"}.'
            )
        return {}

    def read_split(self, split: str) -> Examples:
        """Reads the examples of a split; `DataError` names a bad line."""
        if split not in self._readers:
            raise ValueError(
                f"The task {self.name} has the splits "
                f"{', '.join(self.splits) or '(none)'}. Received: {split!r}. "
                f"For your own data, set own.{split}_file."
            )
        return self._readers[split]()

    def use_labels(self, labels: Sequence[str]) -> None:
        """Replaces the labels by the labels of a trained model."""
        self.labels = tuple(labels)

    def use_conventions(self, values: Mapping[str, Any]) -> None:
        """Replaces `conventions` by a trained model's; `values` are fields."""
        if self.conventions_class is None:
            raise ValueError(f"{self.name} has none. Received: {values}.")
        self.conventions = schema.build(self.conventions_class, values)

    def has_labels(self, examples: Examples) -> bool:
        """Returns whether examples have labels, so that they can be scored."""
        return True

    @abc.abstractmethod
    def build_rows(
        self,
        examples: Examples,
        tokenizer: tokenizer_lib.Tokenizer,
        max_seq_length: int,
        is_training: bool,
    ) -> Rows:
        """Builds rows of at most `max_seq_length` tokens.

        Labels may be missing. `is_training` may change the number of rows.
        """

    # The description that is printed before training.

    def describe(
        self,
        examples: Mapping[str, Examples],
        rows: Mapping[str, Rows],
        vocabulary: vocabulary_lib.Vocabulary,
        num_positions: int,
    ) -> list[str]:
        """Returns lines that describe the data as the task reads it.

        `examples` and `rows` map a split to its data. The encoder has
        `num_positions` positions.
        """
        kind = self.kind.rpartition(".")[2].replace("_", " ")
        counts = [f"{len(examples[s]):,} of {s}" for s in examples]
        metric = "no dev data, so nothing is scored"
        if self.dev_splits:
            metric = f"{self.metric} on {self.dev_splits[0]} ranks trials"
        return [
            f"{self.name}: {kind}; examples: {', '.join(counts)}; {metric}.",
            *self.describe_labels(examples),
            *rows_lib.describe_tokens(
                list(rows.values()), num_positions, vocabulary.unk_id
            ),
            *self._describe_first(examples, rows, vocabulary),
        ]

    def describe_labels(self, examples: Mapping[str, Examples]) -> list[str]:
        """Returns lines that describe the labels of each split."""
        return [f"Labels: {', '.join(self.labels)}."] if self.labels else []

    def _describe_first(
        self,
        examples: Mapping[str, Examples],
        rows: Mapping[str, Rows],
        vocabulary: vocabulary_lib.Vocabulary,
    ) -> list[str]:
        filled = (item for item in rows.items() if item[1].num_rows)
        split, first = next(filled, ("", None))
        if first is None:
            return []
        tokens = [vocabulary.tokens[number] for number in first.ids[0]]
        shown = terminal.printable(" ".join(tokens))
        shown = textwrap.shorten(shown, _MAX_SHOWN, placeholder=" ...")
        label = getattr(examples[split][first.examples[0]], "label", None)
        # Rows of a group are sorted, so the label may be another row's.
        has_label = label is not None and first.group_size == 1
        suffix = f"; its label: {label!r}" if has_label else ""
        return [f"The first row of {split} in tokens: {shown}{suffix}"]

    # The head.

    def build_head(
        self, hidden_size: int, seed: int, dtype: Any = None
    ) -> task_heads.TaskHead:
        """Builds the task's head, with weights drawn from `seed`."""
        head = self.new_head(seed=seed, name=self.name, dtype=dtype)
        # Variable paths in checkpoints begin with this scope.
        with keras.name_scope("task_specific"):
            head.build((None, None, hidden_size))
        return head

    def new_head(self, **kwargs: Any) -> task_heads.TaskHead:
        """Creates the head; it has no weights until `build` is called."""
        return self.restore_head(
            len(self.labels), {}, self.has_hidden_layer, **kwargs
        )

    @classmethod
    def restore_head(
        cls,
        num_labels: int,
        shapes: Mapping[str, tuple[int, ...]],
        has_hidden_layer: bool,
        **kwargs: Any,
    ) -> task_heads.TaskHead:
        """Creates a head into which stored variables can be loaded.

        `shapes` maps `layer/variable` to the shape of a stored variable. If
        `num_labels` is 0, the shapes give the number of outputs. `kwargs` go to
        the head: `seed`, `name`, `dtype`.
        """
        if cls.takes_hidden_layer:
            kwargs["has_hidden_layer"] = has_hidden_layer
        num_outputs = num_labels or shapes.get("dense/bias", (1,))[-1]
        sizes = [num_outputs] if cls.outputs_are_labels else []
        return cls.head_class(*sizes, **kwargs)

    # Predictions and scores.

    @abc.abstractmethod
    def decode(self, examples: Examples, rows: Rows, outputs: Outputs) -> Any:
        """Computes predictions from the outputs of `TaskHead.predict`."""

    @abc.abstractmethod
    def score(self, examples: Examples, predictions: Any) -> dict:
        """Computes the official metrics of labelled examples, in percent."""

    @abc.abstractmethod
    def is_degenerate(self, examples: Examples, predictions: Any) -> bool:
        """Returns whether all predictions are equal: nothing was learned."""

    def write_examples(
        self, path: pathlib.Path, examples: Examples, predictions: Any
    ) -> None:
        """Writes JSON lines: the fields of each example, and `prediction`."""
        lines = []
        listed = self.list_predictions(examples, predictions)
        for example, prediction in zip(examples, listed, strict=True):
            fields = _fields_of(example) | {"prediction": prediction}
            lines.append(json.dumps(fields, ensure_ascii=False, default=float))
        path.parent.mkdir(exist_ok=True)
        write_file(path, lines)

    def list_predictions(self, examples: Examples, predictions: Any) -> Any:
        """Returns a prediction for each example, as JSON can hold it."""
        return predictions

    @abc.abstractmethod
    def write_predictions(
        self,
        folder: pathlib.Path,
        split: str,
        examples: Examples,
        predictions: Any,
    ) -> list[pathlib.Path]:
        """Writes predictions in the task's official format; returns paths."""

    # Exports.

    @property
    def signature_names(self) -> tuple[str, ...]:
        """Names of an export's signatures: for raw text, for ids."""
        text = "pair_text" if self.has_pairs else "text"
        return f"{self.signature}_{text}", f"{self.signature}_ids"

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the inputs of the signature for raw text."""
        return ("texts", "text_pairs") if self.has_pairs else ("texts",)

    def build_signatures(self, model: Any) -> Any:
        """Builds an object with the functions of an export's signatures.

        `model` is an `export.models.finetuned.FinetunedModule`. The method
        `answer_text` takes the raw texts of `input_names`; the method
        `answer_ids` takes rows of ids and checks them by `model.check_ids`.
        Both return a dict from output name to tensor.
        """
        name = type(self).__name__
        raise ValueError(f"{name} has no method `build_signatures`. Add it.")

    @classmethod
    def export_texts(cls) -> dict[str, Any]:
        """Returns the texts of this kind for exports and the demo page.

        The sections `readme` and `page` are read from `<kind>.toml` beside the
        module, if the file exists. A kind with new signatures adds the sections
        `signatures` and `tensors` (see `export/signatures.toml`).
        """
        name = f"{cls.kind.rpartition('.')[2]}.toml"
        path = pathlib.Path(inspect.getfile(cls)).with_name(name)
        if path.is_file():
            return tomllib.loads(path.read_text("utf-8"))
        summary = (cls.__doc__ or cls.kind).partition("\n")[0]
        title = f"{cls.kind}, fine-tuned on {{task}}"
        readme = {"title": title, "summary": summary, "example": _EXAMPLE}
        page = {"title": summary, "heading": "Answer", "view": "fields"}
        return {"readme": readme, "page": page}

    def describe_export(self) -> dict[str, Any]:
        """Returns fields of `ExportMetadata`, except the labels."""
        return {}

    @classmethod
    def read_prediction(cls, metadata: Any, texts: Texts, row: Row) -> Any:
        """Returns the prediction for one row, a dataclass of the kind.

        `metadata` is the `ExportMetadata` of the model.
        """
        raise ValueError(f"{cls.__name__} has no method `read_prediction`.")

    @classmethod
    def show_prediction(
        cls, prediction: Any, metadata: Any, texts: Texts
    ) -> list[str]:
        """Returns the lines to print below the texts of a row."""
        return [repr(prediction)]

    @classmethod
    def show_all(
        cls, metadata: Any, rows: Iterable[tuple[Texts, Any]]
    ) -> Iterator[str]:
        """Yields a block of text for each row: its texts, its prediction."""
        for texts, prediction in rows:
            lines = cls.show_prediction(prediction, metadata, texts)
            heading = map(terminal.printable, texts[: cls.num_headings])
            yield "\n".join([*heading, *(f"  {line}" for line in lines)])

    # Other formats.

    def options(self, conventions: Any = None) -> Any:
        """Returns an `options_class`; `conventions` are a trained model's."""
        return self.options_class()

    @classmethod
    def restore_settings(cls, options: Any, layers: Iterable[str]) -> dict:
        """Returns sections of a config for a model of another format.

        `options` is an `options_class`; `layers` are the names of the head's
        layers. The caller ignores the section `own` unless the task is `own`.
        """
        return {}

    @classmethod
    def restore_conventions(cls, options: Any) -> Any:
        """Returns the `conventions` of a model of another format, or None."""
        return None

    @classmethod
    def card_note(cls, options: Any) -> str:
        """Returns code comments to put below the example of a model card."""
        return ""

    @property
    def storage_note(self) -> str:
        """Warns if Hugging Face's format cannot store this head, or is ""."""
        return ""


def _fields_of(example: Any) -> dict[str, Any]:
    as_dict = getattr(example, "_asdict", None)
    return dict(as_dict()) if as_dict else dataclasses.asdict(example)


def digest(examples: Examples) -> str:
    """Returns a SHA-256 of the examples that ignores where their file is."""
    hashed = hashlib.sha256()
    for example in examples:
        fields = _fields_of(example)
        fields.pop("place", None)
        hashed.update(json.dumps(fields, default=str).encode() + b"\n")
    return hashed.hexdigest()


def write_file(path: pathlib.Path, lines: Iterable[str]) -> pathlib.Path:
    """Writes a text file that appears when it is complete; returns `path`."""
    atomic.write_text(path, "".join(f"{line}\n" for line in lines))
    return path


def find_kind(name: str) -> type[Task]:
    """Imports the class of a kind of task, or raises `ConfigError`.

    `name` is a key of `finetuning_config.TASK_KINDS`, or a user's module that
    defines one subclass of `Task`.
    """
    # Exports give this kind another name.
    name = "qa" if name == "question_answering" else name
    if name in finetuning_config.TASK_KINDS:
        path = f"electra_tf.tasks.{finetuning_config.TASK_KINDS[name]}"
        kind: type[Task] = pkgutil.resolve_name(path)
        return kind
    finetuning_config.require_kind(name)
    kinds = [
        value
        for value in vars(importlib.import_module(name)).values()
        if isinstance(value, type)
        and issubclass(value, Task)
        and value.__module__ == name
    ]
    schema.require(
        len(kinds) == 1 and kinds[0].kind == name,
        f"The module {name} must define one subclass of `Task`, with the "
        f"attribute `kind = __name__`. Received: {len(kinds)} classes. "
        "CONTRIBUTING.md shows an example.",
    )
    return kinds[0]
