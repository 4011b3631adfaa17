"""The folders are stages, and imports go one way."""

import ast
import graphlib
import os
import pathlib
import re
import subprocess
import sys

PACKAGE = pathlib.Path(__file__).parent.parent / "electra_tf"
_PAGE = PACKAGE.parent / "CONTRIBUTING.md"
# `errors < ... < scripts` of the page; `import electra_tf` means all of it.
ORDER = re.findall(r"\b(\w+)\s+<", _PAGE.read_text("utf-8"))


def _name(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


MODULES = {_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def _imports(path):
    """The modules of the package that a file imports, at any depth."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                names.add(name if name in MODULES else node.module)
    return names & {*MODULES}


def _stage(name):
    stage = name.split(".")[1] if "." in name else ""
    return ORDER.index(stage) if stage else len(ORDER)


def test_a_module_imports_only_from_its_own_stage_or_earlier():
    late = [
        f"{name} imports {other}"
        for name, path in MODULES.items()
        for other in _imports(path)
        if _stage(other) > _stage(name)
    ]
    assert not late


def test_imports_inside_a_folder_go_one_way():
    """Between its modules and sub-folders."""
    sorter = graphlib.TopologicalSorter()
    for name, path in MODULES.items():
        for other in _imports(path):
            both = name.split("."), other.split(".")
            depth = len(os.path.commonprefix(both)) + 1
            if depth <= min(map(len, both)):
                sorter.add(*(".".join(parts[:depth]) for parts in both))
    sorter.prepare()  # Raises CycleError, which names the circle.


def test_importing_the_package_does_not_import_tensorflow():
    code = (
        "import sys, electra_tf, electra_tf.config; "
        "sys.exit('tensorflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
