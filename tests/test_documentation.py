"""Docstrings and pages keep their promises."""

import ast
import doctest
import importlib
import pathlib
import re

import pytest

from tests import script_modules
from tests.script_modules import ROOT

SOURCES = sorted((ROOT / "electra_tf").rglob("*.py"))
SCRIPTS = sorted((ROOT / "scripts").glob("*.py"))


def _functions(path: pathlib.Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_files_and_functions_stay_short():
    for path in SOURCES + SCRIPTS:
        lines = path.read_text().count("\n")
        assert lines <= 500, f"{path.name} has {lines} lines: two ideas?"
        for function in _functions(path):
            length = function.end_lineno - function.lineno + 1
            most = 90 if ast.get_docstring(function) else 60
            assert length <= most, f"{path}: {function.name}, {length} lines"


def test_examples_in_docstrings_run():
    for path in SOURCES:
        if ">>> " not in path.read_text():
            continue
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        results = doctest.testmod(importlib.import_module(name))
        assert results.attempted > 0, name
        assert results.failed == 0, name


def test_every_script_answers_help():
    # `recompute_addons` runs where tensorflow-addons is, and nowhere else.
    names = [p.stem for p in SCRIPTS if p.stem != "recompute_addons"]
    commands = [(name, "--help") for name in names]
    for name, shown in zip(
        names, script_modules.run_in_forks(commands), strict=True
    ):
        assert shown.returncode == 0, (name, shown.stderr)
        assert name in shown.stdout or "flags" in shown.stdout


@pytest.mark.parametrize(
    "name", ["README.md", "BUILD.md", "CONTRIBUTING.md", "CHANGELOG.md"]
)
def test_files_named_in_the_documents_exist(name):
    text = (ROOT / name).read_text()
    named = re.findall(
        r"\b((?:electra_tf|configs|scripts|data|tests|docs)/[\w./-]+\.\w+)",
        text,
    )
    missing = {path for path in named if not (ROOT / path).exists()}
    assert not missing, f"{name} names files that do not exist: {missing}"
