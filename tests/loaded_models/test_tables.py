"""Rows of a table come back with answers, whatever stops the work."""

import json

import pytest

from electra_tf.loaded_models import tables

COLUMNS = {"texts": "text"}
ROWS = [
    {"text": 'the "cat",\nsat', "n": "1"},
    {"text": "a\u2028b", "n": ""},
    {"text": "ü", "n": "3"},
]


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes a table of ROWS, and its answers; returns their path."""
    monkeypatch.setattr(tables, "_PART", 2)

    def build(source="in.jsonl", target="out.jsonl", answer=None, key="a"):
        path = tmp_path / source
        if not path.exists():
            lines = [json.dumps(row, ensure_ascii=False) for row in ROWS]
            path.write_text("".join(f"{line}\n" for line in lines))
        table = tables.AnsweredTable(path, tmp_path / target)
        table.write(COLUMNS, answer or _count, key)
        return table.target

    return build


def _count(texts):
    return [{"length": len(text), "all": [text]} for text in texts["texts"]]


def test_rows_keep_their_order_and_cells_in_every_format(write, tmp_path):
    found = [json.loads(line) for line in write().open()]
    expected = [
        row | {"length": len(row["text"]), "all": [row["text"]]} for row in ROWS
    ]
    assert found == expected
    # As text, what is no string is JSON.
    table = write(target="in.csv").read_text().split("\n")
    assert table[0] == "text,n,length,all"
    assert table[-2] == 'ü,3,1,"[""ü""]"'
    (tmp_path / "in.csv").write_text('text,n\n"the ""cat"",\nsat",1\n')
    (row,) = map(json.loads, write("in.csv", "two.jsonl").open())
    assert row == expected[0]
    write(target="three.tsv")
    other = write("three.tsv", "three.jsonl", lambda c: [{}] * len(c["texts"]))
    texts = [json.loads(line)["text"] for line in other.open()]
    assert texts == [row["text"] for row in ROWS]
    # What has no text has no answer.
    (tmp_path / "in.csv").write_text("text,n\n,1\nnan,2\nx,3\n")
    table = write("in.csv", "three.csv").read_text()
    assert table == 'text,n,length,all\n,1,,\nnan,2,,\nx,3,1,"[""x""]"\n'
    assert {p.name for p in tmp_path.iterdir()} == {
        "in.csv", "in.jsonl", "out.jsonl", "two.jsonl", "three.csv",
        "three.jsonl", "three.tsv",
    }  # fmt: skip


def test_what_was_stopped_goes_on_and_another_model_starts_anew(
    write, tmp_path
):
    asked = []

    def fail(texts):
        asked.append(texts["texts"])
        if len(texts["texts"]) == 1:
            raise KeyboardInterrupt
        return _count(texts)

    for key in ("a", "a", "b"):
        with pytest.raises(KeyboardInterrupt):
            write(answer=fail, key=key)
    assert [len(texts) for texts in asked] == [2, 1, 1, 2, 1]
    assert not (tmp_path / "out.jsonl").exists()
    assert len(write().read_text().split("\n")) == 4
    with pytest.raises(FileExistsError, match=r"out\.jsonl, which is there"):
        write()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "review\ngood\n", "line 1: .*'text'.*review. .*--columns"),
        ("a.csv", "text,n,n\na,1,2\n", "'n'. Received: 2. Rename the others"),
        ("a.jsonl", '{"text": "a"}\n{"text": [1]}\n', "line 2: .*a text in"),
        ("a.jsonl", '{"text": "\\ud800"}\n', "line 1: .*valid Unicode"),
        ("a.jsonl", '{"text": "a", "n": "\\ud800"}\n', "1: .*valid Unicode"),
        ("a.csv", "text\n", "rows of text"),
        ("a.csv", "text,length\na,1\n", "no columns called all, length"),
        ("a.parquet", "", "--input_file.*Save it as one of them"),
    ],
)
def test_a_table_that_cannot_be_answered_names_the_line(
    write, tmp_path, name, content, message
):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        write(name)
    assert not (tmp_path / "out.jsonl").exists()
