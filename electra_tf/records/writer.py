"""A corpus to a dataset folder: plan, parts, shards, manifests.

    corpus --plan--> work units --processes--> parts --processes--> shards

Unfinished work lives in the folder `.build` inside the dataset folder and is
removed at the end. The top manifest is written last: a folder that has one is
complete. The bytes depend on the corpus, the settings and the seed, not on the
number of processes, nor on whether the build was interrupted.
"""

import functools
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from electra_tf import errors
from electra_tf.processes.pool import Handler
from electra_tf.processes.pool import ProcessPool
from electra_tf.processes.pool import Report
from electra_tf.processes.pool import WorkerError
from electra_tf.processes.pool import limit_threads
from electra_tf.processes.progress import WorkProgress
from electra_tf.records import build_folder
from electra_tf.records import parts
from electra_tf.records import shards
from electra_tf.records.atomic import replacing_file
from electra_tf.records.corpus import open_corpus
from electra_tf.records.manifest import SPLITS
from electra_tf.records.manifest import TOKEN_COUNTS_FILE
from electra_tf.records.manifest import VALIDATION
from electra_tf.records.manifest import Manifest
from electra_tf.records.manifest import Shard
from electra_tf.records.manifest import save_index
from electra_tf.records.parts import PartReport
from electra_tf.records.parts import PartTask
from electra_tf.records.plan import BuildPlan
from electra_tf.records.plan import BuildSettings
from electra_tf.records.plan import build_plan
from electra_tf.records.plan import build_record
from electra_tf.records.shards import ShardTask
from electra_tf.text.vocabulary import Vocabulary


class StorageError(OSError):
    """Reading or writing failed; what is complete can be resumed."""


def build_dataset(
    settings: BuildSettings,
    num_processes: int = 1,
    resume: bool = False,
    beam_options: Sequence[str] | None = None,
) -> dict[str, Manifest]:
    """Builds a dataset folder, or completes one.

    Args:
      settings: what to build.
      num_processes: processes that share the work; changes no byte.
      resume: whether to go on with an interrupted build, or to restore shards
        that were deleted. Only what is missing is done again.
      beam_options: command line of an Apache Beam runner that takes the place
        of local processes, see `records.beam`.

    Returns:
      The manifest of each split.

    Raises:
      DataError: if the corpus is missing, empty, binary or damaged.
      DataError: if the output folder holds something else, or the corpus
        is too small for the settings.
      StorageError: if a file cannot be read or written.
      WorkerError: if a worker process dies.
    """
    output = pathlib.Path(settings.output_dir).absolute()
    _check_output(output, settings.corpus)
    vocabulary = Vocabulary.load(settings.vocabulary)
    corpus = open_corpus(
        settings.corpus,
        settings.corpus_format,
        settings.blanks_separate_docs,
        settings.text_field,
    )
    record = build_record(settings, corpus, vocabulary)
    with build_folder.claim_folder(output, record, resume) as folder:
        plan = build_plan(settings, corpus, vocabulary, folder)
        old = _finished_manifests(output)
        for manifest in old.values():
            shards.note_shards(plan, manifest.split, manifest.shards)
        if not old or _missing_shards(plan):
            with _open_pool(plan, num_processes, beam_options) as pool:
                reports = _make_parts(plan, pool)
                _check_counts(plan, reports)
                written = _make_shards(plan, pool, reports)
            _check_same(plan, old, written)
            for split in plan.num_shards:
                _save_split(plan, split, record, reports, written[split])
            vocabulary.save(output)
            save_index(output, record)
    build_folder.release_folder(output)
    return _finished_manifests(output)


def _check_output(output: pathlib.Path, corpus: Sequence[str]) -> None:
    """Raises if the dataset would become part of its own corpus."""
    for name in corpus:
        if output.resolve().is_relative_to(pathlib.Path(name).resolve()):
            raise errors.DataError(
                f"The output folder {output} lies inside the corpus {name}, "
                "whose text it would become. Name a folder elsewhere."
            )


def _open_pool(
    plan: BuildPlan, num_processes: int, beam_options: Sequence[str] | None
) -> Any:
    """Returns what runs the tasks: a `ProcessPool`, or one like it on Beam."""
    start = functools.partial(_start_worker, plan)
    if beam_options is None:
        return ProcessPool(start, num_processes)
    try:
        from electra_tf.records.beam import BeamPool
    except ImportError as error:
        raise WorkerError(
            f"Beam options need Apache Beam, which cannot be imported "
            f"({error}). Install it: pip install 'electra-tf[beam]'."
        ) from error
    return BeamPool(start, beam_options)


def _make_parts(plan: BuildPlan, pool: Any) -> list[PartReport]:
    """Makes the parts that are missing; returns the counts of all parts."""
    tasks = [
        PartTask(index, unit[0].name)
        for index, unit in enumerate(plan.units)
        if not parts.part_folder(plan, index).is_dir()
    ]
    num_bytes = sum(
        source.num_bytes for task in tasks for source in plan.units[task.index]
    )
    if tasks:
        with WorkProgress("Tokenizing", num_bytes, "tokens") as line:
            for _ in pool.run(tasks, line.advance):
                pass
    return [parts.load_report(plan, index) for index in range(len(plan.units))]


def _make_shards(
    plan: BuildPlan, pool: Any, reports: list[PartReport]
) -> dict[str, list[Shard]]:
    """Makes the shards that are missing; returns all, by split, in order."""
    missing = _missing_shards(plan)
    residues = _residues(plan, reports)
    tasks = [
        ShardTask(split, index, residues[split][index])
        for split, index in missing
    ]
    total = sum(sum(report.num_examples.values()) for report in reports)
    total = total * len(missing) // sum(plan.num_shards.values())
    if tasks:
        with WorkProgress("Writing", total, "examples") as line:
            for _ in pool.run(tasks, line.advance):
                pass
    written = {}
    for split, num_shards in plan.num_shards.items():
        found = [
            shards.find_shard(plan, split, index) for index in range(num_shards)
        ]
        written[split] = [shard for shard in found if shard is not None]
    return written


def _start_worker(plan: BuildPlan) -> Handler:
    """Returns the function that does a task in a worker process."""
    limit_threads()

    def handle(task: PartTask | ShardTask, report: Report) -> None:
        import tensorflow as tf

        try:
            if isinstance(task, PartTask):
                tokenize = parts.load_tokenizer(plan.vocabulary)
                parts.build_part(plan, task, tokenize, report)
            else:
                shards.write_shard(plan, task, report)
        except (OSError, tf.errors.OpError) as error:
            raise StorageError(
                f"Building {task} failed: {error}. Nothing unfinished was "
                f"left under a final name. Check the disk of "
                f"{plan.output_folder} and run again with --resume."
            ) from error

    return handle


def _check_counts(plan: BuildPlan, reports: list[PartReport]) -> None:
    """Raises unless every shard gets an example."""
    for split, num_shards in plan.num_shards.items():
        num_documents = sum(each.num_documents[split] for each in reports)
        num_examples = sum(each.num_examples[split] for each in reports)
        if split == VALIDATION and not num_documents:
            raise errors.DataError(
                "No document fell into the validation split. Raise "
                f"validation_fraction (now {plan.validation_fraction}), or "
                "set it to 0 and name held-out data yourself."
            )
        if num_examples < num_shards:
            raise errors.DataError(
                f"The corpus gives {num_examples} {split} examples for "
                f"{num_shards} shards. Lower num_out_files, or use more text."
            )


def _missing_shards(plan: BuildPlan) -> list[tuple[str, int]]:
    """Returns split and number of the shards that are not finished."""
    return [
        (split, index)
        for split, num_shards in plan.num_shards.items()
        for index in range(num_shards)
        if shards.find_shard(plan, split, index) is None
    ]


def _residues(
    plan: BuildPlan, reports: list[PartReport]
) -> dict[str, list[tuple[int, ...]]]:
    """Returns, by split and shard, what each part gives to the shard.

    Example k of the corpus goes to shard k modulo n. With f examples before
    it, a part gives shard s its examples number s - f modulo n.
    """
    residues = {}
    for split, num_shards in plan.num_shards.items():
        sizes = [report.num_examples[split] for report in reports]
        firsts = np.cumsum([0, *sizes[:-1]]).tolist()
        residues[split] = [
            tuple((index - first) % num_shards for first in firsts)
            for index in range(num_shards)
        ]
    return residues


def _finished_manifests(output: pathlib.Path) -> dict[str, Manifest]:
    """Returns the manifests of a dataset that was completed once."""
    if not build_folder.is_finished(output):
        return {}
    return {
        split: Manifest.load(output / split)
        for split in SPLITS
        if (output / split).is_dir()
    }


def _check_same(
    plan: BuildPlan, old: dict[str, Manifest], written: dict[str, list[Shard]]
) -> None:
    """Removes a restored shard that is not what it was, and raises."""
    for split, manifest in old.items():
        for before, after in zip(manifest.shards, written[split], strict=True):
            if before != after:
                folder = pathlib.Path(plan.output_folder, split)
                (folder / after.name).unlink()
                raise errors.DataError(
                    f"The restored {split} shard {before.name} differs from "
                    "the one in the manifest: the corpus's content has "
                    "changed. Build a new dataset in another folder."
                )


def _save_split(
    plan: BuildPlan,
    split: str,
    record: dict[str, Any],
    reports: list[PartReport],
    written: list[Shard],
) -> None:
    """Writes the token counts and the manifest of one split."""
    folder = pathlib.Path(plan.output_folder, split)
    counts = parts.load_token_counts(plan, split)
    with (
        replacing_file(folder / TOKEN_COUNTS_FILE) as partial,
        open(partial, "wb") as stream,
    ):
        np.save(stream, counts)
    invalid_utf8: dict[str, int] = {}
    for report in reports:
        for name, count in report.invalid_utf8.items():
            invalid_utf8[name] = invalid_utf8.get(name, 0) + count
    Manifest(
        split=split,
        **record,
        num_documents=sum(each.num_documents[split] for each in reports),
        num_corpus_tokens=sum(
            each.num_corpus_tokens[split] for each in reports
        ),
        num_examples=sum(shard.num_examples for shard in written),
        num_tokens=sum(shard.num_tokens for shard in written),
        shards=tuple(written),
        token_counts=TOKEN_COUNTS_FILE,
        invalid_utf8=invalid_utf8,
    ).save(folder)
