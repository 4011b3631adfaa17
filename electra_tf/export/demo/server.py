"""The demo page's server: a few files, two questions to the model.

Made for localhost: no accounts, no encryption. It reads no path that a client
names. On localhost it answers only to that name, or a web site could reach it
by a name that it lets point to this machine (DNS rebinding).
"""

import importlib.resources
import ipaddress
import json
import socket
import traceback
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any

from absl import logging
from werkzeug import exceptions
from werkzeug import routing
from werkzeug import serving
from werkzeug import wrappers

from electra_tf.export.demo import answers

MAX_BYTES = 16_384
"""Largest body of a request; four bytes a character, and some for JSON."""

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
_LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")

Endpoint = Callable[[wrappers.Request], wrappers.Response]


class _Request(wrappers.Request):
    max_content_length = MAX_BYTES


class DemoServer(serving.ThreadedWSGIServer):
    """Serves the page of one model."""

    def __init__(
        self, model: answers.DemoModel, host: str = "127.0.0.1", port: int = 0
    ) -> None:
        self.model = model
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            with socket.create_server(
                found[0][4][:2], family=found[0][0]
            ) as bound:
                super().__init__(
                    host, port, self._answer, _Handler, fd=bound.fileno()
                )
        except (OSError, OverflowError) as error:
            raise OSError(
                f"Cannot listen at host {host!r}, port {port}: {error}. "
                "Choose another --port, or 0 for any that is free."
            ) from error
        address = str(self.server_address[0]).partition("%")[0]
        self.is_local = ipaddress.ip_address(address).is_loopback
        endpoints = {
            ("GET", path): _serve(_read(name), kind)
            for path, (name, kind) in _FILES.items()
        } | {
            ("GET", "/api/model"): lambda _: _json(model.describe()),
            ("POST", "/api/score"): _ask(model.score),
            ("POST", "/api/fill"): _ask(model.fill),
        }
        self._routes = routing.Map(
            [
                routing.Rule(path, methods=[method], endpoint=endpoint)
                for (method, path), endpoint in endpoints.items()
            ],
            merge_slashes=False,
        )

    @property
    def url(self) -> str:
        """Where the page is."""
        host, port = str(self.server_address[0]), self.server_address[1]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/"

    def _answer(
        self, environ: dict[str, Any], start_response: Any
    ) -> Iterable[bytes]:
        """The application that Werkzeug calls for every request."""
        try:
            self._check_origin(environ)
            routes = self._routes.bind_to_environ(environ)
            endpoint, _ = routes.match()
            response = endpoint(_Request(environ))
        except exceptions.HTTPException as error:
            response = _json({"error": error.description}, error.code or 500)
            if isinstance(error, exceptions.MethodNotAllowed):
                response.headers["Allow"] = ", ".join(
                    sorted(error.valid_methods or ())
                )
        response.headers.update(_HEADERS)
        return response(environ, start_response)

    def _check_origin(self, environ: dict[str, Any]) -> None:
        """Refuses what was not meant for this server."""
        host = environ.get("HTTP_HOST", "")
        port = self.server_address[1]
        known = [f"{name}:{port}" for name in _LOCAL_NAMES]
        if port == 80:
            known += _LOCAL_NAMES
        if self.is_local and host.lower() not in known:
            raise exceptions.MisdirectedRequest(
                f"This server answers at {self.url} only."
            )
        origin = environ.get("HTTP_ORIGIN")
        if origin is not None and origin.partition("://")[2] != host:
            raise exceptions.Forbidden("Other web sites may not ask.")


class _Handler(serving.WSGIRequestHandler):
    timeout = 30

    def version_string(self) -> str:
        return "electra_tf"

    def log(self, type: str, message: str, *values: Any) -> None:
        # What steers a terminal is not shown.
        text = message % values
        logging.debug(
            "%s", "".join(c if c.isprintable() else "?" for c in text)
        )


def _serve(content: bytes, kind: str) -> Endpoint:
    return lambda _: wrappers.Response(content, content_type=kind)


def _read(name: str) -> bytes:
    folder = importlib.resources.files("electra_tf.export.demo")
    return folder.joinpath(name).read_bytes()


def _ask(question: Callable[[Any], answers.Answer]) -> Endpoint:
    """Asks the model what the body of a request says."""

    def endpoint(request: wrappers.Request) -> wrappers.Response:
        try:
            return _json(question(_read_json(request)))
        except ValueError as error:
            raise exceptions.BadRequest(str(error)) from error
        except exceptions.HTTPException:
            raise
        except Exception as error:
            logging.error("The model failed:\n%s", traceback.format_exc())
            raise exceptions.InternalServerError(
                "The model failed. The terminal of the server says why."
            ) from error

    return endpoint


def _read_json(request: wrappers.Request) -> Any:
    if request.mimetype != _JSON:
        raise exceptions.UnsupportedMediaType(f"Content-Type must be {_JSON}.")
    try:
        return json.loads(request.get_data())
    except exceptions.RequestEntityTooLarge as error:
        raise exceptions.RequestEntityTooLarge(
            f"The text is too long: a request may have {MAX_BYTES:,} "
            f"bytes, a text {answers.MAX_CHARACTERS:,} characters."
        ) from error
    except (ValueError, RecursionError) as error:
        raise ValueError("The request is no JSON in UTF-8.") from error


def _json(value: Any, status: int = 200) -> wrappers.Response:
    return wrappers.Response(json.dumps(value), status, mimetype=_JSON)


def serve(server: DemoServer) -> None:
    """Serves until Ctrl-C, then closes the server."""
    if not server.is_local:
        print(
            "WARNING: everybody who can reach this machine can use the model "
            "and take its time; there is no password. Leave --host away to "
            "keep it to yourself.",
            flush=True,
        )
    print(f"{server.model.description}\nOpen {server.url}", flush=True)
    print("Ctrl-C ends it.", flush=True)
    # Werkzeug takes Ctrl-C as the end, and closes the server.
    server.serve_forever()
    print("\nEnded.", flush=True)
