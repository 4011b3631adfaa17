"""All checks of a reference folder, found by what is in the folder.

A file that is missing or damaged is a miss of its case and stops nothing else.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from tests.golden.checks import flops
from tests.golden.checks import forward
from tests.golden.checks import hugging_face
from tests.golden.checks import masking
from tests.golden.checks import optimizer
from tests.golden.checks import texts
from tests.golden.checks.finetuning import classification
from tests.golden.checks.finetuning import model
from tests.golden.checks.finetuning import question_answering
from tests.golden.checks.finetuning import tagging
from tests.golden.comparison import Line
from tests.golden.comparison import guard

MANIFEST = "MANIFEST.sha256"


class Case(NamedTuple):
    """Something to compare: `check(*arguments)` yields lines of the table."""

    kind: str  # part of the reference data, the name of its folder
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
    """The cases of a folder with one sub-folder per kind, or `only` of some."""
    folders = _sub_folders(root)
    if {*only} - {*KINDS} or not {*folders} & {*KINDS}:
        raise ValueError(
            f"Expected a folder with sub-folders among {', '.join(KINDS)}, and "
            f"kinds among these. Received: {root} with "
            f"{', '.join(folders) or 'none'}; kinds: "
            f"{', '.join(only) or 'all'}."
        )
    for kind in only or dict.fromkeys((*KINDS, *folders)):
        for name, check, *arguments in _list_kind(root, kind, bool(only)):
            yield Case(kind, name, check, tuple(arguments))


def _list_kind(root, kind, is_asked_for):
    if kind not in KINDS:
        yield _remark("all", skipped="no kind of that name")
        return
    folder, missing = root / kind, _missing_files(root, kind)
    if missing:
        yield _remark(f"missing files of {MANIFEST}: {', '.join(missing)}")
    if folder.is_dir():
        try:
            cases = list(KINDS[kind](folder))
        except Exception as error:
            # Listing the cases reads files too.
            cases = [_remark(f"{type(error).__name__}: {error}")]
        yield from cases or [_remark(f"no cases in {folder}")]
    elif is_asked_for:
        yield _remark(f"no folder {folder}")
    elif not missing:
        yield _remark("all", skipped="no such folder")


def _remark(text, skipped=""):
    return text, lambda: [Line(text, skipped=skipped)]


def _sub_folders(folder):
    return sorted(path.name for path in folder.glob("*") if path.is_dir())


def _missing_files(root, kind):
    """Files of a kind that the folder's own list names but that are absent."""
    path = root / MANIFEST
    text = path.read_text() if path.is_file() else ""
    names = re.findall(rf"^\S+ +(?:\./)?({kind}/.+)$", text, re.MULTILINE)
    return [name for name in names if not (root / name).is_file()]


def _list_files(check):
    return lambda folder: [
        (path.stem, check, path) for path in sorted(folder.glob("*.json"))
    ]


def _list_configurations(folder):
    for name in _sub_folders(folder):
        yield name, forward.check_configuration, folder / name


_FINETUNING = {
    "classification": classification.list_cases,
    "tagging": tagging.list_cases,
    "qa": question_answering.list_cases,
    "model": model.list_cases,
}


def _list_finetuning(folder):
    for name in _sub_folders(folder):
        if name in _FINETUNING:
            yield from _FINETUNING[name](folder / name)
        else:
            yield _remark(name, skipped="no part of that name")
    defaults = folder / classification.DEFAULTS
    if defaults.is_file():
        yield defaults.name, classification.check_defaults, defaults


# Kinds of reference, by the name of their folder, and what lists their cases:
# name, check and the check's arguments.
KINDS = {
    "tokenization": texts.list_tokenization,
    "examples": texts.list_examples,
    "masking": masking.list_cases,
    "optimizer": _list_files(optimizer.check_case),
    "forward": _list_configurations,
    "flops": _list_files(flops.check_file),
    "finetuning": _list_finetuning,
    "huggingface": hugging_face.list_cases,
}
