"""Asks a running TensorFlow Serving, by REST or by gRPC.

The REST client needs Python alone, the gRPC client grpcio and
tensorflow-serving-api. Both give the same answers: name to a list with the
batch as its first axis, strings as bytes.
"""

import base64
import http.client
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

PROTOCOLS = ("rest", "grpc")
DEFAULT_SIGNATURE = "serving_default"
# An answer that is no JSON is shown up to here.
_MAX_SHOWN = 300
# Numbers of a list that are shown.
_MAX_NUMBERS = 12
# TensorFlow would cut off what is larger, and ask for another id.
_INT32 = range(-(2**31), 2**31)
_SERVER = re.compile(r"(\[[^][/\s]+\]|[^][:/\s]+):[0-9]{1,5}")
# Where a token's word is in the text, and how many tokens a row has.
_STARTS, _ENDS, _MASK = "word_starts", "word_ends", "input_mask"

Inputs = Mapping[str, Sequence[Any]]
Answers = dict[str, list[Any]]


class ServerError(OSError):
    """A server that is not there, does not answer, or refuses a request."""


class Target(NamedTuple):
    """Who is asked."""

    server: str  # `host:port`
    model: str  # its name there
    version: int = 0  # its number; 0 for the one that the server thinks newest
    signature: str = ""  # its name; empty for the default one
    timeout: float = 60.0  # seconds until a request is given up


def predict(protocol: str, target: Target, inputs: Inputs) -> Answers:
    """Sends one request and returns the answers.

    Args:
        protocol: one of `PROTOCOLS`.
        target: who is asked.
        inputs: name to rows; text as str or, if it is not UTF-8, bytes; ids
            as lists of int.

    Raises:
        ServerError: with the server's own words, if it has some.
        ImportError: if gRPC is asked for and not installed.
        ValueError: for an unknown protocol, a server that is no `host:port`,
            or inputs that are neither texts nor lists of int32 of one length.
    """
    if protocol not in PROTOCOLS:
        raise ValueError(
            f"`protocol` must be one of {', '.join(PROTOCOLS)}. Received: "
            f"{protocol!r}."
        )
    if not _SERVER.fullmatch(target.server):
        raise ValueError(
            f"`server` must be host:port. Received: {target.server!r}. Give "
            "the port, and neither http:// nor a path: localhost:8501 (REST) "
            "or localhost:8500 (gRPC)."
        )
    for name, rows in inputs.items():
        is_list = isinstance(rows, list | tuple)
        if not is_list or not (_are_texts(rows) or _are_ids(rows)):
            raise ValueError(
                f"`{name}` must be a list of rows: texts, or lists of int32 of "
                'one length, as in ["a text"] or [[2, 9, 3]]. Received: '
                f"{rows!r:.80}."
            )
    ask = _predict_by_rest if protocol == "rest" else _predict_by_grpc
    return ask(target, inputs)


def to_plain_json(answers: Answers) -> dict[str, Any]:
    """Answers as JSON holds them: bytes as text, or `{"b64": ...}`."""
    return {name: _to_json(rows) for name, rows in answers.items()}


def describe(inputs: Inputs, answers: Answers) -> Iterator[str]:
    """Lines for people: every row of a request with its answers.

    Where the server says which word a token comes from, the word stands
    before the token's number.
    """
    for number in range(len(next(iter(inputs.values()), ()))):
        row = {k: rows[number] for k, rows in inputs.items() if rows[number:]}
        answer = {name: values[number] for name, values in answers.items()}
        yield " | ".join(map(_show, row.values()))
        words = _find_words(row, answer)
        mask = answer.get(_MASK, ())
        length = len(words) or sum(mask)
        for name in sorted({*answer} - {_STARTS, _ENDS, _MASK, "input_ids"}):
            value = answer[name]
            if words and _is_flat(value) and len(value) >= len(words):
                pairs = zip(words, value, strict=False)
                shown = "  ".join(f"{word} {_show(v)}" for word, v in pairs)
            elif length and isinstance(value, list) and len(value) == len(mask):
                shown = _show(value[:length])
            else:
                shown = _show(value)
            yield f"  {name}: {shown}"


def _find_words(row: Mapping[str, Any], answer: Mapping[str, Any]) -> list[str]:
    """The word of every token, nothing if the answer does not tell."""
    if "texts" not in row or not {_STARTS, _ENDS, _MASK} <= set(answer):
        return []
    text = _to_bytes(row["texts"])
    tokens = zip(answer[_STARTS], answer[_ENDS], answer[_MASK], strict=True)
    return [
        text[start:end].decode("utf-8", "replace") if start >= 0 else "-"
        for start, end, is_token in tokens
        if is_token
    ]


def _is_flat(value: Any) -> bool:
    return isinstance(value, list) and not any(
        isinstance(item, list) for item in value
    )


def _show(value: Any) -> str:
    if isinstance(value, str | bytes):
        return _to_bytes(value).decode("utf-8", "replace")
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        shown = " ".join(_show(item) for item in value[:_MAX_NUMBERS])
        rest = len(value) - _MAX_NUMBERS
        more = f" ... ({rest} more)" if rest > 0 else ""
        return f"[{shown}{more}]"
    return str(value)


def _are_texts(rows: Sequence[Any]) -> bool:
    return all(isinstance(row, str | bytes) for row in rows)


def _are_ids(rows: Sequence[Any]) -> bool:
    return (
        all(isinstance(row, list | tuple) for row in rows)
        and len({len(row) for row in rows}) == 1
        and all(
            type(item) is int and item in _INT32 for row in rows for item in row
        )
    )


def _predict_by_rest(target: Target, inputs: Inputs) -> Answers:
    address = f"http://{target.server}/v1/models/"
    address += urllib.parse.quote(target.model, safe="")
    if target.version:
        address += f"/versions/{target.version}"
    # Column format: one list for every input, whatever its shape.
    body: dict[str, Any] = {
        "inputs": {name: _to_json(rows) for name, rows in inputs.items()}
    }
    if target.signature:
        body["signature_name"] = target.signature
    answer = _ask(f"{address}:predict", target, json.dumps(body).encode())
    outputs = answer.get("outputs")
    if outputs is None:
        raise ServerError(
            f"{target.server} must answer as TensorFlow Serving does, with "
            f"`outputs`. Received the keys {sorted(answer)}."
        )
    if not isinstance(outputs, dict):
        # The server leaves out the name of an only output.
        outputs = {_only_output(address, target): outputs}
    return {name: _from_json(rows) for name, rows in outputs.items()}


def _predict_by_grpc(target: Target, inputs: Inputs) -> Answers:
    try:
        import grpc
        import tensorflow as tf
        from tensorflow_serving.apis import predict_pb2
        from tensorflow_serving.apis import prediction_service_pb2_grpc
    except ImportError as error:
        raise ImportError(
            "gRPC needs the packages grpcio and tensorflow-serving-api. "
            f"Received: {error}. Install them (pip install grpcio "
            "tensorflow-serving-api), or use --protocol=rest, which needs "
            "none."
        ) from error
    request = predict_pb2.PredictRequest()
    request.model_spec.name = target.model
    request.model_spec.signature_name = target.signature
    if target.version:
        request.model_spec.version.value = target.version
    for name, rows in inputs.items():
        is_text = _are_texts(rows)
        values = [_to_bytes(row) for row in rows] if is_text else rows
        request.inputs[name].CopyFrom(
            tf.make_tensor_proto(values, tf.string if is_text else tf.int32)
        )
    # The default limit of an answer, 4 MB, is little for token features.
    options = [("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(target.server, options) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        try:
            response = stub.Predict(request, timeout=target.timeout)
        except grpc.RpcError as error:
            raise ServerError(
                f"{target.server} refused the request or did not answer by "
                f"gRPC. {error.code().name}: {error.details()}"
                f"{_remedy(target)}"
            ) from error
    return {
        name: tf.make_ndarray(tensor).tolist()
        for name, tensor in response.outputs.items()
    }


def _ask(
    address: str, target: Target, body: bytes | None = None
) -> dict[str, Any]:
    headers = {"Content-Type": "application/json"} if body else {}
    request = urllib.request.Request(address, body, headers)
    try:
        status, data = _exchange(request, target.timeout)
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise ServerError(
            f"{target.server} must answer within {target.timeout:g} seconds. "
            f"Received: {reason}. Is TensorFlow Serving's REST port there, "
            "and has it loaded the model?"
        ) from error
    except http.client.HTTPException as error:
        raise ServerError(
            f"{target.server} must speak REST, which is HTTP. Received: "
            f"{error!r:.{_MAX_SHOWN}}. Give the REST port, 8501 by default, "
            "or use --protocol=grpc if this is the gRPC port."
        ) from error
    if status != http.HTTPStatus.OK:
        raise ServerError(
            f"{target.server} refused the request with status {status}: "
            f"{_read_error(data)}{_remedy(target)}"
        )
    return _parse(data, target)


def _exchange(
    request: urllib.request.Request, timeout: float
) -> tuple[int, bytes]:
    """Status and body of any answer."""
    try:
        stream = urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        stream = error
    with stream:
        return stream.status, stream.read()


def _parse(data: bytes, target: Target) -> dict[str, Any]:
    try:
        # The server writes strings as they are, UTF-8 or not.
        answer = json.loads(data.decode("utf-8", "surrogateescape"))
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        shown = data[:_MAX_SHOWN].decode("utf-8", "replace")
        raise ServerError(
            f"{target.server} must answer with a JSON object. Received: "
            f"{shown!r}. Is that the REST port, 8501 by default?"
        )
    return answer


def _read_error(data: bytes) -> str:
    """The server's own words."""
    text = data.decode("utf-8", "replace")
    try:
        return str(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        return text[:_MAX_SHOWN] or "no reason given"


def _only_output(address: str, target: Target) -> str:
    """Name of a signature's output, of which it has one."""
    metadata = _ask(f"{address}/metadata", target)["metadata"]
    known = metadata["signature_def"]["signature_def"]
    (name,) = known[target.signature or DEFAULT_SIGNATURE]["outputs"]
    return name


def _remedy(target: Target) -> str:
    version = f", version {target.version}" if target.version else ""
    return (
        f" (asked: model {target.model!r}{version}, signature "
        f"{target.signature or DEFAULT_SIGNATURE!r}; README.md of the export "
        "says what each takes)"
    )


def _to_bytes(text: str | bytes) -> bytes:
    # Bytes that were no UTF-8 on a command line become them again.
    if isinstance(text, bytes):
        return text
    return text.encode("utf-8", "surrogateescape")


def _to_json(value: Any) -> Any:
    if isinstance(value, str | bytes):
        data = _to_bytes(value)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            return {"b64": base64.b64encode(data).decode("ascii")}
    if isinstance(value, list | tuple):
        return [_to_json(item) for item in value]
    return value


def _from_json(value: Any) -> Any:
    if isinstance(value, str):
        return _to_bytes(value)
    if isinstance(value, list):
        return [_from_json(item) for item in value]
    if isinstance(value, dict):
        return base64.b64decode(value["b64"])
    return value
