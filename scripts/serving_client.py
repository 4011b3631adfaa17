r"""Asks a model on TensorFlow Serving, by REST or by gRPC.

    electra-serving-client --model=electra --text="The cat sat."
    electra-serving-client --model=tagger --protocol=grpc \
        --server=localhost:8500 --version=2 --signature=tag_text \
        --text="The cat sat on the mat ." --json

Repeat flags of text for further rows of one request. For ids, give
`--inputs='{"input_ids": [[2, 9, 3]], "input_mask": [[1, 1, 1]],
"segment_ids": [[0, 0, 0]]}'`.

Programs can call `predict` of this file; REST needs no TensorFlow. Answers are
lists by output, with the batch as the first axis, and strings as bytes.
"""

import base64
import http.client
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from absl import flags

from electra_tf import command_line
from electra_tf.text import terminal

PROTOCOLS = ("rest", "grpc")
DEFAULT_SIGNATURE = "serving_default"
_MAX_SHOWN = 300  # characters of an answer that is not JSON
_MAX_NUMBERS = 12  # shown numbers of a list
_SERVER = re.compile(r"(\[[^][/\s]+\]|[^][:/\s]+):[0-9]{1,5}")
# Outputs that locate tokens' words in the text, and padding.
_LOCATIONS = {"word_starts", "word_ends", "input_mask"}

Inputs = Mapping[str, Sequence[Any]]
Answers = dict[str, list[Any]]

FLAGS = flags.FLAGS
flags.DEFINE_enum("protocol", "rest", PROTOCOLS, "Protocol of the server.")
flags.DEFINE_string("server", None, "host:port; default: localhost.")
flags.DEFINE_string("model", "electra", "The model's name at the server.")
flags.DEFINE_integer("version", 0, "Version; 0: the server's choice.", 0)
flags.DEFINE_string("signature", "", "Signature; empty: the default one.")
flags.DEFINE_float("timeout", 60.0, "Seconds to wait.", 0.001)
flags.DEFINE_bool("json", False, "Print one JSON object.")
flags.DEFINE_string("inputs", "", "JSON object: rows by input.")
flags.DEFINE_multi_string("text", [], "A text.")
flags.DEFINE_multi_string("text_pair", [], "The second text of a pair.")
flags.DEFINE_multi_string("question", [], "A question.")
flags.DEFINE_multi_string("context", [], "The text with the answer.")
_TEXTS = ("text", "text_pair", "question", "context")


class ServerError(OSError):
    """A server cannot be reached, does not answer, or refuses a request."""


class Target(NamedTuple):
    """The server, model and signature to ask."""

    server: str  # `host:port`
    model: str  # the model's name at the server
    version: int = 0  # 0: the server's choice, by default the newest
    signature: str = ""  # empty: the default one
    timeout: float = 60.0  # seconds

    def __str__(self) -> str:
        version = f", version {self.version}" if self.version else ""
        return (
            f"asked: model {self.model!r}{version}, signature "
            f"{self.signature or DEFAULT_SIGNATURE!r}; see the export's README"
        )


def predict(protocol: str, target: Target, inputs: Inputs) -> Answers:
    """Sends one request and returns the answers by output.

    Args:
        protocol: one of `PROTOCOLS`.
        target: server, model and signature.
        inputs: rows by input: texts (bytes if not UTF-8), or lists of int.

    Raises:
        ServerError: with the server's message, if there is one.
        ValueError: for a bad address or bad rows.
    """
    if not _SERVER.fullmatch(target.server):
        raise ValueError(
            f"`server` must be host:port. Received: {target.server!r}. Give "
            "localhost:8501 (REST) or localhost:8500 (gRPC), for example."
        )
    for name, rows in inputs.items():
        if not (_are_texts(rows) or _are_ids(rows)):
            raise ValueError(
                f"`{name}` must be a list of rows: texts, or lists of int32 of "
                'one length, as in ["a text"] or [[2, 9, 3]]. Received: '
                f"{rows!r:.80}."
            )
    ask = {"rest": _predict_by_rest, "grpc": _predict_by_grpc}
    return ask[protocol](target, inputs)


def describe(inputs: Inputs, answers: Answers) -> Iterator[str]:
    """Yields readable lines: every row of a request with its answers.

    A token's number follows its word if the server locates words.
    """
    for number in range(len(next(iter(inputs.values())))):
        row = {k: rows[number] for k, rows in inputs.items() if rows[number:]}
        answer = {name: values[number] for name, values in answers.items()}
        yield " | ".join(map(_show, row.values()))
        mask, words = answer.get("input_mask", ()), []
        if "texts" in row and set(answer) >= _LOCATIONS:
            text = terminal.to_bytes(row["texts"])
            spans = zip(answer["word_starts"], answer["word_ends"], strict=True)
            words = [_show(text[i:j]) or "-" for i, j in spans]
        for name in sorted({*answer} - _LOCATIONS - {"input_ids"}):
            value, shown = answer[name], ""
            is_by_token = isinstance(value, list) and len(value) == len(mask)
            # The sentence's vector may be as long as the row.
            if mask and is_by_token and name != "sentence_features":
                value = value[: sum(mask)]
                if words and not isinstance(value[0], list):
                    pairs = zip(words, value, strict=False)
                    shown = "  ".join(f"{w} {_show(v)}" for w, v in pairs)
            yield f"  {name}: {shown or _show(value)}"


def _show(value: Any) -> str:
    if isinstance(value, str | bytes):
        return terminal.to_bytes(value).decode("utf-8", "replace")
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        shown = " ".join(_show(item) for item in value[:_MAX_NUMBERS])
        rest = len(value) - _MAX_NUMBERS
        more = f" ... ({rest} more)" if rest > 0 else ""
        return f"[{shown}{more}]"
    return str(value)


def _are_texts(rows: Any) -> bool:
    is_list = isinstance(rows, list | tuple)
    return is_list and all(isinstance(row, str | bytes) for row in rows)


def _are_ids(rows: Any) -> bool:
    try:
        ids = np.array(rows)
    except ValueError:
        return False  # rows of different lengths
    # TensorFlow would cut larger integers down to other ids.
    is_int = ids.ndim == 2 and ids.dtype == int
    return is_int and bool((ids == ids.astype(np.int32)).all())


def _predict_by_rest(target: Target, inputs: Inputs) -> Answers:
    address = f"http://{target.server}/v1/models/"
    address += urllib.parse.quote(target.model, safe="")
    if target.version:
        address += f"/versions/{target.version}"
    # Column format: one list for every input.
    body: dict[str, Any] = {"inputs": to_json(inputs)}
    if target.signature:
        body["signature_name"] = target.signature
    data = json.dumps(body).encode()
    outputs = _ask(f"{address}:predict", target, "outputs", data)
    if not isinstance(outputs, dict):
        # The server leaves out the name of a single output.
        metadata = _ask(f"{address}/metadata", target, "metadata")
        known = metadata["signature_def"]["signature_def"]
        (name,) = known[target.signature or DEFAULT_SIGNATURE]["outputs"]
        outputs = {name: outputs}
    return {name: _from_json(rows) for name, rows in outputs.items()}


def _predict_by_grpc(target: Target, inputs: Inputs) -> Answers:
    import grpc
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2
    from tensorflow_serving.apis import prediction_service_pb2_grpc

    request = predict_pb2.PredictRequest()
    request.model_spec.name = target.model
    request.model_spec.signature_name = target.signature
    if target.version:
        request.model_spec.version.value = target.version
    for name, rows in inputs.items():
        is_text = _are_texts(rows)
        values = [terminal.to_bytes(row) for row in rows] if is_text else rows
        request.inputs[name].CopyFrom(
            tf.make_tensor_proto(values, tf.string if is_text else tf.int32)
        )
    # No limit: token features exceed the default of 4 MB.
    options = [("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(target.server, options) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        try:
            response = stub.Predict(request, timeout=target.timeout)
        except grpc.RpcError as error:
            raise ServerError(
                f"{target.server} refused the request or did not answer by "
                f"gRPC. {error.code().name}: {error.details()} ({target})"
            ) from error
    outputs = response.outputs
    return {name: tf.make_ndarray(outputs[name]).tolist() for name in outputs}


def _ask(address: str, target: Target, field: str, body: Any = None) -> Any:
    headers = {"Content-Type": "application/json"} if body else {}
    request = urllib.request.Request(address, body, headers)
    try:
        try:
            stream = urllib.request.urlopen(request, timeout=target.timeout)
        except urllib.error.HTTPError as error:
            stream = error
        with stream:
            status, data = stream.status, stream.read()
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise ServerError(
            f"{target.server} must answer by REST within {target.timeout:g} "
            f"seconds. Received: {reason!r:.{_MAX_SHOWN}}. Give the REST port, "
            "8501 by default (or --protocol=grpc for the gRPC port), of a "
            "server that has loaded the model."
        ) from error
    try:
        # The server sends strings that are not UTF-8 unchanged.
        answer = json.loads(data.decode("utf-8", "surrogateescape"))
    except ValueError:
        answer = None
    words = data[:_MAX_SHOWN].decode("utf-8", "replace") or "no reason given"
    if status != http.HTTPStatus.OK:
        if isinstance(answer, dict):
            words = answer.get("error", words)
        raise ServerError(
            f"{target.server} refused the request with status {status}: "
            f"{words} ({target})"
        )
    if not isinstance(answer, dict) or field not in answer:
        raise ServerError(
            f"{target.server} must answer with a JSON object that has "
            f"`{field}`. Received: {words!r}. Give the REST port, often 8501."
        )
    return answer[field]


def to_json(value: Any) -> Any:
    """Converts answers for JSON: bytes become text, or `{"b64": ...}`."""
    if isinstance(value, str | bytes):
        data = terminal.to_bytes(value)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            return {"b64": base64.b64encode(data).decode("ascii")}
    if isinstance(value, Mapping):
        return {name: to_json(rows) for name, rows in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    return value


def _from_json(value: Any) -> Any:
    if isinstance(value, str):
        return terminal.to_bytes(value)
    if isinstance(value, list):
        return [_from_json(item) for item in value]
    if isinstance(value, dict):
        return base64.b64decode(value["b64"])
    return value


def main() -> None:
    """Prints the answers."""
    try:
        inputs = json.loads(FLAGS.inputs or "{}")
    except ValueError as error:
        raise ValueError(
            f"--inputs must be JSON. Received: {error}."
        ) from error
    if not isinstance(inputs, dict):
        raise ValueError("--inputs must be a JSON object: rows by input.")
    texts = {f"{name}s": getattr(FLAGS, name) for name in _TEXTS}
    inputs |= {name: rows for name, rows in texts.items() if rows}
    if not inputs:
        raise ValueError("Nothing to ask. Give --text, or --inputs.")
    port = {"rest": 8501, "grpc": 8500}[FLAGS.protocol]
    target = Target(
        FLAGS.server or f"localhost:{port}",
        FLAGS.model,
        FLAGS.version,
        FLAGS.signature,
        FLAGS.timeout,
    )
    answers = predict(FLAGS.protocol, target, inputs)
    if FLAGS.json:
        print(json.dumps(to_json(answers)))
    else:
        print(*describe(inputs, answers), sep="\n")


if __name__ == "__main__":
    command_line.run(main)
