"""An analysis of a trained model: its question, its findings, its files.

Each analysis is a module of this folder: the first line of its docstring is the
question, `DATA` says what it reads and `PICTURE` what `draw` shows in so many
`PANELS`, and `measure` answers. One of the same weights and the same request is
read back instead of measured anew.
"""

import dataclasses
import glob
import hashlib
import importlib
import json
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from electra_tf import errors
from electra_tf import figures
from electra_tf import storage
from electra_tf.config import schema
from electra_tf.loaded_models import pretrained
from electra_tf.processes import atomic
from electra_tf.processes import progress
from electra_tf.studies import report

ANALYSES = ("acceptability", "calibration", "dynamics", "error_detection",
            "parts_of_speech", "representations", "reranking")  # fmt: skip
"""Names of the analyses: modules of this folder."""

_NUM_RESAMPLES = 1_000
BOUNDS = f"low and high: 95 % of {_NUM_RESAMPLES:,} bootstrap samples"
"""Explains `bounds` in a note."""

FINDINGS, TABLE, PICTURE = "findings.json", "table.md", "picture.png"
# Items that are measured between two files of what is known so far.
_PART = 500
_PARTS = "parts"


@dataclasses.dataclass(frozen=True)
class Request:
    """Data and options of an analysis."""

    data: str = ""  # where they lie; each analysis says what it takes
    # Sentences, pairs or utterances that are taken; 0 is all, but 2,000
    # sentences of running text, or 1,000 of `dynamics`.
    limit: int = 0
    seed: int = 1  # of all that is drawn
    # Share of the pieces that the generator fills; probabilities are
    # calibrated, if at all, at that of the training.
    mask_prob: float = 0.15
    model: str = ""  # the path of the model, as it was given
    other_model: str = ""  # of a second one, for analyses that compare


@dataclasses.dataclass(frozen=True)
class Findings:
    """Results of an analysis."""

    table: pd.DataFrame  # what is printed; its index names the rows
    notes: tuple[str, ...]  # sentences: what was counted, baselines, bounds
    # What else the picture shows, by name.
    series: Mapping[str, pd.DataFrame] = dataclasses.field(default_factory=dict)

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """The header and the rows of the table, as text."""
        rows = [
            [str(name), *map(_format_cell, row)]
            for name, *row in self.table.astype(object).itertuples()
        ]
        return [str(self.table.index.name), *map(str, self.table)], rows

    def describe(self, title: str) -> str:
        """The table and the notes as Markdown."""
        table = report.markdown(*self.cells())
        return "\n\n".join([f"# {title}", table, *self.notes]) + "\n"


@dataclasses.dataclass(frozen=True)
class Work:
    """A model, what it is asked, and the finished parts of the answer."""

    electra: pretrained.PretrainedModel
    request: Request
    folder: pathlib.Path = pathlib.Path()  # of the analysis
    # Identifies weights and request in names of saved parts; empty: none are.
    key: str = ""

    def in_parts(
        self,
        title: str,
        items: Sequence[Any],
        measure: Callable[[Sequence[Any]], np.ndarray],
        size: int = _PART,
    ) -> np.ndarray:
        """Measures items, with progress; a restart goes on.

        `measure` takes the next `size` items; the rows that it gives for all
        of them come back, one after the other.
        """
        chunks = {i: items[i : i + size] for i in range(0, len(items), size)}
        if not self.key:
            return np.concatenate([*map(measure, chunks.values())])
        parts = [] if chunks else [np.zeros([0])]
        with progress.WorkProgress(title, len(items), "items") as shown:
            shown.advance(0, 0)  # Its clock starts here.
            for start, own in chunks.items():
                path = self.folder / _PARTS / f"{self.key}-{title}-{start}.npy"
                if not path.exists():
                    path.parent.mkdir(parents=True, exist_ok=True)
                    atomic.save_array(path, measure(own))
                parts.append(storage.load_rows(path))
                shown.advance(len(own), len(own))
        return np.concatenate(parts)


class Stored(NamedTuple):
    """Contents of an analysis' folder."""

    findings: Findings
    request: Request
    key: str  # `digest` of the weights and the request
    model: str  # one line, where the weights came from
    data: str  # `digest_data`; empty in those of earlier versions


def find_analysis(name: str) -> Any:
    """The module of an analysis."""
    schema.require_choice("the analysis", name, ANALYSES)
    package = __name__.rpartition(".")[0]
    return importlib.import_module(f"{package}.{name}")


def question_of(analysis: Any) -> str:
    """The question of an analysis' module."""
    return analysis.__doc__.partition("\n")[0]


def run(
    name: str,
    electra: pretrained.PretrainedModel,
    request: Request,
    output_dir: pathlib.Path,
) -> Findings:
    """Runs an analysis unless it was run, and leaves its three files."""
    analysis, folder = find_analysis(name), output_dir / name
    key, data = digest(electra, request), digest_data(request.data)
    stored = read_stored(folder)
    if stored is not None:
        # The same data may lie elsewhere; findings of earlier versions do not
        # tell what was in them.
        same = dataclasses.replace(request, data=stored.request.data)
        is_same = stored.data == data if stored.data else same == request
        if is_same and stored.key == digest(electra, same):
            print("Nothing to do: it was measured before.\n", flush=True)
            return stored.findings
    folder.mkdir(parents=True, exist_ok=True)
    findings = analysis.measure(Work(electra, request, folder, f"{key}-{data}"))
    panels = getattr(analysis, "PANELS", 1)
    columns = min(panels, 2)
    grid = panels // columns, columns
    size = (1.0 + 6.0 * columns, 4.8 * grid[0])
    with figures.saving_figure(folder / PICTURE, *grid, size) as (_, axes):
        analysis.draw(findings, axes)
    question = question_of(analysis)
    atomic.write_text(folder / TABLE, findings.describe(question))
    described = {
        "analysis": name, "question": question,
        "key": key, "data": data,
        "model": electra.origin, "request": dataclasses.asdict(request),
        "notes": findings.notes, "table": _to_json(findings.table),
        "series": {k: _to_json(v) for k, v in findings.series.items()},
    }  # fmt: skip
    # Written last: without it the analysis counts as not run.
    atomic.write_text(folder / FINDINGS, json.dumps(described, indent=1) + "\n")
    for path in (folder / _PARTS).glob("*.npy"):
        path.unlink()
    return findings


def bounds(
    statistic: Callable[[np.ndarray], np.ndarray], sums: np.ndarray, seed: int
) -> dict[str, float]:
    """`low` and `high`, between which are 95 % of the bootstrap samples.

    Sentences are drawn: `sums`, `[N, ...]`, has a row for each. `statistic`
    takes the totals of R samples, `[R, ...]`, and returns `[R]`.
    """
    count, generator = len(sums), np.random.default_rng(seed)
    draws = generator.integers(0, count, [_NUM_RESAMPLES, count])
    times = np.stack([np.bincount(draw, minlength=count) for draw in draws])
    # A few at a time, since totals can be matrices.
    values = [
        statistic(np.tensordot(own, sums, 1))
        for own in np.array_split(times, _NUM_RESAMPLES // 10)
    ]
    low, high = np.quantile(np.concatenate(values), [0.025, 0.975])
    return {"low": float(low), "high": float(high)}


def half_width(
    statistic: Callable[[np.ndarray], np.ndarray], sums: np.ndarray, seed: int
) -> float:
    """Half of the way between both `bounds`."""
    low, high = bounds(statistic, sums, seed).values()
    return (high - low) / 2


def divide(totals: np.ndarray) -> np.ndarray:
    """The statistic of `bounds` for a share: `[R, 2]`, a part and its whole."""
    return totals[..., 0] / np.maximum(totals[..., 1], 1)


def describe_widths(where: str, widths: pd.Series) -> str:
    """A note of a `half_width` of each column; `where` says of which row."""
    listed = (f"{name} ± {width:.1g}" for name, width in widths.items())
    return (
        f"Bounds {where}, 95 % of {_NUM_RESAMPLES:,} bootstrap samples of "
        f"sentences: {'; '.join(listed)}."
    )


def read_stored(folder: pathlib.Path) -> Stored | None:
    """Reads the findings in a folder; None if the analysis was not run."""
    path = folder / FINDINGS
    if not path.exists():
        return None
    try:
        read = json.loads(path.read_text())
        series = {name: _from_json(own) for name, own in read["series"].items()}
        table, notes = _from_json(read["table"]), tuple(read["notes"])
        about = read["key"], read["model"], read.get("data", "")
        findings = Findings(table, notes, series)
        return Stored(findings, Request(**read["request"]), *about)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise errors.DataError(
            f"{path} must be what electra-analyze writes. Received: {error!r}. "
            "Remove it, and the analysis runs again."
        ) from error


def digest(electra: pretrained.PretrainedModel, request: Request) -> str:
    """Names the weights of all networks and what they are asked."""
    asked = json.dumps(dataclasses.asdict(request), sort_keys=True)
    text = f"{electra.checksum()} {asked}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def digest_data(data: str) -> str:
    """Tells the files at a path, or of a pattern, apart by their content."""
    hashed = hashlib.sha256()
    for found in sorted(glob.glob(data, recursive=True)):
        top = pathlib.Path(found)
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.is_file():
                # Its name within the folder, which may be another one.
                hashed.update(f"{path.relative_to(top)}\n".encode())
                with path.open("rb") as stream:
                    content = hashlib.file_digest(stream, "sha256")
                hashed.update(content.digest())
    return hashed.hexdigest()[:16]


def _to_json(frame: pd.DataFrame) -> dict[str, Any]:
    # All digits that it can write: by default small numbers become 0.
    text = frame.to_json(orient="split", double_precision=15)
    return json.loads(text) | {"name": frame.index.name}


def _from_json(split: Mapping[str, Any]) -> pd.DataFrame:
    index = pd.Index(split["index"], name=split["name"])
    return pd.DataFrame(split["data"], index, split["columns"])


def _format_cell(value: Any) -> str:
    if isinstance(value, float):
        return report.format_cell(value)
    return f"{value:,}" if isinstance(value, int) else str(value)
