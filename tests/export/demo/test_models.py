"""What the page can be made of, and the script that makes it."""

import json
import pathlib
import signal
import subprocess
import sys
import urllib.request

import pytest

import electra_tf
from electra_tf.export.demo import server
from tests import tiny_electra

SCRIPT = pathlib.Path(__file__).parents[3] / "scripts" / "serve_demo.py"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run."""
    folder = tmp_path_factory.mktemp("run")
    tiny_electra.write_run(folder)
    return folder


def test_an_export_and_a_model_do_what_each_can(run, exported):
    alone = server.build_demo_model(export_dir=exported)
    assert alone.fill is None
    both = server.build_demo_model(electra_tf.load(run), exported)
    assert both.description.startswith("exported model; discr")
    assert len(both.fill(["a [MASK]"], 5)[0][0]) == 5
    assert both.score(["the cat"])[0].words


def test_nothing_to_show_is_an_error(tmp_path):
    tiny_electra.write_run(tmp_path, "all_tokens_mlm")
    with pytest.raises(ValueError, match="none of these"):
        server.DemoServer(server.build_demo_model(electra_tf.load(tmp_path)))


@pytest.mark.slow
def test_the_script_serves_until_it_is_interrupted(run):
    process = subprocess.Popen(
        [sys.executable, SCRIPT, f"--model={run}", "--port=0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # A shell has its background jobs, and theirs, ignore SIGINT.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    try:
        lines = [process.stdout.readline() for _ in range(3)]
        assert lines[1].startswith("Open http://127.0.0.1:"), lines
        port = int(lines[1].rstrip("/\n").rpartition(":")[2])
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/api/score", b'{"text": "the cat"}',
            {"Content-Type": "application/json"},
        )  # fmt: skip
        with urllib.request.urlopen(request, timeout=60) as response:
            assert len(json.load(response)["parts"]) == 3
        again = subprocess.run(
            [sys.executable, SCRIPT, f"--model={run}", f"--port={port}"],
            capture_output=True, text=True,
        )  # fmt: skip
        assert (again.returncode, again.stderr.count("\n")) == (1, 1)
        assert again.stderr.startswith("error: Cannot listen")
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=30)
        assert process.returncode == 0
        assert "Ended." in output and "Traceback" not in errors
    finally:
        process.kill()
