"""What is to be built, and the plan that all processes follow."""

import dataclasses
import importlib.metadata
import pathlib
from typing import Any

from electra_tf.records.corpus import Corpus
from electra_tf.records.corpus import Source
from electra_tf.records.corpus import plan_units
from electra_tf.records.manifest import TRAIN
from electra_tf.records.manifest import VALIDATION
from electra_tf.records.manifest import describe_vocabulary
from electra_tf.records.readers import ReadingOptions
from electra_tf.text.vocabulary import Vocabulary

# Where the number of shards is left to us: text per shard, and the most.
_SHARD_TEXT_BYTES = 1 << 24
_MAX_SHARDS = 1000
_DISTRIBUTIONS = ("electra-tf", "tensorflow-text")


@dataclasses.dataclass(frozen=True)
class BuildSettings:
    """What the user asks of the builder.

    Attributes:
      corpus: names of corpora, see `corpus.open_corpus`.
      vocabulary: folder with, or path of, `vocab.txt`.
      output_dir: the dataset folder to create.
      max_seq_length: tokens per example, at least 5.
      num_out_files: training shards; 0 takes one per 16 MiB of text, at least
        8 where there is text enough, at most 1000.
      validation_fraction: share of documents held out, 0 to below 1.
      seed: of all random numbers; 0 or more.
      keep_overflow: whether tokens that the original cuts off begin the next
        example of their document.
      original_order: whether files, examples and random numbers take the
        order they have in the original's program when it runs as one process
        with Python's `random` seeded alike. Holds all examples in memory.
      corpus_format: see `corpus.open_corpus`.
      blanks_separate_docs: see `corpus.open_corpus`.
      text_field: see `corpus.open_corpus`.
    """

    corpus: tuple[str, ...]
    vocabulary: str
    output_dir: str
    max_seq_length: int = 128
    num_out_files: int = 0
    validation_fraction: float = 0.01
    seed: int = 0
    keep_overflow: bool = False
    original_order: bool = False
    corpus_format: str = "auto"
    blanks_separate_docs: bool = True
    text_field: str = "text"

    def __post_init__(self) -> None:
        """Raises ValueError for settings that cannot work."""
        limits = (
            ("max_seq_length", 5, 1 << 16),
            ("num_out_files", 0, 99_999),
            ("seed", 0, 2**63 - 1),
        )
        for name, low, high in limits:
            value = getattr(self, name)
            if not low <= value <= high:
                raise ValueError(
                    f"{name} must be from {low} to {high}. Received: {value}."
                )
        if not 0 <= self.validation_fraction < 1:
            raise ValueError(
                "validation_fraction must be from 0 to below 1. Received: "
                f"{self.validation_fraction}."
            )
        if self.original_order and self.validation_fraction:
            raise ValueError(
                "The original holds nothing out: with original_order set "
                "validation_fraction to 0. Received: "
                f"{self.validation_fraction}."
            )


@dataclasses.dataclass(frozen=True)
class BuildPlan:
    """All that decides a dataset's bytes, and where its files are.

    Attributes:
      units: the corpus, divided; part i is made from unit i.
      options: how files become documents.
      vocabulary: the tokens' ids, and how text becomes tokens.
      build_folder: where parts and notes on finished shards are kept.
      output_folder: the dataset folder.
      max_seq_length: tokens per example.
      keep_overflow: see `ExampleBuilder`.
      validation_fraction: share of documents held out, 0 to below 1.
      seed: of all random numbers.
      num_shards: number of shards by split.
      original_order: one random generator for everything, shards unshuffled.
    """

    units: tuple[tuple[Source, ...], ...]
    options: ReadingOptions
    vocabulary: Vocabulary
    build_folder: str
    output_folder: str
    max_seq_length: int
    keep_overflow: bool
    validation_fraction: float
    seed: int
    num_shards: dict[str, int]
    original_order: bool


def build_plan(
    settings: BuildSettings,
    corpus: Corpus,
    vocabulary: Vocabulary,
    folder: pathlib.Path,
) -> BuildPlan:
    """Returns the plan that all processes follow."""
    units = plan_units(corpus)
    if settings.original_order:
        units = [corpus.sources]
    return BuildPlan(
        units=tuple(units),
        options=corpus.options,
        vocabulary=vocabulary,
        build_folder=str(folder),
        output_folder=str(folder.parent),
        max_seq_length=settings.max_seq_length,
        keep_overflow=settings.keep_overflow,
        validation_fraction=settings.validation_fraction,
        seed=settings.seed,
        num_shards=_choose_num_shards(settings, corpus),
        original_order=settings.original_order,
    )


def build_record(
    settings: BuildSettings,
    corpus: Corpus,
    vocabulary: Vocabulary,
) -> dict[str, Any]:
    """Returns all that decides the dataset's bytes, as plain JSON."""
    return {
        "corpus": corpus.describe(),
        "vocabulary": describe_vocabulary(vocabulary),
        "tokenizer": dataclasses.asdict(vocabulary.settings),
        "max_seq_length": settings.max_seq_length,
        "seed": settings.seed,
        "builder": {
            "validation_fraction": settings.validation_fraction,
            "keep_overflow": settings.keep_overflow,
            "original_order": settings.original_order,
            "num_shards": _choose_num_shards(settings, corpus),
            "versions": {
                name: importlib.metadata.version(name)
                for name in _DISTRIBUTIONS
            },
        },
    }


def _choose_num_shards(
    settings: BuildSettings, corpus: Corpus
) -> dict[str, int]:
    """Returns the number of shards of each split that will exist."""
    num_train = settings.num_out_files
    if not num_train:
        num_bytes = corpus.num_text_bytes
        at_least = max(1, min(8, num_bytes >> 16))
        num_train = min(
            max(num_bytes // _SHARD_TEXT_BYTES, at_least), _MAX_SHARDS
        )
    num_shards = {TRAIN: num_train}
    fraction = settings.validation_fraction
    if fraction:
        num_shards[VALIDATION] = max(1, round(num_train * fraction))
    return num_shards
