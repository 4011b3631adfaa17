"""What is to be built, and the plan that all processes follow."""

import dataclasses
import importlib.metadata
import pathlib
from typing import Annotated
from typing import Any

import pydantic

from electra_tf import errors
from electra_tf.config import schema
from electra_tf.records import corpus as corpus_lib
from electra_tf.records import manifest as manifest_lib
from electra_tf.records import readers
from electra_tf.text.vocabulary import Vocabulary

BUILD_FOLDER = ".build"
# Where the number of shards is left to us: text per shard, and the most.
_SHARD_TEXT_BYTES = 1 << 24
_MAX_SHARDS = 1000
_DISTRIBUTIONS = ("electra-tf", "tensorflow-text")


@schema.frozen
class BuildSettings:
    """What the user asks of the builder."""

    corpus: tuple[str, ...]  # names of corpora, see `corpus.open_corpus`
    vocabulary: str  # folder with, or path of, `vocab.txt`
    output_dir: str  # the dataset folder to create
    max_seq_length: Annotated[int, pydantic.Field(ge=5, le=1 << 16)] = 128
    # Training shards; 0 takes one per 16 MiB of text, at least 8 where there
    # is text enough, at most 1000.
    num_out_files: Annotated[int, pydantic.Field(ge=0, le=99_999)] = 0
    # Share of documents held out.
    validation_fraction: Annotated[float, pydantic.Field(ge=0, lt=1)] = 0.01
    seed: Annotated[int, pydantic.Field(ge=0, lt=2**63)] = 0
    # Whether tokens that the original cuts off begin the document's next
    # example.
    keep_overflow: bool = False
    # Whether files, examples and random numbers take the order they have in
    # the original's program when it runs as one process with Python's `random`
    # seeded alike. Holds all examples in memory.
    original_order: bool = False
    # As in `readers.ReadingOptions`.
    corpus_format: readers.Format = "auto"
    blanks_separate_docs: bool = True
    text_field: str = "text"

    def __post_init__(self) -> None:
        schema.require(
            not (self.original_order and self.validation_fraction),
            "The original holds nothing out: with original_order set "
            f"validation_fraction to 0. Received: {self.validation_fraction}.",
        )


@dataclasses.dataclass(frozen=True)
class BuildPlan:
    """All that decides a dataset's bytes, and where its files are."""

    settings: BuildSettings
    corpus: corpus_lib.Corpus
    vocabulary: Vocabulary
    units: tuple[tuple[corpus_lib.Source, ...], ...]  # part i is of unit i
    num_shards: dict[str, int]  # by split

    @property
    def output_folder(self) -> pathlib.Path:
        """The dataset folder."""
        return pathlib.Path(self.settings.output_dir).absolute()

    def part_folder(self, index: int) -> pathlib.Path:
        """Where a part is; the folder exists when the part is complete."""
        return self.output_folder / BUILD_FOLDER / "parts" / f"{index:06d}"

    def note_path(self, split: str, index: int) -> pathlib.Path:
        """Where a finished shard is noted down."""
        folder = self.output_folder / BUILD_FOLDER / "shards"
        return folder / f"{split}-{index:05d}.json"

    def shard_path(self, split: str, index: int) -> pathlib.Path:
        """Where a shard is once it is finished."""
        name = f"{index:05d}-of-{self.num_shards[split]:05d}"
        return self.output_folder / split / f"pretrain_data.tfrecord-{name}"

    def record(self) -> dict[str, Any]:
        """Returns all that decides the dataset's bytes, as plain JSON."""
        settings = self.settings
        return {
            "corpus": self.corpus.describe(),
            "vocabulary": manifest_lib.describe_vocabulary(self.vocabulary),
            "tokenizer": dataclasses.asdict(self.vocabulary.settings),
            "max_seq_length": settings.max_seq_length,
            "seed": settings.seed,
            "builder": {
                "validation_fraction": settings.validation_fraction,
                "keep_overflow": settings.keep_overflow,
                "original_order": settings.original_order,
                "num_shards": self.num_shards,
                "versions": {
                    name: importlib.metadata.version(name)
                    for name in _DISTRIBUTIONS
                },
            },
        }


def build_plan(settings: BuildSettings) -> BuildPlan:
    """Opens corpus and vocabulary, divides the work; raises `DataError`."""
    output = pathlib.Path(settings.output_dir)
    for name in settings.corpus:
        if output.resolve().is_relative_to(pathlib.Path(name).resolve()):
            raise errors.DataError(
                f"The output folder {output} lies inside the corpus {name}, "
                "whose text it would become. Name a folder elsewhere."
            )
    vocabulary = Vocabulary.load(settings.vocabulary)
    options = readers.ReadingOptions(
        settings.corpus_format,
        settings.blanks_separate_docs,
        settings.text_field,
    )
    corpus = corpus_lib.open_corpus(settings.corpus, options)
    units = [corpus.sources]
    if not settings.original_order:
        units = corpus_lib.plan_units(corpus)
    num_shards = _choose_num_shards(settings, corpus.num_text_bytes)
    return BuildPlan(settings, corpus, vocabulary, tuple(units), num_shards)


def _choose_num_shards(
    settings: BuildSettings, num_text_bytes: int
) -> dict[str, int]:
    """The number of shards of each split that will exist."""
    num_train = settings.num_out_files
    if not num_train:
        at_least = max(1, min(8, num_text_bytes >> 16))
        num_train = max(num_text_bytes // _SHARD_TEXT_BYTES, at_least)
        num_train = min(num_train, _MAX_SHARDS)
    num_shards = {manifest_lib.TRAIN: num_train}
    if settings.validation_fraction:
        num_held_out = round(num_train * settings.validation_fraction)
        num_shards[manifest_lib.VALIDATION] = max(1, num_held_out)
    return num_shards
