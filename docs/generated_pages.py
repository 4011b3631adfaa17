"""Makes the pages of settings and commands from the code."""

import ast
import dataclasses
import inspect
import pathlib
import re
import subprocess
import sys
import typing
from typing import Annotated, Any, Literal

from mkdocs.structure import files

from electra_tf import config
from electra_tf.config import finetuning
from electra_tf.objectives import registry

_KINDS = {
    bool: "`True`, `False`",
    int: "whole number",
    float: "number",
    str: "text",
}
_BOUNDS = {"ge": "from", "gt": "above", "le": "to", "lt": "below"}
ROOT = pathlib.Path(__file__).parent.parent


def on_files(all_files: files.Files, config: dict) -> files.Files:
    """Adds the pages (a hook of MkDocs)."""
    for name, text in _pages().items():
        page = files.File.generated(config, f"{name}.md", content=text)
        all_files.append(page)
    return all_files


def _pages() -> dict[str, str]:
    contributing = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    return {
        "settings_pretraining": _describe_settings(
            "Settings of pre-training", config.ExperimentConfig
        ),
        "settings_finetuning": _describe_settings(
            "Settings of fine-tuning", finetuning.FinetuningConfig
        ),
        "commands": _describe_commands(),
        # Links of a page of the repository lead into its folders.
        "contributing": re.sub(
            r"\[([^]]+)\]\([^)h][^)]*\)", r"\1", contributing
        ),
    }


def _describe_settings(title: str, schema: type) -> str:
    lines = [
        f"# {title}\n",
        "A file of `configs/` sets them, `--config.section.field=value` on the "
        "command line overrides one. A setting that neither names has its "
        "default.\n",
    ]
    for section in dataclasses.fields(schema):
        if section.default is dataclasses.MISSING:
            lines += _describe_objectives(section.name)
            continue
        kind = type(section.default)
        lines += [f"## `{section.name}`\n", f"{inspect.getdoc(kind)}\n"]
        lines += ["| field | default | values | meaning |"]
        lines += ["| --- | --- | --- | --- |"]
        lines += [f"| {' | '.join(row)} |" for row in _list_fields(kind)]
        lines.append("")
    return "\n".join(lines)


def _describe_objectives(section: str) -> list[str]:
    """Returns the lines of the section that depends on the objective."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for name in registry.NAMES:
        for row in _list_fields(registry.find_class(name).Settings):
            rows.setdefault(row, []).append(name)
    return [
        f"## `{section}`\n",
        f"`name` is one of {', '.join(map(_quote, registry.NAMES))}, or a "
        "module of your own. Each has settings of its own, refuses others.\n",
        "| field | default | values | meaning | objectives |",
        "| --- | --- | --- | --- | --- |",
        *(
            f"| {' | '.join(row)} | {', '.join(names)} |"
            for row, names in rows.items()
        ),
        "",
    ]


def _list_fields(kind: type) -> list[tuple[str, ...]]:
    """Returns name, default, values and meaning of each field of a class."""
    comments = _read_comments(kind)
    hints = typing.get_type_hints(kind, include_extras=True)
    return [
        (
            f"`{field.name}`",
            _quote(field.default),
            _list_values(hints[field.name]),
            comments.get(field.name, "").replace("|", "\\|"),
        )
        for field in dataclasses.fields(kind)
    ]


def _quote(value: object) -> str:
    return f"`{value!r}`".replace("'", '"')


def _list_values(hint: Any) -> str:
    """Says which values a type hint of a setting allows."""
    kind, *notes = typing.get_args(hint) or (hint,)
    if typing.get_origin(hint) is Literal:
        return ", ".join(map(_quote, typing.get_args(hint)))
    if typing.get_origin(hint) is not Annotated:
        return _KINDS.get(hint, f"{hint}".replace("|", "or"))
    bounds = []
    for note in notes:
        if choices := getattr(getattr(note, "func", None), "choices", ()):
            return ", ".join(map(_quote, choices))
        limits = getattr(note, "metadata", [note])
        bounds += [
            f"{words} {getattr(limit, name):,}"
            for limit in limits
            for name, words in _BOUNDS.items()
            if getattr(limit, name, None) is not None
        ]
    return " ".join([_KINDS.get(kind, f"{kind}"), *bounds])


def _read_comments(kind: type) -> dict[str, str]:
    """Returns the comments above and behind each field of a class, by name.

    A field without a comment has that of the base class.
    """
    (base,) = kind.__bases__
    meanings = {} if base is object else _read_comments(base)
    source = inspect.getsource(kind)
    lines = source.splitlines()
    (tree,) = ast.parse(source).body
    for node in tree.body:
        if not isinstance(node, ast.AnnAssign):
            continue
        above = []
        line = node.lineno - 2
        while lines[line].lstrip().startswith("#"):
            above.insert(0, lines[line].lstrip("# "))
            line -= 1
        last = lines[node.end_lineno - 1]
        behind = last[node.end_col_offset :].lstrip(" #")
        meaning = " ".join([*above, behind]).strip()
        if meaning:
            meanings[ast.unparse(node.target)] = meaning
    return meanings


def _describe_commands() -> str:
    lines = [
        "# Commands\n",
        "In a checkout, `python scripts/NAME.py` does the same.\n",
    ]
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    commands = re.findall(r'^(electra-[\w-]+) = "\S+:(\w+)"', project, re.M)
    for command, script in commands:
        shown = subprocess.run(
            [sys.executable, f"scripts/{script}.py", "--help"],
            cwd=ROOT,
            capture_output=True,
            text=True,
        ).stdout
        shown = shown.split("\nTry --helpfull")[0].strip()
        lines += [f"## {command}\n", f"```text\n{shown}\n```\n"]
    return "\n".join(lines)
