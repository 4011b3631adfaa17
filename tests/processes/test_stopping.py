"""Signals are remembered, and left alone when the run is over."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from electra_tf.processes import stopping


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_remembered_by_name(number, capfd):
    with stopping.StopRequest() as stop:
        assert stop.signal_name == ""
        os.kill(os.getpid(), number)
        deadline = time.monotonic() + 10
        while not stop.signal_name and time.monotonic() < deadline:
            time.sleep(0.01)
    name = signal.Signals(number).name
    assert stop.signal_name == name
    assert f"{name}: saving and ending" in capfd.readouterr().err


def test_afterwards_everything_is_as_it_was():
    handlers = [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)]
    threads = threading.active_count()
    for _ in range(3):
        with stopping.StopRequest():
            assert signal.getsignal(signal.SIGTERM) not in handlers
        after = [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)]
        assert after == handlers
        assert signal.set_wakeup_fd(-1) == -1
        assert threading.active_count() == threads


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
    number = signal.SIGTERM
    process = subprocess.Popen(
        [sys.executable, "-c", _BUSY],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.2)
    process.send_signal(number)
    assert "A second signal ends at once" in process.stderr.readline()
    assert process.poll() is None
    process.send_signal(number)
    assert process.wait(timeout=10) == 128 + number
