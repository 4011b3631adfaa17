"""The embedded corpus: documentation that ships with the Python installation.

It holds the language reference in `pydoc_data`, and docstrings of the standard
library and of packages that we depend on. Sources are parsed, never imported.
"""

import ast
import hashlib
import importlib.metadata
import importlib.util
import inspect
import json
import os
import pathlib
import platform
import re
import sysconfig
from collections.abc import Iterator

from electra_tf import errors
from electra_tf.processes import atomic

# Packages that are not installed are left out.
_PACKAGES = "numpy", "matplotlib", "scipy", "keras", "keras_hub", "tensorflow"
_SKIPPED_FOLDERS = {"idlelib", "lib2to3", "site-packages", "test", "tests"}
PROVENANCE_FILE = "provenance.json"
_VERSION = 1  # of the rules in this file; part of the provenance
_MIN_DOCUMENT_CHARACTERS = 400

_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
_MIN_WORDS = 6
_MIN_SHARE_OF_PLAIN_WORDS = 0.75
_UNDERLINE = re.compile(r"[-=~^*+#\"'`|:. ]{3,}")
# Directives, headings, and NumPy's entries `x : array_like`.
_NO_TEXT = re.compile(
    r"\.\..*|#+ .*|(?:\w+ ){0,2}\w+:|\*{0,2}[\w`][\w.,`* ]* : .*"
)
# A bullet, and the name in `x: The input.` or `:param x: The input.`
_LABEL = re.compile(
    r"(?:(?:[*+-]|\(?\d{1,2}[.)])\s+)?"
    r"(?:(?::\w+[^:]*:|[*`'\"]{0,3}\w[\w.*`'\"]*(?: \([^)]*\))?:)\s+)?"
)
# Characters that must occur for the pattern to match, pattern, replacement.
_MARKUP = (
    ("://", re.compile(r"https?://\S*[^\s.,;:)>\]]"), ""),  # addresses
    ("](", re.compile(r"!?\[([^\]\[]+)\]\([^)]*\)"), r"\1"),  # links
    (":`", re.compile(r":[\w:.-]+:`~?([^`<]*?)(?: <[^>]*>)?`"), r"\1"),  # roles
    ("`", re.compile(r"`+([^`]*?)(?: <[^>]*>)?`+_*"), r"\1"),  # code
    ("]_", re.compile(r"(?:\s*\[\w+\]_)+"), ""),  # footnotes
    ("*", re.compile(r"(\*{1,2})(\S(?:[^*]*\S)?)\1(?!\w)"), r"\2"),  # emphasis
    ("<", re.compile(r"<\s*>"), ""),  # around an address that was removed
)
_PLAIN_WORD = re.compile(
    r"[\"'“‘(]*(?:[A-Za-z]+(?:['’/-][A-Za-z]+)*|\d+)[\"'”’)]*[.,;:!?]*[\"'”)]*"
)
_SENTENCE = re.compile(r"[\"'“(]?[A-Z].*[.!?:][\"'”)]*")
_FUNCTION_WORD = re.compile(
    r"(?<!\S)(?:a|an|and|are|as|be|by|for|from|if|in|is|it|not|of|on|or|that|the"
    r"|this|to|was|when|which|with|you)(?!\S)",
    re.IGNORECASE,
)


def installed_versions() -> dict[str, str]:
    """Returns the versions of Python and of the packages in the corpus."""
    # Some distributions have variants of their name, such as tensorflow-cpu.
    distributions = importlib.metadata.packages_distributions()
    return {
        "python_docs": str(_VERSION),
        "python": platform.python_version(),
        **{
            name: importlib.metadata.version(distributions[name][0])
            for name in _PACKAGES
            if name in distributions
        },
    }


def prepare(folder: str | os.PathLike | None = None) -> pathlib.Path:
    """Returns the folder of the corpus; builds the corpus if it is missing.

    The folder has one text file per package, with blank lines between
    documents, and `provenance.json` with versions and counts. By default it is
    in the user's cache. Raises `DataError` if the folder holds other versions.
    """
    versions = installed_versions()
    if not folder:
        cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        text = json.dumps(versions, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        name = f"python_docs-{digest}"
        folder = pathlib.Path(cache, "electra_tf", name).expanduser()
    folder = pathlib.Path(folder)
    if not folder.exists():
        with atomic.creating_folder(folder) as partial:
            _write_corpus(partial, versions)
        return folder
    provenance, received = folder / PROVENANCE_FILE, None
    if provenance.is_file():
        received = json.loads(provenance.read_text("utf-8")).get("versions")
    if received != versions:
        raise errors.DataError(
            f"{folder} exists and holds no corpus of these versions. "
            f"Expected: {versions}. Received: {received or 'other files'}. "
            "Delete it or name another folder."
        )
    return folder


def _write_corpus(folder: pathlib.Path, versions: dict[str, str]) -> None:
    seen, counts = set[str](), {}
    for name, root in _roots():
        documents = list(_documents(root, seen))
        text = "\n\n".join(documents) + "\n"
        (folder / f"{name}.txt").write_text(text, "utf-8")
        counts[f"{name}.txt"] = {
            "documents": len(documents),
            "characters": len(text),
        }
    content = json.dumps({"versions": versions, "files": counts}, indent=1)
    (folder / PROVENANCE_FILE).write_text(content + "\n", "utf-8")


def _roots() -> Iterator[tuple[str, pathlib.Path]]:
    yield "python", pathlib.Path(sysconfig.get_path("stdlib"))
    for package in _PACKAGES:
        specification = importlib.util.find_spec(package)
        if specification is not None and specification.origin:
            yield package, pathlib.Path(specification.origin).parent


def _documents(root: pathlib.Path, seen: set[str]) -> Iterator[str]:
    for path in sorted(root.rglob("*.py"), key=pathlib.Path.as_posix):
        if _SKIPPED_FOLDERS.intersection(path.relative_to(root).parts[:-1]):
            continue
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):
            continue  # templates and files for other Python versions
        lines = []
        for docstring in _docstrings(tree, path.name == "topics.py"):
            for paragraph in prose_paragraphs(docstring):
                if paragraph.lower() not in seen:
                    seen.add(paragraph.lower())
                    lines.append(paragraph)
        if sum(map(len, lines)) >= _MIN_DOCUMENT_CHARACTERS:
            yield "\n".join(lines)


def _docstrings(tree: ast.Module, is_pydoc: bool) -> Iterator[str]:
    """Yields the docstrings of a module; all its strings if `is_pydoc`."""
    if is_pydoc:
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
        return
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Module | ast.ClassDef | _FUNCTIONS):
            yield ast.get_docstring(node, clean=False) or ""
        if isinstance(node, ast.Module | ast.ClassDef | ast.If | ast.Try):
            pending.extend(reversed(node.body))


def prose_paragraphs(text: str) -> list[str]:
    """Extracts the English sentences of a docstring, a line per paragraph.

    Code, tables, headings, names, types and markup are removed.
    """
    paragraphs = map(_strip_markup, _raw_paragraphs(inspect.cleandoc(text)))
    return [paragraph for paragraph in paragraphs if _is_prose(paragraph)]


def _raw_paragraphs(text: str) -> Iterator[str]:
    """Yields paragraphs and list entries, their lines joined by blanks."""
    current, last_indent = list[str](), 0
    is_code = is_doctest = False
    for line in text.split("\n"):
        content = line.strip()
        indent = len(line) - len(line.lstrip())
        if content.startswith("```"):
            is_code = not is_code
            content = ""
        elif is_code:
            continue
        is_doctest = bool(content) and (
            is_doctest or content.startswith((">>>", "In ["))
        )
        if not content or is_doctest:
            yield " ".join(current)
            current = []
            continue
        if _UNDERLINE.fullmatch(content):
            current = current[:-1]  # the line above was a heading
            continue
        rest = "" if _NO_TEXT.fullmatch(content) else _LABEL.sub("", content, 1)
        is_new, content = rest != content, rest
        # Where the indentation shrinks a new entry begins; where it grows
        # below a single short line, that line was a name or a type.
        if current and (is_new or indent < last_indent):
            yield " ".join(current)
            current = []
        elif indent > last_indent and _is_name(current):
            current = []
        if content:
            current.append(content)
        last_indent = indent
    yield " ".join(current)


def _is_name(lines: list[str]) -> bool:
    text = " ".join(lines)
    return len(lines) == 1 and len(text.split()) < 4 and text[-1] != "."


def _strip_markup(text: str) -> str:
    for required, pattern, replacement in _MARKUP:
        if required in text:
            text = pattern.sub(replacement, text)
    text = " ".join(text.split())
    return text[:1].upper() + text[1:]


def _is_prose(text: str) -> bool:
    words = text.split()
    if len(words) < _MIN_WORDS or not _SENTENCE.fullmatch(text):
        return False
    num_plain = sum(map(bool, map(_PLAIN_WORD.fullmatch, words)))
    is_plain = num_plain >= _MIN_SHARE_OF_PLAIN_WORDS * len(words)
    return is_plain and bool(_FUNCTION_WORD.search(text))
