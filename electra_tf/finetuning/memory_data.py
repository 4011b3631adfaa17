"""Examples in memory, a list or a DataFrame, as files of the task `own`."""

import hashlib
import pathlib
import runpy
from collections.abc import Mapping
from typing import Any

from electra_tf import errors
from electra_tf import installed
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
    `sections`. What the section `own` does not say is found in the data: the
    kind, a second text, the range of numbers.
    """
    import pandas  # Takes a second, and most programs have no use for it.

    own: dict[str, Any] = {}
    frames = {split: pandas.DataFrame(rows) for split, rows in data.items()}
    for split, frame in frames.items():
        if list(frame.columns) == list(range(frame.shape[1])):
            frame.columns = _COLUMNS.get(frame.shape[1], frame.columns)
        # Named by content: a folder refuses to go on with other data.
        lines = frame.to_json(orient="records", lines=True, double_precision=15)
        digest = hashlib.sha256(lines.encode()).hexdigest()[:12]
        path = folder / "data" / f"{split}-{digest}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(lines, "utf-8")
        own[f"{split}_file"] = str(path)
    own |= _find_out(pandas.concat(frames.values()), sections.get("own", {}))
    get_config = runpy.run_path(installed.find_config(_CONFIG))["get_config"]
    values = get_config(own["kind"]).to_dict()
    # What a program does later needs no deterministic kernels.
    values["training"]["deterministic"] = False
    for name, fields in {**sections, "own": own}.items():
        values[name] = values.get(name, {}) | dict(fields)
    return schema.build(finetuning_config.FinetuningConfig, values)


def _find_out(frame: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """What `own` says of the data, completed."""
    own = {"kind": "classification", **given}
    known = finetuning_config.OwnTaskConfig(**given)
    labels = frame.get(known.label_column)
    if _PAIR in frame:
        own.setdefault("text_pair_column", _PAIR)
    if known.question_column in frame:
        own["kind"] = "qa"
        if known.answer_start_column not in frame:
            own["answer_start_column"] = ""  # They are searched for.
    elif labels is None or known.text_column not in frame or not len(frame):
        raise errors.DataError(
            f"Data must be rows of {known.text_column} and "
            f"{known.label_column}, or of questions. Received: {len(frame)} "
            f"rows of {', '.join(map(str, frame))}. Name other columns by "
            'own={"text_column": NAME, "label_column": NAME}.'
        )
    elif isinstance(labels.iloc[0], list | tuple):
        own["kind"] = "tagging"
    elif labels.dtype.kind == "f" or own["kind"] == "regression":
        least = {"min_value": float(labels.min())}
        most = {"max_value": float(labels.max())}
        own = least | most | own | {"kind": given.get("kind", "regression")}
    return own
