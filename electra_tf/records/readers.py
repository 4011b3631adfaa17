"""Reads the documents of one corpus file: text, JSON lines, wiki, tables.

As in the original, only line feeds end lines, and `str.strip` strips them. Very
long lines are cut to bound the memory. Bytes that are not UTF-8 become U+FFFD.
"""

import bz2
import contextlib
import csv
import gzip
import io
import json
import lzma
import pathlib
import re
import sys
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from typing import IO, Any, Literal, NamedTuple, cast

from electra_tf import errors
from electra_tf import installed
from electra_tf import storage
from electra_tf.config import schema

Format = Literal[
    "auto", "text", "jsonl", "wiki", "archive", "csv", "parquet", "arrow"
]
TABLES = ("parquet", "arrow")
TABLE_SUFFIXES = (".parquet", ".arrow")

_OPENERS: dict[str, Any] = {
    ".gz": gzip.open,
    ".xz": lzma.open,
    ".bz2": bz2.open,
    ".zst": lambda raw: _pyarrow().CompressedInputStream(raw, "zstd"),
}
_COMPRESSED = re.compile(
    rb"(?P<gz>\x1f\x8b\x08)|(?P<xz>\xfd7zXZ\0)|(?P<bz2>BZh\d1AY&SY)|"
    rb"(?P<zst>\x28\xb5\x2f\xfd)"
)
_DAMAGES = (EOFError, OSError, lzma.LZMAError, tarfile.TarError, zlib.error)
# PyArrow's names of types that hold text.
_TEXT_TYPE = re.compile("(dictionary<values=)?(large_)?(string|binary)")
_JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
_CSV_SUFFIXES = (".csv", ".tsv")
_HEAD_BYTES = 1 << 12
# The first bytes of files by format; they outrank the file's name.
_BEGINNINGS = {
    "wiki": rb"\s*<doc ",
    "jsonl": rb'\s*(\[\s*)?\{\s*"(\\.|[^"\\])*"\s*:|\[\s*"',
    "parquet": rb"PAR1",
    "arrow": rb"\xff\xff\xff\xff",
}
# The first bytes of files that are refused, with the kind and a remedy.
_READ_AS_TEXT = "or read all of it by --corpus_format=text"
_REFUSED = {
    rb"(?i)\s*<(!doctype|html|head|\?xml|mediawiki)\b": (
        f"HTML or XML. Take the text out of it, {_READ_AS_TEXT}"
    ),
    rb"From \S+ .*\d:\d\d.*\n[\w-]+: ": (
        f"an mbox. Take the mails' texts out of it, {_READ_AS_TEXT}"
    ),
    rb"WARC/\d": "a web archive. Take the text of the pages out of it",
    rb"%PDF-|\{\\rtf|PK\x03\x04|\xd0\xcf\x11\xe0": (
        "a PDF, a document of an office program or a ZIP. Save its text"
    ),
    rb"ARROW1": "Arrow's file format (Feather). Save the table as Parquet",
    rb"version https://git-lfs": "a pointer of Git LFS. Run git lfs pull",
    rb"\xff\xfe|\xfe\xff": "UTF-16. Convert it: iconv -f UTF-16 -t UTF-8",
}
_BLOCK_BYTES = 1 << 22
_MAX_LINE_BYTES = 1 << 25
_MAX_LINE_CHARACTERS = 1 << 20
# A part of a line, up to a blank if there is one.
_LINE_PART = re.compile(
    rf".{{1,{_MAX_LINE_CHARACTERS}}}(?!\S)|.{{1,{_MAX_LINE_CHARACTERS}}}"
)
_BYTES_INSIDE_CHARACTERS = bytes(range(0x80, 0xC0))
_TAR_MAGIC = slice(257, 262)
# The first and the last line of a document of WikiExtractor.
_WIKI_TAG = re.compile("<doc .*|</doc>", re.DOTALL)
# Marks the end of a document in a list of stripped lines.
_END_OF_DOCUMENT = ""
# Control characters that no text has.
_CONTROL_BYTES = bytes(set(range(32)) - set(b"\b\t\n\v\f\r\x1b"))
_MAX_UNREADABLE = 0.1
# JSON can spell lone surrogates, which UTF-8 cannot encode.
_SURROGATE = re.compile("[\ud800-\udfff]")


class Document(NamedTuple):
    """Stripped, non-empty lines that belong together."""

    lines: list[str]
    # Whether the next `Document` continues this one, which is very long.
    is_continued: bool = False


@schema.frozen
class ReadingOptions:
    """Settings of how files become documents."""

    format: Format = "auto"  # "auto": by file name and first bytes
    # Whether a document ends at a blank line of plain text, with a JSON object
    # or with a row of a table; else it ends with its file.
    blanks_separate_docs: bool = True
    text_field: str = "text"  # JSON member or column that holds the text


class FileReader:
    """The documents of one file, or of a range of its bytes.

    Documents must begin at `begin` and at `end`. `num_bytes` counts the bytes
    of the file read so far, `invalid_utf8` the byte sequences replaced,
    `num_empty` the JSON objects and rows without a text.
    """

    def __init__(
        self,
        path: str,
        options: ReadingOptions,
        begin: int = 0,
        end: int | None = None,
    ):
        self._path, self._options = storage.path(path), options
        self._begin, self._end = begin, end or sys.maxsize
        self.invalid_utf8 = self.num_bytes = self.num_empty = 0

    def __iter__(self) -> Iterator[Document]:
        """Yields the documents; raises `DataError` for a damaged file."""
        with _naming_damage(self._path), self._path.open("rb") as raw:
            raw.seek(self._begin)
            for document in _gather_documents(self._line_blocks(raw)):
                self.num_bytes = raw.tell() - self._begin
                yield document
            self.num_bytes = raw.tell() - self._begin

    def _line_blocks(self, raw: IO[bytes]) -> Iterator[list[str]]:
        """Yields lists of stripped lines and `_END_OF_DOCUMENT`s."""
        file_format = find_format(self._path, self._options)
        if file_format in TABLES:
            column = file_format, self._options.text_field
            for texts in _read_column(raw, *column, self._begin, self._end):
                decoded = (decode_leniently(text or b"") for text in texts)
                yield [x for text in decoded for x in self._record_lines(*text)]
            return
        # Kept alive: PyArrow closes the file when it deletes the stream.
        stream = self._stream = _decompress(raw, self._path)
        if file_format == "archive":
            yield from self._archive_members(stream)
            return
        if file_format == "csv":
            yield from self._csv_rows(stream)
            return
        line_number = 1
        for data in self._whole_lines(stream):
            text = self._decode(data, str(self._path))
            lines = [line.strip() for line in text.split("\n")]
            if file_format == "jsonl":
                yield self._json_lines(lines, line_number)
            elif file_format == "wiki":
                yield [
                    _END_OF_DOCUMENT if _WIKI_TAG.fullmatch(line) else line
                    for line in lines
                    if line
                ]
            elif self._options.blanks_separate_docs:
                yield lines
            else:
                yield list(filter(None, lines))
            line_number += len(lines)

    def _whole_lines(self, stream: IO[bytes]) -> Iterator[bytes]:
        """Yields blocks of whole lines, without the line feed after a block."""
        remaining, rest = self._end - self._begin, b""
        while block := stream.read(min(_BLOCK_BYTES, remaining)):
            remaining -= len(block)
            head, line_feed, tail = block.rpartition(b"\n")
            if line_feed:
                yield rest + head
                rest = tail
            else:
                rest += tail
            if len(rest) > _MAX_LINE_BYTES:
                # Cut before the last character, which may be incomplete.
                cut = len(rest.rstrip(_BYTES_INSIDE_CHARACTERS)) - 1
                yield rest[: cut or None]
                rest = rest[cut:] if cut else b""
        if rest:
            yield rest

    def _decode(self, data: bytes, place: str) -> str:
        text, num_replaced = decode_leniently(data)
        self.invalid_utf8 += num_replaced
        num_control = len(data) - len(data.translate(None, _CONTROL_BYTES))
        num_unreadable = num_replaced + num_control
        if num_unreadable > _MAX_UNREADABLE * len(text):
            raise errors.DataError(
                f"{place} is no UTF-8 text: {num_unreadable} of {len(text)} "
                "characters are control characters or undecodable. Take binary "
                "files out of the corpus; convert others, as with iconv."
            )
        return text.removeprefix("\ufeff")

    def _json_lines(self, lines: list[str], line_number: int) -> list[str]:
        result: list[str] = []
        for number, line in enumerate(lines, line_number):
            if not line:
                continue
            try:
                members = dict(json.loads(line).items())
            except (ValueError, AttributeError, RecursionError):
                members = {}
            text = members.get(self._options.text_field, members)
            if not isinstance(text, str | None):
                remedy = "Write an object with one text on each line"
                texts = [n for n, v in members.items() if isinstance(v, str)]
                if texts and self._options.text_field not in members:
                    known = ", ".join(texts)
                    remedy = f"Name another by --text_field: {known:.200}"
                raise errors.DataError(
                    f"{self._path}, line {number} after byte {self._begin}: "
                    "expected a JSON object of at most "
                    f"{_MAX_LINE_BYTES >> 20} MiB with a text in the member "
                    f"{self._options.text_field!r}. Received: {line[:80]!r}. "
                    f"{remedy}, {_READ_AS_TEXT}."
                )
            result += self._record_lines(*_SURROGATE.subn("\ufffd", text or ""))
        return result

    def _csv_rows(self, stream: IO[bytes]) -> Iterator[list[str]]:
        lines = (
            f"{line}\n"
            for data in self._whole_lines(stream)
            for line in self._decode(data, str(self._path)).split("\n")
        )
        csv.field_size_limit(_MAX_LINE_BYTES)
        separator, names = split_header(next(lines, ""))
        names = [name.strip() for name in names]
        column = self._options.text_field
        if column not in names:
            raise errors.DataError(
                f"{self._path} must have a column {column!r} of text. Its "
                f"columns are {', '.join(names):.200}. Name the right one by "
                "--text_column, put names above the first row if it has none, "
                f"{_READ_AS_TEXT}."
            )
        rows = csv.reader(
            lines,
            delimiter=separator,
            quoting=csv.QUOTE_NONE if separator == "\t" else csv.QUOTE_MINIMAL,
            strict=True,
        )
        try:
            for row in filter(None, rows):
                if len(row) != len(names):
                    raise csv.Error(f"{len(row)} columns")
                yield self._record_lines(row[names.index(column)], 0)
        except csv.Error as error:
            raise errors.DataError(
                f"{self._path}, up to line {rows.line_num + 1}: expected "
                f"{len(names)} columns with {separator!r} between them, and "
                f"quotes inside quotes doubled. Received: {error}. Mend the "
                "file, or save it as JSON lines."
            ) from error

    def _record_lines(self, text: str, num_replaced: int) -> list[str]:
        """Splits the text of a JSON object or row, and ends the document."""
        self.invalid_utf8 += num_replaced
        lines = text_lines(text)
        self.num_empty += not lines
        if self._options.blanks_separate_docs:
            lines.append(_END_OF_DOCUMENT)
        return lines

    def _archive_members(self, stream: IO[bytes]) -> Iterator[list[str]]:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                if not member.isreg():  # a folder, or a link to a member
                    continue
                content = cast(IO[bytes], archive.extractfile(member))
                place = f"{self._path}, member {member.name}"
                if member.name.endswith((".jsonl", ".ndjson")):
                    raise errors.DataError(
                        f"{place} must be a text. Received: JSON lines. "
                        "Unpack the archive, and name the folder."
                    )
                for data in self._whole_lines(content):
                    yield text_lines(self._decode(data, place))
                yield [_END_OF_DOCUMENT]


def find_format(path: pathlib.Path, options: ReadingOptions) -> str:
    """Returns the format of a file; "auto" goes by name and first bytes.

    Raises `DataError` for a file without plain text, such as HTML or PDF.
    """
    if options.format != "auto":
        return options.format
    name = path.with_suffix("") if is_compressed(path) else path
    suffix = name.suffix.lower()
    with _naming_damage(path), path.open("rb") as raw:
        head = _decompress(raw, path).read(_HEAD_BYTES)
    head = head.removeprefix(b"\xef\xbb\xbf")
    # The archives of OpenWebText are called `urlsf_subset00-1_data.xz`.
    if suffix == ".tar" or head[_TAR_MAGIC] == b"ustar":
        return "archive"
    for pattern, kind in _REFUSED.items():
        if re.match(pattern, head):
            raise errors.DataError(
                f"{path} must hold text, JSON lines or a table. Received: "
                f"{kind}; or leave it out by a pattern such as 'texts/*.txt'."
            )
    for file_format, pattern in _BEGINNINGS.items():
        if re.match(pattern, head):
            return file_format
    if suffix in TABLE_SUFFIXES:
        return suffix[1:]
    if suffix in _JSON_SUFFIXES:
        return "jsonl"
    _, columns = split_header(head.decode(errors="replace"))
    are_names = all(re.fullmatch(r"[\w.-]+", column) for column in columns)
    has_text = are_names and len(columns) > 1 and options.text_field in columns
    return "csv" if has_text or suffix in _CSV_SUFFIXES else "text"


def split_header(text: str) -> tuple[str, list[str]]:
    """Returns the separator and the column names of a table's first line."""
    header = re.split("[\r\n]", text, maxsplit=1)[0]
    separator = max("\t,;|", key=header.count)
    return separator, next(csv.reader([header], delimiter=separator), [])


def is_compressed(path: pathlib.Path) -> bool:
    """Returns whether a file has the suffix of a compressed file."""
    return path.suffix.lower() in _OPENERS


def can_be_split(path: pathlib.Path, file_format: str) -> bool:
    """Returns whether reading can start at any byte of a file."""
    with path.open("rb") as raw:
        is_plain = _decompress(raw, path) is raw
    return is_plain and file_format not in ("archive", "csv")


def is_document_start(line: bytes, file_format: str) -> bool:
    """Returns whether a document can begin at this line."""
    if file_format == "wiki":
        return line.startswith(b"<doc ")
    return file_format == "jsonl" or not line.strip()


def describe_documents(file_format: str, options: ReadingOptions) -> str:
    """Describes which part of a file of a format is a document."""
    own = {"wiki": "its tags around each document", "tfds": "a document each",
           "archive": "a document each file inside"}  # fmt: skip
    if file_format not in own and not options.blanks_separate_docs:
        return "each one document"
    own["text"] = "blank lines between documents"
    return own.get(file_format, f"a document each {options.text_field!r}")


def text_lines(text: str) -> list[str]:
    """Returns the stripped lines of a text, without the blank ones."""
    return [line for line in map(str.strip, text.split("\n")) if line]


def decode_leniently(data: bytes) -> tuple[str, int]:
    """Returns the text, and how many byte sequences U+FFFD replaces."""
    try:
        return data.decode(), 0
    except UnicodeDecodeError:
        text = data.decode(errors="replace")
        return text, text.count("\ufffd") - data.count("\ufffd".encode())


def _gather_documents(blocks: Iterable[list[str]]) -> Iterator[Document]:
    lines: list[str] = []
    is_continued = False
    for block in blocks:
        for line in block:
            if len(line) > _MAX_LINE_CHARACTERS:
                lines += filter(None, map(str.strip, _LINE_PART.findall(line)))
            elif line:
                lines.append(line)
            elif lines or is_continued:
                yield Document(lines)
                lines, is_continued = [], False
        if sum(map(len, lines)) > _BLOCK_BYTES:
            yield Document(lines, is_continued=True)
            lines, is_continued = [], True
    if lines or is_continued:
        yield Document(lines)


def _pyarrow(module: str = "") -> Any:
    return installed.import_extra(f"pyarrow{module}", "parquet")


def _read_column(
    raw: IO[bytes], file_format: str, name: str, begin: int, end: int
) -> Iterator[list[bytes | None]]:
    """Yields the texts of each batch of rows that begins in a byte range."""
    pyarrow = _pyarrow()
    try:
        if file_format == "parquet":
            file = _pyarrow(".parquet").ParquetFile(raw)
            table, row_group = file.schema_arrow, file.metadata.row_group
            groups = [
                index
                for index in range(file.num_row_groups)
                if begin <= row_group(index).column(0).data_page_offset < end
            ]
            batches = file.iter_batches(1024, groups, [name])
        else:
            # A mapped file is read only where the column is.
            is_local = storage.is_local(raw.name)
            stream = pyarrow.memory_map(raw.name) if is_local else raw
            reader = _pyarrow(".ipc").open_stream(stream)
            table, tell = reader.schema, stream.tell
            batches = (x for x in reader if begin < raw.seek(tell()) <= end)
        types = {field.name: str(field.type) for field in table}
        if not _TEXT_TYPE.match(types.get(name, "")):
            raise errors.DataError(
                f"{raw.name} has no column {name!r} of text. Its columns are "
                f"{types}. Name the right one by --text_column."
            )
        for batch in batches:
            yield batch[name].cast(pyarrow.large_binary()).to_pylist()
    except pyarrow.ArrowInvalid as error:
        raise EOFError(str(error).rstrip(".")) from error


@contextlib.contextmanager
def _naming_damage(path: pathlib.Path) -> Iterator[None]:
    try:
        with storage.naming(path):
            yield
    except _DAMAGES as error:
        # The operating system's errors, which have a number, are no damage.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise errors.DataError(
            f"{path} is damaged or cut off: {error}. Replace or remove it."
        ) from error


def _decompress(raw: IO[bytes], path: pathlib.Path) -> IO[bytes]:
    suffix = path.suffix.lower()
    if suffix not in _OPENERS and raw.tell() == 0:
        first_bytes = cast(io.BufferedReader, raw).peek(16)
        match = _COMPRESSED.match(first_bytes)
        suffix = f".{match.lastgroup}" if match else ""
    opener = _OPENERS.get(suffix)
    return opener(raw) if opener else raw
