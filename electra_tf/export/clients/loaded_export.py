"""An exported model for clients: what it offers, answers text by text.

Imports nothing of this project, as any client would.
"""

import json
import os
import pathlib
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the model's operations)

_DEFAULT = "serving_default"
# Where the export says how it was made.
_ORIGIN = pathlib.Path("assets.extra", "export.json")
# Texts that the model sees together; more would only cost memory.
_MAX_BATCH = 32
# Rows among which those of like length are put together.
_MAX_WINDOW = 1024

Row = dict[str, np.ndarray]


class LoadedExport:
    """A model that `scripts/export_saved_model.py` made.

    Attributes:
        folder: where it is.
        facts: what its export.json says; empty if there is none.
        objective: that it was trained with, or "unknown".
        signature_names: what it offers, sorted.

    Args:
        export_dir: its folder.

    Raises:
        FileNotFoundError: if there is no SavedModel.
    """

    def __init__(self, export_dir: str | os.PathLike[str]) -> None:
        self.folder = pathlib.Path(export_dir)
        if not (self.folder / "saved_model.pb").is_file():
            raise FileNotFoundError(
                "A SavedModel must be given, a folder with saved_model.pb. "
                f"Received: {self.folder}. Make one with "
                "scripts/export_saved_model.py."
            )
        # The signatures alone would not keep the weights alive.
        self._model = tf.saved_model.load(str(self.folder))
        self.signature_names = sorted(set(self._model.signatures) - {_DEFAULT})
        self.facts = _read_facts(self.folder)
        self.objective: str = self.facts.get("objective", "unknown")

    def require(self, signature: str) -> None:
        """Raises `ValueError` unless the model has a signature."""
        if signature not in self.signature_names:
            offered = ", ".join(self.signature_names) or "nothing by name"
            raise ValueError(
                f"The SavedModel must have the signature {signature!r}. "
                f"Received: {self.folder}, trained with the objective "
                f"{self.objective!r}, which offers {offered}. Use those, or "
                "export a run of an objective that offers it."
            )

    def answer_texts(
        self, signature: str, texts: Sequence[str | bytes]
    ) -> Iterator[tuple[bytes, Row]]:
        """Every text with what a signature answers for it.

        Args:
            signature: one that takes `texts`.
            texts: bytes are taken as UTF-8.

        Yields:
            The text in UTF-8, and name to array without the batch's axis.

        Raises:
            ValueError: if the model does not have the signature.
        """
        for (data,), row in self.answer(signature, texts=texts):
            yield data, row

    def answer(
        self, signature: str, **inputs: Sequence[str | bytes]
    ) -> Iterator[tuple[tuple[bytes, ...], Row]]:
        """Every row of some inputs with what a signature answers for it.

        Rows of like length go to the model together, whatever their order.

        Args:
            signature: one that takes raw text.
            **inputs: its inputs, equally many of each; bytes are taken as
                UTF-8.

        Yields:
            The inputs in UTF-8, and name to array without the batch's axis; in
            the order of the inputs.

        Raises:
            ValueError: if the model does not have the signature.
        """
        self.require(signature)
        columns = [[_encode(text) for text in inputs[name]] for name in inputs]
        rows = list(zip(*columns, strict=True))

        def ask(batch: Sequence[tuple[bytes, ...]]) -> Row:
            texts = zip(*batch, strict=True)
            return self._ask(signature, dict(zip(inputs, texts, strict=True)))

        yield from zip(rows, answer_in_batches(rows, ask), strict=True)

    def _ask(
        self, signature: str, columns: Mapping[str, Sequence[bytes]]
    ) -> dict[str, np.ndarray]:
        """Name to array of one batch."""
        answers = self._model.signatures[signature](
            **{
                name: tf.constant(column, tf.string)
                for name, column in columns.items()
            }
        )
        return {name: value.numpy() for name, value in answers.items()}


def answer_in_batches(
    rows: Sequence[tuple[bytes, ...]],
    ask: Callable[[Sequence[tuple[bytes, ...]]], Row],
) -> Iterator[Row]:
    """The answer for each row; those of like length are asked together.

    Args:
        rows: texts, equally many in each.
        ask: takes some rows, returns name to array with these as first axis.

    Yields:
        Name to array without that axis, in the order of the rows.
    """
    for first in range(0, len(rows), _MAX_WINDOW):
        window = rows[first : first + _MAX_WINDOW]
        answers: list[Row] = [{}] * len(window)
        order = sorted(
            range(len(window)), key=lambda row: sum(map(len, window[row]))
        )
        for begin in range(0, len(order), _MAX_BATCH):
            batch = order[begin : begin + _MAX_BATCH]
            arrays = ask([window[row] for row in batch])
            for place, row in enumerate(batch):
                answers[row] = {
                    name: array[place] for name, array in arrays.items()
                }
        yield from answers


def _encode(text: str | bytes) -> bytes:
    if isinstance(text, bytes):
        return text
    # Bytes that were no UTF-8 on a command line become them again.
    return text.encode("utf-8", "surrogateescape")


def _read_facts(folder: pathlib.Path) -> dict[str, Any]:
    path = folder / _ORIGIN
    return json.loads(path.read_text("utf-8")) if path.is_file() else {}
