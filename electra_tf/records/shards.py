"""The plan of a build; turns work units into parts, and parts into shards.

Example k of the whole corpus goes to shard k modulo the number of shards. The
first k of a part is known only when all earlier parts are done, so a part
groups its examples by their number in the part, modulo the number of shards.
"""

import collections
import dataclasses
import functools
import hashlib
import importlib.metadata
import itertools
import pathlib
import random
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
import pydantic

from electra_tf import errors
from electra_tf import storage
from electra_tf.config import schema
from electra_tf.processes import atomic
from electra_tf.processes import pool
from electra_tf.records import corpus as corpus_lib
from electra_tf.records import examples as examples_lib
from electra_tf.records import manifest
from electra_tf.records import readers
from electra_tf.records.examples import serialize_examples
from electra_tf.records.manifest import TRAIN
from electra_tf.records.manifest import Shard
from electra_tf.records.readers import Document
from electra_tf.text.vocabulary import Vocabulary

BUILD_FOLDER = ".build"
PARTS, SHARDS = "parts", "shards"
# The default number of shards: one for so much text, up to a maximum.
_SHARD_TEXT_BYTES = 1 << 24
_MAX_SHARDS = 1000
# A number, or a string of one (flags give strings).
_Weight = Annotated[float, pydantic.Field(gt=0, le=1e9, strict=False)]
_DISTRIBUTIONS = ("electra-tf", "tensorflow-text")
# Characters tokenized in one call, enough to make its overhead small.
_BATCH_CHARACTERS = 1 << 19
_EXAMPLES_AT_ONCE = 1024
REPORT_FILE = "report.json"  # without it, a part is unfinished

_T = TypeVar("_T")
Tokenize = Callable[[list[str]], tuple[np.ndarray, list[int]]]


@schema.frozen
class BuildSettings:
    """The settings of a build that users give."""

    corpus: tuple[str, ...]  # names of corpora, see `corpus.open_corpus`
    vocabulary: str  # folder with, or path of, `vocab.txt`
    output_dir: str  # the dataset folder to create
    max_seq_length: manifest.RowLength = 128
    # Training shards; 0 takes one per 16 MiB of text, 8 to 1000.
    num_out_files: Annotated[int, pydantic.Field(ge=0, le=99_999)] = 0
    # Share of documents that are held out.
    validation_fraction: Annotated[float, pydantic.Field(ge=0, lt=1)] = 0.01
    seed: Annotated[int, pydantic.Field(ge=0, lt=2**63)] = 0
    # Whether tokens that the original drops begin the document's next example.
    keep_overflow: bool = False
    packed: bool = False  # whether a row can hold several examples
    # Whether examples have the order of the original's program, run in one
    # process with this seed of `random`. Needs memory for all examples.
    original_order: bool = False
    # Which documents are dropped as duplicates of earlier ones.
    deduplicate: Literal["", "exact", "near"] = ""
    # The relative share of words of each corpus; see `selection`.
    corpus_weights: tuple[_Weight, ...] = ()
    # As in `readers.ReadingOptions`.
    corpus_format: readers.Format = "auto"
    blanks_separate_docs: bool = True
    text_field: str = "text"

    def __post_init__(self) -> None:
        names = "validation_fraction", "packed", "deduplicate", "corpus_weights"
        additions = [f"{n}={v}" for n in names if (v := getattr(self, n))]
        schema.require(
            not (self.original_order and additions),
            "The original takes every document once, packs no rows and holds "
            "nothing out: with original_order set validation_fraction=0 and "
            f"leave out the others. Received: {', '.join(additions)}.",
        )
        schema.require(
            len(self.corpus_weights) in (0, len(self.corpus)),
            "corpus_weights must hold a number for each corpus. Received: "
            f"{len(self.corpus_weights)} for {len(self.corpus)} corpora.",
        )

    @property
    def selection(self) -> dict[str, Any]:
        """The settings that drop or repeat documents, if any are set."""
        chosen = {
            "deduplicate": self.deduplicate,
            "corpus_weights": list(self.corpus_weights),
        }
        return {name: value for name, value in chosen.items() if value}


@dataclasses.dataclass(frozen=True)
class BuildPlan:
    """All that determines a dataset's bytes; names the files of the build."""

    settings: BuildSettings
    corpus: corpus_lib.Corpus
    vocabulary: Vocabulary
    units: tuple[tuple[corpus_lib.Source, ...], ...]  # unit i becomes part i
    num_shards: dict[str, int]  # by split

    @property
    def output_folder(self) -> pathlib.Path:
        """The dataset folder."""
        return storage.path(self.settings.output_dir).absolute()

    @property
    def all_shards(self) -> list[tuple[str, int]]:
        """The split and number of each shard, in order."""
        return [(x, i) for x, n in self.num_shards.items() for i in range(n)]

    @functools.cached_property
    def _settings_hash(self) -> str:
        record = schema.to_json(self.record()).encode()
        return hashlib.sha256(record).hexdigest()[:8]

    @property
    def copies_folder(self) -> pathlib.Path:
        """The folder with the number of copies of each document."""
        name = f"copies-{self._settings_hash}"
        return self.output_folder / BUILD_FOLDER / name

    def part_folder(self, index: int, kind: str = PARTS) -> pathlib.Path:
        """The folder with the part, or the fingerprints, of a work unit."""
        name = f"{index:06d}-{self._settings_hash}"
        return self.output_folder / BUILD_FOLDER / kind / name

    def note_path(self, split: str, index: int) -> pathlib.Path:
        """The file that describes a finished shard."""
        folder = self.output_folder / BUILD_FOLDER / SHARDS
        return folder / f"{split}-{index:05d}-{self._settings_hash}.json"

    def shard_path(self, split: str, index: int) -> pathlib.Path:
        """The final path of a shard."""
        name = f"{index:05d}-of-{self.num_shards[split]:05d}"
        return self.output_folder / split / f"pretrain_data.tfrecord-{name}"

    def record(self) -> dict[str, Any]:
        """Returns the settings that determine the bytes, as plain JSON."""
        settings = self.settings
        return {
            "corpus": self.corpus.describe(),
            "vocabulary": manifest.describe_vocabulary(self.vocabulary),
            "tokenizer": dataclasses.asdict(self.vocabulary.settings),
            "max_seq_length": settings.max_seq_length,
            "seed": settings.seed,
            "builder": {
                "validation_fraction": settings.validation_fraction,
                "keep_overflow": settings.keep_overflow,
                "original_order": settings.original_order,
                "num_shards": self.num_shards,
                **settings.selection,
                **({"packed": True} if settings.packed else {}),
                "versions": {
                    name: importlib.metadata.version(name)
                    for name in _DISTRIBUTIONS
                },
            },
        }


def build_plan(settings: BuildSettings) -> BuildPlan:
    """Opens corpus and vocabulary and divides the work; raises `DataError`."""
    output = storage.path(settings.output_dir)
    for name in settings.corpus:
        root, inside = storage.path(name).resolve(), output.resolve() / "any"
        if any(x == root or x.match(str(root)) for x in inside.parents):
            raise errors.DataError(
                f"The output folder {output} lies inside the corpus {name}, so "
                "it would become text of the corpus. Name a folder elsewhere."
            )
    vocabulary = Vocabulary.load(settings.vocabulary)
    options = readers.ReadingOptions(
        settings.corpus_format,
        settings.blanks_separate_docs,
        settings.text_field,
    )
    corpus = corpus_lib.open_corpus(settings.corpus, options)
    in_order = settings.original_order
    units = [corpus.sources] if in_order else corpus_lib.plan_units(corpus)
    num_shards = _choose_num_shards(settings, corpus.num_text_bytes)
    return BuildPlan(settings, corpus, vocabulary, tuple(units), num_shards)


def _choose_num_shards(
    settings: BuildSettings, num_text_bytes: int
) -> dict[str, int]:
    at_least = max(1, min(8, num_text_bytes >> 16))
    by_size = max(num_text_bytes // _SHARD_TEXT_BYTES, at_least)
    num_train = settings.num_out_files or min(by_size, _MAX_SHARDS)
    num_shards = {TRAIN: num_train}
    if fraction := settings.validation_fraction:
        num_shards[manifest.VALIDATION] = max(1, round(num_train * fraction))
    return num_shards


@dataclasses.dataclass(frozen=True)
class BuildShare:
    """A task of one process: to make one part, fingerprints file or shard."""

    title: str
    index: int  # of the work unit or shard
    split: str = ""  # of a shard
    # Of part p, the shard takes each example whose number in the part equals
    # `residues[p]` modulo the number of shards.
    residues: tuple[int, ...] = ()
    kind: str = PARTS  # or `selection.FINGERPRINTS`

    def __str__(self) -> str:
        return self.title


@schema.frozen
class PartReport:
    """The counts of one part, by split; `invalid_utf8` by file."""

    num_examples: dict[str, int]
    num_documents: dict[str, int]
    num_corpus_tokens: dict[str, int]  # before any overflow is dropped
    invalid_utf8: dict[str, int]  # byte sequences replaced
    num_empty: schema.Count = 0  # JSON objects and rows without a text


def load_reports(plan: BuildPlan) -> list[PartReport]:
    """Loads the counts of all parts, which must be finished."""
    folders = map(plan.part_folder, range(len(plan.units)))
    return [
        schema.read_file(PartReport, folder / REPORT_FILE, errors.DataError)
        for folder in folders
    ]


def sum_token_counts(plan: BuildPlan, split: str) -> np.ndarray:
    """Sums the counts of each token over all parts: `[vocab_size]` int64."""
    folders = map(plan.part_folder, range(len(plan.units)))
    paths = (folder / f"{split}.counts.npy" for folder in folders)
    zeros = np.zeros(plan.vocabulary.size, np.int64)
    return sum(map(storage.load_rows, paths), zeros)


def build_part(
    plan: BuildPlan, share: BuildShare, tokenize: Tokenize, report: pool.Report
) -> None:
    """Builds the part of a work unit; reports bytes of text and tokens."""
    sources = list(plan.units[share.index])
    builders = _start_builders(plan, share.index, sources)
    rows = {split: [_take(plan, each)] for split, each in builders.items()}
    opened = [
        corpus_lib.open_source(each, plan.corpus.options) for each in sources
    ]
    documents: Iterator[Document] = itertools.chain.from_iterable(opened)
    if plan.settings.selection:
        path = plan.copies_folder / f"{share.index:06d}.npy"
        documents = _select(documents, storage.load_rows(path).tolist())
    split, num_bytes, is_continued = TRAIN, 0, False
    for batch in _batches(documents, lambda x: sum(map(len, x.lines))):
        token_ids, line_lengths = tokenize(
            [line for document in batch for line in document.lines]
        )
        begin, all_lengths = 0, iter(line_lengths)
        for document in batch:
            if not is_continued:
                split = choose_split(plan, document)
            lengths = list(itertools.islice(all_lengths, len(document.lines)))
            end = begin + sum(lengths)
            builders[split].add_lines(token_ids[begin:end], lengths)
            begin, is_continued = end, document.is_continued
            if not is_continued:
                builders[split].end_document()
        for each, builder in builders.items():
            rows[each].append(_take(plan, builder))
        num_done = sum(reader.num_bytes for reader in opened)
        report(num_done - num_bytes, len(token_ids))
        num_bytes = num_done
    invalid_utf8: collections.Counter[str] = collections.Counter()
    for source, reader in zip(sources, opened, strict=True):
        # Two corpora can have a file of the same name.
        invalid_utf8[source.name] += reader.invalid_utf8
    part_folder = plan.part_folder(share.index)
    with atomic.creating_folder(part_folder, REPORT_FILE) as folder:
        part = PartReport(
            {each: _save(plan, folder, each, rows[each]) for each in builders},
            {each: builder.num_documents for each, builder in builders.items()},
            {each: builder.num_tokens for each, builder in builders.items()},
            dict(+invalid_utf8),  # those above 0
            sum(reader.num_empty for reader in opened),
        )
        (folder / REPORT_FILE).write_text(schema.to_json(part), "utf-8")


def _start_builders(
    plan: BuildPlan, index: int, sources: list[corpus_lib.Source]
) -> dict[str, examples_lib.ExampleBuilder]:
    """Makes a builder for each split; `original_order` shuffles `sources`."""
    settings, builders = plan.settings, {}
    for split in plan.num_shards:
        rng = random.Random(f"{settings.seed} {split} {index}")
        if settings.original_order:  # there is one split
            rng = random.Random(settings.seed)
            rng.shuffle(sources)
        builders[split] = examples_lib.ExampleBuilder(
            settings.max_seq_length, rng, settings.keep_overflow
        )
    return builders


def _select(
    documents: Iterator[Document], copies: list[int]
) -> Iterator[Document]:
    pieces, counts = list[Document](), iter(copies)
    for document in documents:
        pieces.append(document)
        if not document.is_continued:
            yield from pieces * next(counts)
            pieces = []


def _batches(items: Iterable[_T], size: Callable[[_T], int]) -> Iterator[list]:
    batch: list[_T] = []
    num_characters = 0
    for item in items:
        batch.append(item)
        num_characters += size(item)
        if num_characters >= _BATCH_CHARACTERS:
            yield batch
            batch, num_characters = [], 0
    if batch:
        yield batch


def choose_split(plan: BuildPlan, document: Document) -> str:
    """Chooses a split by checksum, so equal documents share a split."""
    fraction = plan.settings.validation_fraction
    if not fraction:
        return TRAIN
    start = zlib.crc32(str(plan.settings.seed).encode())
    checksum = zlib.crc32("\n".join(document.lines).encode(), start)
    return manifest.VALIDATION if checksum / 2**32 < fraction else TRAIN


def _take(
    plan: BuildPlan, builder: examples_lib.ExampleBuilder
) -> tuple[np.ndarray, ...]:
    """Takes examples: ids and segments (1, 2), `[n, S]`, and token counts."""
    vocabulary, examples = plan.vocabulary, builder.take()
    rows = examples_lib.build_features(
        examples,
        plan.settings.max_seq_length,
        vocabulary.cls_id,
        vocabulary.sep_id,
        vocabulary.pad_id,
    )
    id_type = np.min_scalar_type(vocabulary.size - 1)
    segments = rows["input_mask"] + rows["segment_ids"]
    counts = np.bincount(examples.token_ids, minlength=vocabulary.size)
    return rows["input_ids"].astype(id_type), segments.astype(np.uint8), counts


def _save(
    plan: BuildPlan,
    folder: pathlib.Path,
    split: str,
    rows: list[tuple[np.ndarray, ...]],
) -> int:
    """Saves a split of a part, grouped by shard; returns the row count."""
    pieces = list(zip(*rows, strict=True))
    ids, segments = map(np.concatenate, pieces[:2])
    if plan.settings.packed:
        ids, segments = examples_lib.pack_rows(
            ids, segments, plan.vocabulary.pad_id
        )
    remainders = np.arange(len(ids)) % plan.num_shards[split]
    order = np.argsort(remainders, kind="stable")
    np.save(folder / f"{split}.ids.npy", ids[order])
    np.save(folder / f"{split}.segments.npy", segments[order])
    np.save(folder / f"{split}.counts.npy", sum(pieces[2]))
    return len(ids)


def load_rows(plan: BuildPlan, share: BuildShare) -> list[np.ndarray]:
    """Loads a shard's ids and segments, `[n, S]` each, from all parts."""
    num_shards, result = plan.num_shards[share.split], []
    for name in ("ids", "segments"):
        pieces = []
        for index, residue in enumerate(share.residues):
            path = plan.part_folder(index) / f"{share.split}.{name}.npy"
            choose = functools.partial(_rows_of, residue, num_shards)
            pieces.append(storage.load_rows(path, choose))
        result.append(np.concatenate(pieces))
    return result


def _rows_of(residue: int, num_shards: int, num_rows: int) -> slice:
    # A part's file has the rows of smaller residues first.
    share, rest = divmod(num_rows, num_shards)
    first = residue * share + min(residue, rest)
    return slice(first, first + share + (residue < rest))


@functools.lru_cache(maxsize=1)
def load_tokenizer(vocabulary: Vocabulary) -> Tokenize:
    """Returns a function that maps lines to concatenated ids and lengths."""
    import tensorflow as tf

    from electra_tf.text.tokenizer import Tokenizer

    tokenizer = Tokenizer(vocabulary)

    def tokenize(lines: list[str]) -> tuple[np.ndarray, list[int]]:
        ids, lengths = [np.zeros(0, np.int32)], list[int]()
        # In batches: the graph needs up to 500 times the memory of its text.
        for batch in _batches(lines, len):
            ragged = tokenizer.tokenize(tf.constant(batch, tf.string))
            ids.append(ragged.values.numpy())
            lengths += ragged.row_lengths().numpy().tolist()
        return np.concatenate(ids), lengths

    return tokenize


def find_shard(plan: BuildPlan, split: str, index: int) -> Shard | None:
    """Returns the description of a finished shard; None if there is none."""
    note, path = plan.note_path(split, index), plan.shard_path(split, index)
    if not note.is_file() or not path.is_file():
        return None
    shard = schema.read_file(Shard, note, errors.DataError)
    return shard if path.stat().st_size == shard.num_bytes else None


def write_shard(
    plan: BuildPlan, share: BuildShare, report: pool.Report
) -> None:
    """Writes one shard from all parts; shuffles unless `original_order`."""
    import tensorflow as tf

    ids, segments = load_rows(plan, share)
    order = np.arange(len(ids))
    if not plan.settings.original_order:
        name = f"{plan.settings.seed} {share.split} {share.index}"
        digest = hashlib.sha256(name.encode()).digest()
        # NumPy guarantees only this generator's numbers for all releases.
        np.random.RandomState(np.frombuffer(digest, np.uint32)).shuffle(order)
    path = plan.shard_path(share.split, share.index)
    path.parent.mkdir(exist_ok=True)
    with atomic.replacing_file(path) as partial:
        with tf.io.TFRecordWriter(str(partial)) as writer:
            for begin in range(0, len(order), _EXAMPLES_AT_ONCE):
                chosen = order[begin : begin + _EXAMPLES_AT_ONCE]
                rows = {
                    "input_ids": ids[chosen].astype(np.int32),
                    "input_mask": segments[chosen] > 0,
                    "segment_ids": segments[chosen] > 1,
                }
                for record in serialize_examples(rows):
                    writer.write(record)
                report(len(chosen), len(chosen))
        shard = Shard(
            name=path.name,
            num_examples=len(order),
            num_tokens=int(np.count_nonzero(segments)),
            num_bytes=partial.stat().st_size,
            sha256=manifest.file_sha256(partial),
        )
    note = plan.note_path(share.split, share.index)
    atomic.write_text(note, schema.to_json(shard))
