"""One interface to models that take raw text: exports, and models in memory.

export = LoadedExport(folder)
for (text,), row in export.predict("score_text", texts=["A cat"]):
    print(text, row["replaced_probability"])
"""

import functools
import hashlib
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the operations of exports)

from electra_tf import installed
from electra_tf import storage
from electra_tf.export import export_metadata
from electra_tf.export.clients import scoring
from electra_tf.export.models import exported_module
from electra_tf.tasks import base
from electra_tf.text import terminal

NUM_EAGER_TEXTS = 8
"""`InMemoryModel` computes this many texts eagerly, later ones in graphs."""
# A larger batch costs memory and saves no time.
_MAX_BATCH = 32
# Rows that are sorted by length before they are batched.
_MAX_WINDOW = 1024

Row = dict[str, np.ndarray]


class TextModel:
    """Answers signatures that take raw text.

    Attributes:
        metadata: content of export.json; None for a SavedModel without it.
        signature_names: the names of its signatures.
    """

    metadata: export_metadata.ExportMetadata | None = None
    signature_names: Sequence[str]

    def predict(
        self,
        signature: str,
        outputs: Sequence[str] = (),
        **inputs: Iterable[str | bytes],
    ) -> Iterator[tuple[tuple[bytes, ...], Row]]:
        """Answers a signature for any number of texts.

        Args:
            signature: one of `signature_names`.
            outputs: the outputs to compute; all by default.
            **inputs: equally many texts, or bytes in UTF-8, for each input.

        Yields:
            The texts of a row in UTF-8, and its outputs by name.
        """
        columns = ([*map(terminal.to_bytes, t)] for t in inputs.values())
        rows = list(zip(*columns, strict=True))
        function = self._find(signature, tuple(outputs), len(rows))

        def predict_batch(batch: Sequence[tuple[bytes, ...]]) -> Row:
            texts = zip(inputs, zip(*batch, strict=True), strict=True)
            arguments = {k: tf.constant(v, tf.string) for k, v in texts}
            answers = function(**arguments)
            return {name: answers[name].numpy() for name in outputs or answers}

        answers = predict_in_batches(rows, predict_batch)
        yield from zip(rows, answers, strict=True)

    def score(self, texts: Iterable[str | bytes]) -> list[scoring.ScoredText]:
        """Scores every word of every text.

        Energy models give log-likelihoods, up to an unknown constant for each
        token, so that only texts of similar length can be compared.
        """
        signature, output = "score_text", "replaced_probability"
        build: Any = scoring.ScoredWord
        join: Any = max
        if is_likelihood := "likelihood_text" in self.signature_names:
            signature, output = "likelihood_text", "token_log_likelihood"
            build, join = scoring.LikelyWord, sum
        scored = []
        for (data,), row in self.predict(signature, texts=texts):
            # The tokens of one word have the same span.
            tokens: dict[tuple[int, int], list[float]] = {}
            names = "word_starts", "word_ends", output
            columns = (row[name].tolist() for name in names)
            for start, end, value in zip(*columns, strict=True):
                if start >= 0:
                    tokens.setdefault((start, end), []).append(value)
            words = tuple(
                build(data[i:j].decode("utf-8", "replace"), i, j, join(values))
                for (i, j), values in tokens.items()
            )
            total = None
            if is_likelihood:
                total = float(row["pseudo_log_likelihood"])
            cut = int(row["num_truncated"])
            scored.append(scoring.ScoredText(data, words, cut, total))
        return scored

    def require_task(self) -> export_metadata.ExportMetadata:
        """Returns the metadata of a fine-tuned model.

        Raises `ValueError` for other models.
        """
        metadata = self.metadata
        if metadata is None or metadata.task is None:
            kind = metadata.kind if metadata else "another model"
            raise ValueError(
                "Only a fine-tuned model or its export can predict. Received: "
                f"{kind}. Use electra-score for pre-trained models, or "
                "fine-tune one by electra-finetune."
            )
        return metadata

    @property
    def input_names(self) -> list[str]:
        """The names of a fine-tuned model's inputs."""
        signature = self.require_task().signatures[0]
        return export_metadata.SIGNATURES[signature].inputs

    def answer(
        self, inputs: Mapping[str, Iterable[str]]
    ) -> Iterator[tuple[tuple[bytes, ...], Any]]:
        """Yields a fine-tuned model's prediction for each row of texts.

        Args:
            inputs: texts by `input_names`, equally many of each. A single text
                is repeated for all rows, as one context for many questions.

        Yields:
            The texts of a row in UTF-8, and the prediction of its kind of task.

        Raises:
            ValueError: if the model takes other inputs.
        """
        metadata, wanted = self.require_task(), self.input_names
        given = {name: list(texts) for name, texts in inputs.items()}
        sizes = {len(texts) for texts in given.values()} - {1} or {1}
        if set(given) != set(wanted) or len(sizes) > 1:
            names = " and ".join(f"{name} (--{name[:-1]})" for name in wanted)
            listed = " and ".join(f"{len(v)} {k}" for k, v in given.items())
            raise ValueError(
                f"This model takes {names.replace('text_pairs', 'pairs')}, "
                "equally many of each, or one. Received: "
                f"{listed.replace('text_', '') or 'nothing'}."
            )
        columns = {
            name: given[name] * (max(sizes) if len(given[name]) == 1 else 1)
            for name in wanted
        }
        kind = base.find_kind(metadata.kind)
        for texts, row in self.predict(metadata.signatures[0], **columns):
            yield texts, kind.read_prediction(metadata, texts, row)

    def describe(self, inputs: Mapping[str, Iterable[str]]) -> Iterator[str]:
        """Yields the answers to `inputs` as readable text, one per row."""
        metadata, rows = self.require_task(), self.answer(inputs)
        yield from base.find_kind(metadata.kind).show_all(metadata, rows)

    def _find(
        self, signature: str, outputs: tuple[str, ...], num_texts: int
    ) -> Any:
        raise NotImplementedError


class LoadedExport(TextModel):
    """A model that `electra-export` made."""

    def __init__(self, export_dir: str | pathlib.Path) -> None:
        self.folder = storage.path(export_dir)
        self._model = load_saved_model(self.folder)
        names = set(self._model.signatures) - {"serving_default"}
        self.signature_names = sorted(names)
        if export_metadata.path_of(self.folder).is_file():
            self.metadata = export_metadata.read_metadata(self.folder)

    @property
    def summary(self) -> str:
        """A short description of the model."""
        task = self.metadata and self.metadata.task
        return f"exported model of {task}" if task else "exported model"

    def checksum(self) -> str:
        """Returns a SHA-256 of the contents of the export's files."""
        hashed = hashlib.sha256()
        for path in sorted(self.folder.rglob("*")):
            if path.is_file():
                with path.open("rb") as stream:
                    content = hashlib.file_digest(stream, "sha256")
                hashed.update(content.digest())
        return hashed.hexdigest()

    def require(self, signature: str) -> None:
        """Raises `ValueError` unless the model has a signature."""
        if signature not in self.signature_names:
            offered = ", ".join(self.signature_names) or "nothing by name"
            metadata = self.metadata
            aim = metadata and (metadata.objective or metadata.task)
            raise ValueError(
                f"The SavedModel must have the signature {signature!r}. "
                f"Received: {self.folder}, trained for {aim or 'unknown'!r}, "
                f"which offers {offered}. Use one of these (electra-predict "
                "for fine-tuned models), or export a run that offers it."
            )

    def _find(self, signature: str, *_: Any) -> Any:
        self.require(signature)
        return self._model.signatures[signature]


class InMemoryModel(TextModel):
    """A model in this process; each call uses its current weights.

    The first texts are computed eagerly, as tracing takes a second or more.
    """

    def __init__(
        self,
        module: exported_module.ExportedModule,
        metadata: export_metadata.ExportMetadata | None = None,
    ) -> None:
        self._module, self.metadata = module, metadata
        self.signature_names = module.signature_names
        self._functions: dict[tuple[str, tuple[str, ...]], Any] = {}
        self._num_texts = 0

    def _find(
        self, signature: str, outputs: tuple[str, ...], num_texts: int
    ) -> Any:
        self._num_texts += num_texts
        if self._num_texts <= NUM_EAGER_TEXTS:
            return functools.partial(self._module.run, signature)
        key = signature, outputs
        if key not in self._functions:
            self._functions[key] = self._module.trace(signature, outputs)
        return self._functions[key]


def load_saved_model(export_dir: pathlib.Path) -> Any:
    """Loads a SavedModel. Its signatures need it: they hold no weights."""
    return tf.saved_model.load(str(installed.find_export(export_dir)))


def predict_in_batches(
    rows: Sequence[tuple[Any, ...]],
    predict_batch: Callable[[Sequence[tuple[Any, ...]]], Row],
) -> Iterator[Row]:
    """Predicts rows of texts, or lists of ids, in batches of similar length.

    `predict_batch` returns arrays `[B, ...]` by name. Yields each row's arrays
    `[...]`, in the order of the rows.
    """
    for first in range(0, len(rows), _MAX_WINDOW):
        window = rows[first : first + _MAX_WINDOW]
        answers: list[Row] = [{}] * len(window)
        lengths = [sum(map(len, row)) for row in window]
        order = sorted(range(len(window)), key=lengths.__getitem__)
        for begin in range(0, len(order), _MAX_BATCH):
            batch = order[begin : begin + _MAX_BATCH]
            arrays = predict_batch([window[row] for row in batch])
            for place, row in enumerate(batch):
                answers[row] = {k: v[place] for k, v in arrays.items()}
        yield from answers


def check_texts(name: str, texts: Iterable[str]) -> list[str]:
    """Returns texts as a list; raises `ValueError` unless all are `str`."""
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        raise ValueError(
            f"`{name}` must be a list of str. Received: {texts!r:.80}. Put a "
            "single text into a list: [text]."
        )
    checked = list(texts)
    for number, text in enumerate(checked):
        try:
            text.encode("utf-8")
        except (AttributeError, UnicodeEncodeError) as error:
            raise ValueError(
                f"`{name}` must be a list of str of valid Unicode. Received: "
                f"{type(text).__name__} as number {number} (from 0): "
                f"{repr(text)[:80]}, {error}. Decode bytes first: "
                "data.decode('utf-8')."
            ) from error
    return checked
