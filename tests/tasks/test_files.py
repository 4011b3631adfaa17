"""Files are found by folder and name; their lines are what ends at LF."""

import logging

import pytest

from electra_tf import errors
from electra_tf.tasks import files


def _write(path, data=b"x\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def _find(folder, folders=("CoLA", "cola"), names=("train.tsv",)):
    return files.find_file(folder, folders, names, "CoLA")


@pytest.mark.parametrize("place", ["CoLA", "cola", "a/COLA", "a/b/CoLA"])
def test_a_file_is_found_by_its_folder_in_any_case(tmp_path, place):
    path = _write(tmp_path / "top" / place / "train.tsv")
    assert _find(tmp_path / "top") == path
    assert _find(path.parent) == path


def test_the_nearest_folder_that_has_the_file_counts(tmp_path):
    (tmp_path / "CoLA").mkdir()
    near = _write(tmp_path / "a" / "CoLA" / "train.tsv")
    _write(tmp_path / "a" / "b" / "CoLA" / "train.tsv")
    assert _find(tmp_path) == near
    other = _write(tmp_path / "c" / "cola" / "train.tsv")
    with pytest.raises(
        errors.DataError, match="must hold one train.tsv"
    ) as error:
        _find(tmp_path)
    assert str(near) in str(error.value)
    assert str(other) in str(error.value)


def test_the_first_of_several_names_in_a_folder_counts(tmp_path):
    _write(tmp_path / "ax" / "AX.tsv")
    names = ("diagnostic.tsv", "AX.tsv")
    assert _find(tmp_path, ("AX",), names).name == "AX.tsv"
    _write(tmp_path / "ax" / "diagnostic.tsv")
    assert _find(tmp_path, ("AX",), names).name == "diagnostic.tsv"


def test_without_folder_names_every_folder_is_looked_into(tmp_path):
    path = _write(tmp_path / "any" / "dev.json")
    assert _find(tmp_path, (), ("dev.json",)) == path


def test_a_missing_file_says_what_was_expected_where(tmp_path):
    _write(tmp_path / "1/2/3/CoLA" / "train.tsv")
    with pytest.raises(FileNotFoundError) as error:
        _find(tmp_path)
    for part in (str(tmp_path), "CoLA/ or cola/train.tsv", "no folder of that"):
        assert part in str(error.value)
    (tmp_path / "CoLA").mkdir()
    with pytest.raises(FileNotFoundError, match="CoLA without it"):
        _find(tmp_path)
    with pytest.raises(FileNotFoundError, match="no folder there"):
        _find(tmp_path / "nowhere")


def test_only_line_feeds_end_lines(tmp_path):
    text = "\ufeffa\u2028b\x85\r\n\ufeffc\rd\n\ne"
    path = _write(tmp_path / "x.tsv", text.encode())
    assert list(files.read_lines(path)) == [
        (1, "a\u2028b\x85"),
        (2, "\ufeffc\rd"),
        (3, ""),
        (4, "e"),
    ]


def test_text_in_another_encoding_is_refused_by_line(tmp_path):
    path = _write(tmp_path / "x.tsv", b"a\ncaf\xe9\n")
    with pytest.raises(errors.DataError, match="line 2: expected UTF-8"):
        list(files.read_lines(path))


def test_another_number_than_published_is_noticed(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, logger="absl"):
        files.require_count(tmp_path, 8_551, 8_551)
        assert caplog.text == ""
        files.require_count(tmp_path, 8_550, 8_551)
    assert "8550 examples, the official file 8551" in caplog.text
