"""What the docstrings promise."""

import ast
import doctest
import importlib
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
SOURCES = sorted((ROOT / "electra_tf").rglob("*.py"))
SCRIPTS = sorted((ROOT / "scripts").glob("*.py"))


def _functions(path: pathlib.Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _documented_arguments(docstring: str) -> set[str]:
    section = re.search(
        r"^ *Args:\n((?:\n|(?: +).*\n?)*?)(?=^ *[A-Z][a-z]+:\n|\Z)",
        docstring, re.M,
    )  # fmt: skip
    if section is None:
        return set()
    lines = section.group(1).splitlines()
    first = next((line for line in lines if line.strip()), "")
    indent = len(first) - len(first.lstrip())
    names = set()
    for line in lines:
        entry = re.match(rf" {{{indent}}}(\*{{0,2}}\w+(?:, \w+)*):", line)
        if entry:
            names |= set(entry.group(1).lstrip("*").split(", "))
    return names


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.stem)
def test_documented_arguments_exist(path):
    for function in _functions(path):
        docstring = ast.get_docstring(function, clean=True) or ""
        documented = _documented_arguments(docstring + "\n")
        arguments = function.args
        known = {
            a.arg
            for a in (
                arguments.posonlyargs + arguments.args + arguments.kwonlyargs
            )
        }
        known |= {a.arg for a in (arguments.vararg, arguments.kwarg) if a}
        unknown = documented - known
        assert not unknown, f"{path.name}:{function.name} documents {unknown}"


@pytest.mark.parametrize("path", SOURCES + SCRIPTS, ids=lambda p: p.stem)
def test_files_and_functions_stay_short(path):
    lines = path.read_text().count("\n")
    assert lines <= 500, f"{path.name} has {lines} lines: two ideas?"
    for function in _functions(path):
        length = function.end_lineno - function.lineno + 1
        assert length <= 60 or ast.get_docstring(function), function.name
        assert length <= 90, f"{function.name} has {length} lines"


def _with_doctests() -> list[str]:
    return [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in SOURCES
        if ">>> " in path.read_text()
    ]


@pytest.mark.parametrize("name", _with_doctests())
def test_examples_in_docstrings_run(name):
    results = doctest.testmod(importlib.import_module(name))
    assert results.attempted > 0
    assert results.failed == 0


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.stem)
def test_every_script_answers_help(path):
    if path.stem == "recompute_addons":
        pytest.skip("runs in the tensorflow-addons environment only")
    shown = subprocess.run(
        [sys.executable, str(path), "--help"], capture_output=True, text=True
    )
    assert path.stem in shown.stdout or "flags" in shown.stdout


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
