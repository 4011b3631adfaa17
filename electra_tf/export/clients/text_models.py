"""One interface to models that take raw text: exports, and models in memory.

for (text,), row in LoadedExport(folder).predict("score_text", texts=["A cat"]):
    print(text, row["replaced_probability"])
"""

import functools
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the operations of exports)

from electra_tf import installed
from electra_tf import storage
from electra_tf.export import export_metadata
from electra_tf.export.models import exported_module

NUM_EAGER_TEXTS = 8
"""For how many texts `InMemoryModel` builds no graph."""
# Texts that the model sees together; more would only cost memory.
_MAX_BATCH = 32
# Rows that are sorted by length before they are batched.
_MAX_WINDOW = 1024

Row = dict[str, np.ndarray]


class TextModel:
    """Answers signatures that take raw text."""

    def predict(
        self,
        signature: str,
        outputs: Sequence[str] = (),
        **inputs: Iterable[str | bytes],
    ) -> Iterator[tuple[tuple[bytes, ...], Row]]:
        """Answers a signature, which it must have, for any number of texts.

        There are equally many for each input of the signature; bytes are taken
        as UTF-8. Empty `outputs` are all. Yields the texts in UTF-8, and name
        to array without the batch's axis.
        """
        columns = ([*map(to_bytes, texts)] for texts in inputs.values())
        rows = list(zip(*columns, strict=True))
        function = self._find(signature, tuple(outputs), len(rows))

        def predict_batch(batch: Sequence[tuple[bytes, ...]]) -> Row:
            texts = zip(inputs, zip(*batch, strict=True), strict=True)
            arguments = {k: tf.constant(v, tf.string) for k, v in texts}
            answers = function(**arguments)
            return {name: answers[name].numpy() for name in outputs or answers}

        answers = predict_in_batches(rows, predict_batch)
        yield from zip(rows, answers, strict=True)

    def _find(
        self, signature: str, outputs: tuple[str, ...], num_texts: int
    ) -> Any:
        """The function of a signature: tensors by name in and out."""
        raise NotImplementedError


class LoadedExport(TextModel):
    """A model that `electra-export` made."""

    def __init__(self, export_dir: str | pathlib.Path) -> None:
        self.folder = storage.path(export_dir)
        self._model = load_saved_model(self.folder)
        names = set(self._model.signatures) - {"serving_default"}
        self.signature_names = sorted(names)
        # None for a SavedModel that was made otherwise.
        self.metadata: export_metadata.ExportMetadata | None = None
        if export_metadata.path_of(self.folder).is_file():
            self.metadata = export_metadata.read_metadata(self.folder)

    def require(self, signature: str) -> None:
        """Raises `ValueError` unless the model has a signature."""
        if signature not in self.signature_names:
            offered = ", ".join(self.signature_names) or "nothing by name"
            about = self.metadata
            aim = about and (about.objective or about.task)
            raise ValueError(
                f"The SavedModel must have the signature {signature!r}. "
                f"Received: {self.folder}, trained for {aim or 'unknown'!r}, "
                f"which offers {offered}. Use those (electra-predict does, of "
                "fine-tuned models), or export a run that offers it."
            )

    def _find(self, signature: str, *_: Any) -> Any:
        self.require(signature)
        return self._model.signatures[signature]


class InMemoryModel(TextModel):
    """A model in this process, with its weights as they are at each call.

    The first texts are computed eagerly, as tracing takes a second or more.
    """

    def __init__(self, module: exported_module.ExportedModule) -> None:
        self._module = module
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
    """Loads a SavedModel; keep it, or its signatures lose their weights."""
    return tf.saved_model.load(str(installed.find_export(export_dir)))


def predict_in_batches(
    rows: Sequence[tuple[Any, ...]],
    predict_batch: Callable[[Sequence[tuple[Any, ...]]], Row],
) -> Iterator[Row]:
    """Predicts rows of texts, or lists of ids, in batches of similar length.

    `predict_batch` returns name to `[B, ...]`; the answers have no batch axis.
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
    """Checks an argument that must be any number of `str` for a UTF-8 model."""
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


def to_bytes(text: str | bytes) -> bytes:
    """UTF-8; bytes that were none on a command line become them again."""
    if isinstance(text, bytes):
        return text
    return text.encode("utf-8", "surrogateescape")
