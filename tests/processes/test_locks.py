"""One process at a time works in a folder."""

import errno
import fcntl
import os
import signal
import subprocess
import sys

import pytest

from electra_tf.processes import locks

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


def test_an_empty_folder_goes_and_a_file_in_it_stays(tmp_path):
    folder = tmp_path / "runs" / "one"
    with locks.hold(folder):
        pass
    assert list(tmp_path.iterdir()) == []
    with locks.hold(folder):
        (folder / "config.json").touch()
    assert [path.name for path in folder.iterdir()] == ["config.json"]


def test_several_share_a_folder_and_keep_those_out_that_do_not(tmp_path):
    with locks.hold(tmp_path, is_shared=True):
        with locks.hold(tmp_path, is_shared=True):
            pass
        busy = pytest.raises(BlockingIOError, match="in use")
        with busy, locks.hold(tmp_path):
            pass


def test_a_lock_on_a_file_that_its_owner_has_removed_is_taken_anew(
    tmp_path, monkeypatch
):
    flock, path = fcntl.flock, tmp_path / locks.LOCK_FILE

    def remove_then_lock(*arguments):
        monkeypatch.setattr(fcntl, "flock", flock)
        path.unlink()
        flock(*arguments)

    monkeypatch.setattr(fcntl, "flock", remove_then_lock)
    busy = pytest.raises(BlockingIOError, match="in use")
    with locks.hold(tmp_path), busy, locks.hold(tmp_path):
        pass


def test_folders_without_locks_are_used_or_named(tmp_path, monkeypatch):
    def refuse(*unused):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with locks.hold(tmp_path):
        pass
    (tmp_path / locks.LOCK_FILE).mkdir()
    message = f"{tmp_path} must be a folder to write to.*directory. Give"
    with pytest.raises(OSError, match=message), locks.hold(tmp_path):
        pass
