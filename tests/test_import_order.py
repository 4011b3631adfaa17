"""The folders are stages, and imports go one way."""

import ast
import pathlib
import re
import subprocess
import sys

PACKAGE = pathlib.Path(__file__).parent.parent / "electra_tf"
_PAGE = PACKAGE.parent / "CONTRIBUTING.md"
# `errors < ... < analysis < scripts` of the page.
ORDER = re.findall(r"\b(\w+)\s+<", _PAGE.read_text("utf-8"))
MODULES = sorted({*PACKAGE.rglob("*.py")} - {PACKAGE / "__init__.py"})


def _is_for_types(node: ast.stmt) -> bool:
    text = ast.unparse(node.test) if isinstance(node, ast.If) else ""
    return text.endswith("TYPE_CHECKING")


def _imports(path: pathlib.Path, with_types: bool = True) -> set[str]:
    """What a file imports of the package, at any depth."""
    tree = ast.parse(path.read_text())
    if not with_types:
        tree.body = [n for n in tree.body if not _is_for_types(n)]
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{name.name}" for name in node.names}
    return {name for name in found if name.startswith("electra_tf.")}


def _stage(path: pathlib.Path) -> int:
    return ORDER.index(path.relative_to(PACKAGE).parts[0].removesuffix(".py"))


def _name(path: pathlib.Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def test_a_module_imports_only_from_its_own_stage_or_earlier():
    late = [
        f"{path} imports {name}"
        for path in MODULES
        for name in _imports(path)
        if (stage := name.split(".")[1]) in ORDER
        and ORDER.index(stage) > _stage(path)
    ]
    assert not late


def test_no_imports_go_in_a_circle():
    """Except those for types."""
    left = {_name(path): _imports(path, False) for path in MODULES}
    users = True
    while users:
        users = [
            name
            for name, needs in left.items()
            if not needs & {*left}
            or not any(name in other for other in left.values())
        ]
        for name in users:
            del left[name]
    assert not left


def test_folders_and_names_are_easy_to_keep_in_mind():
    folders = {path.parent for path in MODULES}
    for folder in folders - {PACKAGE}:
        modules = [p for p in folder.glob("*.py") if p.name != "__init__.py"]
        assert len(modules) <= 12, folder
    names = {path.stem for path in MODULES}
    assert not names & {"utils", "util", "helpers", "common", "misc"}


def test_nothing_of_the_project_is_needed_from_outside():
    assert not [path for path in MODULES if "shared/" in path.read_text()]


def test_importing_the_package_does_not_import_tensorflow():
    code = (
        "import sys, electra_tf, electra_tf.config; "
        "sys.exit('tensorflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_addons_script_needs_nothing_of_this_project():
    script = PACKAGE.parent / "scripts" / "recompute_addons.py"
    lines = script.read_text().splitlines()
    names = {line.split()[1].split(".")[0] for line in lines
             if line.startswith(("import ", "from "))}  # fmt: skip
    assert not names & {"electra_tf", "keras", "absl", "ml_collections"}
