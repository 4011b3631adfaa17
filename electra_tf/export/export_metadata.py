"""The public format of an export: its signatures, and the files beside them.

`signatures.toml` documents the inputs and outputs of every signature; `models`
computes them. `ExportMetadata` is export.json. Both give the other files.
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

# Numbers that `signatures.toml` documents.
# The logit at padding; its sigmoid is exactly zero in float32.
PADDING_LOGIT = -10000.0
# Outputs at padding, unless they are 0.
PADDING = {"replaced_logits": PADDING_LOGIT}
# Offsets of special tokens and padding.
NO_WORD = -1
# Predictions per position; fewer if the vocabulary is smaller.
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

    dtype: str  # as TensorFlow names it
    shape: str  # as in `[B, S]`; the letters are keys of `DIMENSIONS`
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
    """Fields of export.json; None if a field does not apply to the model."""

    kind: str  # a section of `readme.toml`, or a kind of task
    signatures: tuple[str, ...]  # the default one first
    checkpoint: str  # the checkpoint, with the folder of its run or trial
    step: int
    trained_length: int  # tokens of a row in training
    precision: str
    stored_weights: str
    device: str
    max_length: int  # tokens at which texts are cut
    num_positions: int  # maximum tokens of a row of ids
    electra_tf: str  # version that made the export
    tensorflow: str
    # Of pre-trained models.
    objective: str | None = None
    weights: str | None = None  # `model`, or their moving `average`
    # Of fine-tuned models.
    task: str | None = None
    labels: tuple[str, ...] | None = None  # in the order of the outputs
    scores: Mapping[str, Mapping[str, float]] | None = None  # by split, metric
    seed: int | None = None
    source: str | None = None  # model of the encoder's initial weights
    # From `Task.describe_export`.
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
    """Adds the signatures and tensors that a kind of task documents itself."""
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
    """Returns a README's sections on the signatures `names`, default first.

    The tables lack the tensors `left_out`.
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
    # Imported late: clients read exports without TensorFlow.
    from electra_tf.tasks import base

    return base.find_kind(name)
