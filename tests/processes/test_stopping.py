"""Signals are remembered, and left alone when the run is over."""

import os
import pty
import signal
import subprocess
import sys
import time

import pytest

from electra_tf.processes import stopping

NUMBERS = signal.SIGTERM, signal.SIGINT, signal.SIGHUP


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_is_remembered_by_name(number, capfd):
    before = signal.signal(number, signal.SIG_DFL)  # nohup ignores one
    with stopping.StopRequest() as stop:
        assert stop.signal_name == ""
        os.kill(os.getpid(), number)
        deadline = time.monotonic() + 10
        while not stop.signal_name and time.monotonic() < deadline:
            time.sleep(0.01)
    name = signal.Signals(number).name
    assert stop.signal_name == name
    assert f"{name}: saving and ending" in capfd.readouterr().err
    signal.signal(number, before)


# One call that lasts minutes and lets other threads run, as the compiled loop
# does: Python runs no signal handler before it returns.
_BUSY = """
import hashlib
from electra_tf.processes import stopping

with stopping.StopRequest():
    print("ready", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)
"""


def test_a_second_signal_ends_a_process_that_is_busy():
    command = [sys.executable, "-c", _BUSY]
    process = subprocess.Popen(command, stdout=-1, stderr=-1, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.2)
    process.terminate()
    assert "A second signal ends at once" in process.stderr.readline()
    assert process.poll() is None
    process.terminate()
    assert process.wait(timeout=10) == 128 + signal.SIGTERM


_IN_A_TERMINAL = """
import pathlib, sys, time
from electra_tf.processes import stopping

with stopping.StopRequest() as stop:
    print("ready", flush=True)
    while not stop.signal_name:
        time.sleep(0.01)
    for _ in range(50):
        print("saving", file=sys.stderr, flush=True)
        time.sleep(0.01)
    pathlib.Path(sys.argv[1]).write_text(stop.signal_name)
"""


def test_a_closed_terminal_leaves_the_time_to_save(tmp_path):
    process, terminal = pty.fork()
    if process == 0:
        # `nohup make test` ignores it, and so would what it starts.
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        command = [sys.executable, "-c", _IN_A_TERMINAL, str(tmp_path / "end")]
        os.execv(sys.executable, command)
    while b"ready" not in os.read(terminal, 100):
        pass
    os.close(terminal)
    os.kill(process, signal.SIGHUP)  # The shell passes its own on.
    os.waitpid(process, 0)
    assert (tmp_path / "end").read_text() == "SIGHUP"
