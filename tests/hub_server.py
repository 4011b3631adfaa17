"""A stand-in of the Hugging Face hub, for what `huggingface_hub` asks."""

import contextlib
import hashlib
import json
import re

from werkzeug import wrappers

from tests import local_server

TOKEN = "hf_secret"
_COMMITS = {"main": "0" * 40, "old": "1" * 40}
_PATH = re.compile(
    r"(?:/api/models)?/(?P<model>[^/]+/[^/]+)"
    r"/(?P<what>revision|tree|resolve)/(?P<revision>[^/]+)/?(?P<file>.*)"
)


class Hub:
    """Models by name: file to content; `private` ones need `TOKEN`."""

    def __init__(self):
        self.models = {}
        self.private, self.gated = set(), set()
        self.fetched = []  # files, in the order of requests for them
        self.url = ""

    def add(self, name, folder):
        files = (path for path in folder.rglob("*") if path.is_file())
        self.models[name] = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in files
        }

    def answer(self, request):
        model, what, revision, file = _PATH.match(request.path).groups()
        files, commit = self.models.get(model), _COMMITS.get(revision, revision)
        has_token = request.headers.get("Authorization") == f"Bearer {TOKEN}"
        if files is None or (model in self.private and not has_token):
            return _refuse(401, "RepoNotFound")
        if model in self.gated and not has_token:
            return _refuse(403, "GatedRepo")
        if commit not in _COMMITS.values():
            return _refuse(404, "RevisionNotFound")
        if what == "revision":
            siblings = [{"rfilename": path} for path in files]
            found = {"id": model, "sha": commit, "siblings": siblings}
            return wrappers.Response(json.dumps(found))
        if what == "tree":
            found = [
                {"type": "file", "path": path, "size": len(content),
                 "oid": _checksum(content)}
                for path, content in files.items()
            ]  # fmt: skip
            return wrappers.Response(json.dumps(found))
        if request.method == "GET":
            self.fetched.append(f"{model}/{file}")
        response = wrappers.Response(files[file])
        response.set_etag(_checksum(files[file]))
        response.headers["X-Repo-Commit"] = commit
        return response


def _refuse(status, code):
    return wrappers.Response(status=status, headers={"X-Error-Code": code})


def _checksum(content):
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


@contextlib.contextmanager
def serve():
    hub = Hub()
    with local_server.serve(hub.answer) as address:
        hub.url = f"http://{address}"
        yield hub
