"""An analysis of a trained model: its question, its findings, its files.

Each analysis is a module of this folder: the first line of its docstring is the
question, `DATA` describes its data, `PICTURE` the figure of `draw` with
`PANELS` panels, and `measure` computes the findings. An analysis of the same
weights, data and request is read back instead of repeated.
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
_PART = 500  # items between two files of intermediate results
_PARTS = "parts"


@dataclasses.dataclass(frozen=True)
class Request:
    """Data and options of an analysis."""

    data: str = ""  # path, see `DATA` of each analysis
    # Maximum of sentences, pairs or utterances; 0: all, but of running text
    # 2,000 sentences, or 1,000 for `dynamics`.
    limit: int = 0
    seed: int = 1
    # Share of tokens that the generator replaces; calibration is good, if at
    # all, at the share of pre-training.
    mask_prob: float = 0.15
    model: str = ""  # the path of the model, as given
    other_model: str = ""  # a second model, for comparisons


@dataclasses.dataclass(frozen=True)
class Findings:
    """Results of an analysis."""

    table: pd.DataFrame  # the printed table; its index names the rows
    notes: tuple[str, ...]  # sentences on counts, baselines, bounds
    # Further data of the picture, by name.
    series: Mapping[str, pd.DataFrame] = dataclasses.field(default_factory=dict)

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Returns the header and the rows of the table, as text."""
        rows = [
            [str(name), *map(_format_cell, row)]
            for name, *row in self.table.astype(object).itertuples()
        ]
        return [str(self.table.index.name), *map(str, self.table)], rows

    def describe(self, title: str) -> str:
        """Returns the table and the notes as Markdown."""
        table = report.markdown(*self.cells())
        return "\n\n".join([f"# {title}", table, *self.notes]) + "\n"


@dataclasses.dataclass(frozen=True)
class Work:
    """The work of an analysis: a model, a request, and intermediate results."""

    electra: pretrained.PretrainedModel
    request: Request
    folder: pathlib.Path = pathlib.Path()  # of the analysis
    # Identifies weights and request in names of files; empty: saves no files.
    key: str = ""

    def in_parts(
        self,
        title: str,
        items: Sequence[Any],
        measure: Callable[[Sequence[Any]], np.ndarray],
        size: int = _PART,
    ) -> np.ndarray:
        """Measures items in parts, and saves each part for a restart.

        `measure` takes `size` items and returns an array with a row for each.
        Returns the concatenated arrays.
        """
        chunks = {i: items[i : i + size] for i in range(0, len(items), size)}
        if not self.key:
            return np.concatenate([*map(measure, chunks.values())])
        parts = [] if chunks else [np.zeros([0])]
        with progress.WorkProgress(title, len(items), "items") as shown:
            shown.advance(0, 0)  # starts the clock
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
    model: str  # the origin of the weights, in one line
    data: str  # `digest_data`; empty in files of earlier versions


def find_analysis(name: str) -> Any:
    """Returns the module of an analysis."""
    schema.require_choice("the analysis", name, ANALYSES)
    package = __name__.rpartition(".")[0]
    return importlib.import_module(f"{package}.{name}")


def question_of(analysis: Any) -> str:
    """Returns the question of an analysis' module."""
    return analysis.__doc__.partition("\n")[0]


def run(
    name: str,
    electra: pretrained.PretrainedModel,
    request: Request,
    output_dir: pathlib.Path,
) -> Findings:
    """Runs an analysis, unless it was run before, and writes three files."""
    analysis, folder = find_analysis(name), output_dir / name
    key, data = digest(electra, request), digest_data(request.data)
    stored = read_stored(folder)
    if stored is not None:
        # The data may have moved. Files of earlier versions lack the digest.
        same = dataclasses.replace(request, data=stored.request.data)
        is_same = stored.data == data if stored.data else same == request
        if is_same and stored.key == digest(electra, same):
            print("Nothing to do: these findings exist.\n", flush=True)
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
    # Written last, as it marks a finished analysis.
    atomic.write_text(folder / FINDINGS, json.dumps(described, indent=1) + "\n")
    for path in (folder / _PARTS).glob("*.npy"):
        path.unlink()
    return findings


def bounds(
    statistic: Callable[[np.ndarray], np.ndarray], sums: np.ndarray, seed: int
) -> dict[str, float]:
    """Computes `low` and `high`, the bounds of 95 % of the bootstrap samples.

    `sums`, `[N, ...]`, has a row for each sentence; sentences are resampled.
    `statistic` takes the totals of R samples, `[R, ...]`, and returns `[R]`.
    """
    count, generator = len(sums), np.random.default_rng(seed)
    draws = generator.integers(0, count, [_NUM_RESAMPLES, count])
    times = np.stack([np.bincount(draw, minlength=count) for draw in draws])
    # In groups, as each total can be a matrix.
    values = [
        statistic(np.tensordot(own, sums, 1))
        for own in np.array_split(times, _NUM_RESAMPLES // 10)
    ]
    low, high = np.quantile(np.concatenate(values), [0.025, 0.975])
    return {"low": float(low), "high": float(high)}


def half_width(
    statistic: Callable[[np.ndarray], np.ndarray], sums: np.ndarray, seed: int
) -> float:
    """Returns half of the distance between the `bounds`."""
    low, high = bounds(statistic, sums, seed).values()
    return (high - low) / 2


def divide(totals: np.ndarray) -> np.ndarray:
    """A statistic of `bounds`: a share, from a part and its whole `[R, 2]`."""
    return totals[..., 0] / np.maximum(totals[..., 1], 1)


def describe_widths(where: str, widths: pd.Series) -> str:
    """Returns a note on the `half_width` of each column in the row `where`."""
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
        origin = read["key"], read["model"], read.get("data", "")
        findings = Findings(table, notes, series)
        return Stored(findings, Request(**read["request"]), *origin)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise errors.DataError(
            f"{path} must be a file of electra-analyze. Received: {error!r}. "
            "Remove the file to run the analysis again."
        ) from error


def digest(electra: pretrained.PretrainedModel, request: Request) -> str:
    """Returns a hash of the weights of all networks and of the request."""
    fields = json.dumps(dataclasses.asdict(request), sort_keys=True)
    text = f"{electra.checksum()} {fields}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def digest_data(data: str) -> str:
    """Returns a hash of the contents of files, given a path or a pattern."""
    hashed = hashlib.sha256()
    for name in sorted(glob.glob(data, recursive=True)):
        top = pathlib.Path(name)
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.is_file():
                # The name in the folder, as the folder may move.
                hashed.update(f"{path.relative_to(top)}\n".encode())
                with path.open("rb") as stream:
                    content = hashlib.file_digest(stream, "sha256")
                hashed.update(content.digest())
    return hashed.hexdigest()[:16]


def _to_json(frame: pd.DataFrame) -> dict[str, Any]:
    # All digits: by default, small numbers become 0.
    text = frame.to_json(orient="split", double_precision=15)
    return json.loads(text) | {"name": frame.index.name}


def _from_json(split: Mapping[str, Any]) -> pd.DataFrame:
    index = pd.Index(split["index"], name=split["name"])
    return pd.DataFrame(split["data"], index, split["columns"])


def _format_cell(value: Any) -> str:
    if isinstance(value, float):
        return report.format_cell(value)
    return f"{value:,}" if isinstance(value, int) else str(value)
