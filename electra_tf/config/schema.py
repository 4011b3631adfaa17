"""Checks of settings classes and of JSON files.

`frozen` makes a pydantic dataclass that refuses unknown fields and values of
another type. `build` and `read_file` turn the messages of pydantic into ours.
"""

import dataclasses
import difflib
import json
import math
import os
import pathlib
import re
import typing
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import pydantic
import pydantic_core

from electra_tf import errors
from electra_tf import storage

_T = typing.TypeVar("_T")

Count = Annotated[int, pydantic.Field(ge=0)]
Positive = Annotated[int, pydantic.Field(ge=1)]
NonNegative = Annotated[float, pydantic.Field(ge=0, allow_inf_nan=False)]
Fraction = Annotated[float, pydantic.Field(ge=0, le=1)]
Temperature = Annotated[float, pydantic.Field(ge=1e-3, allow_inf_nan=False)]

# Words of pydantic's messages, and ours for them.
_WORDS = {
    "Input should be ": "",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    ", unable to parse string as a number": "",
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid string": "text",
    "a valid boolean": "true or false",
    "a valid list": "a list",
    "a valid array": "a list",
    "String should match": "text of the",
    "an object": "a section of fields",
}
_CONFIG = pydantic.ConfigDict(
    strict=True, extra="forbid", arbitrary_types_allowed=True
)


@typing.dataclass_transform(
    frozen_default=True, field_specifiers=(dataclasses.field,)
)
def frozen(cls: type[_T]) -> type[_T]:
    """Decorates a class to be a frozen, strict dataclass.

    Its construction raises `ConfigError` for an unknown field or a bad value.
    Rules for several fields belong in `__post_init__`.
    """
    decorate = pydantic.dataclasses.dataclass(frozen=True, config=_CONFIG)
    built: Any = decorate(cls)
    construct = built.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            construct(self, *args, **kwargs)
        except pydantic.ValidationError as error:
            raise errors.ConfigError(_describe_all(built, error)) from error

    built.__init__ = __init__
    return built


def one_of(*choices: str) -> Any:
    """Annotates a string field that allows only some values."""

    def check(value: str) -> str:
        if value not in choices:
            raise pydantic_core.PydanticCustomError(
                "choice", f"Input should be one of {', '.join(choices)}"
            )
        return value

    check.choices = choices  # type: ignore[attr-defined]  # for the pages
    return pydantic.AfterValidator(check)


def require(condition: bool, message: str) -> None:
    """Raises `ConfigError` with the message unless the condition holds."""
    if not condition:
        raise errors.ConfigError(message)


def require_choice(field: str, value: str, choices: Iterable[str]) -> None:
    """Raises `ConfigError` unless the field's value is one of the choices."""
    require(
        value in choices,
        f"`{field}` must be one of {', '.join(choices)}. Received: {value!r}.",
    )


def require_steps(section: Any, place: str, *names: str) -> None:
    """Raises `ConfigError` for a schedule with a final value but no steps."""
    changed = find_changed(section)
    for name in names:
        final = changed.get(f"final_{name}")
        require(
            final is None or f"{name}_steps" in changed,
            f"`{place}.final_{name}` needs `{name}_steps` above 0. "
            f"Received: {final} and 0. Set both, or only `{name}`.",
        )


def build(
    schema: type[_T],
    values: Mapping[str, Any],
    name: str = "",
    error: type[Exception] = errors.ConfigError,
    section: str = "",
) -> _T:
    """Builds a frozen dataclass from nested mappings.

    Lists become tuples and whole numbers floats if the schema has these;
    nothing else is converted.

    Args:
        schema: the dataclass.
        values: its fields.
        name: what messages call the values, for example the path of a file.
        error: type of the error for unknown fields and bad values.
        section: the section of the fields, for messages.
    """

    def to_plain(value: Any) -> Any:
        if hasattr(value, "items"):  # a section
            return dict(value.items())
        # Other values are numbers of NumPy, or paths.
        return value.item() if hasattr(value, "item") else os.fspath(value)

    try:
        # pydantic's rules for JSON accept lists as tuples; others are strict.
        text = json.dumps(values, default=to_plain)
        return pydantic.TypeAdapter(schema).validate_json(text)
    except pydantic.ValidationError as cause:
        text = f"{name}: " * bool(name) + _describe_all(schema, cause, section)
        if name.endswith(".json") and "unexpected_keyword" in str(cause):
            text += " If a newer version of electra_tf wrote it, use that one."
        raise error(text) from cause


def read_file(
    schema: type[_T],
    path: pathlib.Path,
    error: type[Exception] = errors.ConfigError,
) -> _T:
    """Reads a JSON file as a frozen dataclass; raises `error` for damage."""
    return build(schema, read_object(path, error), str(path), error)


def read_object(
    path: pathlib.Path, error: type[Exception] = ValueError
) -> dict[str, Any]:
    """Reads the object of a JSON file; raises `error` for damage."""

    def parse(text: str) -> float:
        if not math.isfinite(value := float(text)):
            raise ValueError(f"the number {text:.20}")
        return value

    try:
        text = storage.read_bytes(path).decode("utf-8")
        content = json.loads(text, parse_constant=parse, parse_float=parse)
        if not isinstance(content, dict):
            raise ValueError(f"{content!r:.60}")
    except (ValueError, RecursionError) as cause:
        raise error(
            f"{path} must hold a JSON object in UTF-8. Received: {cause}. It "
            "may be cut off or damaged: restore it."
        ) from cause
    return content


def to_json(value: Any) -> str:
    """Formats a frozen dataclass or a mapping as indented JSON."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    return json.dumps(value, indent=2, default=list) + "\n"


def find_differences(ours: Any, theirs: Any, prefix: str = "") -> list[str]:
    """Lists the fields that differ, each as `section.field: ours, theirs`."""
    if dataclasses.is_dataclass(ours) and dataclasses.is_dataclass(theirs):
        ours, theirs = vars(ours), vars(theirs)
    if not isinstance(ours, Mapping) or not isinstance(theirs, Mapping):
        return [] if ours == theirs else [f"{prefix}: {ours!r}, {theirs!r}"]
    return [
        difference
        for name in {**ours, **theirs}
        for difference in find_differences(
            ours.get(name),
            theirs.get(name),
            f"{prefix}.{name}" if prefix else name,
        )
    ]


def list_values(settings: Any) -> dict[str, Any]:
    """Returns the values of settings by `section.field`, without paths."""
    return {
        f"{section}.{field}": value
        for section, fields in dataclasses.asdict(settings).items()
        for field, value in fields.items()
        if not field.endswith(("_dir", "_file", "init_from"))
    }


def find_changed(value: Any) -> dict[str, Any]:
    """Returns the fields of a frozen dataclass that are not at defaults."""
    return {
        field.name: getattr(value, field.name)
        for field in dataclasses.fields(value)
        if getattr(value, field.name) != field.default
    }


def replace_fields(value: _T, **sections: Mapping[str, Any]) -> _T:
    """Returns settings with new values of some fields, by section."""
    settings: Any = value
    changed = {}
    for name, fields in sections.items():
        section = getattr(settings, name)
        replace = dict if isinstance(section, dict) else dataclasses.replace
        changed[name] = replace(section, **fields)
    return dataclasses.replace(settings, **changed)


def find_near(name: str, known: Iterable[str]) -> str:
    """Returns `Did you mean 'a'? ` if a known name is similar, else "".

    In a name of several parts (`config.data.phases`), the last one counts.
    """

    def last(text: str) -> str:
        return re.split("[./]", text.lower().removesuffix(".py"))[-1]

    near = difflib.get_close_matches(last(name), {*map(last, known)})
    names = [each for each in known if last(each) in near]
    close = difflib.get_close_matches(name, names, 1, 0)
    return f"Did you mean {close[0]!r}? " if close else ""


def suggest(name: str, known: Iterable[str]) -> str:
    """Returns a hint on an unknown name: `Did you mean 'a'? Known: a, b.`"""
    names = list(dict.fromkeys(known))
    more = f" and {len(names) - 25} more" if len(names) > 25 else ""
    return f"{find_near(name, names)}Known: {', '.join(names[:25])}{more}."


def _describe_all(
    schema: Any, error: pydantic.ValidationError, section: str = ""
) -> str:
    texts = [describe(schema, detail, section) for detail in error.errors()]
    return " ".join(dict.fromkeys(texts))


def describe(schema: Any, detail: Any, section: str = "") -> str:
    """Returns a sentence on one of the `errors()` of a `ValidationError`."""
    *parents, name = detail["loc"] or ("",)
    if isinstance(name, int) and not parents:  # an argument by its position
        name = dataclasses.fields(schema)[name].name
    field = ".".join(map(str, [*filter(None, [section]), *parents, name]))
    kind, expected = detail["type"], detail["msg"]
    if kind == "unexpected_keyword_argument":
        for parent in parents:
            hint = typing.get_type_hints(schema).get(parent)
            inner = (hint, *typing.get_args(hint))
            schema = next(filter(dataclasses.is_dataclass, inner), schema)
        fields = dataclasses.fields(schema)
        is_section = dataclasses.is_dataclass(fields[0].default)
        noun = "section" if is_section else "field"
        known = [field.name for field in fields]
        return f"Unknown {noun} {field!r}. {suggest(str(name), known)}"
    if kind == "missing":
        return f"`{field}` is missing."
    if kind == "value_error":
        return str(detail["ctx"]["error"])
    if kind == "model_type":
        expected = "a JSON object"
    for theirs, ours in _WORDS.items():
        expected = expected.replace(theirs, ours)
    return f"`{field}` must be {expected}. Received: {detail['input']!r:.60}."
