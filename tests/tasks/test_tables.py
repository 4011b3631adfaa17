"""CSV, TSV and JSON lines give the same rows, or say which line is wrong."""

import csv
import json

import pytest

from electra_tf import errors
from electra_tf.tasks import tables


def _write(folder, name, text):
    path = folder / name
    path.write_bytes(text.encode())
    return path


def _read(path, columns=("text", "label"), file_format="auto", optional=()):
    return tables.read_table(path, file_format, columns, optional)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", 'label,other,text\r\n1,x,"a, ""b"""\r\n0,,c\r\n'),
        ("a.TSV", 'label\tother\ttext\n1\tx\ta, "b"\n0\t\tc'),
        ("a.jsonl", '{"text": "a, \\"b\\"", "label": "1"}\n'
         '{"label": "0", "text": "c", "other": 5}\n\n'),
    ],
)  # fmt: skip
def test_all_formats_give_the_named_columns_of_every_row(tmp_path, name, text):
    records = _read(_write(tmp_path, name, text))
    assert [r.values for r in records] == [
        {"text": 'a, "b"', "label": "1"},
        {"text": "c", "label": "0"},
    ]
    assert [r.line for r in records] == ([1, 2] if "json" in name else [2, 3])


def test_a_quoted_field_may_hold_lines_and_rows_know_where_they_begin(tmp_path):
    path = _write(tmp_path, "a.csv", 'text,label\n"a\nb\n\nc",1\n\nd,0\n')
    records = _read(path)
    assert [r.values["text"] for r in records] == ["a\nb\n\nc", "d"]
    assert [r.line for r in records] == [2, 7]


def test_a_quotation_mark_in_tsv_is_text(tmp_path):
    path = _write(tmp_path, "a.tsv", 'text\tlabel\n"a\t1\nb" ""\t0\n')
    assert [r.values["text"] for r in _read(path)] == ['"a', 'b" ""']


def test_fields_longer_than_pythons_limit_are_read(tmp_path):
    csv.field_size_limit(131_072)
    path = _write(tmp_path, "a.csv", f"text,label\n{'x' * 200_000},1\n")
    assert len(_read(path)[0].values["text"]) == 200_000
    assert csv.field_size_limit() == 131_072


def test_the_format_may_be_named_instead(tmp_path):
    path = _write(tmp_path, "a.txt", "text\tlabel\na\t1\n")
    assert _read(path, file_format="tsv")[0].values == {
        "text": "a",
        "label": "1",
    }
    with pytest.raises(errors.DataError, match=r"ends with one of \.csv"):
        _read(path)
    with pytest.raises(
        errors.DataError, match="formats csv, tsv, jsonl.*'conll'"
    ):
        _read(path, file_format="conll")


def test_columns_that_may_be_missing_are_read_where_they_are(tmp_path):
    rows = [{"text": "a", "id": "q1"}, {"text": "b"}]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    path = _write(tmp_path, "a.jsonl", lines)
    assert [r.values for r in _read(path, ["text"], optional=["id"])] == rows
    path = _write(tmp_path, "a.csv", "text\na\n")
    assert _read(path, ["text"], optional=["id"])[0].values == {"text": "a"}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.csv", "", "first line with the columns text, label.*empty file"),
        ("a.tsv", "\n\n", "first line with the columns.*empty file"),
        ("a.jsonl", "", "expected rows of text, label. Received: none"),
        ("a.csv", "text,label\n", "expected rows of text, label"),
        ("a.csv", "text,label\na,1\nb\n", r"line 3: expected 2 .*Received 1"),
        ("a.tsv", "text\tlabel\na\t1\t\n", r"line 2: .* Received 3"),
        ("a.tsv", "text\tlabel\na\t1\n\nb\t0\n", r"line 3: .*Received 1"),
        ("a.csv", 'text,label\na,1\n"b,0\nc,1\n', "line 3: expected fields.*"
         "unexpected end of data, line 4"),
        ("a.csv", 'text,label\n"b"x,0\n', "line 2: expected fields"),
        ("a.csv", "Text,lable\na,1\n", "column 'text'.*only 'Text', 'lable'.*"
         "nearest is 'Text'"),
        ("a.csv", "text,text,label\na,b,1\n", "2 of that name among"),
        ("a.csv", "text;label\na;1\n", "column 'text'.*'text;label'"),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": "b"}\n',
         "line 2: expected a column 'label'"),
        ("a.jsonl", '{"text": "a", "label": 1\n', "line 1: expected a JSON"),
        ("a.jsonl", '["a", 1]\n', "line 1: expected a JSON object, one on"),
        ("a.jsonl", '{"text": "a", "label": 1}\n\n{"text": "b"}\n', "line 2"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_file_and_line(
    tmp_path, name, text, expected
):
    path = _write(tmp_path, name, text)
    with pytest.raises(errors.DataError, match=expected) as error:
        _read(path)
    assert str(path) in str(error.value)


def test_invalid_utf8_and_missing_files_are_refused(tmp_path):
    path = tmp_path / "a.csv"
    with pytest.raises(FileNotFoundError, match="csv file at"):
        _read(path)
    path.write_bytes(b"text,label\ncaf\xe9,1\n")
    with pytest.raises(errors.DataError, match="line 2: expected UTF-8"):
        _read(path)


def test_the_nearest_name_is_offered_only_if_one_is_near():
    assert tables.nearest("lable", ["text", "label"]).endswith("'label'.")
    assert tables.nearest("xyz", ["text", "label"]) == ""
