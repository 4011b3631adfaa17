"""Work units to parts: examples of both splits on the disk, not yet in shards.

A part lists its examples by the shard that they will go to, so that a shard
is a few contiguous reads. Example k of the whole corpus goes to shard k modulo
their number; which k a part begins with is known only when all earlier parts
are done, therefore examples are grouped by their number inside the part,
modulo the number of shards.
"""

import dataclasses
import functools
import json
import pathlib
import random
import zlib
from collections.abc import Callable
from collections.abc import Iterator

import numpy as np

from electra_tf.processes.pool import Report
from electra_tf.records.atomic import creating_folder
from electra_tf.records.corpus import open_source
from electra_tf.records.examples import ExampleBuilder
from electra_tf.records.examples import Examples
from electra_tf.records.examples import join_examples
from electra_tf.records.examples import select_examples
from electra_tf.records.manifest import TRAIN
from electra_tf.records.manifest import VALIDATION
from electra_tf.records.plan import BuildPlan
from electra_tf.records.readers import Document
from electra_tf.text.vocabulary import Vocabulary

# Text tokenized at once: enough to make the call's own cost vanish.
_BATCH_CHARACTERS = 1 << 19
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
class PartReport:
    """The counts of one part.

    Attributes:
      num_examples: by split.
      num_documents: by split.
      num_corpus_tokens: by split, before any overflow is dropped.
      invalid_utf8: byte sequences replaced, by file.
    """

    num_examples: dict[str, int]
    num_documents: dict[str, int]
    num_corpus_tokens: dict[str, int]
    invalid_utf8: dict[str, int]


def part_folder(plan: BuildPlan, index: int) -> pathlib.Path:
    """Returns where a part is; it exists as soon as the part is complete."""
    return pathlib.Path(plan.build_folder, "parts", f"{index:06d}")


def load_report(plan: BuildPlan, index: int) -> PartReport:
    """Returns the counts of a finished part."""
    path = part_folder(plan, index) / _REPORT_FILE
    return PartReport(**json.loads(path.read_text("utf-8")))


def build_part(
    plan: BuildPlan, task: PartTask, tokenize: Tokenize, report: Report
) -> PartReport:
    """Builds one part and puts it in its folder.

    Args:
      plan: the plan of the whole dataset.
      task: which part.
      tokenize: see `load_tokenizer`.
      report: called with text bytes and tokens done since the last call.

    Returns:
      The counts, which are also kept beside the examples.
    """
    report(0, 0)
    unit = _Unit(plan, task.index)
    collectors = {
        split: _Collector(plan, unit.rngs[split]) for split in plan.num_shards
    }
    split, is_continued = TRAIN, False
    for batch in _batches(unit.documents()):
        token_ids, lengths = tokenize(
            [line for document in batch for line in document.lines]
        )
        begin = line = 0
        for document in batch:
            if not is_continued:
                split = _choose_split(plan, document)
            line_lengths = lengths[line : line + len(document.lines)]
            end = begin + sum(line_lengths)
            collectors[split].add(
                token_ids[begin:end], line_lengths, document.is_continued
            )
            begin, line = end, line + len(document.lines)
            is_continued = document.is_continued
        for collector in collectors.values():
            collector.collect()
        report(unit.take_num_bytes(), len(token_ids))
    return _save_part(plan, task.index, collectors, unit.invalid_utf8)


def _save_part(
    plan: BuildPlan,
    index: int,
    collectors: dict[str, "_Collector"],
    invalid_utf8: dict[str, int],
) -> PartReport:
    """Writes a part's folder, which appears when it is complete."""
    report = PartReport(
        {split: each.num_examples for split, each in collectors.items()},
        {split: each.num_documents for split, each in collectors.items()},
        {split: each.num_tokens for split, each in collectors.items()},
        invalid_utf8,
    )
    with creating_folder(part_folder(plan, index)) as folder:
        for split, collector in collectors.items():
            collector.save(folder, split)
        (folder / _REPORT_FILE).write_text(
            json.dumps(dataclasses.asdict(report)), "utf-8"
        )
    return report


@functools.lru_cache(maxsize=1)
def load_tokenizer(vocabulary: Vocabulary) -> Tokenize:
    """Returns the function that turns lines into ids.

    It maps n lines to their ids end to end, `[num_tokens]` int32, and the n
    numbers of tokens. The last one is kept: its graph takes a while to trace.
    """
    import tensorflow as tf

    from electra_tf.text.tokenizer import Tokenizer

    tokenizer = Tokenizer(vocabulary)

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.string)], autograph=False
    )
    def tokenize_in_graph(lines: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        ragged = tokenizer.tokenize(lines)
        return ragged.values, ragged.row_lengths()

    def tokenize(lines: list[str]) -> tuple[np.ndarray, list[int]]:
        if not lines:
            return np.zeros([0], np.int32), []
        token_ids, lengths = tokenize_in_graph(tf.constant(lines))
        return token_ids.numpy(), lengths.numpy().tolist()

    return tokenize


def load_shard_examples(
    plan: BuildPlan, index: int, split: str, residue: int
) -> Examples:
    """Returns a part's examples whose number there is `residue` modulo n."""
    folder = part_folder(plan, index)
    offsets = np.fromfile(
        folder / f"{split}.offsets", np.int64, count=4, offset=16 * residue
    )
    first, first_token, last, last_token = offsets.tolist()
    lengths = np.fromfile(
        folder / f"{split}.lengths",
        np.int32,
        count=2 * (last - first),
        offset=8 * first,
    ).reshape([-1, 2])
    token_type = _token_type(plan)
    token_ids = np.fromfile(
        folder / f"{split}.tokens",
        token_type,
        count=last_token - first_token,
        offset=np.dtype(token_type).itemsize * first_token,
    )
    return Examples(token_ids.astype(np.int32), lengths[:, 0], lengths[:, 1])


def load_token_counts(plan: BuildPlan, split: str) -> np.ndarray:
    """Returns how often each id occurs in all parts: `[vocabulary]` int64."""
    total = np.zeros([plan.vocabulary.size], np.int64)
    for index in range(len(plan.units)):
        path = part_folder(plan, index) / f"{split}.counts"
        total += np.fromfile(path, np.int64)
    return total


class _Unit:
    """The documents of one work unit, and its random numbers.

    In the original's order the files are shuffled by the generator that goes
    on to build the examples.
    """

    def __init__(self, plan: BuildPlan, index: int):
        self._sources = list(plan.units[index])
        self._options = plan.options
        self._num_bytes = 0
        self.rngs = {
            split: random.Random(f"{plan.seed} {split} {index}")
            for split in plan.num_shards
        }
        if plan.original_order:
            rng = random.Random(plan.seed)
            rng.shuffle(self._sources)
            self.rngs[TRAIN] = rng
        self.invalid_utf8: dict[str, int] = {}

    def documents(self) -> Iterator[Document]:
        """Yields the documents of all sources."""
        for source in self._sources:
            reader = open_source(source, self._options)
            num_bytes = 0
            for document in reader:
                self._num_bytes += reader.num_bytes - num_bytes
                num_bytes = reader.num_bytes
                yield document
            self._num_bytes += source.num_bytes - num_bytes
            if reader.invalid_utf8:
                count = self.invalid_utf8.get(source.name, 0)
                self.invalid_utf8[source.name] = count + reader.invalid_utf8

    def take_num_bytes(self) -> int:
        """Returns the bytes read since the last call."""
        num_bytes, self._num_bytes = self._num_bytes, 0
        return num_bytes


class _Collector:
    """Builds and keeps the examples of one split of one part."""

    def __init__(self, plan: BuildPlan, rng: random.Random):
        self._builder = ExampleBuilder(
            plan.max_seq_length, rng, plan.keep_overflow
        )
        self._plan = plan
        self._examples: list[Examples] = []
        self.num_examples = 0
        self.num_documents = 0
        self.num_tokens = 0

    def add(
        self, token_ids: np.ndarray, lengths: list[int], is_continued: bool
    ) -> None:
        """Adds a document, or a piece of one."""
        self.num_tokens += len(token_ids)
        self._builder.add_lines(token_ids, lengths)
        if not is_continued:
            self.num_documents += 1
            self._builder.end_document()

    def collect(self) -> None:
        """Takes over the finished examples."""
        self._examples.append(self._builder.take())
        self.num_examples += len(self._examples[-1].first_lengths)

    def save(self, folder: pathlib.Path, split: str) -> None:
        """Writes the examples, listed by their number modulo the shards."""
        examples = join_examples(self._examples)
        num_shards = self._plan.num_shards[split]
        residues = np.arange(self.num_examples) % num_shards
        examples = select_examples(
            examples, np.argsort(residues, kind="stable")
        )
        lengths = np.stack(examples[1:], axis=1).astype(np.int32)
        example_ends = np.cumsum(np.bincount(residues, minlength=num_shards))
        token_ends = np.cumsum(np.append(0, lengths.sum(axis=1)))
        offsets = np.zeros([num_shards + 1, 2], np.int64)
        offsets[1:, 0] = example_ends
        offsets[1:, 1] = token_ends[example_ends]
        counts = np.bincount(
            examples.token_ids, minlength=self._plan.vocabulary.size
        )
        token_ids = examples.token_ids.astype(_token_type(self._plan))
        # Plain arrays: a shard reads many small pieces of them.
        token_ids.tofile(folder / f"{split}.tokens")
        lengths.tofile(folder / f"{split}.lengths")
        offsets.tofile(folder / f"{split}.offsets")
        counts.astype(np.int64).tofile(folder / f"{split}.counts")


def _token_type(plan: BuildPlan) -> type[np.integer]:
    """Returns the smallest type that all ids fit."""
    return np.uint16 if plan.vocabulary.size <= 1 << 16 else np.int32


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
    """Returns the split of a document, by a checksum of its text.

    Equal documents always fall on the same side, wherever they stand.
    """
    if not plan.validation_fraction:
        return TRAIN
    start = zlib.crc32(str(plan.seed).encode())
    checksum = zlib.crc32("\n".join(document.lines).encode(), start)
    return VALIDATION if checksum / 2**32 < plan.validation_fraction else TRAIN
