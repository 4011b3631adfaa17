"""An exported model for clients: what it offers, answers text by text.

Imports nothing of this project, as any client would.
"""

import json
import os
import pathlib
from collections.abc import Iterator
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the model's operations)

_DEFAULT = "serving_default"
# Where the export says how it was made.
_ORIGIN = pathlib.Path("assets.extra", "export.json")
# Texts that the model sees together; more would only cost memory.
_MAX_BATCH = 32

Row = dict[str, np.ndarray]


class LoadedExport:
    """A model that `scripts/export_saved_model.py` made.

    Attributes:
        folder: where it is.
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
        self.objective = _read_objective(self.folder)

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
        self.require(signature)
        encoded = [
            text if isinstance(text, bytes)
            # Bytes that were no UTF-8 on a command line become them again.
            else text.encode("utf-8", "surrogateescape")
            for text in texts
        ]  # fmt: skip
        for first in range(0, len(encoded), _MAX_BATCH):
            batch = encoded[first : first + _MAX_BATCH]
            answers = self._model.signatures[signature](
                texts=tf.constant(batch, tf.string)
            )
            arrays = {name: value.numpy() for name, value in answers.items()}
            for number, data in enumerate(batch):
                yield (
                    data,
                    {name: rows[number] for name, rows in arrays.items()},
                )


def _read_objective(folder: pathlib.Path) -> str:
    path = folder / _ORIGIN
    if not path.is_file():
        return "unknown"
    return json.loads(path.read_text("utf-8")).get("objective", "unknown")
