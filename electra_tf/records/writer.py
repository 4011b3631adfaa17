"""A corpus to a dataset folder: plan, parts, shards, manifests.

    corpus --plan--> work units --processes--> parts --processes--> shards

Each arrow is a pass, which machines can share. Unfinished work lives in the
folder `.build`. The top manifest is written last: a folder that has one is
complete. The bytes depend on the corpus, the settings and the seed, not on
processes, machines or interruptions.
"""

import collections
import contextlib
import functools
import itertools
import json
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
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
from electra_tf.records import corpus as corpus_lib
from electra_tf.records import manifest as manifest_lib
from electra_tf.records import report as report_lib
from electra_tf.records import selection
from electra_tf.records import shards
from electra_tf.records.manifest import Manifest
from electra_tf.records.selection import FINGERPRINTS
from electra_tf.records.shards import BUILD_FOLDER
from electra_tf.records.shards import PARTS
from electra_tf.records.shards import SHARDS
from electra_tf.records.shards import BuildPlan
from electra_tf.records.shards import BuildSettings
from electra_tf.records.shards import build_plan

_RECORD_FILE = "build.json"
_TASK = re.compile(r"(0|[1-9]\d{0,4})/([1-9]\d{0,4})")
_NEXT = {
    FINGERPRINTS: "Now run each of them once more.",
    PARTS: "Now run --merge on one machine, or each once more, then --merge.",
    SHARDS: "Now run --merge on one machine.",
}
# By pass, what the progress line calls it, and what it counts.
_TITLES = {
    FINGERPRINTS: ("Comparing", "documents"),
    PARTS: ("Tokenizing", "tokens"),
    SHARDS: ("Writing", "examples"),
}
# Without them what is made of a unit is unfinished.
_MARKERS = {
    PARTS: shards.REPORT_FILE,
    FINGERPRINTS: selection.SIGNATURES_FILE,
}


def build_dataset(
    settings: BuildSettings,
    num_processes: int = 1,
    resume: bool = False,
    beam_options: Sequence[str] | None = None,
    merge: bool = False,
) -> dict[str, Manifest]:
    """Builds a dataset folder, or completes one; returns the splits' manifests.

    With `resume` it goes on with an interrupted build, or restores shards and
    vocabulary that were deleted; only what is missing is done again.
    `beam_options` are the command line of an Apache Beam runner that takes the
    place of local processes, see `records.beam`. `merge` completes what the
    tasks of `build_share` have made, and needs all of them.

    Raises `DataError` for a bad corpus or a folder that holds something else,
    `OSError` if files fail, `WorkerError` if a process dies.
    """
    plan = build_plan(settings)
    _check_documents(plan)
    output, record = plan.output_folder, plan.record()
    with claim_folder(output, record, resume, is_merge=merge):
        old = _finished_manifests(output)
        for split, manifest in old.items():
            for index, shard in enumerate(manifest.shards):
                shards.note_shard(plan, split, index, shard)
        if merge and not old:
            for kind in (x for x in _passes(plan) if x != SHARDS):
                _require_tasks(kind, _find_missing(plan, kind))
        if not old or _list_missing(plan, SHARDS):
            with _open_pool(plan, num_processes, beam_options) as pool:
                for kind in _passes(plan):
                    _run_pass(plan, pool, kind, _list_missing(plan, kind))
                    if kind == FINGERPRINTS:
                        selection.choose_copies(plan)
            reports = shards.load_reports(plan)
            for split in plan.num_shards:
                _save_split(plan, split, record, reports, old.get(split))
            plan.vocabulary.save(output)
            manifest_lib.save_index(output, record, report_lib.describe(plan))
        else:  # it may be missing too
            plan.vocabulary.save(output)
    _release_folder(output)
    return _finished_manifests(output)


def build_share(
    settings: BuildSettings,
    task: str,
    num_processes: int = 1,
    beam_options: Sequence[str] | None = None,
) -> str:
    """Makes one task's share of the present pass; returns what comes next.

    `task` is "3/64" for number 3 of the tasks 0 to 63, on as many machines.
    What it has made already is not made again. When all tasks have ended, the
    next pass begins with another call of each, or `build_dataset` with `merge`
    does all that is left. Raises what `build_dataset` raises.
    """
    match = _TASK.fullmatch(task)
    number, count = map(int, match.groups()) if match else (0, 0)
    if number >= count:
        raise errors.DataError(
            "A task must be NUMBER/COUNT, with numbers from 0 to COUNT - 1, "
            f"for example 3/64. Received: {task}."
        )
    plan = build_plan(settings)
    _check_documents(plan)
    with _claim_share(plan, number, count) as folder:
        for kind in _passes(plan):
            is_ours = task in _find_missing(plan, kind)
            if is_ours:
                todo = _list_missing(plan, kind, number, count)
                with _open_pool(plan, num_processes, beam_options) as pool:
                    _run_pass(plan, pool, kind, todo)
                made = schema.to_json(plan.record())
                atomic.write_text(folder / f"{kind}.json", made)
            missing = _find_missing(plan, kind)
            if is_ours and missing:
                return f"Task {task} has made its {kind}; missing: {missing}."
            _require_tasks(kind, missing)
            if kind == FINGERPRINTS:
                selection.choose_copies(plan)
            if is_ours:
                break
    return f"All {count} tasks have made their {kind}. {_NEXT[kind]}"


@contextlib.contextmanager
def _claim_share(
    plan: BuildPlan, number: int, count: int
) -> Iterator[pathlib.Path]:
    """Yields the task's own folder, which it alone holds."""
    output, build_folder = plan.output_folder, plan.output_folder / BUILD_FOLDER
    is_finished = (output / manifest_lib.MANIFEST_FILE).is_file()
    _check_folder(output, plan.record(), resume=not is_finished)
    task_folder = build_folder / "tasks" / f"{number:05d}-of-{count:05d}"
    with locks.hold(build_folder, is_shared=True), locks.hold(task_folder):
        _prepare_folder(build_folder, plan.record())
        yield task_folder


def _prepare_folder(folder: pathlib.Path, record: Mapping[str, Any]) -> None:
    (folder / SHARDS).mkdir(parents=True, exist_ok=True)
    if not (folder / _RECORD_FILE).is_file():
        atomic.write_text(folder / _RECORD_FILE, json.dumps(record))


def _find_missing(plan: BuildPlan, kind: str) -> list[str]:
    """The tasks that have not finished a pass; refuses foreign ones."""
    folder, missing = plan.output_folder / BUILD_FOLDER / "tasks", []
    found = {int(path.name[-5:]) for path in folder.glob("*-of-*")}
    if len(found) != 1:
        raise errors.DataError(
            f"{folder} must hold folders of tasks of one COUNT. Received: "
            f"counts {sorted(found)}. Run all tasks, or delete the folders of "
            "the count that you do not want; what they have made is used."
        )
    (count,) = found
    for number in range(count):
        marker = folder / f"{number:05d}-of-{count:05d}" / f"{kind}.json"
        is_done = marker.is_file()
        record = schema.read_object(marker, errors.DataError) if is_done else {}
        differences = schema.find_differences(record, plan.record())
        if is_done and differences:
            raise errors.DataError(
                f"Task {number}/{count} was built otherwise. Its values and "
                f"yours: {'; '.join(differences)}. Take its values; or delete "
                f"{marker.parent} and run the task again with yours."
            )
        if not is_done or _list_missing(plan, kind, number, count):
            missing.append(f"{number}/{count}")
    return missing


def _require_tasks(kind: str, missing: list[str]) -> None:
    if missing:
        raise errors.DataError(
            f"{len(missing)} tasks have not finished the pass of {kind}: "
            f"{', '.join(missing)}. Run them, or bring here all that they have "
            "made in .build."
        )


@contextlib.contextmanager
def claim_folder(
    output: pathlib.Path,
    record: Mapping[str, Any],
    resume: bool,
    is_merge: bool = False,
) -> Iterator[None]:
    """Makes the folder for unfinished work, for one build at a time.

    If the block fails, its work stays for a later `resume`; unless tasks made
    it, not after a ValueError: a build from wrong input cannot be completed.
    """
    _check_folder(output, record, resume, is_merge)
    build_folder = output / BUILD_FOLDER
    with locks.hold(build_folder):
        _prepare_folder(build_folder, record)
        splits = [output / split for split in manifest_lib.SPLITS]
        for folder in (output, build_folder, *build_folder.glob("*"), *splits):
            atomic.remove_partial(folder)
        try:
            yield
        except BaseException as error:
            has_work = any(build_folder.glob("*/*"))
            if not has_work or (isinstance(error, ValueError) and not is_merge):
                _release_folder(output)
            raise


def _check_folder(
    output: pathlib.Path,
    record: Mapping[str, Any],
    resume: bool,
    is_merge: bool = False,
) -> None:
    """Raises unless the folder is free, or may be resumed."""
    build_file = output / BUILD_FOLDER / _RECORD_FILE
    names = sorted(path.name for path in output.glob("*"))
    if manifest_lib.MANIFEST_FILE in names:
        found, state = manifest_lib.Index.load(output).build, "a dataset"
    elif build_file.is_file() and is_merge:
        return  # what was made otherwise is named by its task
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
    if differences or not (resume or is_merge):
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
    splits = manifest_lib.Index.load(output).splits
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
            elif task.kind == FINGERPRINTS:
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


def _passes(plan: BuildPlan) -> list[str]:
    return [*[FINGERPRINTS] * bool(plan.settings.selection), PARTS, SHARDS]


def _list_missing(
    plan: BuildPlan, kind: str, number: int = 0, count: int = 1
) -> list[int]:
    """What is not made of a pass, or of a task's share: units or shards."""
    total = len(plan.all_shards if kind == SHARDS else plan.units)
    share = range(total * number // count, total * (number + 1) // count)
    if kind == SHARDS:
        places = plan.all_shards
        return [i for i in share if not shards.find_shard(plan, *places[i])]
    marker = _MARKERS[kind]
    return [
        i for i in share if not (plan.part_folder(i, kind) / marker).is_file()
    ]


def _run_pass(plan: BuildPlan, pool: Any, kind: str, todo: list[int]) -> None:
    """Makes units into what is asked, or all units' parts into shards."""
    if kind == SHARDS:
        reports = shards.load_reports(plan)
        # Every shard needs an example.
        sizes = {
            split: sum(each.num_examples[split] for each in reports)
            for split in plan.num_shards
        }
        _require_examples(plan, sizes)
        places = [plan.all_shards[index] for index in todo]
        tasks = [_shard_task(plan, reports, *place) for place in places]
        total = sum(sizes.values()) * len(todo) // len(plan.all_shards)
    else:
        units = [plan.units[index] for index in todo]
        tasks = [
            shards.Task(f"work unit {i} (from {unit[0].name})", i, kind=kind)
            for i, unit in zip(todo, units, strict=True)
        ]
        total = sum(each.num_bytes for unit in units for each in unit)
    if tasks:
        title, unit_name = _TITLES[kind]
        with progress.WorkProgress(title, total, unit_name) as line:
            collections.deque(pool.run(tasks, line.advance), maxlen=0)


def _shard_task(
    plan: BuildPlan, reports: list[shards.PartReport], split: str, index: int
) -> shards.Task:
    # Example k of the corpus goes to shard k modulo n. With f examples before
    # it, a part gives shard s its examples number s - f modulo n.
    sizes = [report.num_examples[split] for report in reports]
    firsts = np.cumsum([0, *sizes[:-1]])
    residues = ((index - firsts) % plan.num_shards[split]).tolist()
    return shards.Task(f"{split} shard {index}", index, split, tuple(residues))


def _check_documents(plan: BuildPlan) -> None:
    """Raises if a split gets no document; reads until each has one."""
    counts = dict.fromkeys(plan.num_shards, 0)
    for source in itertools.chain.from_iterable(plan.units):
        is_continued = False
        for document in corpus_lib.open_source(source, plan.corpus.options):
            if not is_continued:
                split = shards.choose_split(plan, document)
                counts[split] = plan.num_shards[split]
            if all(counts.values()):
                return
            is_continued = document.is_continued
    _require_examples(plan, counts)


def _require_examples(plan: BuildPlan, sizes: Mapping[str, int]) -> None:
    for split, num_shards in plan.num_shards.items():
        if sizes[split] < num_shards:
            raise errors.DataError(
                f"The corpus gives {sizes[split]} {split} examples for "
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
    atomic.save_array(counts_path, shards.load_token_counts(plan, split))
    counters = (collections.Counter(each.invalid_utf8) for each in reports)
    manifest = Manifest(
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
        invalid_utf8=dict(sum(counters, collections.Counter())),
    )
    path = folder / manifest_lib.MANIFEST_FILE
    atomic.write_text(path, schema.to_json(manifest))
