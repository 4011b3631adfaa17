"""A stand-in of the Hugging Face hub, for what `huggingface_hub` asks."""

import contextlib
import hashlib
import http.server
import json
import re
import threading

TOKEN = "hf_secret"
_COMMITS = {"main": "0" * 40, "old": "1" * 40}
_PATH = re.compile(
    r"(?:/api/models)?/(?P<model>[^/]+/[^/]+)"
    r"/(?P<what>revision|tree|resolve)/(?P<revision>[^/?]+)/?(?P<file>[^?]*)"
)


class Hub(http.server.ThreadingHTTPServer):
    """Models by name: file to content; `private` ones need `TOKEN`."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.models = {}
        self.private, self.gated = set(), set()
        self.fetched = []  # files, in the order of requests for them
        self.url = f"http://127.0.0.1:{self.server_port}"

    def add(self, name, folder):
        """Takes the files of a folder."""
        files = (path for path in folder.rglob("*") if path.is_file())
        self.models[name] = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in files
        }


class _Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self._answer(has_body=False)

    def do_GET(self):
        self._answer(has_body=True)

    def _answer(self, has_body):
        hub, found = self.server, _PATH.match(self.path)
        model, what, revision, file = found.group(
            "model", "what", "revision", "file"
        )
        files = hub.models.get(model)
        commit = _COMMITS.get(revision, revision)
        has_token = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        if files is None or (model in hub.private and not has_token):
            self._send(401, b"", {"X-Error-Code": "RepoNotFound"})
        elif model in hub.gated and not has_token:
            self._send(403, b"", {"X-Error-Code": "GatedRepo"})
        elif commit not in _COMMITS.values():
            self._send(404, b"", {"X-Error-Code": "RevisionNotFound"})
        elif what == "revision":
            siblings = [{"rfilename": path} for path in files]
            self._send_json({"id": model, "sha": commit, "siblings": siblings})
        elif what == "tree":
            entries = [
                {"type": "file", "path": path, "size": len(content),
                 "oid": _checksum(content)}
                for path, content in files.items()
            ]  # fmt: skip
            self._send_json(entries)
        else:
            content = files[file]
            if has_body:
                hub.fetched.append(f"{model}/{file}")
            headers = {
                "ETag": f'"{_checksum(content)}"',
                "X-Repo-Commit": commit,
            }
            self._send(200, content, headers, has_body)

    def _send_json(self, value):
        self._send(200, json.dumps(value).encode(), {})

    def _send(self, status, content, headers, has_body=True):
        self.send_response(status)
        headers = {"Content-Length": str(len(content)), **headers}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if has_body:
            self.wfile.write(content)


def _checksum(content):
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


@contextlib.contextmanager
def serve():
    """Gives a running `Hub`."""
    hub = Hub()
    threading.Thread(target=hub.serve_forever, daemon=True).start()
    yield hub
    hub.shutdown()
    hub.server_close()
