"""Makes the pages of settings and commands from the code."""

import ast
import dataclasses
import inspect
import pathlib
import re
import subprocess
import sys

from mkdocs.structure import files

from electra_tf import config
from electra_tf.config import finetuning
from electra_tf.objectives import registry

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
        lines += ["| field | default | meaning |", "| --- | --- | --- |"]
        comments = _read_comments(kind)
        for field in dataclasses.fields(kind):
            default = repr(field.default).replace("'", '"')
            meaning = comments.get(field.name, "").replace("|", "\\|")
            lines.append(f"| `{field.name}` | `{default}` | {meaning} |")
        lines.append("")
    return "\n".join(lines)


def _describe_objectives(section: str) -> list[str]:
    """Returns the lines of the section that depends on the objective."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for name in registry.NAMES:
        kind = registry.find_class(name).Settings
        comments = _read_comments(kind)
        for field in dataclasses.fields(kind):
            default = repr(field.default).replace("'", '"')
            key = field.name, default, comments.get(field.name, "")
            rows.setdefault(key, []).append(name)
    return [
        f"## `{section}`\n",
        "Each objective has settings of its own; it refuses others.\n",
        "| field | default | meaning | objectives |",
        "| --- | --- | --- | --- |",
        *(
            f"| `{field}` | `{default}` | {meaning} | {', '.join(names)} |"
            for (field, default, meaning), names in rows.items()
        ),
        "",
    ]


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
