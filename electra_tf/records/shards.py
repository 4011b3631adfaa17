"""Work units to parts, and parts to TFRecord shards.

A part holds the examples of one work unit, listed by the shard that they will
go to, so that a shard is a few contiguous reads. Example k of the whole corpus
goes to shard k modulo their number. Which k a part begins with is known only
when all earlier parts are done, so a part groups its examples by their number
inside the part, modulo the number of shards.
"""

import dataclasses
import functools
import hashlib
import itertools
import pathlib
import random
import zlib
from collections.abc import Callable
from collections.abc import Iterator

import numpy as np

from electra_tf import errors
from electra_tf.config import schema
from electra_tf.processes import atomic
from electra_tf.processes import pool
from electra_tf.records import corpus as corpus_lib
from electra_tf.records import examples as examples_lib
from electra_tf.records import manifest as manifest_lib
from electra_tf.records.examples import ExampleBuilder
from electra_tf.records.examples import Examples
from electra_tf.records.plan import BuildPlan
from electra_tf.records.readers import Document
from electra_tf.records.schema import serialize_examples
from electra_tf.text.vocabulary import Vocabulary

# Text tokenized at once: enough to make the call's own cost vanish.
_BATCH_CHARACTERS = 1 << 19
_EXAMPLES_AT_ONCE = 1024
_REPORT_FILE = "report.json"

Tokenize = Callable[[list[str]], tuple[np.ndarray, list[int]]]


@dataclasses.dataclass(frozen=True)
class PartTask:
    """The order to build one part."""

    index: int
    first_file: str

    def __str__(self) -> str:
        return f"work unit {self.index} (from {self.first_file})"


@dataclasses.dataclass(frozen=True)
class ShardTask:
    """The order to write one shard of a split.

    `residues` has for each part the number, modulo the number of shards, of its
    examples that belong to the shard.
    """

    split: str
    index: int
    residues: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.split} shard {self.index}"


@schema.frozen
class PartReport:
    """The counts of one part, by split or by file."""

    num_examples: dict[str, int]
    num_documents: dict[str, int]
    num_corpus_tokens: dict[str, int]  # before any overflow is dropped
    invalid_utf8: dict[str, int]  # byte sequences replaced


def load_report(plan: BuildPlan, index: int) -> PartReport:
    """Loads the counts of a finished part."""
    path = plan.part_folder(index) / _REPORT_FILE
    return schema.read(PartReport, path, errors.DataError)


def load_token_counts(plan: BuildPlan, split: str) -> np.ndarray:
    """Loads how often each id occurs in all parts: `[vocabulary]` int64."""
    paths = [
        plan.part_folder(index) / f"{split}.counts.npy"
        for index in range(len(plan.units))
    ]
    return sum(map(np.load, paths), np.zeros(plan.vocabulary.size, np.int64))


def build_part(
    plan: BuildPlan, task: PartTask, tokenize: Tokenize, report: pool.Report
) -> None:
    """Builds one part; reports bytes of the corpus and tokens."""
    report(0, 0)
    sources = list(plan.units[task.index])
    builders = _start_builders(plan, task.index, sources)
    opened = [
        corpus_lib.open_source(each, plan.corpus.options) for each in sources
    ]
    split, num_bytes, is_continued = manifest_lib.TRAIN, 0, False
    for batch in _batches(itertools.chain.from_iterable(opened)):
        token_ids, line_lengths = tokenize(
            [line for document in batch for line in document.lines]
        )
        begin, all_lengths = 0, iter(line_lengths)
        for document in batch:
            if not is_continued:
                split = _choose_split(plan, document)
            lengths = list(itertools.islice(all_lengths, len(document.lines)))
            end = begin + sum(lengths)
            builders[split].add_lines(token_ids[begin:end], lengths)
            begin, is_continued = end, document.is_continued
            if not is_continued:
                builders[split].end_document()
        num_done = sum(reader.num_bytes for reader in opened)
        report(num_done - num_bytes, len(token_ids))
        num_bytes = num_done
    invalid_utf8 = {
        source.name: reader.invalid_utf8
        for source, reader in zip(sources, opened, strict=True)
        if reader.invalid_utf8
    }
    _save_part(plan, task.index, builders, invalid_utf8)


def _start_builders(
    plan: BuildPlan, index: int, sources: list[corpus_lib.Source]
) -> dict[str, ExampleBuilder]:
    """A builder for each split; shuffles sources in the original's order."""
    settings = plan.settings
    rngs = {
        split: random.Random(f"{settings.seed} {split} {index}")
        for split in plan.num_shards
    }
    if settings.original_order:
        rngs[manifest_lib.TRAIN] = random.Random(settings.seed)
        rngs[manifest_lib.TRAIN].shuffle(sources)
    length, keep_overflow = settings.max_seq_length, settings.keep_overflow
    return {
        split: ExampleBuilder(length, rng, keep_overflow)
        for split, rng in rngs.items()
    }


def _batches(documents: Iterator[Document]) -> Iterator[list[Document]]:
    """Yields documents in batches that are worth a call of the tokenizer."""
    batch: list[Document] = []
    num_characters = 0
    for document in documents:
        batch.append(document)
        num_characters += sum(map(len, document.lines))
        if num_characters >= _BATCH_CHARACTERS:
            yield batch
            batch, num_characters = [], 0
    if batch:
        yield batch


def _choose_split(plan: BuildPlan, document: Document) -> str:
    """The split of a document by a checksum: equal ones share a side."""
    fraction = plan.settings.validation_fraction
    if not fraction:
        return manifest_lib.TRAIN
    start = zlib.crc32(str(plan.settings.seed).encode())
    checksum = zlib.crc32("\n".join(document.lines).encode(), start)
    is_held_out = checksum / 2**32 < fraction
    return manifest_lib.VALIDATION if is_held_out else manifest_lib.TRAIN


def _save_part(
    plan: BuildPlan,
    index: int,
    builders: dict[str, ExampleBuilder],
    invalid_utf8: dict[str, int],
) -> None:
    """Writes a part's folder, which appears when it is complete."""
    with atomic.creating_folder(plan.part_folder(index)) as folder:
        num_examples = {
            split: _save_examples(plan, folder, split, builder.take())
            for split, builder in builders.items()
        }
        report = PartReport(
            num_examples,
            {split: each.num_documents for split, each in builders.items()},
            {split: each.num_tokens for split, each in builders.items()},
            invalid_utf8,
        )
        (folder / _REPORT_FILE).write_text(schema.to_json(report), "utf-8")


def _save_examples(
    plan: BuildPlan, folder: pathlib.Path, split: str, examples: Examples
) -> int:
    """Writes examples, listed by number modulo the shards; counts them."""
    num_shards, size = plan.num_shards[split], plan.vocabulary.size
    residues = np.arange(len(examples.first_lengths)) % num_shards
    order = np.argsort(residues, kind="stable")
    examples = examples_lib.select_examples(examples, order)
    lengths = np.stack(examples[1:], axis=1)
    token_ends = np.cumsum(np.append(0, lengths.sum(axis=1)))
    ends = np.cumsum(np.bincount(residues, minlength=num_shards))
    ends = np.append(0, ends)
    arrays = {
        "tokens": examples.token_ids.astype(np.min_scalar_type(size - 1)),
        "lengths": lengths,
        "ends": np.stack([ends, token_ends[ends]], axis=1),
        "counts": np.bincount(examples.token_ids, minlength=size),
    }
    for name, values in arrays.items():
        np.save(folder / f"{split}.{name}.npy", values)
    return len(residues)


def load_shard_examples(
    plan: BuildPlan, index: int, split: str, residue: int
) -> Examples:
    """Loads a part's examples whose number there is `residue` modulo n."""
    token_ids, lengths, ends = (
        np.load(plan.part_folder(index) / f"{split}.{name}.npy", mmap_mode="r")
        for name in ("tokens", "lengths", "ends")
    )
    (first, first_token), (last, last_token) = ends[residue : residue + 2]
    first_lengths, second_lengths = np.array(lengths[first:last]).T
    chosen = token_ids[first_token:last_token].astype(np.int32)
    return Examples(chosen, first_lengths, second_lengths)


@functools.lru_cache(maxsize=1)
def load_tokenizer(vocabulary: Vocabulary) -> Tokenize:
    """Returns what turns lines into ids end to end and lines' lengths."""
    import tensorflow as tf

    from electra_tf.text.tokenizer import Tokenizer

    tokenizer = Tokenizer(vocabulary)

    def tokenize(lines: list[str]) -> tuple[np.ndarray, list[int]]:
        ragged = tokenizer.tokenize(tf.constant(lines, tf.string))
        return ragged.values.numpy(), ragged.row_lengths().numpy().tolist()

    return tokenize


def find_shard(
    plan: BuildPlan, split: str, index: int
) -> manifest_lib.Shard | None:
    """Returns a finished shard as noted down; None if it is to do."""
    note = plan.note_path(split, index)
    path = plan.shard_path(split, index)
    if not note.is_file() or not path.is_file():
        return None
    shard = schema.read(manifest_lib.Shard, note, errors.DataError)
    return shard if path.stat().st_size == shard.num_bytes else None


def note_shard(
    plan: BuildPlan, split: str, index: int, shard: manifest_lib.Shard
) -> None:
    """Notes down a finished shard, so that it is not written again."""
    with atomic.replacing_file(plan.note_path(split, index)) as partial:
        partial.write_text(schema.to_json(shard), "utf-8")


def write_shard(plan: BuildPlan, task: ShardTask, report: pool.Report) -> None:
    """Writes one shard from all parts; it appears when it is complete.

    Its examples are shuffled, except in the original's order.
    """
    import tensorflow as tf

    report(0, 0)
    parts = [
        load_shard_examples(plan, index, task.split, residue)
        for index, residue in enumerate(task.residues)
    ]
    examples = examples_lib.join_examples(parts)
    order = _shuffled(plan, task, len(examples.first_lengths))
    path = plan.shard_path(task.split, task.index)
    path.parent.mkdir(exist_ok=True)
    num_tokens = 0
    with atomic.replacing_file(path) as partial:
        with tf.io.TFRecordWriter(str(partial)) as writer:
            for begin in range(0, len(order), _EXAMPLES_AT_ONCE):
                chosen = order[begin : begin + _EXAMPLES_AT_ONCE]
                rows = examples_lib.build_features(
                    examples_lib.select_examples(examples, chosen),
                    plan.settings.max_seq_length,
                    plan.vocabulary.cls_id,
                    plan.vocabulary.sep_id,
                    plan.vocabulary.pad_id,
                )
                for record in serialize_examples(rows):
                    writer.write(record)
                num_tokens += int(rows["input_mask"].sum())
                report(len(chosen), len(chosen))
        shard = manifest_lib.Shard(
            name=path.name,
            num_examples=len(order),
            num_tokens=num_tokens,
            num_bytes=partial.stat().st_size,
            sha256=manifest_lib.file_sha256(partial),
        )
    note_shard(plan, task.split, task.index, shard)


def _shuffled(
    plan: BuildPlan, task: ShardTask, num_examples: int
) -> np.ndarray:
    """The order of a shard's examples: `[num_examples]` int64."""
    order = np.arange(num_examples)
    if not plan.settings.original_order:
        name = f"{plan.settings.seed} {task.split} {task.index}"
        digest = hashlib.sha256(name.encode()).digest()
        # The one generator of numpy whose numbers are promised to stay.
        rng = np.random.RandomState(np.frombuffer(digest, np.uint32))
        rng.shuffle(order)
    return order
