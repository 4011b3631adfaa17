"""Files and folders appear complete or not at all."""

import os
import re
import subprocess
import sys

import pytest

from electra_tf.processes.atomic import creating_folder
from electra_tf.processes.atomic import remove_partial
from electra_tf.processes.atomic import replacing_file


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_failed_file_leaves_the_old_one(tmp_path):
    (tmp_path / "a").write_text("old")
    for error in (OSError(28, "No space left on device"), KeyboardInterrupt()):
        with (
            pytest.raises(type(error)),
            replacing_file(tmp_path / "a") as partial,
        ):
            partial.write_text("half")
            raise error
        assert (tmp_path / "a").read_text() == "old"
    with replacing_file(tmp_path / "a") as partial:
        partial.write_text("new")
        assert (tmp_path / "a").read_text() == "old"
    assert (tmp_path / "a").read_text() == "new"
    assert names(tmp_path) == ["a"]


def test_what_gets_its_name_is_on_the_disk(tmp_path, monkeypatch):
    done = []

    def note(what, path):
        name = re.sub(r"\.partial-.*", "", os.path.basename(path))
        done.append(f"{what} {name}")

    rename = os.rename
    for name in ("rename", "replace"):
        monkeypatch.setattr(
            os, name, lambda old, new: note("name", new) or rename(old, new)
        )
    monkeypatch.setattr(
        os, "fsync", lambda n: note("flush", os.readlink(f"/proc/self/fd/{n}"))
    )
    with replacing_file(tmp_path / "a") as partial:
        partial.write_text("1")
    assert done == ["flush .a", "name a"]
    done.clear()
    with creating_folder(tmp_path / "b") as partial:
        (partial / "x").write_text("1")
    last = f"flush {tmp_path.name}"
    assert done == ["flush x", "flush .b", "name b", last]


def test_folder_that_another_process_made_stays(tmp_path):
    with creating_folder(tmp_path / "a") as partial:
        (partial / "x").write_text("ours")
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "x").write_text("theirs")
    assert (tmp_path / "a" / "x").read_text() == "theirs"
    assert names(tmp_path) == ["a"]


def test_leftovers_of_killed_processes_are_removed_and_nothing_else(tmp_path):
    (tmp_path / ".b.partial-123").mkdir()
    for name in ("keep", ".keep", ".a.partial-123", ".b.partial-123/x"):
        (tmp_path / name).touch()
    remove_partial(tmp_path)
    assert names(tmp_path) == [".keep", "keep"]


def test_a_folder_that_a_killed_process_left_goes_with_the_next(tmp_path):
    def start(command: str, **options) -> subprocess.Popen:
        # Its number is nobody's here, as in another container.
        code = (
            "import os, sys; os.getpid = lambda: 2**22 + 1\n"
            "from electra_tf.processes import atomic\n"
            "with atomic.creating_folder(sys.argv[1]) as folder:\n"
            f"    (folder / 'x').write_text('1'); {command}"
        )
        arguments = [sys.executable, "-c", code, tmp_path / "a"]
        return subprocess.Popen(arguments, **options)

    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with start("print(flush=True); input()", **pipes) as other:
        other.stdout.readline()
        (left,) = names(tmp_path)
        with creating_folder(tmp_path / "a"):
            assert left in names(tmp_path)  # What lives is let alone.
        (tmp_path / "a").rmdir()
        other.kill()
    with creating_folder(tmp_path / "b"), creating_folder(tmp_path / "a*"):
        assert left in names(tmp_path)
    with creating_folder(tmp_path / "a"):
        (own,) = {*names(tmp_path)} - {"a*", "b"}
        assert own != left
        assert start("pass").wait() == 0
        assert own in names(tmp_path)


@pytest.mark.parametrize(
    ("name", "message"),
    [("file/p/a", "Not a directory"), ("p/" + "a" * 256 + "/a", "too long")],
)
def test_where_no_folder_can_be_the_path_is_named(tmp_path, name, message):
    (tmp_path / "file").touch()
    with (
        pytest.raises(OSError, match=f"must be a path at.*{message}") as caught,
        creating_folder(tmp_path / name),
    ):
        pass
    assert repr(str(tmp_path / name)) in str(caught.value)
    assert ".partial-" not in str(caught.value)
    assert names(tmp_path) == ["file"]
