"""The interface of a downstream task, and of a kind of tasks.

A task reads its files, builds rows and a head, decodes, scores and writes
predictions. Its class, the kind, also says how such a model is exported, stored
in other formats, and asked: no other file names a kind.
"""

import abc
import dataclasses
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
"""Split to the function that reads its examples."""
Outputs = Mapping[str, Sequence[np.ndarray]]
"""Outputs of a head: name to one array (or scalar) for every row.

Arrays with a padded axis (`TaskHead.padded_outputs`) are cut to the row's own
tokens or words.
"""
Row = Mapping[str, np.ndarray]
"""Output of a signature to what it is for one row."""
Rows = rows_lib.EncodedRows
OwnSettings = finetuning_config.OwnTaskConfig
Settings = finetuning_config.FinetuningConfig
Tensors = dict[str, tf.Tensor]
Texts = tuple[bytes, ...]
"""One row's inputs of a signature for raw text, in UTF-8."""
OWN = "own"
"""The name of the task of a user's own files."""

# Characters of the row that is shown before a training.
_MAX_SHOWN = 300
_EXAMPLE = """\
print(model.signatures["{signature}"](
    {inputs}
))"""


@schema.frozen
class NoOptions:
    """The options of a kind that has none, see `Task.options_class`."""


class Task(abc.ABC):
    """A downstream task, with a function that reads each of its splits.

    Training needs the split `train`, evaluation the `dev_splits`, which have
    labels to score on, the deciding one first, prediction all others. `name` is
    that of the catalog, and the variable scope of the head.
    """

    # The kind: a key of `finetuning_config.TASK_KINDS`, or `__name__` in a
    # module outside of the package
    kind: str
    export_name: str = ""  # of the kind in an export; empty: `kind`
    head_class: type[task_heads.TaskHead]
    outputs_are_labels: bool = False  # whether the head has one for each label
    # Outputs of signatures: `<signature>_text` (or `_pair_text`), and `_ids`
    signature: str
    takes_hidden_layer: bool = False  # see `TaskConfig.hidden_layer`
    takes_pairs: bool = False  # whether texts of own files may come in pairs
    is_trained_alone: bool = False  # not together with other tasks
    # The class in Hugging Face's format (`formats.hugging_face`), and its
    # `problem_type`; empty if no class there has such a head
    hugging_face: str = ""
    problem_type: str | None = None
    # A frozen dataclass of what other formats keep of a task beside labels;
    # its fields are fields of Hugging Face's config.json
    options_class: type = NoOptions

    num_headings: int | None = None  # shown above a prediction; None: all

    has_pairs: bool = False  # whether its texts come in pairs
    metric: str  # the key of `score` that decides which trial is the best
    lower_is_better: tuple[str, ...] = ()  # keys of `score`
    max_seq_length: int = 128  # tokens of a row unless a config says otherwise
    num_train_epochs: float = 3.0  # likewise
    # Splits on which the best trial is scored if they have labels
    test_splits: tuple[str, ...] = ()
    # Names of the head's outputs, by their index, if any
    labels: tuple[str, ...] = ()
    # A dataclass of what else a trained model keeps of its training file
    conventions: Any = None
    has_hidden_layer: bool = False

    def __init__(self, name: str, readers: Readers) -> None:
        self.name = name
        self.use_readers(readers)

    def use_readers(self, readers: Readers) -> None:
        """Sets the functions that read the splits."""
        self._readers = readers
        self.splits = tuple(readers)
        self.dev_splits = tuple(s for s in readers if s.startswith("dev"))

    # Data.

    @classmethod
    def build_own(cls, settings: Settings, labels: Sequence[str] = ()) -> Any:
        """Builds the task of a user's own files, section `own`.

        Labels of a trained model are not looked for in files.
        """
        raise ValueError(f"{cls.__name__} has no method `build_own`. Add it.")

    @classmethod
    def recognizes(cls, frame: Any, own: OwnSettings) -> str:
        """Why a pandas frame looks like one of this kind; empty if it does not.

        A reason is the rest of a sentence, after "because".
        """
        return ""

    @classmethod
    def describe_frame(cls, frame: Any, own: Mapping[str, Any]) -> dict:
        """Returns fields of the section `own` that a frame's columns tell."""
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
                f"For your own data, set --config.own.{split}_file."
            )
        return self._readers[split]()

    def use_labels(self, labels: Sequence[str]) -> None:
        """Takes the labels of a trained model instead of those of the files."""
        self.labels = tuple(labels)

    def use_conventions(self, values: Mapping[str, Any]) -> None:
        """Takes the conventions of a trained model, the fields of a dict."""
        raise ValueError(f"{self.name} has no conventions. Received: {values}.")

    def has_labels(self, examples: Examples) -> bool:
        """Whether examples of a test split can be scored."""
        return True

    @abc.abstractmethod
    def build_rows(
        self,
        examples: Examples,
        tokenizer: tokenizer_lib.Tokenizer,
        max_seq_length: int,
        is_training: bool,
    ) -> Rows:
        """Makes rows of at most `max_seq_length` tokens; labels may be missing.

        To learn from there may be more of them, or fewer, than to predict from.
        """

    # What is said before a training.

    def describe(
        self,
        examples: Mapping[str, Examples],
        rows: Mapping[str, Rows],
        vocabulary: vocabulary_lib.Vocabulary,
        num_positions: int,
    ) -> list[str]:
        """Says in lines what was understood of the data, before the first step.

        `examples` and `rows` are by split, `num_positions` the encoder's.
        """
        kind = self.kind.rpartition(".")[2].replace("_", " ")
        counts = [f"{len(own):,} of {name}" for name, own in examples.items()]
        decides = "no dev data, so nothing is scored"
        if self.dev_splits:
            decides = f"{self.metric} on {self.dev_splits[0]} decides"
        told = rows_lib.describe_tokens(
            list(rows.values()), num_positions, vocabulary.unk_id
        )
        return [
            f"{self.name}: {kind}; examples: {', '.join(counts)}; {decides}.",
            *self.describe_labels(examples),
            *told,
            *self._describe_first(examples, rows, vocabulary),
        ]

    def describe_labels(self, examples: Mapping[str, Examples]) -> list[str]:
        """Says in lines which labels, tags or the like each split has."""
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
        # Rows of a group are sorted, so the first may be of another example.
        is_told = label is not None and first.group_size == 1
        told = f"; its label: {label!r}" if is_told else ""
        return [f"The first row of {split} in tokens: {shown}{told}"]

    # The head.

    def build_head(
        self, hidden_size: int, seed: int, dtype: Any = None
    ) -> task_heads.TaskHead:
        """Builds the task's head, with weights drawn from `seed`."""
        head = self.new_head(seed=seed, name=self.name, dtype=dtype)
        # The scope that checkpoints have for it.
        with keras.name_scope("task_specific"):
            head.build((None, None, hidden_size))
        return head

    def new_head(self, **kwargs: Any) -> task_heads.TaskHead:
        """Creates the head, without weights, from `seed`, `name`, `dtype`."""
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
        """Creates the head that stored variables belong to.

        `num_labels` is 0 where they are not known, `shapes` are those of the
        variables by `layer/variable`, other arguments `seed` and `name`.
        """
        if cls.takes_hidden_layer:
            kwargs["has_hidden_layer"] = has_hidden_layer
        num_outputs = num_labels or shapes.get("dense/bias", (1,))[-1]
        sizes = [num_outputs] if cls.outputs_are_labels else []
        return cls.head_class(*sizes, **kwargs)

    # Predictions and scores.

    @abc.abstractmethod
    def decode(self, examples: Examples, rows: Rows, outputs: Outputs) -> Any:
        """Reads predictions off `TaskHead.predict` of the rows of examples."""

    @abc.abstractmethod
    def score(self, examples: Examples, predictions: Any) -> dict:
        """Computes the official metrics of labelled examples, in percent."""

    @abc.abstractmethod
    def is_degenerate(self, examples: Examples, predictions: Any) -> bool:
        """Whether the model says the same of everything: it learned nothing."""

    def write_examples(
        self, path: pathlib.Path, examples: Examples, predictions: Any
    ) -> None:
        """Writes JSON lines: each example, with its gold, and `prediction`."""
        lines = []
        listed = self.list_predictions(examples, predictions)
        for example, predicted in zip(examples, listed, strict=True):
            fields = _fields_of(example) | {"prediction": predicted}
            lines.append(json.dumps(fields, ensure_ascii=False, default=float))
        path.parent.mkdir(exist_ok=True)
        write_file(path, lines)

    def list_predictions(self, examples: Examples, predictions: Any) -> Any:
        """Lists the prediction for each example."""
        return predictions

    @abc.abstractmethod
    def write_predictions(
        self,
        folder: pathlib.Path,
        split: str,
        examples: Examples,
        predictions: Any,
    ) -> list[pathlib.Path]:
        """Writes predictions in the task's official form; returns the files."""

    # Exports.

    @property
    def signature_names(self) -> tuple[str, ...]:
        """The signatures of an export, that of raw text first."""
        text = "pair_text" if self.has_pairs else "text"
        return f"{self.signature}_{text}", f"{self.signature}_ids"

    @property
    def input_names(self) -> tuple[str, ...]:
        """The inputs of the signature of raw text."""
        return ("texts", "text_pairs") if self.has_pairs else ("texts",)

    def build_signatures(self, model: Any) -> Any:
        """Builds the object that computes the answers of an export.

        `model` is an `export.models.finetuned.FinetunedModule`. The object has
        `answer_text`, for the raw texts of `input_names`, and `answer_ids`, for
        rows of ids, which it checks by `model.check_ids`. Both return tensors
        by their names in the signature.
        """
        name = type(self).__name__
        raise ValueError(f"{name} has no method `build_signatures`. Add it.")

    @classmethod
    def export_texts(cls) -> dict[str, Any]:
        """Returns what exports and the demo page say of this kind.

        Sections are `readme` and `page`, by default those of `<kind>.toml`
        beside the module, if it is there; a kind whose signatures are new adds
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
        """Returns fields of `ExportMetadata`, beside the labels."""
        return {}

    @classmethod
    def read_prediction(cls, metadata: Any, texts: Texts, row: Row) -> Any:
        """Reads the prediction for a row's texts, a dataclass of the kind.

        `metadata` is the `ExportMetadata` of the model.
        """
        raise ValueError(f"{cls.__name__} has no method `read_prediction`.")

    @classmethod
    def show_prediction(
        cls, prediction: Any, metadata: Any, texts: Texts
    ) -> list[str]:
        """Returns the lines that are shown below a row's texts."""
        return [repr(prediction)]

    @classmethod
    def show_all(
        cls, metadata: Any, rows: Iterable[tuple[Texts, Any]]
    ) -> Iterator[str]:
        """Yields what is shown of rows, each with its texts."""
        for texts, prediction in rows:
            lines = cls.show_prediction(prediction, metadata, texts)
            heading = map(terminal.printable, texts[: cls.num_headings])
            yield "\n".join([*heading, *(f"  {line}" for line in lines)])

    # Other formats.

    def options(self, conventions: Any = None) -> Any:
        """Returns an `options_class`, of a trained model's conventions."""
        return self.options_class()

    @classmethod
    def restore_settings(cls, options: Any, layers: Iterable[str]) -> dict:
        """Returns sections of a config for a model that was read elsewhere.

        `options` is an `options_class`, `layers` name those of the head. The
        section `own` counts for own tasks alone.
        """
        return {}

    @classmethod
    def restore_conventions(cls, options: Any) -> Any:
        """Returns `conventions` of a model that was read elsewhere, if any."""
        return None

    @classmethod
    def card_note(cls, options: Any) -> str:
        """Returns what follows the example of a model card."""
        return ""

    @property
    def storage_note(self) -> str:
        """A warning if this head cannot be stored in Hugging Face's format."""
        return ""


def _fields_of(example: Any) -> dict[str, Any]:
    """Returns the fields of an example, a dataclass or a `NamedTuple`."""
    as_dict = getattr(example, "_asdict", None)
    return dict(as_dict()) if as_dict else dataclasses.asdict(example)


def digest(examples: Examples) -> str:
    """Tells the examples of a split apart, wherever their file lies."""
    hashed = hashlib.sha256()
    for example in examples:
        fields = _fields_of(example)
        fields.pop("place", None)
        hashed.update(json.dumps(fields, default=str).encode() + b"\n")
    return hashed.hexdigest()


def write_file(path: pathlib.Path, lines: Iterable[str]) -> pathlib.Path:
    """Writes lines, all of them or no file; returns the path."""
    atomic.write_text(path, "".join(f"{line}\n" for line in lines))
    return path


def find_kind(name: str) -> type[Task]:
    """Imports the class of a kind of task, or raises `ConfigError`.

    `name` is a key of `finetuning_config.TASK_KINDS`, or a module of the user's
    own that defines one subclass of `Task`.
    """
    # Exports of this kind have another name.
    name = "qa" if name == "question_answering" else name
    if name in finetuning_config.TASK_KINDS:
        path = f"electra_tf.tasks.{finetuning_config.TASK_KINDS[name]}"
        known: type[Task] = pkgutil.resolve_name(path)
        return known
    finetuning_config.require_kind(name)
    own = [
        value
        for value in vars(importlib.import_module(name)).values()
        if isinstance(value, type)
        and issubclass(value, Task)
        and value.__module__ == name
    ]
    schema.require(
        len(own) == 1 and own[0].kind == name,
        f"The module {name} must define one subclass of `Task`, with the "
        f"attribute `kind = __name__`. Received: {len(own)} classes. "
        "CONTRIBUTING.md shows an example.",
    )
    return own[0]
