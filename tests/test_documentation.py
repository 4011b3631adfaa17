"""Docstrings, pages and the notebook keep their promises."""

import ast
import doctest
import importlib
import json
import os
import pathlib
import re
import subprocess

import pytest

from tests import script_modules
from tests.script_modules import ROOT

SOURCES = sorted((ROOT / "electra_tf").rglob("*.py"))
SCRIPTS = sorted((ROOT / "scripts").glob("*.py"))


def test_files_and_functions_stay_short():
    for path in SOURCES + SCRIPTS:
        text = path.read_text()
        lines = text.count("\n")
        assert lines <= 500, f"{path.name} has {lines} lines: two ideas?"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = node.end_lineno - node.lineno + 1
                most = 90 if ast.get_docstring(node) else 60
                assert length <= most, f"{path}: {node.name}, {length} lines"


def test_examples_in_docstrings_run():
    for path in SOURCES:
        if ">>> " not in path.read_text():
            continue
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        results = doctest.testmod(importlib.import_module(name))
        assert results.attempted > 0, name
        assert results.failed == 0, name


def test_every_script_answers_help():
    names = [path.stem for path in SCRIPTS]
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


_COMMAND = re.compile(r"^!((?:.*\\\n)*.*)", re.MULTILINE)


@pytest.mark.slow
def test_the_first_hour(tmp_path, monkeypatch):
    """Commands behind `!` run in a shell, all else in one namespace."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.environ["PATH"])  # restored in the end
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    page = ROOT / "examples" / "first_hour.ipynb"
    notebook = json.loads(page.read_text("utf-8"))
    cells = [c for c in notebook["cells"] if c["cell_type"] == "code"]
    namespace: dict[str, object] = {}

    def run(command: str) -> None:
        filled = command.format(**namespace)
        subprocess.run(filled, shell=True, check=True)

    namespace["run_command"] = run
    for cell in cells:
        source = "".join(cell["source"])
        source = _COMMAND.sub(lambda m: f"run_command({m[1]!r})", source)
        exec(source, namespace)

    scored = namespace["scored"]
    assert scored.most_suspicious()[0].text == "of"
    answer = namespace["answer"]
    assert sum(answer.probabilities.values()) == pytest.approx(1.0, abs=1e-5)
    # The largest class has a quarter of the rows, or nearly so.
    assert namespace["model"].metadata.scores["dev"]["accuracy"] > 40
    assert pathlib.Path("hour/hugging_face/README.md").is_file()
