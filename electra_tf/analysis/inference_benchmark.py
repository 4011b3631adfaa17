"""How fast an export answers raw text, alone or beside transformers.

Both take the same texts in turn, a block of batches each, so that what else
the machine does meets both: compare by ratio within one run. The question is
which tokens look replaced; the export's answer (`score_text`) says too where
in the text their words stand.
"""

import contextlib
import functools
import itertools
import json
import pathlib
import subprocess
import tempfile
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.analysis import transformers_peer
from electra_tf.export import export_metadata
from electra_tf.export.clients import text_models

AskFn = Callable[..., dict[str, Any]]
"""`transformers_peer.answer` of one side: takes `texts` and `batch_size`."""

_SIGNATURE = "score_text"
PEER_FILE = pathlib.Path(transformers_peer.__file__)
# Threads that have just worked wait for more, and slow down the other side.
_PAUSE_SECONDS = 0.3
_NUM_WARM_UP_BATCHES = 3
# Texts whose answers are compared before.
_NUM_COMPARED = 64


class Amount(NamedTuple):
    """How much is timed at each batch size, on each side."""

    num_texts: int
    num_batches: int  # at most
    num_rounds: int  # in which the sides take turns

    def split(self, batch_size: int) -> list[int]:
        """Batches of every round, at least one."""
        total = min(-(-self.num_texts // batch_size), self.num_batches)
        rounds = min(self.num_rounds, total)
        ends = [total * number // rounds for number in range(rounds + 1)]
        return [end - begin for begin, end in itertools.pairwise(ends)]


class ScoringExport(text_models.LoadedExport):
    """An exported discriminator, asked for its probabilities.

    Attributes:
        max_length: tokens at which it cuts texts.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__(folder)
        self._function = self._find(_SIGNATURE, ())
        self.max_length = export_metadata.read(folder).max_length

    def score(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Replaced probabilities and mask, `[B, S]` arrays."""
        answers = self._function(texts=tf.constant(texts, tf.string))
        return (
            answers["replaced_probability"].numpy(),
            answers["input_mask"].numpy(),
        )


def peer_command(
    folder: pathlib.Path, python: str, attention: str, num_threads: int
) -> list[str]:
    """The command of `transformers_peer`, without its last argument."""
    arguments = [str(folder), attention, str(num_threads)]
    return [python, "-P", str(PEER_FILE), *arguments]


class PeerProcess:
    """A model in a process of its own, asked through pipes."""

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

    def __enter__(self) -> "PeerProcess":
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


def report(
    export_dir: pathlib.Path,
    texts_file: pathlib.Path,
    batch_sizes: Sequence[int],
    amount: Amount,
    peer_command: Sequence[str] | None = None,
) -> Iterator[str]:
    """Times an export on the texts of a file."""
    texts = read_texts(texts_file)
    export = ScoringExport(export_dir)
    sides: list[AskFn] = [functools.partial(transformers_peer.answer, export)]
    with contextlib.ExitStack() as stack:
        if peer_command is not None:
            command = [*peer_command, str(export.max_length)]
            peer = stack.enter_context(PeerProcess(command))
            sides.append(peer.ask)
            yield ", ".join(f"{k} {v}" for k, v in peer.versions.items())
            difference = largest_difference(sides, texts[:_NUM_COMPARED])
            yield f"largest difference of the probabilities {difference:.1e}"
        for size in batch_sizes:
            rounds = time_sides(sides, texts, size, amount)
            yield f"batches of {size}"
            yield from describe(rounds)


def read_texts(path: pathlib.Path) -> list[str]:
    """The lines of a file that are not blank."""
    lines = path.read_text("utf-8").splitlines()
    texts = [line.strip() for line in lines if line.strip()]
    if not texts:
        raise ValueError(
            f"The file must have a text on every line. Received: {path}, "
            "without any."
        )
    return texts


def largest_difference(sides: Sequence[AskFn], texts: list[str]) -> float:
    """Of the probabilities that two sides give the same tokens."""
    first, second = (
        ask(texts=texts, batch_size=16, wants_answers=True)["answers"]
        for ask in sides
    )
    largest = 0.0
    for text, here, there in zip(texts, first, second, strict=True):
        if len(here) != len(there):
            raise ValueError(
                "Both sides must split a text into the same tokens. Received: "
                f"{len(here)} and {len(there)} for {text!r}. Take one "
                "vocabulary and the same tokenizer settings."
            )
        largest = max(largest, float(np.abs(np.subtract(here, there)).max()))
    return largest


def time_sides(
    sides: Sequence[AskFn],
    texts: Sequence[str],
    batch_size: int,
    amount: Amount,
) -> list[list[dict[str, Any]]]:
    """Times batches of one size, the sides in turn.

    Texts are taken in their order, from the beginning again at the end.

    Returns:
        The replies of each side, one a round.
    """
    replies: list[list[dict[str, Any]]] = [[] for _ in sides]
    remaining = itertools.cycle(texts)
    for count in [_NUM_WARM_UP_BATCHES, *amount.split(batch_size)]:
        block = list(itertools.islice(remaining, count * batch_size))
        for ask, received in zip(sides, replies, strict=True):
            time.sleep(_PAUSE_SECONDS)
            received.append(ask(texts=block, batch_size=batch_size))
    # The first of each only warmed up.
    return [received[1:] for received in replies]


def describe(rounds: Sequence[Sequence[Mapping[str, Any]]]) -> list[str]:
    """Lines about each side, and the ratios of two; see `time_sides`."""
    names = ("export", "transformers")
    lines = [
        _describe_side(name, replies)
        for name, replies in zip(names, rounds, strict=False)
    ]
    if len(rounds) == 2:
        (ours, our_cpu), (theirs, their_cpu) = map(_collect, rounds)
        ratios = [
            sum(there["seconds"]) / sum(here["seconds"])
            for here, there in zip(*rounds, strict=True)
        ]
        lines.append(
            f"  the export is {np.median(theirs) / np.median(ours):.2f} times "
            f"faster by median, {theirs.sum() / ours.sum():.2f} in all, "
            f"{their_cpu / our_cpu:.2f} by processor time; rounds "
            f"{min(ratios):.2f} to {max(ratios):.2f}"
        )
    return lines


def _describe_side(name: str, replies: Sequence[Mapping[str, Any]]) -> str:
    seconds, processor_seconds = _collect(replies)
    num_texts = sum(reply["num_texts"] for reply in replies)
    num_tokens = sum(reply["num_tokens"] for reply in replies)
    return (
        f"  {name:<12} {1e3 * np.median(seconds):9.1f} ms median, "
        f"{1e3 * np.quantile(seconds, 0.95):9.1f} ms p95, "
        f"{1e3 * processor_seconds / len(seconds):9.1f} ms of processors, "
        f"{num_texts / seconds.sum():8.1f} texts/s, "
        f"{num_tokens / seconds.sum():9.0f} tokens/s"
    )


def _collect(replies: Sequence[Mapping[str, Any]]) -> tuple[np.ndarray, float]:
    """Seconds of all batches, and processor seconds of their sum."""
    seconds = np.concatenate([reply["seconds"] for reply in replies])
    return seconds, sum(reply["processor_seconds"] for reply in replies)
