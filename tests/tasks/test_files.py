"""Files are found, tables are read, or named by line; TFDS by a stand-in."""

import csv
import gzip
import types

import numpy as np
import pandas as pd
import pytest

from electra_tf import errors
from electra_tf.tasks import files
from electra_tf.tasks import tfds

FRAME = pd.DataFrame({"text": ['a, "b"', "c"], "label": ["1", "0"]})


def _find(folder, folders=("CoLA", "cola"), names=("train.tsv",)):
    return files.find_file(folder, folders, names, "CoLA")


def test_the_nearest_folder_that_has_the_file_counts(write, tmp_path):
    (tmp_path / "CoLA").mkdir()
    near = write("a/CoLA/train.tsv")
    write("a/b/CoLA/train.tsv")
    assert _find(tmp_path) == near
    other = write("c/cola/train.tsv")
    message = f"must hold one train.tsv.*{near}.*{other}"
    with pytest.raises(errors.DataError, match=message):
        _find(tmp_path)


def test_a_missing_file_says_what_was_expected_where(write, tmp_path):
    write("1/2/3/CoLA/train.tsv")
    with pytest.raises(FileNotFoundError) as error:
        _find(tmp_path)
    for part in (str(tmp_path), "CoLA/ or cola/train.tsv", "none there"):
        assert part in str(error.value)
    (tmp_path / "CoLA").mkdir()
    with pytest.raises(FileNotFoundError, match="CoLA without it"):
        _find(tmp_path)
    with pytest.raises(FileNotFoundError, match="no folder there"):
        _find(tmp_path / "nowhere")


def test_only_line_feeds_end_lines(write):
    text = "\ufeffa\u2028b\x85\r\n\ufeffc\rd\n\ne"
    path = write("x.tsv", text)
    lines = ["a\u2028b\x85", "\ufeffc\rd", "", "e"]
    assert list(files.read_lines(path)) == list(enumerate(lines, 1))


def _read(path, columns=("text", "label"), file_format="auto", optional=()):
    return files.read_table(path, file_format, columns, optional)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", 'label,other,text\r\n1,x,"a, ""b"""\r\n0,,c\r\n'),
        ("a.TSV", 'label\tother\ttext\n1\tx\ta, "b"\n0\t\tc'),
        ("a.jsonl", '{"text": "a, \\"b\\"", "label": "1"}\n'
         '{"label": "0", "text": "c", "other": 5}\n\n'),
        ("a.csv", 'text|a, b|label\n"a, ""b"""|x|1\nc||0\n'),
        ("a.csv.gz", gzip.compress(b'text,label\n"a, ""b""",1\nc,0', mtime=0)),
        # The forms of pandas' `to_json`, and rows inside `data`.
        *(("a.json", FRAME.to_json(orient=o, indent=i)) for i in (0, 2)
          for o in ("records", "columns", "index", "split", "table")),
        ("a.json", '{"version": 1, "data": ' + FRAME.to_json(orient="records")
         + "}"),
    ],
)  # fmt: skip
def test_all_formats_give_the_named_columns_of_every_row(write, name, text):
    records = _read(write(name, text))
    values = {"text": 'a, "b"', "label": "1"}, {"text": "c", "label": "0"}
    assert tuple(r.values for r in records) == values
    places = [1, 2] if "json" in name else [2, 3]
    assert [int(r.place[-1]) for r in records] == places


def test_a_quoted_field_may_hold_lines_and_rows_know_where_they_begin(write):
    path = write("a.csv", 'text,label\n"a\nb\n\nc",1\n\nd,0\n')
    records = _read(path)
    assert [r.values["text"] for r in records] == ["a\nb\n\nc", "d"]
    assert [int(r.place[-1]) for r in records] == [2, 7]


def test_fields_longer_than_pythons_limit_are_read(write):
    csv.field_size_limit(131_072)
    path = write("a.csv", f"text,label\n{'x' * 200_000},1\n")
    assert len(_read(path)[0].values["text"]) == 200_000
    assert csv.field_size_limit() == 131_072


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.csv", "", "first line with the columns text, label"),
        ("a.csv", "text,label\na,1\nb\n", "line 3: expected 2 .*instead of 1"),
        ("a.csv", 'text,label\na,1\n"b,0\nc,1\n', "line 3: expected f.*"
         "unexpected end of data, line 4"),
        ("a.csv", 'text,label\n"b"x,0\n', "line 2: expected fields"),
        ("a.csv", "Text,lable\na,1\n", "line 1: .*column 'text'. Received: 0. "
         "Did you mean 'Text'.*Known: Text, lable.*own` that is 'text'"),
        ("a.csv", ",".join(map(str, range(9**4))), "23, 24 and 6536 more. Re"),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": "b"}\n',
         "line 2: expected one column 'label'"),
        ("a.jsonl", '{"text": "a", "label": 1\n',
         r"line 1: expected a JSON .*delimiter: column 25 "),
        ("a.jsonl", '["a", 1]\n', "object 1: expected a JSON object, one on"),
        ("a.json", '[{"x": 1}]', r"object 1: .*ed: 0\. Known: x\. Rename"),
        ("a.csv", b"text,label\ncaf\xe9,1\n", "line 2: expected UTF-8"),
    ],
)  # fmt: skip
def test_a_fault_is_named_with_its_line(write, name, text, expected):
    path = write(name, text)
    with pytest.raises(errors.DataError, match=expected) as error:
        _read(path)
    assert str(path) in str(error.value)


def test_the_format_may_be_named_instead(write, tmp_path):
    path = write("a.txt", "text\tlabel\na\t1\n")
    (record,) = _read(path, file_format="tsv")
    assert record.values == {"text": "a", "label": "1"}
    for name, message in (("auto", r"with one of \.csv"), ("conll", "'conll'")):
        with pytest.raises(errors.DataError, match=message):
            _read(path, file_format=name)
    with pytest.raises(FileNotFoundError, match="a.csv"):
        _read(tmp_path / "a.csv")


CLASSES = types.SimpleNamespace(int2str=lambda index: ("no", "yes")[index])
EXAMPLES = [
    {"sentence": "né".encode(), "label": np.int64(1), "idx": np.int32(7),
     "tags": np.array([0, 1]),
     "answers": {"text": np.array([b"a", b"b"], object)}},
    {"sentence": np.bytes_(b"x"), "label": np.int64(-1), "idx": np.int32(3),
     "tags": np.zeros(0, np.int64), "answers": {"text": np.zeros(0, object)}},
]  # fmt: skip


def _as_dataset(split, shuffle_files, read_config):
    assert not shuffle_files and read_config == {"interleave_cycle_length": 1}
    return types.SimpleNamespace(as_numpy_iterator=lambda: iter(EXAMPLES))


def FakeBuilder(name):
    """The few members of a TFDS builder that are used."""
    tags = types.SimpleNamespace(feature=CLASSES)
    answers = types.SimpleNamespace(feature={"text": None})
    features = {"sentence": None, "label": CLASSES, "idx": None}
    features |= {"tags": tags, "answers": answers}
    return types.SimpleNamespace(
        info=types.SimpleNamespace(features=features),
        is_prepared=lambda: True,
        as_dataset=_as_dataset,
    )


def test_values_are_pythons_own_and_classes_are_named(fake_tfds):
    first, second = tfds.read("glue/cola", "train")
    assert first == {"sentence": "né", "label": "yes", "idx": 7,
                     "tags": ["no", "yes"], "answers": {"text": ["a", "b"]},
                     }  # fmt: skip
    assert type(first["idx"]) is int
    assert second["sentence"] == "x"
    assert second["label"] is None
    assert second["tags"] == second["answers"]["text"] == []
