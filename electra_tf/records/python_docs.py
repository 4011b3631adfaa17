"""The embedded corpus: documentation that ships with the Python installation.

Several megabytes of technical English that are on every machine where this
package runs: the language reference inside `pydoc_data`, the docstrings of the
standard library and those of the packages that the project depends on. Sources
are parsed, never imported. The result depends only on the installed versions,
which are recorded with it.
"""

import ast
import contextlib
import gc
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import platform
import sysconfig
from collections.abc import Iterator

from electra_tf import errors
from electra_tf.records.atomic import creating_folder
from electra_tf.records.docstring_text import prose_paragraphs

# Import name and distribution name; packages that are absent are left out.
_PACKAGES = (
    ("numpy", "numpy"),
    ("matplotlib", "matplotlib"),
    ("scipy", "scipy"),
    ("keras", "keras"),
    ("keras_hub", "keras-hub"),
    ("tensorflow", "tensorflow"),
)
_SKIPPED_FOLDERS = frozenset(
    {"__pycache__", "idlelib", "lib2to3", "site-packages", "test", "tests"}
)
PROVENANCE_FILE = "provenance.json"
_VERSION = (
    1  # of the rules below and in `docstring_text.py`; part of the provenance
)
_MIN_DOCUMENT_CHARACTERS = 400


def default_folder() -> pathlib.Path:
    """Returns where `prepare` keeps the corpus of the present versions."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    versions = json.dumps(installed_versions(), sort_keys=True)
    digest = hashlib.sha256(versions.encode()).hexdigest()[:12]
    name = f"python_docs-{digest}"
    return pathlib.Path(cache, "electra_tf", name).expanduser()


def installed_versions() -> dict[str, str]:
    """Returns the versions of everything that is harvested."""
    versions = {
        "python_docs": str(_VERSION),
        "python": platform.python_version(),
    }
    for package, distribution in _PACKAGES:
        if importlib.util.find_spec(package) is not None:
            versions[package] = _distribution_version(distribution)
    return versions


def prepare(folder: str | os.PathLike | None = None) -> pathlib.Path:
    """Returns a folder that holds the corpus; harvests it if need be.

    Args:
      folder: where to put it; None for `default_folder()`.

    Returns:
      The folder: one text file per package, blank lines between documents,
      and `provenance.json` with versions and counts.

    Raises:
      DataError: if the folder holds something else.
    """
    folder = pathlib.Path(folder) if folder else default_folder()
    versions = installed_versions()
    if folder.exists():
        provenance = folder / PROVENANCE_FILE
        found = {}
        if provenance.is_file():
            found = json.loads(provenance.read_text("utf-8")).get("versions")
        if found != versions:
            raise errors.DataError(
                f"{folder} exists and holds no corpus of these versions. "
                f"Expected: {versions}. Received: {found or 'other files'}. "
                "Delete it or name another folder."
            )
        return folder
    with creating_folder(folder) as partial, _without_garbage_collection():
        _write_corpus(partial, versions)
    return folder


@contextlib.contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Keeps Python from searching the syntax trees for cycles meanwhile.

    They have none, and the search takes a quarter of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _write_corpus(folder: pathlib.Path, versions: dict[str, str]) -> None:
    """Writes one text file per package, and the provenance."""
    seen: set[bytes] = set()
    counts = {}
    for name, root in _roots():
        documents = ["\n".join(lines) for lines in _documents(root, seen)]
        text = "\n\n".join(documents) + "\n"
        (folder / f"{name}.txt").write_text(text, "utf-8")
        counts[f"{name}.txt"] = {
            "documents": len(documents),
            "characters": len(text),
        }
    (folder / PROVENANCE_FILE).write_text(
        json.dumps({"versions": versions, "files": counts}, indent=1) + "\n",
        "utf-8",
    )


def _roots() -> Iterator[tuple[str, pathlib.Path]]:
    """Yields name and folder of each package to harvest."""
    yield "python", pathlib.Path(sysconfig.get_path("stdlib"))
    for package, _ in _PACKAGES:
        specification = importlib.util.find_spec(package)
        if specification is not None and specification.origin:
            yield package, pathlib.Path(specification.origin).parent


def _documents(root: pathlib.Path, seen: set[bytes]) -> Iterator[list[str]]:
    """Yields one document per module: paragraphs that were not seen before.

    Args:
      root: the package's folder.
      seen: digests of all earlier paragraphs; extended.
    """
    for path in _source_files(root):
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):
            continue  # templates and files for other Python versions
        lines = []
        for docstring in _docstrings(tree, path.name == "topics.py"):
            for paragraph in prose_paragraphs(docstring):
                key = hashlib.blake2b(
                    paragraph.lower().encode(), digest_size=12
                ).digest()
                if key not in seen:
                    seen.add(key)
                    lines.append(paragraph)
        if sum(map(len, lines)) >= _MIN_DOCUMENT_CHARACTERS:
            yield lines


def _source_files(root: pathlib.Path) -> list[pathlib.Path]:
    """Returns the Python files below a folder, tests left out, sorted."""
    paths = []
    for folder, subfolders, files in os.walk(root):
        subfolders[:] = [
            name for name in subfolders if name not in _SKIPPED_FOLDERS
        ]
        paths += [
            pathlib.Path(folder, file) for file in files if file[-3:] == ".py"
        ]
    return sorted(paths, key=lambda path: path.relative_to(root).as_posix())


def _docstrings(tree: ast.Module, is_pydoc: bool) -> Iterator[str]:
    """Yields the docstrings of a module, in the order of the source.

    Args:
      tree: the parsed module.
      is_pydoc: whether all long texts count: `pydoc_data.topics` is one
        dictionary of them.
    """
    if is_pydoc:
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
        return
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(
            node,
            ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef,
        ):
            docstring = ast.get_docstring(node, clean=False)
            if docstring:
                yield docstring
        # Functions inside functions are seldom documented: not searched.
        if isinstance(node, ast.Module | ast.ClassDef | ast.If | ast.Try):
            pending.extend(reversed(node.body))


def _distribution_version(distribution: str) -> str:
    """Returns a distribution's version; some have variants of their name."""
    for name in (distribution, f"{distribution}-cpu", f"{distribution}-tpu"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "unknown"
