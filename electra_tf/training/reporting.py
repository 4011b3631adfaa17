"""What a run tells: console lines, JSON lines, TensorBoard.

`metrics.jsonl` holds one object a line: `step`, `split` (`train` or
`validation`) and the metrics. Times stand under `timing`, apart from what is
reproducible: without them, the file of a run that was killed and resumed
equals that of one that was not.
"""

import json
import pathlib
import time
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

_CONSOLE_NAMES = {
    "loss": "loss",
    "gen_loss": "gen",
    "masked_accuracy": "acc",
    "sampled_accuracy": "sampled",
    "disc_loss": "disc",
    "disc_accuracy": "acc",
    "disc_precision": "prec",
    "disc_recall": "rec",
    "disc_auc": "auc",
    "replaced_fraction": "fake",
    "gradient_norm": "grad",
    "learning_rate": "lr",
}


class RunReport:
    """Writes a run's metrics; on other than the chief it writes nothing.

    Args:
        model_dir: the run's folder; None writes to no file.
        first_step: step that the run starts from. Lines of later steps, which
            a killed run left, are removed: they will be made again.
        total_steps: last step, for progress.
    """

    def __init__(
        self, model_dir: pathlib.Path | None, first_step: int, total_steps: int
    ) -> None:
        self.first_step = first_step
        self.total_steps = total_steps
        self._start = time.monotonic()
        self._path: pathlib.Path | None = None
        self._writers: dict[str, tf.summary.SummaryWriter] = {}
        if model_dir is not None:
            self._path = model_dir / "metrics.jsonl"
            drop_lines_after(self._path, first_step)
            self._writers = {
                split: tf.summary.create_file_writer(
                    str(model_dir / "tensorboard" / split)
                )
                for split in ("train", "validation")
            }

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
        """
        if self._path is None:
            return
        timing = timing or {}
        line: dict[str, Any] = {"step": step, "split": split, **metrics}
        if timing:
            line["timing"] = dict(timing)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        with self._writers[split].as_default():
            for name, value in {**metrics, **timing}.items():
                tf.summary.scalar(name, value, step=step)
        print(self._console_line(split, step, metrics, timing), flush=True)

    def say(self, text: str) -> None:
        """Prints a line of text, on the chief alone."""
        if self._path is not None:
            print(text, flush=True)

    def close(self) -> None:
        """Flushes what is buffered."""
        for writer in self._writers.values():
            writer.close()

    def _console_line(
        self,
        split: str,
        step: int,
        metrics: Mapping[str, float],
        timing: Mapping[str, float],
    ) -> str:
        width = len(str(self.total_steps))
        values = [
            f"{label} {_number(name, metrics[name])}"
            for name, label in _CONSOLE_NAMES.items()
            if name in metrics
        ]
        if "tokens_per_second" in timing:
            values.append(f"{timing['tokens_per_second']:>9,.0f} tok/s")
        if timing.get("share_of_peak"):
            values.append(f"{100 * timing['share_of_peak']:4.1f} % of peak")
        label = "held-out" if split == "validation" else "train   "
        progress = f"{step:>{width}}/{self.total_steps} {label}"
        return f"{progress} {self._time_left(step)}  {'  '.join(values)}"

    def _time_left(self, step: int) -> str:
        done = step - self.first_step
        if not done:
            return "--:--:--"
        elapsed = time.monotonic() - self._start
        left = round(elapsed / done * (self.total_steps - step))
        return f"{left // 3600:2d}:{left // 60 % 60:02d}:{left % 60:02d}"


def _number(name: str, value: float) -> str:
    if name == "learning_rate":
        return f"{value:.2e}"
    digits = 3 if value < 100 else 1
    return f"{value:6.{digits}f}"


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
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text("".join(kept), "utf-8")
    temporary.replace(path)


def read_lines(path: pathlib.Path) -> list[dict[str, Any]]:
    """The metrics of a run, one mapping per line; a last half line is left."""
    lines = []
    for text in path.read_text("utf-8").splitlines():
        try:
            lines.append(json.loads(text))
        except ValueError:
            break
    return lines
