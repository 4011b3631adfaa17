"""The two files of ours beside a preset of KerasHub's.

    folder/heads.safetensors    tensors of the heads, by our names
    folder/heads.json           their names, the task, and what else a preset
                                does not say

KerasHub does not look at them. What stands in them is checked field by field,
because nothing else would notice a wrong one.
"""

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from electra_tf import finetuning_config
from electra_tf import json_files
from electra_tf.formats import foreign
from electra_tf.formats import portable
from electra_tf.formats import tensor_files
from electra_tf.text import vocabulary as vocabulary_lib

HEADS_FILE, FACTS_FILE = "heads.safetensors", "heads.json"
RATES = ("attention_probs_dropout_prob", "initializer_range")
_TASK_FIELDS = {
    field.name for field in dataclasses.fields(portable.PortableTask)
}
# Kinds of tasks that have labels, that read one vector for the whole text.
_LABELED = ("classification", "tagging")
_WHOLE_TEXT = ("classification", "regression")


@dataclasses.dataclass(frozen=True)
class Extras:
    """What a preset has beside its encoder.

    Attributes:
        tensors: our path to float32 array.
        task: of a fine-tuned model.
        step: updates made, 0 where it is not known.
        tokenizer: settings, None where the preset's own are all.
        rates: of `RATES`, those that are known.
        notes: what was changed in reading, one line each.
    """

    tensors: portable.Tensors = dataclasses.field(default_factory=dict)
    task: portable.PortableTask | None = None
    step: int = 0
    tokenizer: vocabulary_lib.TokenizerSettings | None = None
    rates: Mapping[str, float] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read(folder: pathlib.Path) -> Extras:
    """What stands in both files; nothing if they are not there.

    Args:
        folder: of the preset.

    Raises:
        FormatError: if one is damaged or missing; names it.
    """
    path = folder / FACTS_FILE
    facts = _Facts(path, _read_object(path))
    facts.require_known({"heads", "step", "task", "tokenizer", *RATES})
    names = facts.names("heads")
    tensors, notes = _read_tensors(folder / HEADS_FILE, names)
    return Extras(
        tensors,
        facts.task(),
        facts.step(),
        facts.tokenizer(),
        {name: facts.rate(name) for name in RATES if name in facts.content},
        notes,
    )


def _read_object(path: pathlib.Path) -> dict[str, Any]:
    if not path.exists() and not path.is_symlink():
        return {}
    try:
        return json_files.read_object(path, portable.FormatError)
    except FileNotFoundError as error:
        raise portable.FormatError(
            f"{path} must be a file. Received: a link to nothing. Restore it."
        ) from error


def _read_tensors(
    path: pathlib.Path, names: tuple[str, ...]
) -> tuple[portable.Tensors, tuple[str, ...]]:
    found: dict[str, np.ndarray] = {}
    if path.is_file():
        found = tensor_files.read_safetensors(path)
    if sorted(found) != sorted(names):
        raise portable.FormatError(
            f"{path} must hold the tensors that {FACTS_FILE} names. Received: "
            f"{sorted(found)}, named: {sorted(names)}. Take both again from "
            "where they come from."
        )
    kinds = {name: str(value.dtype) for name, value in found.items()}
    notes = precision_notes(path, kinds)
    with np.errstate(over="ignore"):
        # What becomes infinite is refused with all that is not finite.
        tensors = {n: found[n].astype(np.float32) for n in found}
    return tensors, notes


def precision_notes(
    path: pathlib.Path, kinds: Mapping[str, str]
) -> tuple[str, ...]:
    """Notes on weights that are of other precision than ours.

    Args:
        path: of the weights, for the message.
        kinds: name of a tensor to that of its dtype.

    Raises:
        FormatError: for tensors that are no floating point numbers.
    """
    wrong = foreign.dtype_problems(kinds)
    if wrong:
        raise portable.FormatError(
            f"{path} must hold floating point numbers. Received: "
            f"{'; '.join(wrong[:8])}. Such weights, those of a quantized model "
            "for example, cannot be converted: take the model before that."
        )
    return tuple(foreign.precision_notes(kinds.values()))


class _Facts:
    """The fields of a `heads.json`, each refused unless it can be meant.

    Args:
        path: of the file, for messages.
        content: of the file.
        prefix: of the fields' names, for messages.
    """

    def __init__(
        self, path: pathlib.Path, content: dict[str, Any], prefix: str = ""
    ) -> None:
        self.content = content
        self._path = path
        self._prefix = prefix

    def _require(self, is_right: bool, name: str, expected: str) -> None:
        if not is_right:
            raise portable.FormatError(
                f"{self._path}: `{self._prefix}{name}` must be {expected}. "
                f"Received: {self.content.get(name)!r:.80}. Take the file "
                "again from where it comes from."
            )

    def require_known(self, known: set[str]) -> None:
        """Refuses fields that nothing would follow."""
        unknown = sorted(self.content.keys() - known)
        if unknown:
            raise portable.FormatError(
                f"{self._path} must have no field but "
                f"{', '.join(self._prefix + name for name in sorted(known))}. "
                f"Received: {', '.join(unknown)}. Was it written by another "
                "release?"
            )

    def names(self, name: str) -> tuple[str, ...]:
        """Distinct texts; none if the field is not there."""
        value = self.content.get(name, [])
        self._require(
            isinstance(value, list)
            and all(isinstance(item, str) and item.strip() for item in value)
            and len(set(value)) == len(value),
            name,
            "a list of different names",
        )
        return tuple(value)

    def step(self) -> int:
        """Updates made."""
        value = self.content.get("step", 0)
        is_count = type(value) is int and 0 <= value <= portable.LARGEST_STEP
        self._require(is_count, "step", "a whole number of updates")
        return value

    def rate(self, name: str) -> float:
        """A fraction."""
        value = self.content[name]
        is_rate = type(value) in (int, float) and 0 <= value <= 1
        self._require(is_rate, name, "a number from 0 to 1")
        return float(value)

    def tokenizer(self) -> vocabulary_lib.TokenizerSettings | None:
        """Settings, None if there are none."""
        value = self.content.get("tokenizer")
        is_object = "tokenizer" not in self.content or isinstance(value, dict)
        self._require(is_object, "tokenizer", "an object of settings")
        if value is None:
            return None
        try:
            return vocabulary_lib.TokenizerSettings.from_dict(value)
        except vocabulary_lib.VocabularyError as error:
            raise portable.FormatError(
                f"{self._path}: `tokenizer`: {error}"
            ) from error

    def task(self) -> portable.PortableTask | None:
        """The task, None if there is none."""
        value = self.content.get("task")
        if "task" not in self.content:
            return None
        self._require(
            isinstance(value, dict) and set(value) == _TASK_FIELDS,
            "task",
            f"an object of {', '.join(sorted(_TASK_FIELDS))}",
        )
        return _Facts(self._path, value or {}, "task.").as_task()

    def as_task(self) -> portable.PortableTask:
        """The fields of a task."""
        name, kind = self.content["name"], self.content["kind"]
        is_name = isinstance(name, str) and bool(name) and "/" not in name
        self._require(is_name, "name", "a name without /")
        kinds = finetuning_config.OWN_KINDS
        is_kind = isinstance(kind, str) and kind in kinds
        self._require(is_kind, "kind", f"one of {', '.join(kinds)}")
        labels = self.names("labels")
        portable.require_labels(labels, f"{self._path}: `task.labels`")
        can_have = kind in _LABELED or not labels
        self._require(can_have, "labels", f"empty for {kind}")
        for field in ("has_pairs", "has_hidden_layer"):
            value = self.content[field]
            self._require(type(value) is bool, field, "true or false")
            can_be = kind in _WHOLE_TEXT or not value
            self._require(can_be, field, f"false for {kind}")
        value_range = self._value_range(kind)
        return portable.PortableTask(
            name,
            kind,
            labels,
            self.content["has_hidden_layer"],
            value_range,
            self.content["has_pairs"],
        )

    def _value_range(self, kind: str) -> tuple[float, float]:
        low, high = portable.read_value_range(
            self.content["value_range"], f"{self._path}: `task.value_range`"
        )
        is_used = kind == "regression" or (low, high) == (0.0, 1.0)
        self._require(is_used, "value_range", f"[0, 1] for {kind}")
        return low, high


def write(model: portable.PortableModel, folder: pathlib.Path) -> None:
    """Writes both files.

    Args:
        model: with or without heads.
        folder: of the preset; exists.
    """
    heads = {
        path: np.ascontiguousarray(value)
        for path, value in model.tensors.items()
        if not path.startswith(f"{portable.MAIN}/")
    }
    facts: dict[str, Any] = {
        name: getattr(model.encoder, name) for name in RATES
    }
    facts |= {"step": model.step, "heads": sorted(heads)}
    if model.task is not None:
        facts["task"] = dataclasses.asdict(model.task)
    if heads:
        tensor_files.write_safetensors(folder / HEADS_FILE, heads)
    if model.vocabulary is not None:
        facts["tokenizer"] = dataclasses.asdict(model.vocabulary.settings)
    text = json.dumps(facts, indent=2) + "\n"
    (folder / FACTS_FILE).write_text(text, "utf-8")
