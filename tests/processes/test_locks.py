"""One process at a time works in a folder."""

import os
import signal
import subprocess
import sys

import pytest

from electra_tf.processes import locks
from tests import full_disk

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


@pytest.mark.parametrize(
    ("make", "received"),
    [
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: path.symlink_to("mine"), "a link as .lock"),
        (lambda path: path.symlink_to("nothing"), "a link as .lock"),
        (lambda path: path.hardlink_to(path.parent / "mine"), "of others"),
        (os.mkfifo, "not seekable"),
    ],
)
def test_what_stands_in_place_of_a_lock_is_left_alone(tmp_path, make, received):
    (tmp_path / "mine").write_text("my text")
    make(tmp_path / locks.LOCK_FILE)
    message = f"{tmp_path} must be a folder to write to. .*{received}. Give"
    with pytest.raises(OSError, match=message), locks.hold(tmp_path):
        pass
    assert (tmp_path / "mine").read_text() == "my text"
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"mine", locks.LOCK_FILE}


def test_a_lock_that_a_full_disk_refuses_is_named(tmp_path):
    with (
        pytest.raises(OSError, match="large: .*/.lock'"),
        full_disk.largest_file(0),
        locks.hold(tmp_path),
    ):
        pass
    assert not (tmp_path / locks.LOCK_FILE).exists()
