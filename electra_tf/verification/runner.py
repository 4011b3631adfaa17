"""All checks over a reference folder, found by what is in the folder.

A reference folder has one sub-folder per kind of reference. Which cases there
are, their sizes, seeds and hyperparameters come from the files inside; a file
that is missing or damaged is a miss of its case and stops nothing else.
"""

import functools
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf

from electra_tf.verification import examples
from electra_tf.verification import fed_model
from electra_tf.verification import finetuning_classification
from electra_tf.verification import finetuning_model
from electra_tf.verification import finetuning_qa
from electra_tf.verification import finetuning_tagging
from electra_tf.verification import flops
from electra_tf.verification import forward
from electra_tf.verification import hugging_face
from electra_tf.verification import masking
from electra_tf.verification import masking_statistics
from electra_tf.verification import optimizer
from electra_tf.verification import reference
from electra_tf.verification import tokenization
from electra_tf.verification import training_steps
from electra_tf.verification.report import CheckResult

MANIFEST = "MANIFEST.sha256"
Results = list[CheckResult]
Check = Callable[[], CheckResult | Results]
Case = tuple[str, Check]
OnCase = Callable[[str], None]


class ReferenceFolderError(ValueError):
    """What was named is no reference folder, or lacks the kind asked for."""


def verify(
    golden_dir: Path, only: Sequence[str] = (), on_case: OnCase = lambda _: None
) -> Results:
    """Compares our code with every reference of a folder.

    Args:
        golden_dir: the folder.
        only: kinds to check; empty means all.
        on_case: called with the name of each case before it is checked.

    Returns:
        The lines of the report.

    Raises:
        ReferenceFolderError: if the folder does not exist or holds no known
            kind, or a kind in `only` is unknown.
    """
    known = list(KINDS)
    unknown = sorted(set(only) - set(known))
    if unknown:
        raise ReferenceFolderError(
            f"Expected kinds among {', '.join(known)}. "
            f"Received: {', '.join(unknown)}."
        )
    found = _sub_folders(golden_dir)
    if not set(found) & set(known):
        raise ReferenceFolderError(
            "Expected a folder with some of the sub-folders "
            f"{', '.join(known)}. Received: {golden_dir}, "
            + ("without any." if golden_dir.is_dir() else "not a folder.")
        )
    # Reduced-precision products of some GPUs are off by 1e-3.
    tf.config.experimental.enable_tensor_float_32_execution(False)
    results: Results = []
    others = [kind for kind in found if kind not in KINDS]
    for kind in only or [*KINDS, *others]:
        results += _check_kind(golden_dir, kind, bool(only), on_case)
    return results


def _check_kind(
    golden_dir: Path, kind: str, is_asked_for: bool, on_case: OnCase
) -> Results:
    folder = golden_dir / kind
    if kind not in KINDS:
        return [CheckResult.skipped(kind, "all", "no kind of that name")]
    results: Results = []
    missing = _missing_files(golden_dir, kind)
    if missing:
        results.append(_miss(kind, f"missing files of {MANIFEST}: {missing}"))
    if not folder.is_dir():
        if is_asked_for and not missing:
            results.append(_miss(kind, f"no folder {folder}"))
        return results or [CheckResult.skipped(kind, "all", "no such folder")]

    try:
        # Listing the cases reads files too.
        cases = list(KINDS[kind](folder))
    except (OSError, ValueError, LookupError) as error:
        return [*results, _miss(kind, f"{type(error).__name__}: {error}")]
    for name, check in cases:
        on_case(f"{kind}/{name}")
        results += _guard(kind, name, check)
    if not cases:
        results.append(_miss(kind, f"no cases in {folder}"))
    return results


def _guard(kind: str, name: str, function: Check) -> Results:
    """What a check returns, or a miss that says how it failed."""
    try:
        results = function()
    except Exception as error:
        # Whatever goes wrong in one case is this case's miss; the message
        # names the file, and the other cases still have to be seen.
        return [_miss(kind, f"{name}: {type(error).__name__}: {error}")]
    return [results] if isinstance(results, CheckResult) else results


def _miss(kind: str, what: str) -> CheckResult:
    first_line = what.strip().split("\n")[0]
    return CheckResult(kind, first_line, 0, float("inf"), 0.0)


def _sub_folders(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir() if path.is_dir())


def _missing_files(golden_dir: Path, kind: str) -> str:
    """Files of a kind that the folder's own list names but that are absent."""
    path = golden_dir / MANIFEST
    if not path.is_file():
        return ""
    names = [
        line.split(maxsplit=1)[1].removeprefix("./")
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.strip()
    ]
    absent = [
        name
        for name in names
        if name.startswith(f"{kind}/") and not (golden_dir / name).is_file()
    ]
    rest = f" and {len(absent) - 3} more" if len(absent) > 3 else ""
    return ", ".join(absent[:3]) + rest


def _tokenization_cases(folder: Path) -> Iterator[Case]:
    paths = sorted(folder.glob("*.jsonl")) or [folder / "tokenization.jsonl"]
    for path in paths:
        for mode in tokenization.MODES:
            check = tokenization.check_tokenization
            yield f"{path.stem}, {mode}", functools.partial(check, path, mode)


def _examples_cases(folder: Path) -> Iterator[Case]:
    for name in reference.read_json(folder / "info.json")["runs"]:
        yield name, functools.partial(examples.check_run, folder, name)
    for path in sorted(folder.glob("*-of-*")):
        yield path.name, functools.partial(examples.check_record_file, path)


def _masking_cases(folder: Path) -> Iterator[Case]:
    for name, check in (
        ("counts", masking.check_counts),
        ("recorded draws", masking.check_recorded_draws),
        ("own draws", masking_statistics.check_without_replacement),
        ("original's draws", masking_statistics.check_with_replacement),
    ):
        yield name, functools.partial(check, folder)


def _forward_cases(folder: Path) -> Iterator[Case]:
    for name in _sub_folders(folder):
        check = functools.partial(_check_configuration, folder / name)
        yield name, check


def _optimizer_cases(folder: Path) -> Iterator[Case]:
    for path in sorted(folder.glob("*.json")):
        yield path.stem, functools.partial(optimizer.check_case, path)


def _flops_cases(folder: Path) -> Iterator[Case]:
    for path in sorted(folder.glob("*.json")):
        yield path.stem, functools.partial(flops.check_file, path)


def _finetuning_cases(folder: Path) -> Iterator[Case]:
    parts: Mapping[str, Callable[[Path], Iterator[Case]]] = {
        "classification": finetuning_classification.list_cases,
        "tagging": finetuning_tagging.list_cases,
        "qa": finetuning_qa.list_cases,
        "model": finetuning_model.list_cases,
    }
    for name in _sub_folders(folder):
        if name in parts:
            yield from parts[name](folder / name)
    defaults = folder / "default_hyperparameters.json"
    if defaults.is_file():
        check = functools.partial(
            finetuning_classification.check_defaults, defaults
        )
        yield "default hyperparameters", check


KINDS: Mapping[str, Callable[[Path], Iterator[Case]]] = {
    "tokenization": _tokenization_cases,
    "examples": _examples_cases,
    "masking": _masking_cases,
    "optimizer": _optimizer_cases,
    "forward": _forward_cases,
    "flops": _flops_cases,
    "finetuning": _finetuning_cases,
    "huggingface": hugging_face.list_cases,
}
"""Kinds of reference, by the name of their folder, and how to list cases."""


def _check_configuration(folder: Path) -> Results:
    """Forward pass, gradients and training steps of one configuration."""
    name = folder.name
    configuration = fed_model.load_configuration(folder)
    checks: list[tuple[str, Check]] = [
        (name, functools.partial(forward.check_forward, configuration)),
        (
            f"{name}, gradients",
            functools.partial(training_steps.check_gradients, configuration),
        ),
    ]
    for run in training_steps.RUNS:
        if run in configuration.info or (folder / f"{run}.npz").is_file():
            check = functools.partial(
                training_steps.check_training, configuration, run
            )
            checks.append((f"{name}, {run}", check))
    return [
        result
        for title, check in checks
        for result in _guard(forward.KIND, title, check)
    ]
