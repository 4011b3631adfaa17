"""What `inference_benchmark` times: an export here, transformers elsewhere.

Both answer requests in the form of `transformers_peer`.
"""

import contextlib
import json
import pathlib
import subprocess
import tempfile
from collections.abc import Sequence
from typing import Any
from typing import Protocol

import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the model's operations)

from electra_tf.analysis import transformers_peer

SIGNATURE = "score_text"
PEER_FILE = pathlib.Path(transformers_peer.__file__)


class Side(Protocol):
    """What answers texts."""

    def ask(self, **request: Any) -> dict[str, Any]:
        """See `transformers_peer.answer`."""


class ExportSide:
    """An exported discriminator in this process.

    Attributes:
        max_length: tokens at which it cuts texts.

    Args:
        folder: made by scripts/export_saved_model.py.

    Raises:
        FileNotFoundError: if there is none.
        ValueError: if it does not score texts.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        if not (folder / "saved_model.pb").is_file():
            raise FileNotFoundError(
                "A SavedModel must be given, a folder with saved_model.pb. "
                f"Received: {folder}. Make one with "
                "scripts/export_saved_model.py."
            )
        self._model = tf.saved_model.load(str(folder))
        if SIGNATURE not in self._model.signatures:
            raise ValueError(
                f"The export must have the signature {SIGNATURE!r}. Received: "
                f"{folder} with {', '.join(self._model.signatures)}. Export a "
                "discriminator."
            )
        facts = (folder / "assets.extra" / "export.json").read_text("utf-8")
        self.max_length: int = json.loads(facts)["max_length"]

    def ask(self, **request: Any) -> dict[str, Any]:
        """See `transformers_peer.answer`."""
        return transformers_peer.answer(self, request)

    def score(self, texts: list[str], max_length: int) -> tuple[Any, Any]:
        """Replaced probabilities and mask, `[B, S]` arrays."""
        del max_length  # the export knows
        answers = self._model.signatures[SIGNATURE](texts=tf.constant(texts))
        arrays = {name: tensor.numpy() for name, tensor in answers.items()}
        return arrays["replaced_probability"], arrays["input_mask"]


def peer_command(
    folder: pathlib.Path, python: str, attention: str, num_threads: int
) -> list[str]:
    """The command that `PeerSide` runs.

    Args:
        folder: in Hugging Face's format.
        python: an interpreter that has torch and transformers.
        attention: an implementation of theirs, `sdpa` or `eager`.
        num_threads: of torch.
    """
    arguments = [str(folder), attention, str(num_threads)]
    return [python, "-P", str(PEER_FILE), *arguments]


class PeerSide:
    """A model in a process of its own, asked through pipes.

    Args:
        command: speaks as `transformers_peer` does.

    Raises:
        RuntimeError: if the process ends, with what it wrote last.
    """

    def __init__(self, command: Sequence[str]) -> None:
        # A pipe that nobody reads would fill up and stop it.
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self.versions: dict[str, str] = self._read()

    def __enter__(self) -> "PeerSide":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def ask(self, **request: Any) -> dict[str, Any]:
        """See `transformers_peer.answer`."""
        # If it has ended, reading says why.
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(request), file=self._process.stdin, flush=True)
        return self._read()

    def _read(self) -> dict[str, Any]:
        line = self._process.stdout.readline()  # type: ignore[union-attr]
        if line:
            return json.loads(line)
        self._process.wait()
        self._errors.seek(0)
        raise RuntimeError(
            "The peer must answer, and needs torch and transformers for that. "
            f"It ended with {self._process.returncode}:\n"
            f"{self._errors.read()[-1500:]}\nGive an interpreter that has "
            "them as --peer_python."
        )
