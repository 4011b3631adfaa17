"""How fast an export answers raw text, alone or beside transformers.

Both take the same texts in turn, a block of batches each, so that what else
the machine does meets both: compare by ratio within one run. The question is
which tokens look replaced; the export's answer (`score_text`) says too where
in the text their words stand.
"""

import dataclasses
import itertools
import pathlib
import time
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np

from electra_tf.analysis import inference_sides

# Threads that have just worked wait for more, and slow down the other side.
_PAUSE_SECONDS = 0.3
_NUM_WARM_UP_BATCHES = 3
# Texts whose answers are compared before.
_NUM_COMPARED = 64


@dataclasses.dataclass(frozen=True)
class Timing:
    """Batches of one size on one side.

    Attributes:
        seconds: of each batch.
        processor_seconds: of all of them.
        num_texts: in all of them.
        num_tokens: in all of them, [CLS] and [SEP] too, padding not.
    """

    seconds: tuple[float, ...]
    processor_seconds: float
    num_texts: int
    num_tokens: int

    @property
    def median(self) -> float:
        """Seconds of a batch."""
        return self.percentile(0.5)

    def percentile(self, share: float) -> float:
        """Seconds that this share of the batches, 0-1, does not exceed."""
        return float(np.quantile(self.seconds, share))

    def describe(self, name: str) -> str:
        """One line."""
        total, count = sum(self.seconds), len(self.seconds)
        return (
            f"{name:<12} {1e3 * self.median:9.1f} ms median, "
            f"{1e3 * self.percentile(0.95):9.1f} ms p95, "
            f"{1e3 * self.processor_seconds / count:9.1f} ms of processors, "
            f"{self.num_texts / total:8.1f} texts/s, "
            f"{self.num_tokens / total:9.0f} tokens/s"
        )


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One batch size.

    Attributes:
        batch_size: texts of a batch.
        export: the export's timing.
        peer: the other's, or None.
        round_ratios: time of the peer by that of the export, in each round.
    """

    batch_size: int
    export: Timing
    peer: Timing | None
    round_ratios: tuple[float, ...]

    def describe(self) -> list[str]:
        """Lines to print."""
        lines = [
            f"batches of {self.batch_size}",
            f"  {self.export.describe('export')}",
        ]
        if self.peer is not None:
            processors = (
                self.peer.processor_seconds / self.export.processor_seconds
            )
            lines += [
                f"  {self.peer.describe('transformers')}",
                f"  the export is {self.peer.median / self.export.median:.2f} "
                "times faster by median, "
                f"{sum(self.peer.seconds) / sum(self.export.seconds):.2f} in "
                f"all, {processors:.2f} by processor time; rounds "
                f"{min(self.round_ratios):.2f} to {max(self.round_ratios):.2f}",
            ]
        return lines


def read_texts(path: pathlib.Path) -> list[str]:
    """The lines of a file that are not blank.

    Raises:
        ValueError: if there are none.
    """
    lines = path.read_text("utf-8").splitlines()
    texts = [line.strip() for line in lines if line.strip()]
    if not texts:
        raise ValueError(
            f"The file must have a text on every line. Received: {path}, "
            "without any."
        )
    return texts


def largest_difference(
    sides: Sequence[inference_sides.Side],
    texts: Sequence[str],
    max_length: int,
) -> float:
    """Of the probabilities that two sides give the same tokens.

    Raises:
        ValueError: if they see other tokens.
    """
    first, second = (
        side.ask(
            texts=list(texts),
            batch_size=16,
            max_length=max_length,
            wants_answers=True,
        )["answers"]
        for side in sides
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


@dataclasses.dataclass(frozen=True)
class Amount:
    """How much is timed at each batch size, on each side.

    Attributes:
        num_texts: texts, if they make no more than as many batches:
        num_batches: see above.
        num_rounds: in which the sides take turns.
    """

    num_texts: int
    num_batches: int
    num_rounds: int

    def split(self, batch_size: int) -> list[int]:
        """Batches of every round, at least one."""
        total = min(-(-self.num_texts // batch_size), self.num_batches)
        rounds = min(self.num_rounds, total)
        ends = [total * number // rounds for number in range(rounds + 1)]
        return [end - begin for begin, end in itertools.pairwise(ends)]


def report(
    export_dir: pathlib.Path,
    texts_file: pathlib.Path,
    batch_sizes: Sequence[int],
    amount: Amount,
    peer_command: Sequence[str] | None = None,
) -> Iterator[str]:
    """Times an export on the texts of a file.

    Args:
        export_dir: of a discriminator.
        texts_file: a text on every line.
        batch_sizes: in turn.
        amount: of texts and batches.
        peer_command: what to compare it with, see
            `inference_sides.peer_command`.

    Yields:
        Lines to print.

    Raises:
        FileNotFoundError: if there is no export or no file.
        ValueError: if the export does not score texts, or the peer sees other
            tokens.
        RuntimeError: if the peer does not run.
    """
    texts = read_texts(texts_file)
    export = inference_sides.ExportSide(export_dir)
    length = export.max_length
    if peer_command is None:
        for size in batch_sizes:
            yield from compare(
                export, None, texts, size, amount, length
            ).describe()
        return
    with inference_sides.PeerSide(peer_command) as peer:
        yield ", ".join(f"{k} {v}" for k, v in peer.versions.items())
        difference = largest_difference(
            [export, peer], texts[:_NUM_COMPARED], length
        )
        yield f"largest difference of the probabilities {difference:.1e}"
        for size in batch_sizes:
            yield from compare(
                export, peer, texts, size, amount, length
            ).describe()


def compare(
    export: inference_sides.Side,
    peer: inference_sides.Side | None,
    texts: Sequence[str],
    batch_size: int,
    amount: Amount,
    max_length: int,
) -> Comparison:
    """Times batches of one size, the sides in turn.

    Args:
        export: the one side.
        peer: the other, or None.
        texts: taken in their order, from the beginning again at the end.
        batch_size: texts of a batch.
        amount: of batches.
        max_length: tokens at which texts are cut.
    """
    sides = [export] if peer is None else [export, peer]
    replies: list[list[dict[str, Any]]] = [[] for _ in sides]
    position = 0
    for count in [_NUM_WARM_UP_BATCHES, *amount.split(batch_size)]:
        size = count * batch_size
        block = [texts[(position + i) % len(texts)] for i in range(size)]
        position += size
        for side, received in zip(sides, replies, strict=True):
            time.sleep(_PAUSE_SECONDS)
            received.append(
                side.ask(
                    texts=block,
                    batch_size=batch_size,
                    max_length=max_length,
                    wants_answers=False,
                )
            )
    # The first of each only warmed up.
    timings = [_collect(received[1:]) for received in replies]
    totals = [[sum(r["seconds"]) for r in received[1:]] for received in replies]
    return Comparison(
        batch_size,
        timings[0],
        timings[1] if peer is not None else None,
        tuple(b / a for a, b in zip(totals[0], totals[-1], strict=True)),
    )


def _collect(replies: Sequence[Mapping[str, Any]]) -> Timing:
    return Timing(
        tuple(second for reply in replies for second in reply["seconds"]),
        sum(reply["processor_seconds"] for reply in replies),
        sum(reply["num_texts"] for reply in replies),
        sum(reply["num_tokens"] for reply in replies),
    )
