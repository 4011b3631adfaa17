"""All checks of a reference folder, found by what is in the folder.

A reference folder has one sub-folder per kind of reference. Which cases there
are, their sizes, seeds and hyperparameters come from the files inside; a file
that is missing or damaged is a miss of its case and stops nothing else.
"""

import functools
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.golden.checks import examples
from tests.golden.checks import flops
from tests.golden.checks import forward
from tests.golden.checks import hugging_face
from tests.golden.checks import masking
from tests.golden.checks import optimizer
from tests.golden.checks import tokenization
from tests.golden.checks.finetuning import classification
from tests.golden.checks.finetuning import model
from tests.golden.checks.finetuning import question_answering
from tests.golden.checks.finetuning import tagging
from tests.golden.comparison import Line
from tests.golden.comparison import guard

MANIFEST = "MANIFEST.sha256"
Check = Callable[[], Iterable[Line]]
# From the folder of a kind to the name and the check of every case in it.
Lister = Callable[[Path], Iterable[tuple[str, Check]]]


class Case(NamedTuple):
    """Something to compare.

    Attributes:
        kind: part of the reference data, the name of its folder.
        name: of the case.
        check: yields the lines of the table.
    """

    kind: str
    name: str
    check: Check

    def run(self) -> list[Line]:
        """The lines of the table; a check that fails ends with a miss."""
        lines = list(guard(self.name, self.check))
        for line in lines:
            line.kind = self.kind
        return lines


def list_cases(folder: Path, only: Sequence[str] = ()) -> Iterator[Case]:
    """The cases of a reference folder.

    Args:
        folder: with one sub-folder per kind.
        only: kinds to check; empty means all.

    Raises:
        ValueError: if the folder does not exist or holds no known kind, or
            if a kind in `only` is unknown.
    """
    unknown = sorted(set(only) - set(KINDS))
    if unknown:
        raise ValueError(
            f"Expected kinds among {', '.join(KINDS)}. "
            f"Received: {', '.join(unknown)}."
        )
    found = [path.name for path in _sub_folders(folder)]
    if not set(found) & set(KINDS):
        raise ValueError(
            f"Expected a folder with some of the sub-folders {', '.join(KINDS)}"
            f". Received: {folder}, "
            + ("without any." if folder.is_dir() else "not a folder.")
        )
    others = [kind for kind in found if kind not in KINDS]
    for kind in only or [*KINDS, *others]:
        yield from _list_cases_of_kind(folder, kind, bool(only))


def _list_cases_of_kind(
    root: Path, kind: str, is_asked_for: bool
) -> Iterator[Case]:
    def line(text: str, skipped: str = "") -> Case:
        return Case(kind, "all", lambda: [Line(text, skipped=skipped)])

    folder = root / kind
    if kind not in KINDS:
        yield line("all", skipped="no kind of that name")
        return
    missing = _missing_files(root, kind)
    if missing:
        yield line(f"missing files of {MANIFEST}: {missing}")
    if not folder.is_dir():
        if is_asked_for and not missing:
            yield line(f"no folder {folder}")
        elif not missing:
            yield line("all", skipped="no such folder")
        return
    try:
        cases = list(KINDS[kind](folder))
    except (OSError, ValueError, LookupError) as error:
        # Listing the cases reads files too.
        yield line(f"{type(error).__name__}: {error}")
        return
    for name, check in cases:
        yield Case(kind, name, check)
    if not cases:
        yield line(f"no cases in {folder}")


def _sub_folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*") if path.is_dir())


def _missing_files(root: Path, kind: str) -> str:
    """Files of a kind that the folder's own list names but that are absent."""
    manifest = root / MANIFEST
    if not manifest.is_file():
        return ""
    lines = manifest.read_text(encoding="utf-8").splitlines()
    names = [
        line.split(maxsplit=1)[1].removeprefix("./")
        for line in lines
        if line.strip()
    ]
    absent = [
        name
        for name in names
        if name.startswith(f"{kind}/") and not (root / name).is_file()
    ]
    rest = f" and {len(absent) - 3} more" if len(absent) > 3 else ""
    return ", ".join(absent[:3]) + rest


def _files(pattern: str, check: Callable[[Path], Iterable[Line]]) -> Lister:
    """One case per file of a pattern."""

    def list_files(folder: Path) -> Iterator[tuple[str, Check]]:
        for path in sorted(folder.glob(pattern)):
            yield path.stem, functools.partial(check, path)

    return list_files


def _folders(check: Callable[[Path], Iterable[Line]]) -> Lister:
    """One case per sub-folder."""

    def list_folders(folder: Path) -> Iterator[tuple[str, Check]]:
        for path in _sub_folders(folder):
            yield path.name, functools.partial(check, path)

    return list_folders


_FINETUNING: Mapping[str, Lister] = {
    "classification": classification.list_cases,
    "tagging": tagging.list_cases,
    "qa": question_answering.list_cases,
    "model": model.list_cases,
}


def _list_finetuning(folder: Path) -> Iterator[tuple[str, Check]]:
    for path in _sub_folders(folder):
        if path.name in _FINETUNING:
            yield from _FINETUNING[path.name](path)
        else:
            line = Line(path.name, skipped="no part of that name")
            yield path.name, lambda line=line: [line]
    defaults = folder / classification.DEFAULTS
    if defaults.is_file():
        check = functools.partial(classification.check_defaults, defaults)
        yield defaults.name, check


KINDS: Mapping[str, Lister] = {
    "tokenization": tokenization.list_cases,
    "examples": examples.list_cases,
    "masking": masking.list_cases,
    "optimizer": _files("*.json", optimizer.check_case),
    "forward": _folders(forward.check_configuration),
    "flops": _files("*.json", flops.check_file),
    "finetuning": _list_finetuning,
    "huggingface": hugging_face.list_cases,
}
"""Kinds of reference, by the name of their folder, and how to list cases."""
