"""Corpus names to sources, work units and documents.

A corpus is named by a file, a folder (searched recursively), `tfds:NAME` or
`python_docs`. A source is a file or a part of a large one; it can be read
alone, by any process, and always gives the same documents.
"""

import dataclasses
import hashlib
import json
import os
import pathlib
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from electra_tf import errors
from electra_tf.records import python_docs
from electra_tf.records import tfds_reader
from electra_tf.records.readers import FORMATS
from electra_tf.records.readers import Document
from electra_tf.records.readers import FileReader
from electra_tf.records.readers import ReadingOptions
from electra_tf.records.readers import detect_format
from electra_tf.records.readers import is_compressed
from electra_tf.records.readers import is_document_start

PYTHON_DOCS = "python_docs"
_OPENWEBTEXT_FOLDER = "openwebtext"
# Text usually takes four times the space of its compressed form.
_COMPRESSION_RATIO = 4
_MIN_UNIT_BYTES = 1 << 20
_MAX_UNIT_BYTES = 1 << 26
_UNITS_PER_CORPUS = 256


@dataclasses.dataclass(frozen=True)
class Source:
    """A file, a range of its bytes, or a range of a TFDS data set.

    Attributes:
      name: what errors and counts call it; relative to the corpus.
      path: the file's path, or the full `tfds:` name.
      num_bytes: size on the disk; of TFDS an estimate.
      begin: first byte or TFDS example.
      end: byte or example after the last one; None for the end.
    """

    name: str
    path: str
    num_bytes: int
    begin: int = 0
    end: int | None = None

    @property
    def num_text_bytes(self) -> int:
        """The estimated size of the text inside."""
        ratio = _COMPRESSION_RATIO if is_compressed(self.path) else 1
        return self.num_bytes * ratio


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Sources in order, how to read them, and where they come from.

    Attributes:
      name: the names it was opened by, without folders.
      sources: what to read; never empty.
      options: how files become documents.
      provenance: versions and origins that the corpus itself states.
    """

    name: str
    sources: tuple[Source, ...]
    options: ReadingOptions
    provenance: dict[str, Any] = dataclasses.field(default_factory=dict)

    def documents(self) -> Iterator[Document]:
        """Yields all documents in order."""
        for source in self.sources:
            yield from open_source(source, self.options)

    @property
    def num_text_bytes(self) -> int:
        """The estimated size of all text."""
        return sum(source.num_text_bytes for source in self.sources)

    def describe(self) -> dict[str, Any]:
        """Returns what a manifest says about the corpus, as plain JSON.

        `fingerprint` covers names and sizes of the files, not their content.
        """
        listing = json.dumps(
            [[source.name, source.num_bytes] for source in self.sources]
        )
        return {
            "name": self.name,
            "num_files": len(self.sources),
            "num_bytes": sum(source.num_bytes for source in self.sources),
            "fingerprint": hashlib.sha256(listing.encode()).hexdigest(),
            "provenance": self.provenance,
            **self.options._asdict(),
        }


def open_corpus(
    names: str | Sequence[str],
    file_format: str = "auto",
    blanks_separate_docs: bool = True,
    text_field: str = "text",
) -> Corpus:
    """Returns the corpus of the given names, one after the other.

    Args:
      names: each one a file or folder of text (.txt or any other name; JSON
        lines as .jsonl; tar archives; all of them also as .gz, .xz, .bz2),
        `tfds:NAME[:FIELD]`, or `python_docs`, the documentation that comes
        with the Python installation.
      file_format: "auto", or one of `readers.FORMATS` for every file.
      blanks_separate_docs: in plain text, whether a blank line ends a
        document; otherwise every file is one document.
      text_field: the member of JSON objects that holds the text.

    Raises:
      DataError: if a name leads nowhere or there is nothing to read.
    """
    if file_format not in ("auto", *FORMATS):
        raise errors.DataError(
            f"The corpus format must be auto, {', '.join(FORMATS)}. "
            f"Received: {file_format!r}."
        )
    names = [names] if isinstance(names, str) else list(names)
    sources: list[Source] = []
    provenance: dict[str, Any] = {}
    for name in names:
        if name.startswith(tfds_reader.PREFIX):
            found, origin = _tfds_sources(name)
        else:
            found, origin = _file_sources(name)
        sources += found
        provenance.update(origin)
    if not sum(source.num_bytes for source in sources):
        raise errors.DataError(
            f"The corpus {', '.join(names)} is empty: {len(sources)} files, "
            "0 bytes. Name a file or folder with text."
        )
    short_names = [_short_name(name) for name in names]
    options = ReadingOptions(file_format, blanks_separate_docs, text_field)
    return Corpus("+".join(short_names), tuple(sources), options, provenance)


def open_source(
    source: Source, options: ReadingOptions
) -> FileReader | tfds_reader.TfdsReader:
    """Returns the reader of one source; iterate over it for the documents."""
    if source.path.startswith(tfds_reader.PREFIX):
        return tfds_reader.TfdsReader(
            source.path, source.name, source.begin, source.end
        )
    return FileReader(
        source.path, source.name, options, source.begin, source.end
    )


def plan_units(
    corpus: Corpus, unit_bytes: int | None = None
) -> list[tuple[Source, ...]]:
    """Returns the corpus as units of work of about equal size, in order.

    Large plain files are cut between documents, small ones are gathered. The
    plan depends on the corpus alone, never on the number of processes.

    Args:
      corpus: what to divide.
      unit_bytes: text per unit; None for 1/256 of the corpus, but at least
        1 MiB and at most 64 MiB.
    """
    if unit_bytes is None:
        share = corpus.num_text_bytes // _UNITS_PER_CORPUS
        unit_bytes = min(max(share, _MIN_UNIT_BYTES), _MAX_UNIT_BYTES)
    units: list[tuple[Source, ...]] = []
    unit: list[Source] = []
    size = 0
    for source in corpus.sources:
        for part in _split_source(source, corpus.options, unit_bytes):
            if unit and size + part.num_text_bytes > unit_bytes:
                units.append(tuple(unit))
                unit, size = [], 0
            unit.append(part)
            size += part.num_text_bytes
    if unit:
        units.append(tuple(unit))
    return units


def _file_sources(name: str) -> tuple[list[Source], dict[str, Any]]:
    """Returns the files of a corpus on the disk, sorted, and their origin."""
    root = pathlib.Path(python_docs.prepare() if name == PYTHON_DOCS else name)
    root = root.expanduser().absolute()
    if root.is_file():
        return [Source(root.name, str(root), root.stat().st_size)], {}
    if not root.is_dir():
        raise errors.DataError(
            f"No corpus at {name}. Name a file or folder with text, "
            f"{tfds_reader.PREFIX}NAME, or {PYTHON_DOCS}."
        )
    if (root / _OPENWEBTEXT_FOLDER).is_dir():
        root = root / _OPENWEBTEXT_FOLDER
    sources = []
    for folder, subfolders, files in os.walk(root):
        subfolders[:] = [name for name in subfolders if name[0] != "."]
        for file in files:
            path = pathlib.Path(folder, file)
            relative = path.relative_to(root).as_posix()
            if file[0] != "." and relative != python_docs.PROVENANCE_FILE:
                sources.append(Source(relative, str(path), path.stat().st_size))
    provenance = {}
    if (root / python_docs.PROVENANCE_FILE).is_file():
        provenance = json.loads(
            (root / python_docs.PROVENANCE_FILE).read_text("utf-8")
        )
    return sorted(sources, key=lambda source: source.name), provenance


def _tfds_sources(name: str) -> tuple[list[Source], dict[str, Any]]:
    """Returns ranges of a TFDS data set of about one unit each."""
    dataset = tfds_reader.describe(name)
    num_ranges = max(1, min(1024, dataset.num_bytes // _MIN_UNIT_BYTES))
    num_ranges = min(num_ranges, max(1, dataset.num_examples))
    bounds = [
        index * dataset.num_examples // num_ranges
        for index in range(num_ranges + 1)
    ]
    sources = [
        Source(
            f"{dataset.name}[{begin}:{end}]",
            name,
            dataset.num_bytes // num_ranges,
            begin,
            end,
        )
        for begin, end in zip(bounds[:-1], bounds[1:], strict=True)
    ]
    return sources, {dataset.name: dataset.version}


def _split_source(
    source: Source, options: ReadingOptions, unit_bytes: int
) -> list[Source]:
    """Returns parts of a large file, each of whole documents."""
    is_whole = (
        source.path.startswith(tfds_reader.PREFIX)
        or source.num_bytes < 2 * unit_bytes
        or is_compressed(source.path)
    )
    if is_whole:
        return [source]
    file_format = options.format
    if file_format == "auto":
        file_format = detect_format(source.path)
    if file_format == "archive" or (
        file_format == "text" and not options.blanks_separate_docs
    ):
        return [source]
    bounds = [0]
    with open(source.path, "rb") as stream:
        while bounds[-1] + unit_bytes < source.num_bytes:
            bound = _next_document(stream, bounds[-1] + unit_bytes, file_format)
            if bound is None:
                break
            bounds.append(bound)
    bounds.append(source.num_bytes)
    return [
        dataclasses.replace(source, num_bytes=end - begin, begin=begin, end=end)
        for begin, end in zip(bounds[:-1], bounds[1:], strict=True)
    ]


def _next_document(stream: Any, position: int, file_format: str) -> int | None:
    """Returns where the next document begins at or after a byte position."""
    stream.seek(position - 1)
    stream.readline()
    while True:
        bound = stream.tell()
        line = stream.readline()
        if not line:
            return None
        if is_document_start(line, file_format):
            return bound


def _short_name(name: str) -> str:
    """Returns a name that says the same on every machine."""
    if name.startswith(tfds_reader.PREFIX):
        return name
    return pathlib.Path(name).resolve().name
