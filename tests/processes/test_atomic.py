"""Files and folders appear complete or not at all; locks of folders."""

import os
import re
import signal
import subprocess
import sys

import pytest

from electra_tf.processes import locks
from electra_tf.processes.atomic import creating_folder
from electra_tf.processes.atomic import remove_partial
from electra_tf.processes.atomic import replacing_file
from tests import full_disk


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


_HOLD = """
import pathlib, sys, time
from electra_tf.processes import locks

with locks.hold(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_second_process_is_told_of_the_first_until_that_one_is_killed(
    tmp_path,
):
    folder = tmp_path / "runs" / "one"
    owner = subprocess.Popen(
        [sys.executable, "-c", _HOLD, folder], stdout=subprocess.PIPE
    )
    assert owner.stdout.readline() == b"held\n"
    message = f"{folder} is in use by process {owner.pid} on .*, 20..-..-.. "
    with pytest.raises(BlockingIOError, match=message), locks.hold(folder):
        pass
    with locks.hold(folder, is_needed=False):
        assert (folder / locks.LOCK_FILE).exists()
    owner.send_signal(signal.SIGKILL)
    owner.communicate()
    for _ in range(2):
        with locks.hold(folder):
            text = (folder / locks.LOCK_FILE).read_text()
            assert text.startswith(f"process {os.getpid()} on ")
    # The folder was there before: the first owner made it.
    assert list(folder.iterdir()) == []


def test_several_share_a_folder_and_keep_those_out_that_do_not(tmp_path):
    with locks.hold(tmp_path, is_shared=True):
        with locks.hold(tmp_path, is_shared=True):
            pass
        busy = pytest.raises(BlockingIOError, match="in use")
        with busy, locks.hold(tmp_path):
            pass


def test_without_locks_a_folder_is_used_and_what_failed_goes(
    tmp_path, monkeypatch
):
    def refuse(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(locks.fcntl, "flock", refuse)
    folder = tmp_path / "runs" / "one"
    with locks.hold(folder):
        assert folder.is_dir()
    assert names(tmp_path) == []
    with pytest.raises(KeyError), creating_folder(folder):
        raise KeyError
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("make", "received"),
    [
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: path.symlink_to("mine"), "a link as .lock"),
        (lambda path: path.symlink_to("nothing"), "a link as .lock"),
        (lambda path: path.hardlink_to(path.parent / "mine"), "of another"),
        (os.mkfifo, "not seekable"),
    ],
)
def test_what_stands_in_place_of_a_lock_is_left_alone(tmp_path, make, received):
    (tmp_path / "mine").write_text("my text")
    make(tmp_path / locks.LOCK_FILE)
    message = f"{tmp_path} must be a folder to write to. .*{received}.* Name"
    with pytest.raises(OSError, match=message), locks.hold(tmp_path):
        pass
    assert (tmp_path / "mine").read_text() == "my text"
    assert names(tmp_path) == [locks.LOCK_FILE, "mine"]


def test_a_lock_that_a_full_disk_refuses_is_named(tmp_path):
    with (
        pytest.raises(OSError, match="large: .*/.lock'"),
        full_disk.largest_file(0),
        locks.hold(tmp_path),
    ):
        pass
    assert not (tmp_path / locks.LOCK_FILE).exists()
