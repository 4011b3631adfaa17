"""The public format of an export: its signatures, and the files beside them.

`signatures.toml` says what every signature takes and gives; `models` computes
exactly these names. `ExportMetadata` is export.json. README.md and
signatures.json are made of both.
"""

import dataclasses
import functools
import importlib.resources
import pathlib
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from electra_tf import errors
from electra_tf.config import schema

# Numbers that `signatures.toml` names.
# The logit where there is no token; its sigmoid is exactly zero in float32.
PADDING_LOGIT = -10000.0
# What stands where there is no token, for outputs where that is not 0.
PADDING = {"replaced_logits": PADDING_LOGIT}
# Offsets of what comes from no word.
NO_WORD = -1
# Predictions for every token, fewer where the vocabulary is smaller.
NUM_PREDICTIONS = 5

# Servers ignore this folder of a SavedModel.
EXTRA_FOLDER = "assets.extra"
_FILE = "export.json"
# Labels that the README lists; export.json holds all.
_MAX_LISTED = 40
_TEXTS = 'texts=tf.constant(["The cat sat on the mat."])'
_PAIRS = f"""{_TEXTS},
    text_pairs=tf.constant(["A cat was sitting."])"""


class TensorMeaning(NamedTuple):
    """Documentation of one input or output."""

    dtype: str  # TensorFlow's name of it
    shape: str  # in letters, keys of `DIMENSIONS`, as in `[B, S]`
    meaning: str  # one sentence

    @property
    def axes(self) -> list[str]:
        """The letters of the shape."""
        return self.shape.strip("[]").split(", ")


class Signature(NamedTuple):
    """Documentation of one signature; tensors are keys of `TENSORS`."""

    purpose: str  # one sentence
    inputs: list[str]
    outputs: list[str]


@functools.cache
def read_table(name: str) -> dict[str, Any]:
    """Reads a TOML file of this folder."""
    folder = importlib.resources.files("electra_tf.export")
    return tomllib.loads(folder.joinpath(name).read_text("utf-8"))


_TABLE = read_table("signatures.toml")
DIMENSIONS: dict[str, str] = _TABLE["dimensions"]
TENSORS = {k: TensorMeaning(**v) for k, v in _TABLE["tensors"].items()}
SIGNATURES = {k: Signature(**v) for k, v in _TABLE["signatures"].items()}


@schema.frozen
class ExportMetadata:
    """Fields of export.json; None where one does not apply to the model."""

    kind: str  # a section of `readme.toml`, or a kind of task
    signatures: tuple[str, ...]  # the default one first
    checkpoint: str  # folders of the run or trial, and of its checkpoint
    step: int
    trained_length: int  # tokens of a row, as the configuration has it
    precision: str
    stored_weights: str
    device: str
    max_length: int  # tokens at which texts are cut
    num_positions: int  # most tokens of a row of ids
    electra_tf: str  # version that made it
    tensorflow: str
    # Of pre-trained models.
    objective: str | None = None
    weights: str | None = None  # `model`, or the `average` of them
    # Of fine-tuned models.
    task: str | None = None
    labels: tuple[str, ...] | None = None  # in the order of the outputs
    scores: Mapping[str, Mapping[str, float]] | None = None  # by split, metric
    seed: int | None = None
    source: str | None = None  # of the encoder's first weights
    # What `Task.describe_export` tells.
    min_value: float | None = None
    max_value: float | None = None
    threshold: float | None = None
    cuts_early: bool | None = None
    max_query_length: int | None = None
    doc_stride: int | None = None
    max_answer_length: int | None = None
    qa_na_threshold: float | None = None

    def write(self, export_dir: pathlib.Path) -> None:
        """Writes export.json, README.md and signatures.json."""
        fields = dataclasses.asdict(self).items()
        known = {name: value for name, value in fields if value is not None}
        table = {
            name: {
                "purpose": purpose,
                "inputs": {k: TENSORS[k]._asdict() for k in inputs},
                "outputs": {k: TENSORS[k]._asdict() for k in outputs},
            }
            for name, (purpose, inputs, outputs) in SIGNATURES.items()
            if name in self.signatures
        }
        table = {"serving_default": table[self.signatures[0]]} | table
        for name, text in (
            (f"{EXTRA_FOLDER}/{_FILE}", schema.to_json(known)),
            ("signatures.json", schema.to_json(table)),
            ("README.md", _render_readme(self)),
        ):
            (export_dir / name).write_text(text, "utf-8")


def path_of(export_dir: pathlib.Path) -> pathlib.Path:
    """Returns the path of an export's export.json."""
    return export_dir / EXTRA_FOLDER / _FILE


def read_metadata(export_dir: pathlib.Path) -> ExportMetadata:
    """Reads export.json of an export."""
    path = path_of(export_dir)
    metadata = schema.read_file(ExportMetadata, path, errors.ExportError)
    if metadata.task is not None:
        add_signatures(metadata.kind)
    return metadata


def add_signatures(kind: str) -> None:
    """Documents the signatures that a kind of task of the user's own has."""
    texts = _find_kind(kind).export_texts()
    signatures = texts.get("signatures", {}).items()
    SIGNATURES.update({k: Signature(**v) for k, v in signatures})
    tensors = texts.get("tensors", {}).items()
    TENSORS.update({k: TensorMeaning(**v) for k, v in tensors})


def _render_readme(metadata: ExportMetadata) -> str:
    texts, fields = read_table("readme.toml"), dataclasses.asdict(metadata)
    page, kind = texts["page"], {"notes": ""}
    if metadata.task is None:
        own = texts[metadata.kind]
        kind |= texts.get(own.get("like"), {}) | own
        origin, example = page["run"], kind["example"]
        notes = page["pretrained_notes"].format(**fields) + kind["notes"]
    else:
        kind |= _find_kind(metadata.kind).export_texts()["readme"]
        origin, default = page["trial"], metadata.signatures[0]
        has_pairs = "text_pairs" in SIGNATURES[default].inputs
        example = kind["example"].format(
            signature=default, inputs=_PAIRS if has_pairs else _TEXTS
        )
        long = page["cut_texts" if metadata.cuts_early else "long_texts"]
        parts = {"long": long, "cut": page["cut_pairs"]}
        parts = {name: text.format(**fields) for name, text in parts.items()}
        notes = kind["notes"].format(**parts, **fields)
        notes += page["finetuned_notes"].format(**fields)
    version = ".".join(metadata.tensorflow.split(".")[:2]) + " or newer"
    return "\n".join(
        [
            f"# {kind['title'].format(**fields)}\n",
            f"{kind['summary'].format(**fields)}\n",
            f"{origin} {page['versions']}\n".format(**fields),
            *_describe_results(metadata),
            *render_sections(metadata.signatures),
            page["use"].format(
                version=version, example=example, notes=notes, **fields
            ),
        ]
    )


def _describe_results(metadata: ExportMetadata) -> list[str]:
    lines = []
    if labels := metadata.labels:
        shown = ", ".join(f"`{name}`" for name in labels[:_MAX_LISTED])
        rest = len(labels) - _MAX_LISTED
        more = f" and {rest} more, see export.json" if rest > 0 else ""
        lines.append(f"Labels, in this order: {shown}{more}.\n")
    for split, metrics in (metadata.scores or {}).items():
        shown = ", ".join(f"{k} {v:.2f}" for k, v in metrics.items())
        lines.append(f"Scores on {split}: {shown}.\n")
    return lines


def render_sections(
    names: Sequence[str], left_out: Sequence[str] = ()
) -> list[str]:
    """The part of a README about signatures, the default one first.

    Tensors that are `left_out` do not appear in tables.
    """
    tables, used = [], ""
    for name, (purpose, inputs, outputs) in SIGNATURES.items():
        if name not in names:
            continue
        rows = ["| | tensor | type | meaning |", "| --- | --- | --- | --- |"]
        for side, tensors in (("in", inputs), ("out", outputs)):
            for tensor in tensors:
                dtype, shape, meaning = TENSORS[tensor]
                used += shape
                if tensor not in left_out:
                    cells = side, f"`{tensor}`", f"{dtype} {shape}", meaning
                    rows.append(f"| {' | '.join(cells)} |")
        tables.append("\n".join([f"### `{name}`", "", purpose, "", *rows, ""]))
    letters = ", ".join(
        f"{letter} {meaning}"
        for letter, meaning in DIMENSIONS.items()
        if letter in used
    )
    default = f"{letters}. `serving_default` is `{names[0]}`.\n"
    return ["## Signatures\n", default, *tables]


def _find_kind(name: str) -> Any:
    # Clients read exports without TensorFlow, which this imports.
    from electra_tf.tasks import base

    return base.find_kind(name)
