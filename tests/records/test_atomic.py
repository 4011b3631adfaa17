"""Files and folders appear complete or not at all."""

import pytest

from electra_tf.records.atomic import creating_folder
from electra_tf.records.atomic import remove_partial
from electra_tf.records.atomic import replacing_file


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_file_appears_at_the_end(tmp_path):
    with replacing_file(tmp_path / "a") as partial:
        partial.write_text("new")
        assert not (tmp_path / "a").exists()
    assert (tmp_path / "a").read_text() == "new"
    assert names(tmp_path) == ["a"]


def test_failed_file_leaves_the_old_one(tmp_path):
    (tmp_path / "a").write_text("old")
    with pytest.raises(OSError), replacing_file(tmp_path / "a") as partial:
        partial.write_text("half")
        raise OSError(28, "No space left on device")
    assert (tmp_path / "a").read_text() == "old"
    assert names(tmp_path) == ["a"]


def test_folder_appears_at_the_end_or_not_at_all(tmp_path):
    with creating_folder(tmp_path / "a") as partial:
        (partial / "x").write_text("1")
        assert not (tmp_path / "a").exists()
    assert names(tmp_path / "a") == ["x"]
    with pytest.raises(OSError), creating_folder(tmp_path / "b") as partial:
        (partial / "x").write_text("1")
        raise OSError(28, "No space left on device")
    assert names(tmp_path) == ["a"]


def test_folder_that_another_process_made_stays(tmp_path):
    with creating_folder(tmp_path / "a") as partial:
        (partial / "x").write_text("ours")
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "x").write_text("theirs")
    assert (tmp_path / "a" / "x").read_text() == "theirs"
    assert names(tmp_path) == ["a"]


def test_leftovers_of_killed_processes_are_removed_and_nothing_else(tmp_path):
    (tmp_path / "keep").write_text("1")
    (tmp_path / ".keep").write_text("1")
    (tmp_path / ".a.partial-123").write_text("1")
    (tmp_path / ".b.partial-123").mkdir()
    (tmp_path / ".b.partial-123" / "x").write_text("1")
    remove_partial(tmp_path)
    assert names(tmp_path) == [".keep", "keep"]
