"""A corpus to a dataset folder: plan, parts, shards, manifests.

    corpus --plan--> work units --processes--> parts --processes--> shards

Unfinished work lives in the folder `.build`. The top manifest is written last:
a folder that has one is complete. The bytes depend on the corpus, the settings
and the seed, not on processes or interruptions.
"""

import collections
import contextlib
import functools
import json
import pathlib
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np

from electra_tf import errors
from electra_tf import installed
from electra_tf import storage
from electra_tf.config import schema
from electra_tf.processes import atomic
from electra_tf.processes import locks
from electra_tf.processes import pool as pool_lib
from electra_tf.processes import progress
from electra_tf.records import manifest as manifest_lib
from electra_tf.records import report as report_lib
from electra_tf.records import selection
from electra_tf.records import shards
from electra_tf.records.manifest import Manifest
from electra_tf.records.shards import BUILD_FOLDER
from electra_tf.records.shards import BuildPlan
from electra_tf.records.shards import BuildSettings
from electra_tf.records.shards import build_plan

_RECORD_FILE = "build.json"
_MARKERS = {
    "parts": shards.REPORT_FILE,
    selection.FINGERPRINTS: selection.SIGNATURES_FILE,
}


def build_dataset(
    settings: BuildSettings,
    num_processes: int = 1,
    resume: bool = False,
    beam_options: Sequence[str] | None = None,
) -> dict[str, Manifest]:
    """Builds a dataset folder, or completes one; returns the splits' manifests.

    With `resume` it goes on with an interrupted build, or restores shards that
    were deleted; only what is missing is done again. `beam_options` are the
    command line of an Apache Beam runner that takes the place of local
    processes, see `records.beam`.

    Raises `DataError` for a bad corpus or a folder that holds something else,
    `OSError` if files fail, `WorkerError` if a process dies.
    """
    plan = build_plan(settings)
    output, record = plan.output_folder, plan.record()
    with claim_folder(output, record, resume):
        old = _finished_manifests(output)
        for split, manifest in old.items():
            for index, shard in enumerate(manifest.shards):
                shards.note_shard(plan, split, index, shard)
        if not old or _missing_shards(plan):
            with _open_pool(plan, num_processes, beam_options) as pool:
                if (
                    settings.selection
                    and not (
                        plan.copies_folder / selection.COPIES_FILE
                    ).is_file()
                ):
                    kind = selection.FINGERPRINTS
                    _run_units(plan, pool, kind, "Comparing", "documents")
                    selection.choose_copies(plan)
                reports = _make_parts(plan, pool)
                _check_counts(plan, reports)
                _make_shards(plan, pool, reports)
            for split in plan.num_shards:
                _save_split(plan, split, record, reports, old.get(split))
            plan.vocabulary.save(output)
            manifest_lib.save_index(output, record, report_lib.describe(plan))
    _release_folder(output)
    return _finished_manifests(output)


@contextlib.contextmanager
def claim_folder(
    output: pathlib.Path, record: Mapping[str, Any], resume: bool
) -> Iterator[None]:
    """Makes the folder for unfinished work, for one build at a time.

    If the block fails, its work stays for a later `resume`; except after a
    ValueError, since a build from wrong input cannot be completed.
    """
    _check_folder(output, record, resume)
    build_folder = output / BUILD_FOLDER
    with locks.hold(build_folder):
        parts = build_folder / "parts", build_folder / "shards"
        splits = [output / split for split in manifest_lib.SPLITS]
        for folder in parts:
            folder.mkdir(parents=True, exist_ok=True)
        for folder in (output, build_folder, *parts, *splits):
            atomic.remove_partial(folder)
        with atomic.replacing_file(build_folder / _RECORD_FILE) as partial:
            partial.write_text(json.dumps(record), "utf-8")
        try:
            yield
        except BaseException as error:
            has_work = any(build_folder.glob("*/*"))
            if isinstance(error, ValueError) or not has_work:
                _release_folder(output)
            raise


def _check_folder(
    output: pathlib.Path, record: Mapping[str, Any], resume: bool
) -> None:
    """Raises unless the folder is free, or may be resumed."""
    build_file = output / BUILD_FOLDER / _RECORD_FILE
    names = sorted(path.name for path in output.glob("*"))
    if manifest_lib.MANIFEST_FILE in names:
        found, state = manifest_lib.load_index(output)["build"], "a dataset"
    elif build_file.is_file():
        found = json.loads(build_file.read_text("utf-8"))
        state = "an unfinished dataset"
    elif output.is_file() or names not in ([], [BUILD_FOLDER]):
        raise errors.DataError(
            f"{output} is a file or holds other files: {names[:5]}. Name a new "
            "folder, or empty this one yourself."
        )
    else:
        return
    differences = "; ".join(schema.find_differences(found, record))
    how = "with these settings. Use --resume to complete it"
    if differences:
        how = f"built otherwise. Its values and yours: {differences}"
    if differences or not resume:
        raise errors.DataError(
            f"{output} holds {state} {how}. Name another folder, or delete "
            "this one."
        )


def _release_folder(output: pathlib.Path) -> None:
    """Removes the folder for unfinished work, and what is empty without it."""
    storage.remove_folder(output / BUILD_FOLDER)
    for folder in (*(output / split for split in manifest_lib.SPLITS), output):
        with contextlib.suppress(OSError):
            folder.rmdir()


def _finished_manifests(output: pathlib.Path) -> dict[str, Manifest]:
    """The manifests of a dataset that was completed once."""
    if not (output / manifest_lib.MANIFEST_FILE).is_file():
        return {}
    splits = manifest_lib.load_index(output)["splits"]
    return {split: Manifest.load(output / split) for split in splits}


def _open_pool(
    plan: BuildPlan, num_processes: int, beam_options: Sequence[str] | None
) -> Any:
    """What runs the tasks: a `ProcessPool`, or one like it on Beam."""
    start = functools.partial(_start_worker, plan)
    if beam_options is None:
        return pool_lib.ProcessPool(start, num_processes)
    installed.import_extra("apache_beam", "beam")
    from electra_tf.records.beam import BeamPool

    return BeamPool(start, beam_options)


def _start_worker(plan: BuildPlan) -> pool_lib.Handler:
    """Returns the function that does a task in a worker process."""
    pool_lib.limit_threads()

    def handle(task: shards.Task, report: pool_lib.Report) -> None:
        import tensorflow as tf

        report(0, 0)
        try:
            if task.split:
                shards.write_shard(plan, task, report)
            elif task.kind == selection.FINGERPRINTS:
                selection.write_fingerprints(plan, task, report)
            else:
                tokenize = shards.load_tokenizer(plan.vocabulary)
                shards.build_part(plan, task, tokenize, report)
        except (OSError, tf.errors.OpError) as error:
            raise OSError(
                f"Building {task} failed: {error}. Nothing unfinished was "
                "left under a final name. Check the disk of "
                f"{plan.output_folder} and run again with --resume."
            ) from error

    return handle


def _make_parts(plan: BuildPlan, pool: Any) -> list[shards.PartReport]:
    """Makes the parts that are missing; returns the counts of all parts."""
    _run_units(plan, pool, "parts", "Tokenizing", "tokens")
    return [shards.load_report(plan, i) for i in range(len(plan.units))]


def _run_units(
    plan: BuildPlan, pool: Any, kind: str, title: str, unit_name: str
) -> None:
    """Makes what is missing of a kind, a task for each work unit."""
    tasks = [
        shards.Task(f"work unit {i} (from {unit[0].name})", i, kind=kind)
        for i, unit in enumerate(plan.units)
        if not (plan.part_folder(i, kind) / _MARKERS[kind]).is_file()
    ]
    num_bytes = sum(
        source.num_bytes for task in tasks for source in plan.units[task.index]
    )
    _run_tasks(pool, tasks, title, num_bytes, unit_name)


def _make_shards(
    plan: BuildPlan, pool: Any, reports: list[shards.PartReport]
) -> None:
    """Makes the shards that are missing."""
    tasks = []
    for split, index in _missing_shards(plan):
        # Example k of the corpus goes to shard k modulo n. With f examples
        # before it, a part gives shard s its examples number s - f modulo n.
        sizes = [report.num_examples[split] for report in reports]
        firsts = np.cumsum([0, *sizes[:-1]])
        residues = ((index - firsts) % plan.num_shards[split]).tolist()
        title = f"{split} shard {index}"
        tasks.append(shards.Task(title, index, split, tuple(residues)))
    total = sum(sum(report.num_examples.values()) for report in reports)
    total = total * len(tasks) // sum(plan.num_shards.values())
    _run_tasks(pool, tasks, "Writing", total, "examples")


def _run_tasks(
    pool: Any, tasks: Sequence[Any], title: str, total: int, unit: str
) -> None:
    if tasks:
        with progress.WorkProgress(title, total, unit) as line:
            collections.deque(pool.run(tasks, line.advance), maxlen=0)


def _missing_shards(plan: BuildPlan) -> list[tuple[str, int]]:
    """Split and number of the shards that are not finished."""
    return [
        (split, index)
        for split, num_shards in plan.num_shards.items()
        for index in range(num_shards)
        if shards.find_shard(plan, split, index) is None
    ]


def _check_counts(plan: BuildPlan, reports: list[shards.PartReport]) -> None:
    """Raises unless every shard gets an example."""
    for split, num_shards in plan.num_shards.items():
        num_examples = sum(each.num_examples[split] for each in reports)
        if num_examples < num_shards:
            raise errors.DataError(
                f"The corpus gives {num_examples} {split} examples for "
                f"{num_shards} shards. Use more text, or change num_out_files "
                f"or validation_fraction ({plan.settings.validation_fraction}):"
                " higher where documents are few, 0 to hold none out."
            )


def _save_split(
    plan: BuildPlan,
    split: str,
    record: dict[str, Any],
    reports: list[shards.PartReport],
    old: Manifest | None,
) -> None:
    """Writes the token counts and the manifest of one split.

    Raises if a restored shard is not what it was, and removes it.
    """
    folder = plan.output_folder / split
    indices = range(plan.num_shards[split])
    found = [shards.find_shard(plan, split, index) for index in indices]
    written = tuple(filter(None, found))
    for before, after in zip(old.shards if old else (), written, strict=False):
        if before != after:
            (folder / after.name).unlink()
            raise errors.DataError(
                f"The restored {split} shard {before.name} differs from the "
                "one in the manifest: the corpus's content has changed. Build "
                "a new dataset in another folder."
            )
    counts_path = folder / manifest_lib.TOKEN_COUNTS_FILE
    counts = shards.load_token_counts(plan, split)
    with (
        atomic.replacing_file(counts_path) as partial,
        partial.open("wb") as stream,
    ):
        np.save(stream, counts)
    invalid_utf8: collections.Counter[str] = collections.Counter()
    for report in reports:
        invalid_utf8.update(report.invalid_utf8)
    Manifest(
        split=split,
        **record,
        num_documents=sum(each.num_documents[split] for each in reports),
        num_corpus_tokens=sum(
            each.num_corpus_tokens[split] for each in reports
        ),
        num_examples=sum(shard.num_examples for shard in written),
        num_tokens=sum(shard.num_tokens for shard in written),
        shards=written,
        token_counts=counts_path.name,
        invalid_utf8=dict(invalid_utf8),
    ).save(folder)
