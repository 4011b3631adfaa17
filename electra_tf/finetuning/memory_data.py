"""Examples in memory, a list or a DataFrame, as files of the task `own`."""

import hashlib
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from electra_tf import config
from electra_tf import errors
from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import schema

_CONFIG = "configs/finetune/own.py"
_PAIR = "text_pair"
# Of rows that are tuples, by their number of values.
_COLUMNS = {2: ["text", "label"], 3: ["text", _PAIR, "label"]}


def build_settings(
    folder: pathlib.Path,
    data: Mapping[str, Any],
    sections: Mapping[str, Mapping[str, Any]],
) -> finetuning_config.FinetuningConfig:
    """Writes data by split into a folder, and builds settings that read them.

    What `pandas.DataFrame` takes is data: rows, columns, a frame. The settings
    are those of `configs/finetune/own.py`, with other fields of some
    `sections`; columns are called as there. What the section `own` does not
    say is found in the data: the kind (but not several labels, nor ranking), a
    second text, the range of numbers.
    """
    import pandas  # Takes a second, and most programs have no use for it.

    own: dict[str, Any] = {}
    frames = {split: pandas.DataFrame(rows) for split, rows in data.items()}
    for split, frame in frames.items():
        if list(frame.columns) == list(range(frame.shape[1])):
            frame.columns = _COLUMNS.get(frame.shape[1], frame.columns)
        # Named by content: a folder refuses to go on with other data. Not by
        # pandas' `to_json`, which rounds: labels would leave their range.
        filled = frame.astype(object).where(frame.notna(), None)
        rows = filled.to_dict("records")
        lines = "".join(f"{json.dumps(r, default=_to_plain)}\n" for r in rows)
        digest = hashlib.sha256(lines.encode()).hexdigest()[:12]
        path = folder / "data" / f"{split}-{digest}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(lines, "utf-8")
        own[f"{split}_file"] = str(path)
    frame, given = pandas.concat(frames.values()), sections.get("own", {})
    kind = given.get("kind") or _guess_kind(frame, given)
    values = config.run_file(_CONFIG, kind).to_dict()
    own |= _find_out(frame, kind, values["own"] | dict(given)) | dict(given)
    # What a program does later needs no deterministic kernels.
    values["training"]["deterministic"] = False
    for name, fields in {**sections, "own": own}.items():
        values[name] = values.get(name, {}) | dict(fields)
    return schema.build(finetuning_config.FinetuningConfig, values)


def _to_plain(value: Any) -> Any:
    """What JSON has for an array or a number of NumPy; a text of all else."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _guess_kind(frame: Any, given: Mapping[str, Any]) -> str:
    """The kind of data of which no kind is given."""
    known = finetuning_config.OwnTaskConfig(**given)
    labels = frame.get(known.label_column)
    if known.question_column in frame:
        return "multiple_choice" if known.choices_column in frame else "qa"
    if labels is not None and len(labels):
        if isinstance(labels.iloc[0], list | tuple):
            return "tagging"
        if labels.dtype.kind == "f":
            return "regression"
    return "classification"


def _find_out(frame: Any, kind: str, own: Mapping[str, Any]) -> dict[str, Any]:
    """What the data say of `own`, whose other fields are known."""
    if kind == "qa":
        # Without a column of starts, answers are searched for.
        is_known = own["answer_start_column"] in frame
        return {} if is_known else {"answer_start_column": ""}
    names = own["text_column"], own["label_column"]
    if not len(frame) or not set(names) <= set(frame):
        raise errors.DataError(
            f"Data must be rows of {' and '.join(names)}, or of questions. "
            f"Received: {len(frame)} rows of {', '.join(map(str, frame))}. "
            "Name other columns by "
            'own={"text_column": NAME, "label_column": NAME}.'
        )
    found: dict[str, Any] = {}
    if _PAIR in frame and not own["text_pair_column"]:
        found["text_pair_column"] = _PAIR
    if kind == "regression":
        labels = frame[own["label_column"]]
        found["min_value"] = float(labels.min())
        found["max_value"] = float(labels.max())
    return found
