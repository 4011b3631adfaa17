"""The folders are stages, and imports go one way."""

import ast
import pathlib
import subprocess
import sys

import pytest

PACKAGE = pathlib.Path(__file__).parent.parent / "electra_tf"
ORDER = (
    "errors",
    "config",
    "installed",
    "command_line",
    "processes",
    "text",
    "records",
    "inputs",
    "modeling",
    "training",
    "formats",
    "pretraining",
    "tasks",
    "finetuning",
    "export",
    "electra",
    "analysis",
)


def _imports(path: pathlib.Path) -> set[str]:
    """Stages that a file imports, at any depth."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{name.name}" for name in node.names}
    parts = [name.split(".") for name in found]
    return {p[1] for p in parts if p[0] == "electra_tf" and len(p) > 1}


def _stage(path: pathlib.Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def _modules() -> list[pathlib.Path]:
    return [
        path for path in sorted(PACKAGE.rglob("*.py"))
        if path != PACKAGE / "__init__.py"
    ]  # fmt: skip


@pytest.mark.parametrize("path", _modules(), ids=lambda p: p.stem)
def test_a_module_imports_only_from_its_own_stage_or_earlier(path):
    stage = _stage(path)
    assert stage in ORDER, f"{stage} has no place in the order of the stages"
    later = {
        name for name in _imports(path)
        if name in ORDER and ORDER.index(name) > ORDER.index(stage)
    }  # fmt: skip
    assert not later, f"{path.name} ({stage}) imports from later {later}"


@pytest.mark.parametrize("path", _modules(), ids=lambda p: p.stem)
def test_no_module_is_a_drawer_for_anything(path):
    assert path.stem not in ("utils", "util", "helpers", "common", "misc")


def test_nothing_of_the_project_is_needed_from_outside():
    for path in _modules():
        assert "shared/" not in path.read_text(), path


def test_importing_the_package_does_not_import_tensorflow():
    code = (
        "import sys, electra_tf, electra_tf.config; "
        "sys.exit('tensorflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_addons_script_needs_nothing_of_this_project():
    script = PACKAGE.parent / "scripts" / "recompute_addons.py"
    tree = ast.parse(script.read_text())
    names = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module]
        )
    }
    assert not names & {"electra_tf", "keras", "absl", "ml_collections"}
