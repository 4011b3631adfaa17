"""The page's server: what it gives, everything that it refuses, its models."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

import electra_tf
from electra_tf.export.demo import server as server_lib
from tests import script_modules
from tests import tiny_electra
from tests.export.demo import stubs

_JSON = "application/json"
HEADERS = {"Content-Type": _JSON}
_TEXT = b'{"text": "a"}'
SCRIPT = script_modules.ROOT / "scripts" / "serve_demo.py"


@pytest.fixture(scope="module")
def server():
    with stubs.serve(stubs.PRETRAINED) as running:
        yield running


def _ask(server, method, path, body=None, headers=None):
    """Status, headers and body of one request to a server, or to a port."""
    port = getattr(server, "port", server)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()


def _post(server, path, value, headers=HEADERS):
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    status, _, answer = _ask(server, "POST", path, body, headers)
    return status, json.loads(answer)


@pytest.mark.parametrize(
    ("path", "kind", "content"),
    [
        ("/?any=thing", "text/html; charset=utf-8", b"<textarea"),
        ("/style.css", "text/css; charset=utf-8", b"light-dark"),
        ("/page.js", "text/javascript; charset=utf-8", b"textContent"),
        ("/icon.svg", "image/svg+xml", b"<svg"),
        ("/api/model", "application/json", b"mask"),
    ],
)
def test_files_are_served_with_security_headers(server, path, kind, content):
    status, headers, body = _ask(server, "GET", path)
    assert (status, headers["Content-Type"]) == (200, kind)
    assert content in body
    assert int(headers["Content-Length"]) == len(body)
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "Python" not in headers["Server"]


def test_parts_put_together_are_the_text(server):
    text = " two  <b>blanks, a\ttab\nsmile \U0001f600 again, שלום e\u0301 "
    status, answer = _post(server, "/api/score", {"text": text})
    assert status == 200
    assert "".join(part["text"] for part in answer["parts"]) == text
    words = [p for p in answer["parts"] if p["probability"] is not None]
    assert [word["text"] for word in words] == text.split()
    assert answer["num_truncated"] == 0


def test_a_request_that_makes_no_sense_is_told_why(server):
    for body, kind, expected, message in (
        (b"", _JSON, 400, "no JSON"),
        (b"[" * 16000, _JSON, 400, "no JSON"),
        (b"[]", _JSON, 400, "JSON object"),
        (b'{"text": "a", "more": 1}', _JSON, 400, "nothing else"),
        (b'{"text": 3}', _JSON, 400, "JSON object"),
        (b'{"text": "  \\n "}', _JSON, 400, "only blanks"),
        (b'{"text": "\\ud800"}', _JSON, 400, "surrogate"),
        (b'{"text": "%5001d"}' % 1, _JSON, 400, "1 to 5,000 characters"),
        (_TEXT, "text/plain", 415, _JSON),
        (_TEXT, "application/x-www-form-urlencoded", 415, _JSON),
        (_TEXT, "", 415, _JSON),
        # What is too large is not read.
        (b" " * (server_lib.MAX_BYTES + 1), _JSON, 413, "49,152 bytes"),
        (b" " * 3_000_000, _JSON, 413, "49,152 bytes"),
    ):
        headers = {"Content-Type": kind}
        status, answer = _post(server, "/api/score", body, headers)
        assert (status, message in answer["error"]) == (expected, True), answer


def test_unknown_paths_do_not_exist_and_other_methods_are_not_allowed(server):
    for path in ("/nowhere", "/page.html", "/../pyproject.toml",
                 "/%2e%2e/server.py", "/api/score/"):  # fmt: skip
        for method in ("GET", "POST"):
            status, _, body = _ask(server, method, path, b"{}", HEADERS)
            assert status == 404 and b"error" in body
    status, headers, _ = _ask(server, "GET", "/api/score")
    assert (status, headers["Allow"]) == (405, "POST")


def test_other_names_of_this_machine_and_other_sites_are_refused(server):
    port = server.port
    for host, status in (
        ("evil.example", 421),
        (f"evil.example:{port}", 421),
        ("localhost:1", 421),
        ("127.0.0.1", 421),
        (f"localhost:{port}", 200),
    ):
        assert _ask(server, "GET", "/", headers={"Host": host})[0] == status
    for origin, status in (
        ("http://evil.example", 403),
        ("null", 403),
        (f"http://127.0.0.1:{port}", 200),
    ):
        headers = HEADERS | {"Origin": origin}
        assert _post(server, "/api/score", _TEXT, headers)[0] == status


def test_a_model_that_fails_does_not_end_the_server():
    def fail(texts):
        raise RuntimeError("secret of the inside")

    with stubs.serve(server_lib.DemoModel("broken", fail)) as server:
        status, answer = _post(server, "/api/score", _TEXT)
        assert status == 500 and "secret" not in answer["error"]
        assert _ask(server, "GET", "/")[0] == 200


def test_fine_tuned_models_predict_of_the_texts_that_they_read():
    with stubs.serve(stubs.TAGGER) as running:
        told = json.loads(_ask(running, "GET", "/api/model")[2])
        assert (told["kind"], told["inputs"]) == ("tagging", ["text"])
        assert not (told["can_score"] or told["can_fill"])
        status, answer = _post(running, "/api/predict", {"text": "Ann sat ."})
        assert (status, answer["spans"]) == (200, [["Ann", 0, 3, "PER", 0.9]])
        status, answer = _post(running, "/api/score", {"text": "Ann"})
        assert (status, "no discriminator" in answer["error"]) == (400, True)
    with stubs.serve(stubs.READER) as running:
        texts = {"context": "It sat.", "question": "Who?"}
        status, answer = _post(running, "/api/predict", texts)
        # In the order of the model's inputs, not of the request.
        assert (status, answer["text"]) == (200, "Who? It sat.")
        status, answer = _post(running, "/api/predict", {"question": "Who?"})
        assert (status, '"context": ' in answer["error"]) == (400, True)


def test_who_sends_slowly_is_cut_off_and_others_wait(monkeypatch):
    monkeypatch.setattr(server_lib, "_MAX_SECONDS", 0.5)
    monkeypatch.setattr(server_lib, "_MAX_CONNECTIONS", 1)
    with (
        stubs.serve(stubs.PRETRAINED) as server,
        socket.create_connection(server.server_address[:2]) as slow,
    ):
        slow.sendall(b"GET / HTTP/1.1\r\n")
        start = time.monotonic()
        assert _ask(server, "GET", "/")[0] == 200
        assert 0.3 < time.monotonic() - start < 10
        slow.settimeout(1)
        # What it had sent was no whole request.
        assert slow.recv(100).startswith(b"HTTP/1.1 421 ")


def test_sigterm_ends_the_server_after_the_answer_under_way(capsys):
    begun, answers = threading.Event(), []

    def score(texts):
        if texts == ["the cat"]:
            begun.set()
            time.sleep(0.7)
        return stubs.PRETRAINED.score(texts)

    model = server_lib.DemoModel("slow", score)
    server = server_lib.DemoServer(model)

    def ask_and_end():
        asking = threading.Thread(
            target=lambda: answers.append(
                _post(server, "/api/score", {"text": "the cat"})
            )
        )
        asking.start()
        begun.wait(20)
        os.kill(os.getpid(), signal.SIGTERM)
        asking.join(20)

    before = signal.getsignal(signal.SIGTERM)
    other = threading.Thread(target=ask_and_end)
    other.start()
    try:
        server_lib.serve(server)
        other.join(20)
    finally:
        signal.signal(signal.SIGTERM, before)
    ((status, answer),) = answers
    assert (status, len(answer["parts"])) == (200, 3)
    assert "Ended." in capsys.readouterr().out


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    tiny_electra.write_run(folder)
    return folder


def test_an_export_and_a_model_do_what_each_can(run, exported):
    alone = server_lib.build_demo_model(export_dir=exported)
    assert alone.fill is None
    both = server_lib.build_demo_model(electra_tf.load(run), exported)
    assert both.description.startswith("exported model; discr")
    assert len(both.fill(["a [MASK]"], 5)[0][0]) == 5
    assert both.score(["the cat"])[0].words


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
        _, answer = _post(port, "/api/score", {"text": "the cat"})
        assert len(answer["parts"]) == 3
        flags = f"--model={run}", f"--port={port}"
        again = script_modules.run("serve_demo", *flags)
        assert (again.returncode, again.stderr.count("\n")) == (1, 1)
        assert again.stderr.startswith("error: Cannot listen")
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=30)
        assert process.returncode == 0
        assert "Ended." in output and "Traceback" not in errors
    finally:
        process.kill()
