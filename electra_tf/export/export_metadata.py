"""The files beside an exported model: export.json, README.md, signatures.json.

`ExportMetadata` is export.json: where the weights come from and what the model
answers. The texts of the README stand in `readme.toml`.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from electra_tf import errors
from electra_tf.config import schema
from electra_tf.export import signatures

# Servers ignore this folder of a SavedModel.
EXTRA_FOLDER = "assets.extra"
_FILE = "export.json"
# Labels that the README lists; export.json holds all.
_MAX_LISTED = 40
_TEXTS = 'texts=tf.constant(["The cat sat on the mat."])'
_PAIRS = f"""{_TEXTS},
    text_pairs=tf.constant(["A cat was sitting."])"""


@schema.frozen
class ExportMetadata:
    """What export.json says; None for what does not apply to the model."""

    kind: str  # a section of `readme.toml`
    signatures: tuple[str, ...]  # the default one first
    checkpoint: str  # folders of the run or trial, and of its checkpoint
    step: int
    trained_length: int  # most tokens of the rows in training
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
    cuts_early: bool | None = None
    max_query_length: int | None = None
    doc_stride: int | None = None
    max_answer_length: int | None = None
    qa_na_threshold: float | None = None

    def write(self, export_dir: pathlib.Path) -> None:
        """Writes export.json, README.md and signatures.json."""
        fields = dataclasses.asdict(self).items()
        known = {name: value for name, value in fields if value is not None}
        for path, text in {
            export_dir / EXTRA_FOLDER / _FILE: schema.to_json(known),
            export_dir / "signatures.json": schema.to_json(
                describe_signatures(self.signatures)
            ),
            export_dir / "README.md": render_readme(self),
        }.items():
            path.write_text(text, "utf-8")


def read(export_dir: pathlib.Path) -> ExportMetadata:
    """Reads export.json of an export."""
    path = export_dir / EXTRA_FOLDER / _FILE
    return schema.read(ExportMetadata, path, errors.ExportError)


def describe_signatures(names: Sequence[str]) -> dict[str, Any]:
    """Returns the content of signatures.json; the first name is the default."""
    table = {
        name: {
            "purpose": documented.purpose,
            "inputs": _describe_tensors(documented.inputs),
            "outputs": _describe_tensors(documented.outputs),
        }
        for name, documented in signatures.SIGNATURES.items()
        if name in names
    }
    return {"serving_default": table[names[0]]} | table


def _describe_tensors(names: Sequence[str]) -> dict[str, dict[str, str]]:
    return {name: signatures.TENSORS[name]._asdict() for name in names}


@functools.cache
def readme_texts() -> dict[str, Any]:
    """The tables of `readme.toml`."""
    return signatures.read_table("readme.toml")


def render_readme(metadata: ExportMetadata) -> str:
    """The text of README.md."""
    page = readme_texts()["page"]
    kind = {"notes": ""} | readme_texts()[metadata.kind]
    fields = dataclasses.asdict(metadata)
    if metadata.task is None:
        example = kind["example"]
        notes = page["pretrained_notes"].format(**fields) + kind["notes"]
    else:
        default = metadata.signatures[0]
        has_pairs = "text_pairs" in signatures.SIGNATURES[default].inputs
        example = kind["example"].format(
            signature=default, inputs=_PAIRS if has_pairs else _TEXTS
        )
        long = page["cut_texts" if metadata.cuts_early else "long_texts"]
        notes = kind["notes"].format(long=long.format(**fields), **fields)
        notes += page["finetuned_notes"].format(**fields)
    origin = page["run" if metadata.task is None else "trial"]
    major, minor, *_ = metadata.tensorflow.split(".")
    return "\n".join(
        [
            f"# {kind['title'].format(**fields)}\n",
            f"{kind['summary'].format(**fields)}\n",
            f"{origin} {page['versions']}\n".format(**fields),
            *_describe_results(metadata),
            *render_sections(metadata.signatures),
            page["use"].format(
                version=f"{major}.{minor} or newer",
                example=example,
                notes=notes,
                **fields,
            ),
        ]
    )


def _describe_results(metadata: ExportMetadata) -> list[str]:
    """Labels and scores of a fine-tuned model."""
    lines = []
    labels = metadata.labels or ()
    if labels:
        shown = ", ".join(f"`{name}`" for name in labels[:_MAX_LISTED])
        rest = len(labels) - _MAX_LISTED
        more = f" and {rest} more, see export.json" if rest > 0 else ""
        lines.append(f"Labels, in this order: {shown}{more}.\n")
    for split, metrics in (metadata.scores or {}).items():
        shown = ", ".join(f"{k} {v:.2f}" for k, v in metrics.items())
        lines.append(f"Scores on {split}: {shown}.\n")
    return lines


def render_sections(names: Sequence[str]) -> list[str]:
    """The part of a README about signatures, the default one first."""
    tensors = {
        tensor
        for name in names
        for side in signatures.SIGNATURES[name][1:]
        for tensor in side
    }
    used = "".join(signatures.TENSORS[tensor].shape for tensor in tensors)
    letters = ", ".join(
        f"{letter} {meaning}"
        for letter, meaning in signatures.DIMENSIONS.items()
        if letter in used
    )
    return [
        "## Signatures\n",
        f"{letters}. `serving_default` is `{names[0]}`.\n",
        *(_section(name) for name in signatures.SIGNATURES if name in names),
    ]


def _section(name: str) -> str:
    purpose, inputs, outputs = signatures.SIGNATURES[name]
    rows = []
    for side, tensors in (("in", inputs), ("out", outputs)):
        for tensor in tensors:
            dtype, shape, meaning = signatures.TENSORS[tensor]
            rows.append(
                f"| {side} | `{tensor}` | {dtype} {shape} | {meaning} |"
            )
    head = ["| | tensor | type | meaning |", "| --- | --- | --- | --- |"]
    return "\n".join([f"### `{name}`", "", purpose, "", *head, *rows, ""])
