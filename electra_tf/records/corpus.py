"""Corpus names to sources, work units and documents.

A source is a file or a part of a large one; any process can read it alone, and
it always gives the same documents.
"""

import collections
import dataclasses
import hashlib
import itertools
import json
import os
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import IO, Any

from electra_tf import errors
from electra_tf import installed
from electra_tf import storage
from electra_tf.records import python_docs
from electra_tf.records import readers

PYTHON_DOCS = "python_docs"
TFDS_PREFIX = "tfds:"
_TFDS_SPLIT = "train"
# Text usually takes four times the space of its compressed form.
_COMPRESSION_RATIO = 4
_MIN_UNIT_BYTES = 1 << 20
_MAX_UNIT_BYTES = 1 << 26
_UNITS_PER_CORPUS = 256
# Limits of the preview: files that tell formats, text that tells documents.
_MOST_FILES, _MOST_CHARACTERS = 200, 1 << 22


@dataclasses.dataclass(frozen=True)
class Source:
    """A file, a range of its bytes, or a range of a TFDS data set."""

    name: str  # relative to the corpus
    path: str  # of the file, or the full `tfds:` name
    num_bytes: int  # on the disk; of TFDS an estimate
    begin: int = 0  # first byte or TFDS example
    end: int | None = None  # byte or example after the last one
    corpus: int = 0  # index of its name

    @property
    def is_tfds(self) -> bool:
        """Returns whether it is part of a TensorFlow Datasets data set."""
        return self.path.startswith(TFDS_PREFIX)

    @property
    def num_text_bytes(self) -> int:
        """The estimated size of the text inside."""
        is_compressed = readers.is_compressed(storage.path(self.path))
        return self.num_bytes * (_COMPRESSION_RATIO if is_compressed else 1)


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Sources in order, how to read them, and where they come from."""

    name: str  # the names it was opened by, without folders
    sources: tuple[Source, ...]  # never empty
    options: readers.ReadingOptions
    provenance: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def num_text_bytes(self) -> int:
        """The estimated size of all text."""
        return sum(source.num_text_bytes for source in self.sources)

    def describe(self) -> dict[str, Any]:
        """Returns what a manifest says about the corpus, as plain JSON."""
        # The fingerprint covers names and sizes of the files alone.
        files = [[each.name, each.num_bytes] for each in self.sources]
        fingerprint = hashlib.sha256(json.dumps(files).encode()).hexdigest()
        return {
            "name": self.name,
            "num_files": len(self.sources),
            "num_bytes": sum(source.num_bytes for source in self.sources),
            "fingerprint": fingerprint,
            "provenance": self.provenance,
            **dataclasses.asdict(self.options),
        }


class TfdsReader:
    """The documents of a range of TFDS examples, like `readers.FileReader`."""

    def __init__(self, source: Source):
        self._source = source
        self.invalid_utf8 = self.num_bytes = self.num_empty = 0

    def __iter__(self) -> Iterator[readers.Document]:
        name, field = parse_tfds_name(self._source.path)
        tfds = installed.import_extra("tensorflow_datasets", "tfds")
        builder = tfds.builder(name)
        if field not in builder.info.features:
            raise errors.DataError(
                f"{name} has no field {field!r}; it has "
                f"{sorted(builder.info.features)}. Name it as "
                f"{TFDS_PREFIX}{name}:FIELD."
            )
        dataset = builder.as_dataset(
            split=f"{_TFDS_SPLIT}[{self._source.begin}:{self._source.end}]",
            shuffle_files=False,
            # One file after the other: the order must not depend on timing.
            read_config=tfds.ReadConfig(interleave_cycle_length=1),
        )
        for example in dataset.as_numpy_iterator():
            self.num_bytes += len(example[field])
            text, num_replaced = readers.decode_leniently(example[field])
            self.invalid_utf8 += num_replaced
            if lines := readers.text_lines(text):
                yield readers.Document(lines)
            self.num_empty += not lines


def open_corpus(
    names: str | Sequence[str], options: readers.ReadingOptions | None = None
) -> Corpus:
    """Finds the sources of the given names, in order.

    A name is a file or folder of text, or a pattern of such (.txt or any other
    name; JSON lines as .jsonl; tar archives; all of them also as .gz, .xz,
    .bz2, .zst; .parquet; .arrow), `tfds:NAME[:FIELD]`, or `python_docs`, the
    documentation that comes with the Python installation. In a folder with
    tables, other files are left out, as they describe the tables. Raises
    `DataError` if there is nothing to read.
    """
    names = [names] if isinstance(names, str) else list(names)
    sources, short_names = list[Source](), list[str]()
    provenance: dict[str, Any] = {}
    for index, name in enumerate(names):
        if name.startswith(TFDS_PREFIX):
            named, origin = _tfds_sources(name)
        else:
            named, origin = _file_sources(name)
            name = _without_surrogates(storage.path(name).resolve().name)
        short_names.append(name)
        sources += [dataclasses.replace(each, corpus=index) for each in named]
        provenance |= origin
    if not sum(source.num_bytes for source in sources):
        raise errors.DataError(
            f"The corpus {', '.join(names)} is empty: {len(sources)} files, "
            "0 bytes. Name a file or folder with text."
        )
    options = options or readers.ReadingOptions()
    return Corpus("+".join(short_names), tuple(sources), options, provenance)


def open_source(
    source: Source, options: readers.ReadingOptions
) -> readers.FileReader | TfdsReader:
    """Opens one source: an iterable of its documents."""
    if source.is_tfds:
        return TfdsReader(source)
    return readers.FileReader(source.path, options, source.begin, source.end)


def preview(corpus: Corpus) -> list[str]:
    """Returns lines that say how a corpus is read, with its first document."""
    first, options = corpus.sources[:_MOST_FILES], corpus.options
    formats = collections.Counter(
        "tfds"
        if source.is_tfds
        else readers.find_format(storage.path(source.path), options)
        for source in first
    )
    lines = [
        f"Corpus: {count:,} {'files' if count > 1 else 'file'} of {name}, "
        f"{readers.describe_documents(name, options)}."
        for name, count in formats.items()
    ]
    if others := len(corpus.sources) - len(first):
        lines.append(f"{others:,} more files were not looked at yet.")
    pairs = ((x, text) for x in corpus.sources for text in _texts(x, options))
    number, size, shown = 0, 0, ""
    for source, text in pairs:
        number += 1
        shown = shown or f"The first, of {source.name}: {text:.160}"
        size += len(text)
        if size > _MOST_CHARACTERS:
            break
    begins = "The first " * (size > _MOST_CHARACTERS)
    mean = f"{size / max(1, number):,.0f} characters on average"
    counted = f"{begins}{number:,} documents, {mean}."
    return [*lines, counted, shown or "None has a text."]


def _texts(source: Source, options: readers.ReadingOptions) -> Iterator[str]:
    for document in open_source(source, options):
        yield " ".join(document.lines)


def plan_units(
    corpus: Corpus, unit_bytes: int | None = None
) -> list[tuple[Source, ...]]:
    """Divides a corpus, in order, into 256 units, but of 1 to 64 MiB each."""
    if unit_bytes is None:
        share = corpus.num_text_bytes // _UNITS_PER_CORPUS
        unit_bytes = min(max(share, _MIN_UNIT_BYTES), _MAX_UNIT_BYTES)
    units: list[list[Source]] = []
    size = 0
    for source in corpus.sources:
        for part in _split_source(source, corpus.options, unit_bytes):
            if not units or size + part.num_text_bytes > unit_bytes:
                units.append([])
                size = 0
            units[-1].append(part)
            size += part.num_text_bytes
    return list(map(tuple, units))


def _file_sources(name: str) -> tuple[list[Source], dict[str, Any]]:
    """The files of a corpus on the disk, sorted, and their origin."""
    root = python_docs.prepare() if name == PYTHON_DOCS else storage.path(name)
    root = root.absolute()
    if root.is_file():
        name = _without_surrogates(root.name)
        return [Source(name, str(root), root.stat().st_size)], {}
    if (root / "openwebtext").is_dir():
        root = root / "openwebtext"
    matches = [root] if root.is_dir() else []
    # The names of the path from the first with a wildcard.
    pattern = [*itertools.dropwhile(set("*?[").isdisjoint, root.parts)]
    if not matches and pattern:
        root = root.parents[len(pattern) - 1]
        matches = sorted(root.glob("/".join(pattern)))
    if not matches:
        raise errors.DataError(
            f"No corpus at {name}. Name a file or folder with text, a pattern "
            f"of them ('texts/*.txt'), {TFDS_PREFIX}NAME, or {PYTHON_DOCS}."
        )
    paths = {
        name: path
        for folder in matches
        for path in (folder, *folder.rglob("*"))
        if not re.search(r"(^|/)\.", name := path.relative_to(root).as_posix())
        and _is_file(path, folder)
    }
    origin = paths.pop(python_docs.PROVENANCE_FILE, None)
    tables = {name for name in paths if name.endswith(readers.TABLE_SUFFIXES)}
    sources = [
        Source(_without_surrogates(name), str(path), path.stat().st_size)
        for name, path in sorted(paths.items())
        if name in (tables or paths)
    ]
    return sources, json.loads(origin.read_text("utf-8")) if origin else {}


def _without_surrogates(name: str) -> str:
    return os.fsencode(name).decode(errors="replace")


def _is_file(path: Any, folder: Any) -> bool:
    """Returns whether it is a file; refuses links to folders in `folder`."""
    is_file: bool = path.is_file()
    is_link = isinstance(path, pathlib.Path) and path.is_symlink()
    if is_link and not is_file and path.is_dir() and path != folder:
        raise errors.DataError(
            f"{path} is a link to a folder, and those are not followed inside "
            f"a corpus. Name it by a pattern, such as '{path.parent}/*'."
        )
    return is_file


def _tfds_sources(name: str) -> tuple[list[Source], dict[str, Any]]:
    """Ranges of a TFDS data set of about one unit each, and its version."""
    dataset_name, _ = parse_tfds_name(name)
    tfds = installed.import_extra("tensorflow_datasets", "tfds")
    try:
        builder = tfds.builder(dataset_name)
        builder.download_and_prepare()
        split = builder.info.splits[_TFDS_SPLIT]
    except (KeyError, ValueError, OSError) as error:
        # The other lines list all data sets that exist.
        lines = str(error).splitlines() or [repr(error)]
        hints = [line for line in lines[1:] if line.startswith("Did you mean")]
        raise errors.DataError(
            f"TensorFlow Datasets cannot give {dataset_name}, split "
            f"{_TFDS_SPLIT}: {' '.join([lines[0], *hints])}"
        ) from error
    num_bytes, num_examples = max(1, split.num_bytes), split.num_examples
    num_ranges = max(1, min(1024, num_bytes // _MIN_UNIT_BYTES, num_examples))
    bounds = [i * num_examples // num_ranges for i in range(num_ranges + 1)]
    size = num_bytes // num_ranges
    return [
        Source(f"{dataset_name}[{begin}:{end}]", name, size, begin, end)
        for begin, end in itertools.pairwise(bounds)
    ], {dataset_name: builder.info.full_name}


def _split_source(
    source: Source, options: readers.ReadingOptions, unit_bytes: int
) -> list[Source]:
    path = storage.path(source.path)
    if source.num_bytes < 2 * unit_bytes or source.is_tfds:
        return [source]
    file_format = readers.find_format(path, options)
    is_one_document = file_format != "wiki" and not options.blanks_separate_docs
    if is_one_document or not readers.can_be_split(path, file_format):
        return [source]
    bounds, bound = [0], unit_bytes
    with path.open("rb") as stream:
        while bound < source.num_bytes and (
            start := _next_document(stream, bound, file_format)
        ):
            bounds.append(start)
            bound = start + unit_bytes
    return [
        dataclasses.replace(source, num_bytes=end - begin, begin=begin, end=end)
        for begin, end in itertools.pairwise([*bounds, source.num_bytes])
    ]


def _next_document(
    stream: IO[bytes], position: int, file_format: str
) -> int | None:
    """The byte where the next document begins, from `position` on."""
    if file_format in readers.TABLES:
        return position  # a row group belongs to the part it begins in
    bound, before = position - 1, b""
    stream.seek(bound)
    # A line can be as long as the file, so it is read in parts.
    while part := stream.readline(_MIN_UNIT_BYTES):
        is_line_start = before.endswith(b"\n")
        if is_line_start and readers.is_document_start(part, file_format):
            return bound
        bound, before = bound + len(part), part
    return None


def parse_tfds_name(reference: str) -> tuple[str, str]:
    """Splits a reference into data set (with config, version) and field.

    >>> parse_tfds_name("tfds:wikipedia/20230601.en:1.0.0:title")
    ('wikipedia/20230601.en:1.0.0', 'title')
    """
    pattern = TFDS_PREFIX + r"([^:]+(?::\d+\.[\d*]+\.[\d*]+)?)(?::([^:]+))?"
    match = re.fullmatch(pattern, reference)
    if match is None:
        raise errors.DataError(
            f"Expected {TFDS_PREFIX}NAME[:VERSION][:FIELD]. "
            f"Received: {reference}."
        )
    return match[1], match[2] or "text"
