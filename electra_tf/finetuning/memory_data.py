"""Examples in memory, a list or a DataFrame, as files of the task `own`."""

import hashlib
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from electra_tf import config
from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import schema
from electra_tf.tasks import kinds

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
    known = values["own"] | dict(given)
    own |= kinds.find_kind(kind).describe_frame(frame, known) | dict(given)
    # What a program does later needs no deterministic kernels.
    values["training"]["deterministic"] = False
    for name, fields in {**sections, "own": own}.items():
        values[name] = values.get(name, {}) | dict(fields)
    return schema.build(finetuning_config.FinetuningConfig, values)


def _to_plain(value: Any) -> Any:
    """Converts an array or number of NumPy for JSON; all else to text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _guess_kind(frame: Any, given: Mapping[str, Any]) -> str:
    """Returns the first kind that recognizes the data, or else the default."""
    own = finetuning_config.OwnTaskConfig(**given)
    for name in finetuning_config.TASK_KINDS:
        if kinds.find_kind(name).recognizes(frame, own):
            return name
    return own.kind
