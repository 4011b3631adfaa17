"""What a dataset folder says about itself, and the check against a config.

A dataset folder holds `manifest.json`, `vocab.txt`, `tokenizer_config.json`
and one folder per split, each with a manifest of its own, its shards and
`unigram_counts.npy`.
"""

import dataclasses
import hashlib
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from electra_tf import errors
from electra_tf.records.atomic import replacing_file
from electra_tf.text.vocabulary import Vocabulary

FORMAT_VERSION = 1
MANIFEST_FILE = "manifest.json"
TOKEN_COUNTS_FILE = "unigram_counts.npy"
TRAIN = "train"
VALIDATION = "validation"
SPLITS = (TRAIN, VALIDATION)


@dataclasses.dataclass(frozen=True)
class Shard:
    """One TFRecord file.

    Attributes:
      name: file name inside the split's folder.
      num_examples: records.
      num_tokens: tokens that are not padding, [CLS] and [SEP] included.
      num_bytes: size of the file.
      sha256: of the file's bytes.
    """

    name: str
    num_examples: int
    num_tokens: int
    num_bytes: int
    sha256: str


@dataclasses.dataclass(frozen=True)
class Manifest:
    """The contents of one split.

    Attributes:
      split: `train` or `validation`.
      corpus: name, size, reading options and versions of the text.
      vocabulary: sha256, size and special ids of the vocabulary.
      tokenizer: casing, accents and word length, as tokenized.
      max_seq_length: tokens per example, padding included.
      builder: settings of the example builder and versions of its parts.
      seed: of the builder's random numbers.
      num_documents: documents in this split.
      num_corpus_tokens: tokens of their text; more than the examples hold
        where overflow was dropped.
      num_examples: records in all shards.
      num_tokens: tokens in all shards that are not padding.
      shards: the files; their numbers of examples differ by one at most.
      token_counts: file with how often each id occurs in the examples, int64
        `[vocabulary size]`; [CLS], [SEP] and padding are not counted.
      invalid_utf8: byte sequences replaced, by corpus file; of both splits.
      format_version: of this file's layout.
    """

    split: str
    corpus: Mapping[str, Any]
    vocabulary: Mapping[str, Any]
    tokenizer: Mapping[str, Any]
    max_seq_length: int
    builder: Mapping[str, Any]
    seed: int
    num_documents: int
    num_corpus_tokens: int
    num_examples: int
    num_tokens: int
    shards: tuple[Shard, ...]
    token_counts: str
    invalid_utf8: Mapping[str, int]
    format_version: int = FORMAT_VERSION

    @classmethod
    def load(cls, folder: str | os.PathLike) -> "Manifest":
        """Returns the manifest in a split's folder.

        Raises:
          DataError: if there is none, or one of another format.
        """
        content = _read_json(folder)
        if content.get("format_version") != FORMAT_VERSION:
            raise errors.DataError(
                f"{folder} has manifest format {content.get('format_version')};"
                f" this program reads format {FORMAT_VERSION}. Build the "
                "dataset again."
            )
        if "shards" not in content:
            raise errors.DataError(
                f"{folder} holds the splits {sorted(content['splits'])}. Name "
                "the folder of one of them."
            )
        names = {field.name for field in dataclasses.fields(cls)}
        if set(content) != names:
            raise errors.DataError(
                f"{folder}/{MANIFEST_FILE} is no manifest of this program: "
                f"missing {sorted(names - set(content))}, unknown "
                f"{sorted(set(content) - names)}."
            )
        content["shards"] = tuple(Shard(**shard) for shard in content["shards"])
        return cls(**content)

    def save(self, folder: str | os.PathLike) -> None:
        """Writes the manifest into a split's folder."""
        _write_json(folder, dataclasses.asdict(self))

    def summary(self) -> str:
        """Returns one line that says how much there is."""
        return (
            f"{self.split}: {self.num_documents:,} documents, "
            f"{self.num_examples:,} examples, {self.num_tokens:,} tokens in "
            f"{len(self.shards)} shards"
        )

    def check(
        self,
        vocabulary: Vocabulary | None = None,
        max_seq_length: int | None = None,
    ) -> None:
        """Checks that the records are those that a reader expects.

        Args:
          vocabulary: the reader's vocabulary; None accepts any.
          max_seq_length: the reader's sequence length; None accepts any.

        Raises:
          DataError: names the dataset's value and the expected one.
        """
        expected: dict[str, tuple[Any, Any]] = {}
        if max_seq_length is not None:
            expected["max_seq_length"] = (self.max_seq_length, max_seq_length)
        if vocabulary is not None:
            described = describe_vocabulary(vocabulary)
            for key, value in described.items():
                expected[f"vocabulary {key}"] = (self.vocabulary[key], value)
            settings = dataclasses.asdict(vocabulary.settings)
            for key, value in settings.items():
                expected[f"tokenizer {key}"] = (self.tokenizer.get(key), value)
        differences = [
            f"{name}: the dataset has {found}, expected was {wanted}"
            for name, (found, wanted) in expected.items()
            if found != wanted
        ]
        if differences:
            raise errors.DataError(
                f"The {self.split} records do not fit: "
                + "; ".join(differences)
                + ". Build the dataset again, or change the config."
            )


def describe_vocabulary(vocabulary: Vocabulary) -> dict[str, Any]:
    """Returns what a manifest records of a vocabulary, as plain JSON."""
    return {
        "sha256": vocabulary.sha256,
        "size": vocabulary.size,
        "special_ids": list(vocabulary.special_ids),
    }


def load_token_counts(
    folder: str | os.PathLike, vocab_size: int | None = None
) -> np.ndarray:
    """Returns how often each id occurs in a split: `[vocabulary]` int64.

    Counted are the tokens of the written examples, each as often as it stands
    there, [UNK] included. [CLS], [SEP], [MASK] and padding have count 0.

    Args:
      folder: the split's folder.
      vocab_size: ids that the reader knows; None accepts any number.

    Raises:
      DataError: if the file of counts is missing or damaged, or its counts
        are not those of such a split.
    """
    manifest = Manifest.load(folder)
    path = pathlib.Path(folder, manifest.token_counts)
    try:
        counts = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise errors.DataError(
            f"{path} cannot be read: {error}. Build the dataset again."
        ) from error
    size = manifest.vocabulary["size"] if vocab_size is None else vocab_size
    expected, received = None, ""
    if counts.dtype != np.int64 or counts.shape != (size,):
        expected = f"one int64 count for each of {size} ids"
        received = f"{counts.dtype} {list(counts.shape)}"
    elif (counts < 0).any():
        expected = "counts of at least 0"
        received = f"{counts.min()} for id {counts.argmin()}"
    elif manifest.num_examples and not counts.any():
        expected = f"the tokens of {manifest.num_examples} examples"
        received = "zeros only"
    if expected:
        raise errors.DataError(
            f"{path} must hold {expected}. Received: {received}. Build the "
            "dataset again, or use the vocabulary that is saved with it."
        )
    return counts


def load_index(folder: str | os.PathLike) -> dict[str, Any]:
    """Returns the manifest of a whole dataset: its build, its splits.

    Raises:
      DataError: if the folder holds no finished dataset.
    """
    content = _read_json(folder)
    if "splits" not in content:
        raise errors.DataError(
            f"{folder} holds one split. Name the folder above it."
        )
    return content


def save_index(folder: str | os.PathLike, build: Mapping[str, Any]) -> None:
    """Writes the manifest of a whole dataset; its splits must be there.

    Args:
      folder: the dataset folder.
      build: the settings it was built with.
    """
    splits = {}
    for split in SPLITS:
        path = pathlib.Path(folder, split, MANIFEST_FILE)
        if path.is_file():
            manifest = Manifest.load(path.parent)
            splits[split] = {
                "num_examples": manifest.num_examples,
                "num_tokens": manifest.num_tokens,
                "num_shards": len(manifest.shards),
                "manifest_sha256": file_sha256(path),
            }
    content = {
        "format_version": FORMAT_VERSION,
        "splits": splits,
        "build": build,
    }
    _write_json(folder, content)


def file_sha256(path: str | os.PathLike) -> str:
    """Returns the SHA-256 of a file's bytes, in hexadecimal digits."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _read_json(folder: str | os.PathLike) -> dict[str, Any]:
    """Returns the content of a folder's manifest file."""
    path = pathlib.Path(folder, MANIFEST_FILE)
    if not path.is_file():
        raise errors.DataError(
            f"No dataset at {folder}: {MANIFEST_FILE} is missing. Build one "
            "with scripts/build_pretraining_dataset.py; an interrupted build "
            "goes on with --resume."
        )
    try:
        content = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise errors.DataError(f"{path} is no JSON file: {error}.") from error
    if not isinstance(content, dict):
        raise errors.DataError(f"{path} holds no JSON object.")
    return content


def _write_json(folder: str | os.PathLike, content: Any) -> None:
    """Writes a folder's manifest file."""
    with replacing_file(pathlib.Path(folder, MANIFEST_FILE)) as partial:
        text = json.dumps(content, indent=1, ensure_ascii=False)
        partial.write_text(text + "\n", "utf-8")
