"""The page's server: a few files, two questions to the model, nothing else.

Made for localhost: no accounts, no encryption. It reads no path that a client
names, so there is no folder to escape from; and on localhost it answers only
to that name, or a web site could reach it by a name of its own that it lets
point to this machine (DNS rebinding).
"""

import http
import http.server
import importlib.resources
import ipaddress
import json
import re
import socket
import traceback
from collections.abc import Callable
from typing import Any

from absl import logging

from electra_tf.export.demo import answers

MAX_BYTES = 16_384
"""Largest body of a request; four bytes a character, and some for JSON."""

# Of a body that is too large, what is read so that the client sees the answer.
_MAX_DISCARDED = 2**22
_TIMEOUT_SECONDS = 30
_JSON = "application/json"
_FILES = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/style.css": ("style.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; "
    "style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}
# Headers that would leave open which one holds.
_SINGLE = ("Host", "Origin", "Content-Length")
# Longer numbers than any body, and shorter ones than `int` refuses.
_LENGTH = re.compile("[0-9]{1,18}")
_LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")


class _RequestError(Exception):
    """A request that gets an answer other than 200."""

    def __init__(
        self, status: http.HTTPStatus, message: str, **headers: str
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers


class DemoServer(http.server.ThreadingHTTPServer):
    """Serves the page of one model.

    Args:
        model: what answers.
        host: address or name to listen at.
        port: 0 for any that is free.

    Raises:
        OSError: if the host does not exist here, or the port is taken.
    """

    daemon_threads = True

    def __init__(
        self, model: answers.DemoModel, host: str = "127.0.0.1", port: int = 0
    ) -> None:
        self.model = model
        self.files = {
            path: (_read(name), kind) for path, (name, kind) in _FILES.items()
        }
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            self.address_family = found[0][0]
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise OSError(
                f"Cannot listen at host {host!r}, port {port}: {error}. "
                "Choose another --port, or 0 for any that is free."
            ) from error
        self.is_local = _is_loopback(str(self.server_address[0]))

    @property
    def url(self) -> str:
        """Where the page is."""
        host, port = str(self.server_address[0]), self.server_address[1]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing of clients that went away."""
        logging.debug("%s: %s", client_address, traceback.format_exc())


class _Handler(http.server.BaseHTTPRequestHandler):
    server: DemoServer
    protocol_version = "HTTP/1.1"
    server_version = "electra_tf"
    sys_version = ""
    timeout = _TIMEOUT_SECONDS

    def do_GET(self) -> None:
        self._respond(self._get_without_body)

    do_HEAD = do_GET

    def do_POST(self) -> None:
        self._respond(self._post)

    def do_OTHER(self) -> None:
        self._respond(self._refuse_method)

    do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = do_OTHER
    do_CONNECT = do_OTHER

    def _respond(self, answer: Callable[[], tuple[bytes, str]]) -> None:
        try:
            self._check_headers()
            self._check_origin()
            body, kind = answer()
            self._send(http.HTTPStatus.OK, body, kind)
        except _RequestError as error:
            # What is left of the request may not be taken for the next one.
            self.close_connection = True
            body = _to_json({"error": str(error)})
            self._send(error.status, body, _JSON, error.headers)

    def _get_without_body(self) -> tuple[bytes, str]:
        found = self._get()
        has_length = self.headers.get("Content-Length", "0") != "0"
        if has_length or "Transfer-Encoding" in self.headers:
            # Left unread, it would be taken for the next request.
            raise _bad_request(f"{self.command} takes no body.")
        return found

    def _get(self) -> tuple[bytes, str]:
        path = self.path.partition("?")[0]
        if path in self.server.files:
            return self.server.files[path]
        if path == "/api/model":
            return _to_json(self.server.model.describe()), _JSON
        if path in self._questions():
            raise _not_allowed("POST")
        raise _RequestError(
            http.HTTPStatus.NOT_FOUND, "There is no such page. Go to /."
        )

    def _post(self) -> tuple[bytes, str]:
        question = self._questions().get(self.path)
        if question is None:
            self._get()  # Says what is wrong, unless the path is to be read.
            raise _not_allowed("GET, HEAD")
        request = _parse_json(self._read_body())
        try:
            return _to_json(question(request)), _JSON
        except ValueError as error:
            raise _bad_request(str(error)) from error
        except Exception as error:
            logging.error("The model failed:\n%s", traceback.format_exc())
            raise _RequestError(
                http.HTTPStatus.INTERNAL_SERVER_ERROR,
                "The model failed. The terminal of the server says why.",
            ) from error

    def _refuse_method(self) -> tuple[bytes, str]:
        if self.path in self._questions():
            raise _not_allowed("POST")
        self._get()
        raise _not_allowed("GET, HEAD")

    def _questions(self) -> dict[str, Callable[[Any], answers.Answer]]:
        model = self.server.model
        return {"/api/score": model.score, "/api/fill": model.fill}

    def _check_headers(self) -> None:
        """Refuses what others might read differently."""
        if self.headers.defects:
            raise _bad_request("A line among the headers is none.")
        for name in _SINGLE:
            if len(self.headers.get_all(name, ())) > 1:
                raise _bad_request(f"{name} is there more than once.")

    def _check_origin(self) -> None:
        """Refuses what was not meant for this server."""
        host = self.headers.get("Host", "")
        name, port = host.rpartition(":")[::2] if ":" in host else (host, "80")
        is_known = name.lower() in _LOCAL_NAMES
        if self.server.is_local and not (
            is_known and port == str(self.server.server_address[1])
        ):
            raise _RequestError(
                http.HTTPStatus.MISDIRECTED_REQUEST,
                f"This server answers at {self.server.url} only.",
            )
        origin = self.headers.get("Origin")
        if origin is not None and origin.partition("://")[2] != host:
            raise _RequestError(
                http.HTTPStatus.FORBIDDEN, "Other web sites may not ask."
            )

    def _read_body(self) -> bytes:
        kind = self.headers.get_content_type()
        length = self.headers.get("Content-Length", "")
        if "Transfer-Encoding" in self.headers or not length:
            raise _RequestError(
                http.HTTPStatus.LENGTH_REQUIRED, "Content-Length is missing."
            )
        if not _LENGTH.fullmatch(length):
            raise _bad_request("Content-Length is no number of bytes.")
        if int(length) > MAX_BYTES:
            self._discard(int(length))
            raise _RequestError(
                http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"The text is too long: a request may have {MAX_BYTES:,} "
                f"bytes, a text {answers.MAX_CHARACTERS:,} characters.",
            )
        body = self.rfile.read(int(length))
        if kind != _JSON:
            raise _RequestError(
                http.HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                f"Content-Type must be {_JSON}.",
            )
        if len(body) < int(length):
            raise _bad_request("The request ended before its Content-Length.")
        return body

    def _discard(self, length: int) -> None:
        left = min(length, _MAX_DISCARDED)
        while left > 0:
            data = self.rfile.read(min(left, 2**16))
            if not data:
                return
            left -= len(data)

    def _send(
        self,
        status: http.HTTPStatus,
        body: bytes,
        kind: str,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        for name, value in (_HEADERS | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(
        self, code: int, message: str | None = None, explain: str | None = None
    ) -> None:
        """What the base class found wrong, in the form of all answers."""
        del explain
        self.close_connection = True
        status = http.HTTPStatus(code)
        body = _to_json({"error": message or status.phrase})
        self._send(status, body, _JSON)

    def log_message(self, format: str, *values: Any) -> None:
        logging.debug("%s", self.log_text(format % values))

    def log_text(self, text: str) -> str:
        """The text without characters that could steer a terminal."""
        return "".join(c if c.isprintable() else "?" for c in text)


def _read(name: str) -> bytes:
    folder = importlib.resources.files("electra_tf.export.demo")
    return folder.joinpath(name).read_bytes()


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def _to_json(value: Any) -> bytes:
    return json.dumps(value).encode("ascii")


def _parse_json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _bad_request("The request is no JSON in UTF-8.") from error


def _bad_request(message: str) -> _RequestError:
    return _RequestError(http.HTTPStatus.BAD_REQUEST, message)


def _not_allowed(methods: str) -> _RequestError:
    return _RequestError(
        http.HTTPStatus.METHOD_NOT_ALLOWED,
        f"Use {methods} here.",
        Allow=methods,
    )


def serve(server: DemoServer) -> None:
    """Serves until Ctrl-C.

    Args:
        server: is closed at the end.
    """
    if not server.is_local:
        print(
            "WARNING: everybody who can reach this machine can use the model "
            "and take its time; there is no password. Leave --host away to "
            "keep it to yourself.",
            flush=True,
        )
    print(f"{server.model.description}\nOpen {server.url}", flush=True)
    print("Ctrl-C ends it.", flush=True)
    with server:
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("\nEnded.", flush=True)
