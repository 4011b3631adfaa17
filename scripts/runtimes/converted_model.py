"""An export for runtimes other than TensorFlow: LiteRT or ONNX.

A folder with one signature of ids as `model.tflite` or `model.onnx`, its
vocabulary, export.json, and a README.md of what it takes and gives.
"""

import dataclasses
import pathlib
from typing import NamedTuple

import tensorflow as tf

from electra_tf import errors
from electra_tf.config import schema
from electra_tf.export import export_metadata
from electra_tf.export import self_check
from electra_tf.processes import atomic
from electra_tf.text import vocabulary as vocabulary_lib
from runtimes import formats

TOLERANCE = 1e-4
"""Largest difference from the export, as `self_check` measures it."""

# Rows and their tokens; 0 tokens are as many as the model allows.
_BATCHES = ((1, 2), (3, 7), (2, 0))
_COPIED = ("vocab.txt", "tokenizer_config.json", "export.json")
# Of a converter's words, which can be the whole graph.
_MAX_QUOTED = 600
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
    """Converts one signature of ids of an export and checks its numbers.

    `out_dir` appears checked, or not at all. `format_name` is one of
    `formats.RUNTIMES`; an empty signature is the first that takes ids.

    Raises:
        ExportError: if the converter fails, or if the result answers
            otherwise than the export.
        ImportError: if an optional package is not installed.
        OSError: if `out_dir` exists, or `export_dir` is no export.
        ValueError: for an unknown format or signature.
    """
    schema.require_choice("format", format_name, formats.RUNTIMES)
    atomic.refuse_existing(out_dir, "--out")
    runtime = formats.RUNTIMES[format_name]
    frozen = formats.freeze(export_dir, signature)
    metadata = export_metadata.read_metadata(export_dir)
    extra = export_dir / export_metadata.EXTRA_FOLDER
    vocabulary = vocabulary_lib.Vocabulary.load(extra)
    with atomic.creating_folder(out_dir) as folder:
        path = folder / runtime.file_name
        try:
            path.write_bytes(runtime.convert(frozen))
        except (ImportError, OSError):
            raise
        except Exception as error:
            raise errors.ExportError(
                f"The converter for {format_name} could not convert "
                f"{frozen.name} (TensorFlow {tf.__version__}). It said: "
                f"{str(error)[:_MAX_QUOTED]}"
            ) from error
        ask = runtime.load(path, frozen.name)
        sizes = schema.read_object(extra / "config.json")["encoder"]
        limits = metadata.num_positions, vocabulary, sizes["type_vocab_size"]
        difference = _check(frozen, ask, *limits)
        for name in _COPIED:
            (folder / name).write_bytes((extra / name).read_bytes())
        readme = _render_readme(
            frozen, format_name, metadata, vocabulary, difference
        )
        (folder / "README.md").write_text(readme, "utf-8")
    return ConvertedModel(out_dir / path.name, frozen.name, difference)


def _check(
    frozen: formats.FrozenSignature,
    ask: formats.Ask,
    num_positions: int,
    vocabulary: vocabulary_lib.Vocabulary,
    num_segments: int,
) -> float:
    """The largest difference of a converted model from the export."""
    differences: dict[tuple[str, int], float] = {}
    for rows, length in _BATCHES:
        sizes = rows, length or num_positions, vocabulary, num_segments
        built = self_check.build_rows(*sizes)
        arguments = {name: built[name] for name in frozen.inputs}
        expected, received = frozen.ask(arguments), ask(arguments)
        differences |= {
            (name, rows): self_check.measure_difference(value, received[name])
            for name, value in expected.items()
        }
    (name, rows), worst = max(differences.items(), key=lambda item: item[1])
    if not worst <= TOLERANCE:
        raise errors.ExportError(
            f"The converted model must answer as the export does, within "
            f"{TOLERANCE:g}. Received a difference of {worst:g} in {name}, for "
            f"{rows} rows. Nothing was kept; please report this."
        )
    return worst


def _render_readme(
    frozen: formats.FrozenSignature,
    format_name: str,
    metadata: export_metadata.ExportMetadata,
    vocabulary: vocabulary_lib.Vocabulary,
    difference: float,
) -> str:
    texts = export_metadata.read_table("readme.toml")["converted"]
    rows = [f'    "{name}": {_EXAMPLE_INPUTS[name]},' for name in frozen.inputs]
    left_out = "".join(
        f"- `{name}` is left out, as it is text. export.json lists `labels`.\n"
        for name in frozen.left_out
    )
    *_, section = export_metadata.render_sections(
        [frozen.name], frozen.left_out
    )
    file = formats.RUNTIMES[format_name].file_name
    fields = dataclasses.asdict(metadata) | {
        "tensorflow": tf.__version__,
        "title": f"{metadata.kind.replace('_', ' ').capitalize()}, {file}",
        "file": file,
        "signature": frozen.name,
        "output": next(iter(frozen.outputs)),
        "cls": vocabulary.cls_id,
        "sep": vocabulary.sep_id,
        "pad": vocabulary.pad_id,
        "last_id": vocabulary.size - 1,
        "word": vocabulary.size - 1,
        "rows": "\n".join(rows),
        "section": section,
        "left_out": left_out,
        "difference": difference,
    }
    example = texts[format_name].format(**fields)
    return texts["page"].format(example=example, **fields)
