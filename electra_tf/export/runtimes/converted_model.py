"""An export for runtimes other than TensorFlow: LiteRT or ONNX.

    out_dir/
        model.tflite or model.onnx     one signature of ids
        vocab.txt, tokenizer_config.json, export.json
        README.md                      what it takes and gives

The folder appears with the answers of the export checked, or not at all.
"""

import json
import pathlib
import shutil
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf import errors
from electra_tf.export import documentation
from electra_tf.export import signatures
from electra_tf.export.runtimes import frozen_signature
from electra_tf.export.runtimes import litert_model
from electra_tf.export.runtimes import onnx_model
from electra_tf.records import atomic

FORMATS: dict[str, Any] = {"litert": litert_model, "onnx": onnx_model}
TOLERANCE = 1e-4
"""Largest difference from the export, measured as `self_check` does."""

# Rows and their tokens; the last are as long as the model allows.
_BATCHES = ((1, 2), (3, 7), (2, 0))
_EXTRA = "assets.extra"
_COMPANIONS = ("vocab.txt", "tokenizer_config.json", "export.json")

_README = """\
# {title}

`{file}` holds the signature `{signature}` of an export of electra_tf
{electra_tf}: `{checkpoint}`, step {step}. Its answers differ from the
export's by {difference:.1e} at most, a share of the largest number or of one.
Made with TensorFlow {tensorflow}.

{section}
- B (rows) and S (tokens of a row) are free, S up to {num_positions}.
- Nothing is checked: ids that are not in the vocabulary (0 to {last_id}),
  longer rows, masks other than 0 and 1 give an error or nonsense.
- Text must become ids first: [CLS] (id {cls}), pieces of vocab.txt, [SEP] (id
  {sep}), padding (id {pad}) with `input_mask` 0. tokenizer_config.json says
  how words are made of text.
{left_out}
## Use

```python
{example}
```
"""
_LITERT = """\
import numpy as np
from ai_edge_litert.interpreter import Interpreter

interpreter = Interpreter(model_path="model.tflite")
ask = interpreter.get_signature_runner("{signature}")
"""
_ONNX = """\
import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession("model.onnx")
"""
_ROWS = """\
ids = np.array([[{cls}, {word}, {sep}]], np.int32)
rows = {{
{rows}
}}
"""


class ConvertedModel(NamedTuple):
    """A finished conversion.

    Attributes:
        path: the model's file.
        signature: that it holds.
        largest_difference: from the export.
    """

    path: pathlib.Path
    signature: str
    largest_difference: float


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
        ExportError: if the exporter does not manage, or if the result
            answers otherwise than the export.
        FileExistsError: if `out_dir` exists.
        FileNotFoundError: if `export_dir` is no export.
        ImportError: if an optional package is not installed.
        ValueError: for an unknown format or signature.
    """
    if format_name not in FORMATS:
        raise ValueError(
            f"`format` must be one of {', '.join(FORMATS)}. Received: "
            f"{format_name!r}."
        )
    if out_dir.exists() or out_dir.is_symlink():
        raise FileExistsError(
            f"The folder to create must not exist yet. Received: {out_dir}. "
            "Give another --out, or remove that one."
        )
    frozen = frozen_signature.freeze(export_dir, signature)
    facts = _read_facts(export_dir)
    backend = FORMATS[format_name]
    with atomic.creating_folder(out_dir) as folder:
        path = folder / backend.FILE_NAME
        path.write_bytes(backend.convert(frozen))
        difference = check(frozen, path, backend, facts)
        for name in _COMPANIONS:
            shutil.copyfile(export_dir / _EXTRA / name, folder / name)
        (folder / "README.md").write_text(
            _render_readme(frozen, path, facts, difference), "utf-8"
        )
    return ConvertedModel(out_dir / path.name, frozen.name, difference)


def check(
    frozen: frozen_signature.FrozenSignature,
    path: pathlib.Path,
    backend: Any,
    facts: dict[str, Any],
) -> float:
    """The largest difference of a model's file from the export.

    Args:
        frozen: asks the export.
        path: of the file.
        backend: one of `FORMATS`' modules.
        facts: what export.json and the vocabulary say.

    Raises:
        ExportError: if it is more than `TOLERANCE`.
    """
    ask = backend.load(path, frozen.name)
    largest = 0.0
    for rows, length in _BATCHES:
        arguments = _build_rows(
            frozen.inputs, rows, length or facts["num_positions"], facts
        )
        expected, received = frozen.ask(arguments), ask(arguments)
        for name, value in expected.items():
            difference = _difference(value, received.get(name))
            if not difference <= TOLERANCE:
                raise errors.ExportError(
                    f"{path.name} must answer as the export does, within "
                    f"{TOLERANCE:g}. Received a difference of {difference:g} "
                    f"in {name}, for {rows} rows. Nothing was kept; this is a "
                    "defect of electra_tf or of the exporter."
                )
            largest = max(largest, difference)
    return largest


def _difference(expected: np.ndarray, received: np.ndarray | None) -> float:
    if received is None or received.shape != expected.shape:
        return float("inf")
    if expected.dtype.kind != "f":
        return 0.0 if np.array_equal(expected, received) else float("inf")
    values = np.abs(expected[expected != signatures.PADDING_LOGIT])
    scale = max(1.0, float(values.max(initial=0.0)))
    difference = np.abs(expected - received).max(initial=0.0)
    return float(difference) / scale


def _build_rows(
    names: tuple[str, ...], rows: int, length: int, facts: dict[str, Any]
) -> dict[str, np.ndarray]:
    """Random rows, the first without padding."""
    generator = np.random.default_rng(length)
    lengths = generator.integers(2, length + 1, (rows, 1))
    lengths[0] = length
    places = np.arange(length)
    mask = (places < lengths).astype(np.int32)
    ids = generator.integers(0, facts["vocab_size"], (rows, length))
    ids[:, 0] = facts["cls"]
    built = {
        "input_ids": (ids * mask).astype(np.int32),
        "input_mask": mask,
        "segment_ids": (places > length // 2).astype(np.int32) * mask,
        "word_positions": (places * (places < lengths - 1)).astype(np.int32),
    }
    return {name: built[name] for name in names}


def _read_facts(export_dir: pathlib.Path) -> dict[str, Any]:
    extra = export_dir / _EXTRA
    for name in _COMPANIONS:
        if not (extra / name).is_file():
            raise FileNotFoundError(
                f"An export of electra_tf has {_EXTRA}/{name}. Received: "
                f"{export_dir}. Make one with scripts/export_saved_model.py."
            )
    facts = json.loads((extra / "export.json").read_text("utf-8"))
    tokens = (extra / "vocab.txt").read_text("utf-8").split("\n")
    tokens = tokens[:-1] if not tokens[-1] else tokens
    special = {"cls": "[CLS]", "sep": "[SEP]", "pad": "[PAD]"}
    ids = {name: tokens.index(token) for name, token in special.items()}
    return facts | ids | {"vocab_size": len(tokens)}


def _render_readme(
    frozen: frozen_signature.FrozenSignature,
    path: pathlib.Path,
    facts: dict[str, Any],
    difference: float,
) -> str:
    values = {"input_ids": "ids", "input_mask": "np.ones_like(ids)",
              "segment_ids": "np.zeros_like(ids)",
              "word_positions": "np.array([[1]], np.int32)"}  # fmt: skip
    rows = "\n".join(f'    "{name}": {values[name]},' for name in frozen.inputs)
    values = facts | {"signature": frozen.name, "word": facts["vocab_size"] - 1}
    example = (_LITERT if path.name.endswith("tflite") else _ONNX) + _ROWS
    first = next(iter(frozen.outputs))
    if path.name.endswith("tflite"):
        example += f'print(ask(**rows)["{first}"])'
    else:
        example += f'print(session.run(["{first}"], rows)[0])'
    left_out = "".join(
        f"- `{name}` is left out, as it is text. export.json lists `labels`.\n"
        for name in frozen.left_out
    )
    *_, section = documentation.render_sections([frozen.name])
    for name in frozen.left_out:
        lines = section.splitlines()
        section = "\n".join(x for x in lines if f"| `{name}` |" not in x)
    return _README.format(
        title=f"{facts['kind'].replace('_', ' ').capitalize()}, {path.name}",
        file=path.name,
        section=section,
        difference=difference,
        left_out=left_out,
        last_id=facts["vocab_size"] - 1,
        example=example.format(rows=rows, **values),
        **(values | {"tensorflow": tf.__version__}),
    )
