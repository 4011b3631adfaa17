"""The server of the demo page: serves its files, and asks a model.

It is made for localhost, without accounts or encryption. There it answers only
requests for that host name, to prevent DNS rebinding: a web site could let its
own name point to this machine.
"""

import dataclasses
import functools
import importlib.resources
import ipaddress
import json
import pathlib
import signal
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from absl import logging
from werkzeug import exceptions
from werkzeug import routing
from werkzeug import serving
from werkzeug import wrappers

from electra_tf.config import schema
from electra_tf.export.clients import mask_filling
from electra_tf.export.clients import scoring
from electra_tf.export.clients import text_models
from electra_tf.tasks import base

MAX_CHARACTERS = 5000
MAX_BYTES = 49_152
"""Maximum body of a request: two texts of four-byte characters, as JSON."""

_TOP_K = 5
_MAX_CONNECTIONS = 128  # further ones wait in the system's queue
_MAX_SECONDS = 10.0  # for all data that one connection sends
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


class DemoModel(NamedTuple):
    """A model behind the page: it scores words, fills masks, or predicts."""

    description: str  # one line, shown on the page
    score: Callable[..., list[scoring.ScoredText]] | None = None
    fill: Callable[..., list] | None = None
    # Of a fine-tuned model; takes a list of texts for each input.
    predict: Callable[..., list] | None = None
    # Further facts for the page: kind, its texts, inputs, range of numbers.
    facts: Mapping[str, Any] = {"inputs": ["text"]}


def build_demo_model(
    live: Any = None, export_dir: pathlib.Path | None = None
) -> DemoModel:
    """Builds the page's model from a loaded model, an export, or both.

    With both, the export scores words and the loaded model fills masks. Raises
    `ValueError` if one of two models is fine-tuned.
    """
    shown: list[tuple[str, Any]] = []
    if export_dir is not None:
        export = text_models.LoadedExport(export_dir)
        shown.append((export.summary, export))
    if live is not None:
        shown.append((live.summary, live.text_model))
    description = "; ".join(summary for summary, _ in shown)
    for _, model in shown:
        if model.metadata is not None and model.metadata.task is not None:
            schema.require(
                len(shown) == 1,
                "A fine-tuned model is shown alone. Only a model that scores "
                "words and one that fills masks can be shown together. "
                f"Received: {description}. Give --model or --saved_model.",
            )
            return _build_predictor(description, model)
    can_fill = live is not None and live.can_fill_masks
    score = live.score if live is not None and live.can_score else None
    if export_dir is not None:
        export.require("score_text")
        score = export.score
    return DemoModel(description, score, live.fill_masks if can_fill else None)


def _build_predictor(
    description: str, model: text_models.TextModel
) -> DemoModel:
    names, metadata = model.input_names, model.require_task()
    facts = {
        "kind": metadata.kind,
        "page": base.find_kind(metadata.kind).export_texts()["page"],
        "inputs": [name.removesuffix("s") for name in names],
        "range": [metadata.min_value, metadata.max_value],
    }

    def predict(*columns: list[str]) -> list[Any]:
        inputs = dict(zip(names, columns, strict=True))
        return [prediction for _, prediction in model.answer(inputs)]

    return DemoModel(description, predict=predict, facts=facts)


class DemoServer(serving.ThreadedWSGIServer):
    """Serves the page of one model."""

    def __init__(
        self, model: DemoModel, host: str = "127.0.0.1", port: int = 0
    ) -> None:
        if not (model.score or model.fill or model.predict):
            raise ValueError(
                "The page needs a model that scores words, fills masks or is "
                f"fine-tuned. Received: {model.description}, none of these."
            )
        self.model = model
        # The model answers one request at a time.
        self._lock = threading.Lock()
        self._connections = threading.Semaphore(_MAX_CONNECTIONS)
        try:
            addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            family, *_, address = addresses[0]
            with socket.create_server(address[:2], family=family) as bound:
                number = bound.fileno()
                super().__init__(host, port, self._answer, _Handler, fd=number)
        except (OSError, OverflowError) as error:
            raise OSError(
                f"Cannot listen at host {host!r}, port {port}: {error}. "
                "Choose another --port, or 0 for any free port."
            ) from error
        number_of_host = str(self.server_address[0]).partition("%")[0]
        self.is_local = ipaddress.ip_address(number_of_host).is_loopback
        self._routes = routing.Map(
            [
                *(routing.Rule(path, methods=["GET"]) for path in _FILES),
                routing.Rule("/api/model", methods=["GET"]),
                *(routing.Rule(path, methods=["POST"]) for path in _QUESTIONS),
            ],
            merge_slashes=False,
        )

    @property
    def url(self) -> str:
        """Address of the page."""
        host, port = str(self.server_address[0]), self.server_address[1]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answers a connection in its own thread, as soon as one is free."""
        self._connections.acquire()
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answers the requests that a connection sends in `_MAX_SECONDS`."""
        stop = functools.partial(request.shutdown, socket.SHUT_RD)
        end = threading.Timer(_MAX_SECONDS, stop)
        end.daemon = True
        end.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            end.cancel()
            self._connections.release()

    def finish(self) -> None:
        """Waits for answers in progress, at most `_MAX_SECONDS`."""
        end = time.monotonic() + _MAX_SECONDS
        for _ in range(_MAX_CONNECTIONS):
            rest = max(0, end - time.monotonic())
            if not self._connections.acquire(timeout=rest):
                break

    def warm_up(self) -> None:
        """Asks for every kind of answer once: the first one takes seconds."""
        many = [mask_filling.MASK] * (text_models.NUM_EAGER_TEXTS + 1)
        texts = [many for _ in self.model.facts["inputs"]]
        with self._lock:
            for answer in (self.model.score, self.model.predict):
                if answer is not None:
                    answer(*texts)
            if self.model.fill is not None:
                self.model.fill(*texts, _TOP_K)

    def _answer(
        self, environ: dict[str, Any], start_response: Any
    ) -> Iterable[bytes]:
        try:
            self._check_origin(environ)
            routes = self._routes.bind_to_environ(environ)
            rule, _ = routes.match(return_rule=True)
            request = wrappers.Request(environ)
            request.max_content_length = MAX_BYTES
            if rule.rule in _FILES:
                name, kind = _FILES[rule.rule]
                folder = importlib.resources.files("electra_tf.export.demo")
                content = folder.joinpath(name).read_bytes()
                response = wrappers.Response(content, content_type=kind)
            else:
                response = _json(self._ask(request, rule.rule))
        except exceptions.HTTPException as error:
            response = _json({"error": error.description}, error.code or 500)
            if isinstance(error, exceptions.MethodNotAllowed):
                allowed = sorted(error.valid_methods or ())
                response.headers["Allow"] = ", ".join(allowed)
        response.headers.update(_HEADERS)
        return response(environ, start_response)

    def _ask(self, request: wrappers.Request, path: str) -> dict[str, Any]:
        model = self.model
        if path not in _QUESTIONS:
            return {
                "description": model.description,
                "can_score": model.score is not None,
                "can_fill": model.fill is not None,
                "max_characters": MAX_CHARACTERS,
                "mask": mask_filling.MASK,
                **model.facts,
            }
        method, network, *options, to_json = _QUESTIONS[path]
        answer = getattr(model, method)
        try:
            texts = _read_texts(_read_json(request), model.facts["inputs"])
            if answer is None:
                raise ValueError(f"This model has no {network}.")
            with self._lock:
                answers = answer(*([text] for text in texts), *options)
            return to_json(answers[0])
        except ValueError as error:
            raise exceptions.BadRequest(str(error)) from error
        except exceptions.HTTPException:
            raise
        except Exception as error:
            logging.error("The model failed:\n%s", traceback.format_exc())
            raise exceptions.InternalServerError(
                "The model failed. The server's terminal shows the error."
            ) from error

    def _check_origin(self, environ: dict[str, Any]) -> None:
        host = environ.get("HTTP_HOST", "")
        port = self.server_address[1]
        known = [f"{name}:{port}" for name in _LOCAL_NAMES]
        known.append(self.url.split("/")[2])
        if port == 80:
            known += _LOCAL_NAMES
        if self.is_local and host.lower() not in known:
            message = f"This server answers at {self.url} only."
            raise exceptions.MisdirectedRequest(message)
        origin = environ.get("HTTP_ORIGIN")
        if origin is not None and origin.partition("://")[2] != host:
            raise exceptions.Forbidden("Other web sites may not ask.")


class _Handler(serving.WSGIRequestHandler):
    timeout = 5  # seconds of one read or write

    def version_string(self) -> str:
        return "electra_tf"

    def log(self, type: str, message: str, *values: Any) -> None:
        # Control characters would reach the terminal.
        text = message % values
        logging.debug("".join(c if c.isprintable() else "?" for c in text))


def split_parts(scored: scoring.ScoredText) -> list[dict[str, Any]]:
    """Splits a text into words, and parts between them (probability None)."""
    parts: list[dict[str, Any]] = []
    position = 0
    rest = scoring.ScoredWord("", len(scored.data), len(scored.data), 0.0)
    for word in (*scored.words, rest):
        probability = word.replaced_probability
        for end, value in ((word.start, None), (word.end, probability)):
            if end > position:
                text = scored.data[position:end].decode("utf-8")
                parts.append({"text": text, "probability": value})
            position = end
    return parts


# By path: the method of `DemoModel`, the network that it needs, further
# arguments, and a function that turns an answer into JSON.
_QUESTIONS: Mapping[str, tuple[Any, ...]] = {
    "/api/predict": ("predict", "task", dataclasses.asdict),
    "/api/fill": ("fill", "generator", _TOP_K, lambda masks: {
        "masks": [[filling._asdict() for filling in row] for row in masks]
    }),
    "/api/score": ("score", "discriminator", lambda scored: {
        "parts": split_parts(scored), "num_truncated": scored.num_truncated
    }),
}  # fmt: skip


def _read_json(request: wrappers.Request) -> Any:
    if request.mimetype != _JSON:
        raise exceptions.UnsupportedMediaType(f"Content-Type must be {_JSON}.")
    try:
        return json.loads(request.get_data())
    except exceptions.RequestEntityTooLarge as error:
        raise exceptions.RequestEntityTooLarge(
            f"The text is too long: a request may have {MAX_BYTES:,} "
            f"bytes, a text {MAX_CHARACTERS:,} characters."
        ) from error
    except (ValueError, RecursionError) as error:
        raise ValueError("The request is no JSON in UTF-8.") from error


def _read_texts(request: Any, names: Sequence[str]) -> list[str]:
    is_object = isinstance(request, Mapping) and set(request) == set(names)
    if not is_object or not all(isinstance(v, str) for v in request.values()):
        fields = ", ".join(f'"{name}": "..."' for name in names)
        raise ValueError(
            f"A request must be a JSON object {{{fields}}} and nothing else."
        )
    for name, text in request.items():
        if not text.strip() or len(text) > MAX_CHARACTERS:
            raise ValueError(
                f"The {name} must have 1 to {MAX_CHARACTERS:,} characters, not "
                f"only blanks. Received: {len(text):,}. Change the text."
            )
    return text_models.check_texts("text", [request[name] for name in names])


def _json(value: Any, status: int = 200) -> wrappers.Response:
    return wrappers.Response(json.dumps(value), status, mimetype=_JSON)


def serve(server: DemoServer) -> None:
    """Serves until Ctrl-C or SIGTERM, then finishes and closes."""
    if not server.is_local:
        print(
            "WARNING: everybody who can reach this machine can use the model, "
            "without a password. Leave out --host to keep it to yourself."
        )
    # Werkzeug closes the server at Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    threading.Thread(target=server.warm_up, daemon=True).start()
    print(f"{server.model.description}\nOpen {server.url}")
    print("Ctrl-C ends the server.", flush=True)
    server.serve_forever()
    server.finish()
    print("\nEnded.", flush=True)
