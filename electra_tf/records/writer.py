"""Builds a dataset folder from a corpus: plan, parts, shards, manifests.

    corpus --plan--> work units --processes--> parts --processes--> shards

The last two arrows are passes, which several machines can divide. Unfinished
work is in `.build`. The manifest at the top is written last and marks a folder
as complete. The bytes depend on the corpus, the settings and the seed, not on
processes, machines or interruptions.
"""

import collections
import contextlib
import functools
import json
import pathlib
import re
import sys
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
from electra_tf.records import selection
from electra_tf.records import shards
from electra_tf.records.manifest import TRAIN
from electra_tf.records.manifest import Manifest
from electra_tf.records.selection import FINGERPRINTS
from electra_tf.records.shards import BUILD_FOLDER
from electra_tf.records.shards import PARTS
from electra_tf.records.shards import SHARDS
from electra_tf.records.shards import BuildPlan
from electra_tf.records.shards import BuildSettings

_RECORD_FILE = "build.json"
_NEXT = {
    FINGERPRINTS: "Now run each of them once more.",
    PARTS: "Now run --merge on one machine, or each once more, then --merge.",
    SHARDS: "Now run --merge on one machine.",
}
# Title and unit of the progress line of each pass.
_TITLES = {
    FINGERPRINTS: ("Comparing", "documents"),
    PARTS: ("Tokenizing", "tokens"),
    SHARDS: ("Writing", "examples"),
}
# The files that mark the result of a unit as complete.
_MARKERS = {
    PARTS: shards.REPORT_FILE,
    FINGERPRINTS: selection.SIGNATURES_FILE,
}

# Limits of the report, beyond which it gives advice.
MIN_FILL = 0.7  # share of the rows' positions that hold a token
MAX_CUT_OFF = 0.2  # share of the text's tokens that are in no row
MAX_UNKNOWN = 0.01  # share of [UNK] among the tokens
MAX_TOKENS_PER_WORD = 2.0


def build_dataset(
    settings: BuildSettings,
    num_processes: int = 1,
    resume: bool = False,
    beam_options: Sequence[str] | None = None,
    merge: bool = False,
) -> dict[str, Manifest]:
    """Builds a dataset folder, or completes one.

    Args:
        settings: corpus, vocabulary, output folder and form of the dataset.
        num_processes: number of parallel local processes.
        resume: whether to go on with an interrupted build, or to restore
            shards and vocabulary that were deleted.
        beam_options: the command line of an Apache Beam runner that replaces
            local processes, see `records.beam`.
        merge: as `resume`, but requires that all tasks of `run_task` are done.

    Returns:
        The manifests of the splits.

    Raises:
        DataError: for a bad corpus, or a folder that holds other files.
        OSError: if files cannot be read or written.
        WorkerError: if a process dies.
    """
    plan = shards.build_plan(settings)
    print("\n".join(corpus_lib.preview(plan.corpus)), file=sys.stderr)
    output, record = plan.output_folder, plan.record()
    is_merge = merge and not _is_complete(output)
    if is_merge and (missing := _list_missing(plan, PARTS)):
        raise errors.DataError(
            f"{len(missing)} of {len(plan.units)} work units have no part in "
            f"{output / BUILD_FOLDER}: {missing}. Run their tasks with the "
            "same settings, or copy their parts into that folder; or let "
            "--resume build the rest on this machine."
        )
    with claim_folder(output, record, resume or merge):
        old = _finished_manifests(output)
        for split, manifest in old.items():
            for index, shard in enumerate(manifest.shards):
                note = plan.note_path(split, index)
                atomic.write_text(note, schema.to_json(shard))
        if not old or _list_missing(plan, SHARDS):
            with _open_pool(plan, num_processes, beam_options) as pool:
                for kind in _passes(plan):
                    _run_pass(plan, pool, kind)
            reports = shards.load_reports(plan)
            for split in plan.num_shards:
                _save_split(plan, split, record, reports, old.get(split))
            plan.vocabulary.save(output)
            manifest_lib.save_index(output, record, describe(plan))
        else:
            plan.vocabulary.save(output)  # if it was deleted
    _release_folder(output)
    return _finished_manifests(output)


def run_task(
    settings: BuildSettings,
    task: str,
    num_processes: int = 1,
    beam_options: Sequence[str] | None = None,
) -> str:
    """Does one machine's task of the first unfinished pass.

    Finished work is kept. After all tasks of a pass, call each again for the
    next pass, or call `build_dataset` with `merge` for the rest.

    Args:
        settings: as for `build_dataset`, the same on all machines.
        task: "3/64" is number 3 of the tasks 0 to 63.
        num_processes: number of parallel local processes.
        beam_options: as for `build_dataset`.

    Returns:
        A sentence with the missing tasks, or with the next command.

    Raises:
        DataError, OSError, WorkerError: as `build_dataset`.
    """
    match = re.fullmatch(r"(0|[1-9]\d{0,4})/([1-9]\d{0,4})", task)
    number, count = map(int, match.groups()) if match else (0, 0)
    if number >= count:
        raise errors.DataError(
            "A task must be NUMBER/COUNT, with numbers from 0 to COUNT - 1, "
            f"for example 3/64. Received: {task}."
        )
    plan = shards.build_plan(settings)
    print("\n".join(corpus_lib.preview(plan.corpus)), file=sys.stderr)
    output, record = plan.output_folder, plan.record()
    _check_folder(output, record, resume=not _is_complete(output))
    with (
        locks.hold(output / BUILD_FOLDER, is_shared=True),
        _open_pool(plan, num_processes, beam_options) as pool,
    ):
        _prepare_folder(output / BUILD_FOLDER, record)
        for kind in _passes(plan):
            has_worked = _run_pass(plan, pool, kind, number, count)
            if missing := [
                f"{other}/{count}"
                for other in range(count)
                if _list_missing(plan, kind, other, count)
            ]:
                return f"Task {task} has made its {kind}; missing: {missing}."
            if has_worked:
                break
    return f"All {count} tasks have made their {kind}. {_NEXT[kind]}"


def _prepare_folder(folder: pathlib.Path, record: Mapping[str, Any]) -> None:
    (folder / SHARDS).mkdir(parents=True, exist_ok=True)
    if not (folder / _RECORD_FILE).is_file():
        atomic.write_text(folder / _RECORD_FILE, json.dumps(record))


@contextlib.contextmanager
def claim_folder(
    output: pathlib.Path, record: Mapping[str, Any], resume: bool
) -> Iterator[None]:
    """Locks the output folder and makes its folder for unfinished work.

    If the block fails, unfinished work stays for `resume`; but after a
    `ValueError` it is deleted, as a build from wrong input cannot be completed.
    """
    _check_folder(output, record, resume)
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
            if not has_work or isinstance(error, ValueError):
                _release_folder(output)
            raise


def _check_folder(
    output: pathlib.Path, record: Mapping[str, Any], resume: bool
) -> None:
    build_file = output / BUILD_FOLDER / _RECORD_FILE
    names = sorted(path.name for path in output.glob("*"))
    if _is_complete(output):
        stored, state = manifest_lib.Index.load(output).build, "a dataset"
    elif build_file.is_file():
        stored = json.loads(build_file.read_text("utf-8"))
        state = "an unfinished dataset"
    elif output.is_file() or names not in ([], [BUILD_FOLDER]):
        raise errors.DataError(
            f"{output} is a file or holds other files: {names[:5]}. Name a new "
            "folder, or empty this one yourself."
        )
    else:
        return
    differences = "; ".join(schema.find_differences(stored, record))
    settings = "these settings. Use --resume to complete it"
    if differences:
        settings = f"other settings. Its values and yours: {differences}"
    if differences or not resume:
        raise errors.DataError(
            f"{output} holds {state} with {settings}. Or name another folder."
        )


def _release_folder(output: pathlib.Path) -> None:
    storage.remove_folder(output / BUILD_FOLDER)
    for folder in (*(output / split for split in manifest_lib.SPLITS), output):
        with contextlib.suppress(OSError):
            folder.rmdir()


def _is_complete(output: pathlib.Path) -> bool:
    return (output / manifest_lib.MANIFEST_FILE).is_file()


def _finished_manifests(output: pathlib.Path) -> dict[str, Manifest]:
    if not _is_complete(output):
        return {}
    splits = manifest_lib.Index.load(output).splits
    return {split: Manifest.load(output / split) for split in splits}


def _open_pool(
    plan: BuildPlan, num_processes: int, beam_options: Sequence[str] | None
) -> Any:
    start = functools.partial(_start_worker, plan)
    if beam_options is None:
        return pool_lib.ProcessPool(start, num_processes)
    installed.import_extra("apache_beam", "beam")
    from electra_tf.records.beam import BeamPool

    return BeamPool(start, beam_options)


def _start_worker(plan: BuildPlan) -> pool_lib.Handler:
    pool_lib.limit_threads()

    def handle(share: shards.BuildShare, report: pool_lib.Report) -> None:
        import tensorflow as tf

        report(0, 0)
        try:
            if share.split:
                shards.write_shard(plan, share, report)
            elif share.kind == FINGERPRINTS:
                selection.write_fingerprints(plan, share, report)
            else:
                tokenize = shards.load_tokenizer(plan.vocabulary)
                shards.build_part(plan, share, tokenize, report)
        except (OSError, tf.errors.OpError) as error:
            raise OSError(
                f"Building {share} failed: {error}. Check the disk of "
                f"{plan.output_folder} and continue with --resume."
            ) from error

    return handle


def _passes(plan: BuildPlan) -> list[str]:
    return [*[FINGERPRINTS] * bool(plan.settings.selection), PARTS, SHARDS]


def _list_missing(
    plan: BuildPlan, kind: str, number: int = 0, count: int = 1
) -> list[int]:
    """Lists the work units (or shards) that a pass or a task of it lacks."""
    total = len(plan.all_shards if kind == SHARDS else plan.units)
    owned = range(total * number // count, total * (number + 1) // count)
    if kind == SHARDS:
        places = plan.all_shards
        return [i for i in owned if not shards.find_shard(plan, *places[i])]
    paths = (plan.part_folder(i, kind) / _MARKERS[kind] for i in owned)
    return [
        i for i, path in zip(owned, paths, strict=True) if not path.is_file()
    ]


def _run_pass(
    plan: BuildPlan, pool: Any, kind: str, number: int = 0, count: int = 1
) -> bool:
    """Completes a pass or a task of it; returns whether work was missing."""
    todo = _list_missing(plan, kind, number, count)
    if kind == SHARDS:
        reports = shards.load_reports(plan)
        sizes = {
            split: sum(each.num_examples[split] for each in reports)
            for split in plan.num_shards
        }
        _require_examples(plan, sizes)
        places = [plan.all_shards[index] for index in todo]
        work = [_shard_share(plan, reports, *place) for place in places]
        total = sum(sizes.values()) * len(todo) // len(plan.all_shards)
    else:
        units = {index: plan.units[index] for index in todo}
        work = [
            shards.BuildShare(
                f"work unit {i} (from {unit[0].name})", i, kind=kind
            )
            for i, unit in units.items()
        ]
        total = sum(each.num_bytes for x in units.values() for each in x)
    if work:
        title, unit_name = _TITLES[kind]
        with progress.WorkProgress(title, total, unit_name) as line:
            collections.deque(pool.run(work, line.advance), maxlen=0)
    if kind == FINGERPRINTS and not _list_missing(plan, kind):
        selection.choose_copies(plan)
    return bool(work)


def _shard_share(
    plan: BuildPlan, reports: list[shards.PartReport], split: str, index: int
) -> shards.BuildShare:
    # Example k of the corpus goes to shard k modulo n. If f examples precede a
    # part, shard s takes the part's examples s - f modulo n.
    sizes = [report.num_examples[split] for report in reports]
    firsts = np.cumsum([0, *sizes[:-1]])
    residues = ((index - firsts) % plan.num_shards[split]).tolist()
    return shards.BuildShare(
        f"{split} shard {index}", index, split, tuple(residues)
    )


def _require_examples(plan: BuildPlan, sizes: Mapping[str, int]) -> None:
    for split, num_shards in plan.num_shards.items():
        if sizes[split] < num_shards:
            raise errors.DataError(
                f"The corpus gives {sizes[split]} {split} examples for "
                f"{num_shards} shards. Use more text, lower num_out_files, or "
                "change validation_fraction "
                f"({plan.settings.validation_fraction}): raise it for few "
                "documents, or hold none out with 0."
            )


def _save_split(
    plan: BuildPlan,
    split: str,
    record: dict[str, Any],
    reports: list[shards.PartReport],
    old: Manifest | None,
) -> None:
    """Writes a split's token counts and manifest; checks restored shards."""
    folder = plan.output_folder / split
    indices = range(plan.num_shards[split])
    noted = [shards.find_shard(plan, split, index) for index in indices]
    written = tuple(filter(None, noted))
    for before, after in zip(old.shards if old else (), written, strict=False):
        if before != after:
            (folder / after.name).unlink()
            raise errors.DataError(
                f"The restored {split} shard {before.name} differs from the "
                "one in the manifest: the corpus's content has changed. Build "
                "a new dataset in another folder."
            )
    counts_path = folder / manifest_lib.TOKEN_COUNTS_FILE
    atomic.save_array(counts_path, shards.sum_token_counts(plan, split))
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


def describe(plan: BuildPlan) -> list[str]:
    """Returns the lines of the report; reads splits and parts."""
    splits = [Manifest.load(plan.output_folder / x) for x in plan.num_shards]
    lines = [
        f"{each.split}: {each.num_documents:,} documents, "
        f"{each.num_examples:,} rows of {each.max_seq_length} tokens, "
        f"{_fill(each):.0%} full, in {len(each.shards)} shards"
        for each in splits
    ]
    train = splits[0]
    if invalid := train.invalid_utf8:
        most, name = max((count, name) for name, count in invalid.items())
        lines.append(
            f"{sum(invalid.values()):,} byte sequences are not UTF-8 and "
            f"became U+FFFD, {most:,} of them in {name}: iconv converts files"
        )
    if count := sum(each.num_empty for each in shards.load_reports(plan)):
        lines.append(f"{count:,} JSON objects or rows without text: left out")
    if plan.settings.selection:
        path = plan.copies_folder / selection.COPIES_FILE
        lines += path.read_text("utf-8").split("\n")
    counts = manifest_lib.load_token_counts(plan.output_folder / TRAIN)
    is_word = [not token.startswith("##") for token in plan.vocabulary.tokens]
    per_word = counts.sum() / max(counts[np.array(is_word)].sum(), 1)
    unknown = counts[plan.vocabulary.unk_id] / counts.sum()
    cut_off = 1 - counts.sum() / train.num_corpus_tokens
    lines.append(
        f"{per_word:.2f} tokens per word, {unknown:.2%} unknown, {cut_off:.0%} "
        "of the text cut off. Some rows:"
    )
    advice = _advise(train, per_word, unknown, cut_off)
    return [*lines, *_sample(plan), *(f"To change: {each}" for each in advice)]


def _fill(manifest: Manifest) -> float:
    num_positions = manifest.num_examples * manifest.max_seq_length
    return manifest.num_tokens / num_positions


def _sample(plan: BuildPlan) -> Iterator[str]:
    tokens = plan.vocabulary.tokens
    for quarter in (1, 2, 3):
        folder = plan.part_folder(len(plan.units) * quarter // 4)
        rows = storage.load_rows(folder / f"{TRAIN}.ids.npy")
        for row in rows[len(rows) * quarter // 4 :][:1]:
            text = " ".join(tokens[each] for each in row).replace(" ##", "")
            yield f"  {text.replace(' [PAD]', ''):.160}"


def _advise(
    manifest: Manifest, per_word: float, unknown: float, cut_off: float
) -> Iterator[str]:
    num_tokens, length = manifest.num_corpus_tokens, manifest.max_seq_length
    if _fill(manifest) < MIN_FILL and "packed" not in manifest.builder:
        mean, shorter = num_tokens / manifest.num_documents, 16
        while shorter < min(mean + 3, length // 2):
            shorter *= 2
        shorten = f" Or take --max_seq_length={shorter}."
        yield (
            f"The rows are {_fill(manifest):.0%} full, as a document has "
            f"{mean:.0f} tokens on average. If a document goes on after a blank"
            " line (JSON object, row of a table), --noblanks_separate_docs "
            "makes each file one document. If documents are that short, "
            f"--packed puts several into a row.{shorten * (shorter < length)}"
        )
    if cut_off > MAX_CUT_OFF:
        yield (
            f"{cut_off:.0%} of the tokens are lost because lines go beyond the "
            "end of a row, as in the original. --keep_overflow keeps them."
        )
    if unknown > MAX_UNKNOWN or per_word > MAX_TOKENS_PER_WORD:
        yield (
            "The vocabulary does not fit the text: its language differs, or it "
            "is too small. Learn one from this text: electra-train-vocabulary."
        )
