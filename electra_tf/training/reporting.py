"""What a run tells: console lines, JSON lines, TensorBoard.

`metrics.jsonl` holds one object a line: `step`, `split` (`train` or
`validation`) and the metrics. Times stand under `timing`, apart from what is
reproducible: without them, the file of a run that was killed and resumed
equals that of one that was not.
"""

import contextlib
import json
import pathlib
import time
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from electra_tf.records import atomic
from electra_tf.training import console


class RunReport:
    """Writes a run's metrics; on other than the chief it writes nothing.

    Close it, or use it as a context manager: a run that fails has then still
    told everything.

    Args:
        model_dir: the run's folder; None writes to no file.
        first_step: step that the run starts from. Lines of later steps, which
            a killed run left, are removed: they will be made again.
        total_steps: last step, for progress.
        late_names: metrics that the first line does not have, for which the
            printed table shall have room.
    """

    def __init__(
        self,
        model_dir: pathlib.Path | None,
        first_step: int,
        total_steps: int,
        late_names: Sequence[str] = ("tokens_per_second", "share_of_peak"),
    ) -> None:
        self._total_steps = total_steps
        self._late_names = tuple(late_names)
        self._progress = _Progress(total_steps)
        self._path: pathlib.Path | None = None
        self._writers: dict[str, tf.summary.SummaryWriter] = {}
        self._table: console.Table | None = None
        if model_dir is not None:
            self._path = model_dir / "metrics.jsonl"
            drop_lines_after(self._path, first_step)
            self._writers = {
                split: tf.summary.create_file_writer(
                    str(model_dir / "tensorboard" / split)
                )
                for split in ("train", "validation")
            }

    def __enter__(self) -> "RunReport":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def write(
        self,
        split: str,
        step: int,
        metrics: Mapping[str, float],
        timing: Mapping[str, float] | None = None,
    ) -> None:
        """Reports the metrics of a step to every place.

        Args:
            split: `train` or `validation`.
            step: updates made so far.
            metrics: what is reproducible.
            timing: what is not, such as `tokens_per_second`.

        Raises:
            OSError: if the disk is full, naming the file.
        """
        if self._path is None:
            return
        timing = timing or {}
        line: dict[str, Any] = {"step": step, "split": split, **metrics}
        if timing:
            line["timing"] = dict(timing)
        _append(self._path, json.dumps(line, allow_nan=False) + "\n")
        with self._writers[split].as_default():
            for name, value in {**metrics, **timing}.items():
                tf.summary.scalar(name, value, step=step)
        self._print(split, step, {**metrics, **timing})

    def say(self, text: str) -> None:
        """Prints a line of text, on the chief alone."""
        if self._path is not None:
            print(text, flush=True)

    def close(self) -> None:
        """Flushes what is buffered."""
        for writer in self._writers.values():
            writer.close()

    def _print(
        self, split: str, step: int, values: Mapping[str, float]
    ) -> None:
        names = console.names_with_column({*values, *self._late_names})
        # A later phase of training may report more, under a new heading.
        if self._table is None or not names <= self._table.names:
            self._table = console.Table(
                self._total_steps, names, console.terminal_width()
            )
        left = self._progress.seconds_left(step)
        for line in self._table.lines(split, step, left, values):
            self.say(line)


class _Progress:
    """How long a run will still take, from the time it took so far.

    Times are taken from the first report on, because the time before it went
    into tracing.
    """

    def __init__(self, total_steps: int) -> None:
        self._total_steps = total_steps
        self._first: tuple[int, float] | None = None

    def seconds_left(self, step: int) -> float | None:
        now = time.monotonic()
        if self._first is None:
            self._first = step, now
        first_step, start = self._first
        if step == first_step:
            return None
        per_step = (now - start) / (step - first_step)
        return per_step * (self._total_steps - step)


@contextlib.contextmanager
def _naming_file(path: pathlib.Path) -> Iterator[None]:
    """Says which file could not be written, and that nothing is lost."""
    try:
        yield
    except OSError as error:
        raise OSError(
            f"{path} could not be written: {error}. Checkpoints are "
            "untouched. Free space or repair the disk, then start the same "
            "command again: it goes on from the last checkpoint."
        ) from error


def _append(path: pathlib.Path, text: str) -> None:
    with _naming_file(path), path.open("a", encoding="utf-8") as file:
        file.write(text)


def drop_lines_after(path: pathlib.Path, step: int) -> None:
    """Removes lines of steps after `step`, and a line that a kill cut short.

    Args:
        path: a `metrics.jsonl`; one that does not exist is left so.
        step: last step to keep.
    """
    if not path.exists():
        return
    kept = [
        json.dumps(line) + "\n"
        for line in read_lines(path)
        if line["step"] <= step
    ]
    with _naming_file(path), atomic.replacing_file(path) as partial:
        partial.write_text("".join(kept), "utf-8")


def read_lines(path: pathlib.Path) -> list[dict[str, Any]]:
    """The metrics of a run, one mapping per line; a last half line is left.

    A run that was stopped before its first log has no file and no metrics.
    """
    if not path.exists():
        return []
    lines = []
    for text in path.read_text("utf-8").splitlines():
        try:
            lines.append(json.loads(text))
        except ValueError:
            break
    return lines
