"""All checks of a reference folder, found by what is in the folder.

A reference folder has one sub-folder per kind of reference. Which cases there
are, their sizes, seeds and hyperparameters come from the files inside; a file
that is missing or damaged is a miss of its case and stops nothing else.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

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


class Case(NamedTuple):
    """Something to compare.

    Attributes:
        kind: part of the reference data, the name of its folder.
        name: of the case.
        check: yields the lines of the table.
        arguments: of the check.
    """

    kind: str
    name: str
    check: Callable
    arguments: tuple

    def run(self):
        """The lines of the table; a check that fails ends with a miss."""
        # Reduced-precision products of some GPUs are off by 1e-3.
        tf.config.experimental.enable_tensor_float_32_execution(False)
        lines = list(guard(self.name, self.check, *self.arguments))
        for line in lines:
            line.kind = self.kind
        return lines


def list_cases(root, only=()):
    """The cases of a reference folder.

    Args:
        root: with one sub-folder per kind.
        only: kinds to check; empty means all.

    Raises:
        ValueError: if the folder does not exist or holds no known kind, or
            if a kind in `only` is unknown.
    """
    known = ", ".join(KINDS)
    unknown = sorted({*only} - {*KINDS})
    if unknown:
        raise ValueError(
            f"Expected kinds among {known}. Received: {', '.join(unknown)}."
        )
    found = [path.name for path in _sub_folders(root)]
    if not {*found} & {*KINDS}:
        raise ValueError(
            f"Expected a folder with some of the sub-folders {known}. "
            f"Received: {root}, "
            + ("without any." if root.is_dir() else "not a folder.")
        )
    for kind in only or [
        *KINDS,
        *(name for name in found if name not in KINDS),
    ]:
        for name, check, *arguments in _list_kind(root, kind, bool(only)):
            yield Case(kind, name, check, tuple(arguments))


def _list_kind(root, kind, is_asked_for):
    if kind not in KINDS:
        yield _single_line("all", skipped="no kind of that name")
        return
    folder, missing = root / kind, _missing_files(root, kind)
    if missing:
        yield _single_line(f"missing files of {MANIFEST}: {missing}")
    elif is_asked_for and not folder.is_dir():
        yield _single_line(f"no folder {folder}")
    elif not folder.is_dir():
        yield _single_line("all", skipped="no such folder")
    if folder.is_dir():
        try:
            cases = list(KINDS[kind](folder))
        except Exception as error:
            # Listing the cases reads files too.
            yield _single_line(f"{type(error).__name__}: {error}")
        else:
            yield from cases or [_single_line(f"no cases in {folder}")]


def _single_line(text, skipped=""):
    return text, lambda: [Line(text, skipped=skipped)]


def _sub_folders(folder):
    return sorted(path for path in folder.glob("*") if path.is_dir())


def _missing_files(root, kind):
    """Files of a kind that the folder's own list names but that are absent."""
    path = root / MANIFEST
    if not path.is_file():
        return ""
    lines = path.read_text(encoding="utf-8").splitlines()
    names = [
        line.split(maxsplit=1)[1].removeprefix("./") for line in lines if line
    ]
    absent = [
        name
        for name in names
        if name.startswith(f"{kind}/") and not (root / name).is_file()
    ]
    rest = f" and {len(absent) - 3} more" if len(absent) > 3 else ""
    return ", ".join(absent[:3]) + rest


def _list_files(check):
    return lambda folder: [
        (path.stem, check, path) for path in sorted(folder.glob("*.json"))
    ]


def _list_configurations(folder):
    for path in _sub_folders(folder):
        yield path.name, forward.check_configuration, path


_FINETUNING = {
    "classification": classification.list_cases,
    "tagging": tagging.list_cases,
    "qa": question_answering.list_cases,
    "model": model.list_cases,
}


def _list_finetuning(folder):
    for path in _sub_folders(folder):
        if path.name in _FINETUNING:
            yield from _FINETUNING[path.name](path)
        else:
            yield _single_line(path.name, skipped="no part of that name")
    defaults = folder / classification.DEFAULTS
    if defaults.is_file():
        yield defaults.name, classification.check_defaults, defaults


# Kinds of reference, by the name of their folder, and what lists their cases:
# name, check and the check's arguments.
KINDS = {
    "tokenization": tokenization.list_cases,
    "examples": examples.list_cases,
    "masking": masking.list_cases,
    "optimizer": _list_files(optimizer.check_case),
    "forward": _list_configurations,
    "flops": _list_files(flops.check_file),
    "finetuning": _list_finetuning,
    "huggingface": hugging_face.list_cases,
}
