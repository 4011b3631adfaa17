"""Files to documents: every format, and what is wrong with bad files."""

import bz2
import gzip
import io
import json
import lzma
import tarfile

import pytest

from electra_tf.records import readers
from electra_tf.records.readers import Document
from electra_tf.records.readers import FileReader
from electra_tf.records.readers import ReadingOptions
from tests.records.conftest import refused


def open_file(path, *part, **options):
    return FileReader(str(path), ReadingOptions(**options), *part)


def read(path, **options):
    """Returns the lines of each document of a file."""
    return [document.lines for document in open_file(path, **options)]


def write(path, content):
    """Writes text as UTF-8 with its line ends unchanged."""
    path.write_bytes(content.encode())
    return path


@pytest.mark.parametrize(
    ("text", "documents"),
    [
        ("\n  one \r\ntwo\n\n \t\u3000\nthree", [["one", "two"], ["three"]]),
        # Line feeds alone end lines; U+001C counts as white space.
        ("a\rb\u2028c\x0bd\x85e\n\x1c\nf", [["a\rb\u2028c\x0bd\x85e"], ["f"]]),
        ("\ufeffone\n", [["one"]]),
    ],
)
def test_blank_lines_end_documents_and_lines_are_stripped(
    tmp_path, text, documents
):
    assert read(write(tmp_path / "a.txt", text)) == documents


def test_without_separating_blanks_a_file_is_one_document(tmp_path):
    lines = '{"text": "one"}\n{"text": "two"}\n'
    for name, text in (("a.txt", "one\n\ntwo\n"), ("a.jsonl", lines)):
        path = write(tmp_path / name, text)
        assert read(path, blanks_separate_docs=False) == [["one", "two"]]


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [(".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress)],
)
def test_compressed_files_are_read(tmp_path, suffix, compress):
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(compress(b"one\n\ntwo\n"))
    assert read(path) == [["one"], ["two"]]
    for damaged in (compress(b"one\n\ntwo\n" * 1000)[:-20], b"no such format"):
        path.write_bytes(damaged)
        with refused(f"a.txt{suffix} is damaged"):
            read(path)


_WIKI = '<doc id="1">\nA\n\nText.\n\n</doc>\n<doc id="2">\nB\n</doc>\n'
_JSON = '{"id": 1, "text": "one\\n\\ntwo"}\n{"text": null}\n\n{"text": ""}\n'
_TABLE = 'id,text\n1,"one, \n\n""two"""\n\n2,\n3,x\n'


@pytest.mark.parametrize(
    ("name", "content", "documents"),
    [
        ("wiki_00", f"\n{_WIKI}", [["A", "Text."], ["B"]]),
        ("wiki_00", f'{_JSON}{{"text": "x"}}', [["one", "two"], ["x"]]),
        ("a.jsonl", _JSON, [["one", "two"]]),
        ("a.txt", f"\ufeff{_JSON}", [["one", "two"]]),
        ("a.csv", _TABLE, [["one,", '"two"'], ["x"]]),
        ("table", _TABLE, [["one,", '"two"'], ["x"]]),
        ("a.csv", "text;id\r\none;1\r\n", [["one"]]),
        ("a.csv", "text\none\n", [["one"]]),
        # As in files that no program quotes.
        ("a.tsv", 'id\ttext\n1\t"one\n2\ttwo"\n', [['"one'], ['two"']]),
        ("a.txt", "[Text, text]\nand, text\n", [["[Text, text]", "and, text"]]),
        ("a.txt", "text\none\n", [["text", "one"]]),
    ],
)
def test_what_a_file_holds_is_seen_from_its_name_or_beginning(
    tmp_path, name, content, documents
):
    path = write(tmp_path / name, content)
    assert read(path) == documents
    assert read(path, format="text")[0][0] in content
    # What is compressed, too.
    path.write_bytes(gzip.compress(content.encode()))
    assert read(path) == documents


_GOOD = '{"text": "x"}\n'


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", f"{_GOOD}plain", "line 2 .*'text'. Received: 'plain'"),
        ("a.jsonl", f'{_GOOD}{{"id": 1, "body": "y", "data": {{}}}}',
         "line 2 .* --text_field: body, or"),
        ("a", '{"text": ["x", "y"]}', "Write an object with one text on each"),
        ("a", '[{"text": "x"}]', r"Received: .*x\"}\]'. Write an object"),
        ("a.csv", "id,body\n1,x\n", "columns are id, body. .*--text_column"),
        ("a.csv", "id,text\n1,x, y\n", "line 2: expected 2 .*: 3 columns"),
        ("a", 'id,text\n1,"x\n', "line 2: .*Received: unexpected end of data"),
        ("a.txt", "<!DOCTYPE html>\n<html>", "HTML or XML. .*--corpus_format="),
        ("dump", '<mediawiki lang="en">', "HTML or XML. Take the text out"),
        ("mails", "From a@b 1:01:01\nTo: x\n", "an mbox. Take the mails' t"),
        ("a.txt", "%PDF-1.4\n", "a PDF, .* Save its text"),
        ("a", "version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        ("a.docx", "PK\x03\x04 and more of a document", "of an office program"),
    ],
)  # fmt: skip
def test_what_is_no_text_is_named_with_what_to_do(
    tmp_path, name, content, message
):
    path = write(tmp_path / name, content)
    with refused(message):
        read(path)
    assert read(path, format="text")


def test_utf_16_is_named(tmp_path):
    (tmp_path / "a.txt").write_bytes("one".encode("utf-16"))
    with refused("UTF-16. Convert it: iconv"):
        read(tmp_path / "a.txt")


def test_openwebtext_archives_hold_one_document_per_member(tmp_path):
    path = tmp_path / "urlsf_subset00-1_data.xz"
    members = {"0-a.txt": b"one\n\ntwo\n", "1-b.txt": b"\n", "2-c.txt": b"x"}
    with tarfile.open(path, "w:xz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    assert read(path) == [["one", "two"], ["x"]]
    # A link to a member is no second text.
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
        link = tarfile.TarInfo("3-d.txt")
        link.type, link.linkname = kind, "0-a.txt"
        with tarfile.open(tmp_path / "links.tar", "w") as archive:
            archive.addfile(link)
        assert read(tmp_path / "links.tar") == []
    (tmp_path / "a.tar").write_bytes(lzma.decompress(path.read_bytes()))
    assert read(tmp_path / "a.tar") == [["one", "two"], ["x"]]
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with refused("data.xz is damaged"):
        read(path)


def test_invalid_utf8_is_replaced_and_counted(tmp_path):
    path = tmp_path / "a.txt"
    good = "a genuine replacement character: \ufffd".encode()
    path.write_bytes(good + b" and 100 characters " * 5 + b"\xff \xe9t\xe9\n")
    reader = open_file(path)
    (document,) = reader
    assert document.lines[0].endswith("\ufffd \ufffdt\ufffd")
    assert reader.invalid_utf8 == 3
    # So are the halves of characters that JSON can spell.
    text = '{"text": "bad \\ud800 end"}'
    reader = open_file(write(tmp_path / "a.jsonl", text))
    assert list(reader) == [Document(["bad \ufffd end"])]
    assert reader.invalid_utf8 == 1


def test_binary_files_are_refused(tmp_path):
    path, russian = tmp_path / "a.txt", "привет, мир".encode("cp1251")
    for content in (bytes(range(256)) * 20, russian, b"\x7fELF\0\0"):
        path.write_bytes(content)
        with refused("a.txt is no UTF-8 text: .* iconv"):
            read(path)


def test_a_long_line_is_cut_at_blanks_and_characters(tmp_path, monkeypatch):
    words = "word " * 700_000
    (lines,) = read(write(tmp_path / "a.txt", f"{words}\nend\n"))
    assert len(lines) == 5
    assert max(map(len, lines)) <= 1 << 20
    assert " ".join(lines) == f"{words}end"
    monkeypatch.setattr(readers, "_MAX_LINE_BYTES", 1 << 22)
    # 3 bytes each, without a blank.
    reader = open_file(write(tmp_path / "a.txt", "\u4e00" * 3_000_000))
    pieces = [line for document in reader for line in document.lines]
    assert "".join(pieces) == "\u4e00" * 3_000_000
    assert reader.invalid_utf8 == 0
    path = write(tmp_path / "a.jsonl", json.dumps({"text": words * 2}))
    with refused("of at most 4 MiB"):
        read(path)
