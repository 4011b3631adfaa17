"""Parquet, folders of `datasets` and .zst."""

import json

import pyarrow
import pytest
from pyarrow import parquet

from electra_tf.records import corpus as corpus_lib
from electra_tf.records.readers import ReadingOptions
from tests.records.conftest import read_units
from tests.records.conftest import refused

TEXTS = [f"text {index}\n\nmore of it" * (index % 4) for index in range(90)]


def write_parquet(path, texts=TEXTS):
    table = pyarrow.table({"id": range(len(texts)), "text": texts})
    parquet.write_table(table, path, row_group_size=20)


def write_arrow(path, texts=TEXTS, text_type=pyarrow.string):
    """As `datasets.Dataset.save_to_disk` writes it, in batches of 20 rows."""
    table = pyarrow.table({"text": pyarrow.array(texts, text_type())})
    with pyarrow.ipc.new_stream(str(path), table.schema) as stream:
        stream.write_table(table, max_chunksize=20)


@pytest.fixture(params=[write_parquet, write_arrow])
def table(request, tmp_path):
    """A file of `TEXTS` in one of both formats."""
    name = request.param.__name__.removeprefix("write_")
    path = tmp_path / f"a.{name}"
    request.param(path)
    return path


def read(path, unit_bytes=1 << 20, **options):
    corpus = corpus_lib.open_corpus(str(path), ReadingOptions(**options))
    return read_units(corpus, unit_bytes)


@pytest.mark.parametrize("unit_bytes", [1, 1 << 20])
def test_tables_hold_the_documents_of_json_lines(table, unit_bytes):
    lines = table.with_suffix(".jsonl")
    lines.write_text("".join(json.dumps({"text": x}) + "\n" for x in TEXTS))
    found, num_units = read(table, unit_bytes)
    assert found == read(lines)[0]
    assert (num_units > 1) == (unit_bytes < 1 << 20)
    whole, _ = read(table, unit_bytes, blanks_separate_docs=False)
    assert whole == [[line for document in found for line in document]]


def test_only_the_tables_of_a_folder_are_read(tmp_path):
    (tmp_path / "train").mkdir()
    write_arrow(tmp_path / "train" / "data-00000-of-00001.arrow", ["one"])
    (tmp_path / "train" / "state.json").write_text("{}")
    write_parquet(tmp_path / "b.parquet", ["two", None])
    (tmp_path / "README.md").write_text("# About\n")
    # Bytes and large texts are texts.
    write_arrow(tmp_path / "c.arrow", [b"one \xff"], pyarrow.large_binary)
    assert read(tmp_path)[0] == [["two"], ["one \ufffd"], ["one"]]


def test_damaged_tables_are_named(table):
    content = table.read_bytes()
    for damaged in (content[: len(content) // 2], content[::-1], b"no table"):
        table.write_bytes(damaged)
        with refused(f"{table.name} is damaged or cut off: .* Replace or"):
            read(table)


def test_zstandard_is_read(tmp_path):
    data = pyarrow.compress(b"one\n\ntwo\n\n" * 1000, "zstd", asbytes=True)
    path = tmp_path / "a.txt.zst"
    path.write_bytes(data)
    assert read(path)[0] == [["one"], ["two"]] * 1000
    path.write_bytes(data[:-5])
    with refused("a.txt.zst is damaged"):
        read(path)
