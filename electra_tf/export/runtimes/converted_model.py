"""An export for runtimes other than TensorFlow: LiteRT or ONNX.

    out_dir/
        model.tflite or model.onnx     one signature of ids
        vocab.txt, tokenizer_config.json, export.json
        README.md                      what it takes and gives

The folder appears with the answers of the export checked, or not at all.
"""

import dataclasses
import pathlib
import shutil
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf import errors
from electra_tf.config import schema
from electra_tf.export import export_metadata
from electra_tf.export import self_check
from electra_tf.export.runtimes import frozen_signature
from electra_tf.export.runtimes import litert_model
from electra_tf.export.runtimes import onnx_model
from electra_tf.processes import atomic
from electra_tf.text import vocabulary as vocabulary_lib

FORMATS: dict[str, Any] = {"litert": litert_model, "onnx": onnx_model}
TOLERANCE = 1e-4
"""Largest difference from the export, as `self_check` measures it."""

# Rows and their tokens; 0 tokens are as many as the model allows.
_BATCHES = ((1, 2), (3, 7), (2, 0))
_COPIED = ("vocab.txt", "tokenizer_config.json", "export.json")
_EXAMPLE_INPUTS = {
    "input_ids": "ids",
    "input_mask": "np.ones_like(ids)",
    "segment_ids": "np.zeros_like(ids)",
    "word_positions": "np.array([[1]], np.int32)",
}


class ConvertedModel(NamedTuple):
    """A finished conversion."""

    path: pathlib.Path  # the model's file
    signature: str  # that it holds
    largest_difference: float  # from the export


def convert(
    export_dir: pathlib.Path,
    out_dir: pathlib.Path,
    format_name: str,
    signature: str = "",
) -> ConvertedModel:
    """Converts one signature of an export and checks its numbers.

    Args:
        export_dir: made by scripts/export_saved_model.py.
        out_dir: folder to create.
        format_name: one of `FORMATS`.
        signature: one that takes ids; empty for the first of those.

    Raises:
        ExportError: if the converter fails, or if the result answers
            otherwise than the export.
        FileExistsError: if `out_dir` exists.
        FileNotFoundError: if `export_dir` is no export.
        ImportError: if an optional package is not installed.
        ValueError: for an unknown format or signature.
    """
    schema.require_choice("format", format_name, [*FORMATS])
    atomic.refuse_existing(out_dir, "--out")
    frozen = frozen_signature.freeze(export_dir, signature)
    metadata = export_metadata.read(export_dir)
    extra = export_dir / export_metadata.EXTRA_FOLDER
    vocabulary = vocabulary_lib.Vocabulary.load(extra)
    backend = FORMATS[format_name]
    with atomic.creating_folder(out_dir) as folder:
        path = folder / backend.FILE_NAME
        path.write_bytes(backend.convert(frozen))
        difference = _check(
            frozen,
            backend.load(path, frozen.name),
            metadata.num_positions,
            vocabulary,
        )
        for name in _COPIED:
            shutil.copyfile(extra / name, folder / name)
        readme = _render_readme(
            frozen, format_name, metadata, vocabulary, difference
        )
        (folder / "README.md").write_text(readme, "utf-8")
    return ConvertedModel(out_dir / path.name, frozen.name, difference)


def _check(
    frozen: frozen_signature.FrozenSignature,
    ask: frozen_signature.Ask,
    num_positions: int,
    vocabulary: vocabulary_lib.Vocabulary,
) -> float:
    """The largest difference of a converted model from the export."""
    largest = 0.0
    for rows, length in _BATCHES:
        arguments = _build_rows(
            frozen.inputs, rows, length or num_positions, vocabulary
        )
        expected, received = frozen.ask(arguments), ask(arguments)
        for name, value in expected.items():
            difference = self_check.measure_difference(value, received[name])
            if not difference <= TOLERANCE:
                raise errors.ExportError(
                    "The converted model must answer as the export does, "
                    f"within {TOLERANCE:g}. Received a difference of "
                    f"{difference:g} in {name}, for {rows} rows. Nothing was "
                    "kept; this is a defect of electra_tf or of the converter."
                )
            largest = max(largest, difference)
    return largest


def _build_rows(
    names: tuple[str, ...],
    rows: int,
    length: int,
    vocabulary: vocabulary_lib.Vocabulary,
) -> dict[str, np.ndarray]:
    """Random rows, the first without padding."""
    generator = np.random.default_rng(length)
    lengths = generator.integers(2, length + 1, (rows, 1))
    lengths[0] = length
    places = np.arange(length)
    mask = (places < lengths).astype(np.int32)
    ids = generator.integers(0, vocabulary.size, (rows, length))
    ids[:, 0] = vocabulary.cls_id
    built = {
        "input_ids": (ids * mask).astype(np.int32),
        "input_mask": mask,
        "segment_ids": (places > length // 2).astype(np.int32) * mask,
        "word_positions": (places * (places < lengths - 1)).astype(np.int32),
    }
    return {name: built[name] for name in names}


def _render_readme(
    frozen: frozen_signature.FrozenSignature,
    format_name: str,
    metadata: export_metadata.ExportMetadata,
    vocabulary: vocabulary_lib.Vocabulary,
    difference: float,
) -> str:
    texts = export_metadata.readme_texts()["converted"]
    file = FORMATS[format_name].FILE_NAME
    last_id = vocabulary.size - 1
    special = {
        "cls": vocabulary.cls_id,
        "sep": vocabulary.sep_id,
        "pad": vocabulary.pad_id,
    }
    example = texts[format_name].format(
        signature=frozen.name,
        output=next(iter(frozen.outputs)),
        word=last_id,
        rows="\n".join(
            f'    "{name}": {_EXAMPLE_INPUTS[name]},' for name in frozen.inputs
        ),
        **special,
    )
    left_out = "".join(
        f"- `{name}` is left out, as it is text. export.json lists `labels`.\n"
        for name in frozen.left_out
    )
    *_, section = export_metadata.render_sections([frozen.name])
    hidden = [f"| `{name}` |" for name in frozen.left_out]
    lines = section.splitlines(keepends=True)
    fields = dataclasses.asdict(metadata) | {"tensorflow": tf.__version__}
    return texts["page"].format(
        title=f"{metadata.kind.replace('_', ' ').capitalize()}, {file}",
        file=file,
        signature=frozen.name,
        section="".join(
            line for line in lines if not any(cell in line for cell in hidden)
        ),
        difference=difference,
        left_out=left_out,
        last_id=last_id,
        example=example,
        **special,
        **fields,
    )
