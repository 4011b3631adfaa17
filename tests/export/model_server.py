"""Small servers that speak as TensorFlow Serving does, for tests of clients.

What they take, what they answer and the words of their errors follow
TensorFlow Serving 2.20 (g3doc/api_rest.md, util/json_tensor.cc,
model_servers/http_rest_api_handler.cc). Behind them is a loaded SavedModel.
"""

import base64
import contextlib
import http.server
import json
import pathlib
import re
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401
from google.protobuf import json_format
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import get_model_metadata_pb2
from tensorflow_serving.apis import predict_pb2
from tensorflow_serving.apis import prediction_service_pb2_grpc

_PATH = re.compile(
    r"/v1/models/([^/:]+)(?:/versions/(\d+))?(?::(\w+)|/(metadata))"
)
NAME = "electra"
SLOW = "slow"


class Refused(Exception):
    """With REST's status, gRPC's code and the words of both."""

    def __init__(self, status, code, words):
        super().__init__(words)
        self.status, self.code, self.words = status, code, words


class ServedModel:
    """One model, of which version 3 is loaded."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.model = tf.saved_model.load(str(folder))
        proto = saved_model_pb2.SavedModel()
        proto.ParseFromString((folder / "saved_model.pb").read_bytes())
        self.signature_defs = proto.meta_graphs[0].signature_def

    def check(self, name: str, version: int) -> None:
        if name == SLOW:
            time.sleep(2)
        if name != NAME or version not in (0, 3):
            which = f"Specific({name}, {version})" if version else (
                f"Latest({name})"
            )  # fmt: skip
            raise Refused(
                404,
                grpc.StatusCode.NOT_FOUND,
                f"Servable not found for request: {which}",
            )

    def run(self, signature: str, inputs: dict[str, tf.Tensor]):
        try:
            outputs = self.model.signatures[signature](**inputs)
        except tf.errors.InvalidArgumentError as error:
            raise Refused(
                400, grpc.StatusCode.INVALID_ARGUMENT, error.message
            ) from error
        return {name: value.numpy() for name, value in outputs.items()}

    def infos(self, signature: str, status: int = 400):
        if signature not in self.signature_defs:
            raise Refused(
                status,
                grpc.StatusCode.FAILED_PRECONDITION,
                f'Serving signature name: "{signature}" not found in '
                "signature def",
            )
        return self.signature_defs[signature].inputs


class RestHandler(http.server.BaseHTTPRequestHandler):
    """The REST side; the server's `served` is the model."""

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(lambda name, version: self._predict(body, name, version))

    def do_GET(self) -> None:
        self._answer(self._metadata)

    def _answer(self, act) -> None:
        found = _PATH.fullmatch(self.path)
        status, data = 200, b""
        try:
            if not found:
                raise Refused(404, None, f"Malformed request: {self.path}")
            data = act(found[1], int(found[2] or 0))
        except Refused as error:
            status = error.status
            data = json.dumps({"error": error.words}).encode()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    def _predict(self, body: bytes, name: str, version: int) -> bytes:
        served: ServedModel = self.server.served
        request = json.loads(body)
        served.check(name, version)
        signature = request.get("signature_name", "serving_default")
        infos = served.infos(signature)
        columns = request["inputs"]
        for key in infos:
            if key not in columns:
                raise Refused(
                    400, None, f"Missing named input: {key} in 'inputs' object."
                )
        inputs = {
            key: tf.constant(_decode(columns[key]), tf.as_dtype(info.dtype))
            for key, info in infos.items()
        }
        return _render(served.run(signature, inputs))

    def _metadata(self, name: str, version: int) -> bytes:
        self.server.served.check(name, version)
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        response.model_spec.name = name
        response.model_spec.version.value = 3
        known = get_model_metadata_pb2.SignatureDefMap()
        for key, value in self.server.served.signature_defs.items():
            known.signature_def[key].CopyFrom(value)
        response.metadata["signature_def"].Pack(known)
        text = json_format.MessageToJson(
            response, preserving_proto_field_name=True
        )
        return text.encode()


def _decode(value: Any) -> Any:
    if isinstance(value, dict):
        return base64.b64decode(value["b64"])
    if isinstance(value, list):
        return [_decode(item) for item in value]
    return value


def _render(outputs: dict[str, np.ndarray]) -> bytes:
    """Strings go out as they are, and an only output without its name."""
    values = {name: _plain(value.tolist()) for name, value in outputs.items()}
    answer: Any = values
    if len(values) == 1:
        (answer,) = values.values()
    text = json.dumps({"outputs": answer}, ensure_ascii=False)
    return text.encode("utf-8", "surrogateescape")


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return value


class GrpcService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """The gRPC side."""

    def __init__(self, served: ServedModel) -> None:
        self._served = served

    def Predict(self, request, context):  # noqa: N802
        spec = request.model_spec
        try:
            self._served.check(spec.name, spec.version.value)
            name = spec.signature_name or "serving_default"
            infos = self._served.infos(name)
            if set(infos) != set(request.inputs):
                raise Refused(
                    400,
                    grpc.StatusCode.INVALID_ARGUMENT,
                    "input size does not match signature",
                )
            inputs = {
                key: tf.constant(tf.make_ndarray(value))
                for key, value in request.inputs.items()
            }
            outputs = self._served.run(name, inputs)
        except Refused as error:
            context.abort(error.code, error.words)
        response = predict_pb2.PredictResponse()
        response.model_spec.CopyFrom(spec)
        for key, value in outputs.items():
            response.outputs[key].CopyFrom(tf.make_tensor_proto(value))
        return response


@contextlib.contextmanager
def serve_rest(served: ServedModel) -> Iterator[str]:
    """Gives `host:port` of a REST server."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), RestHandler)
    server.served = served
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@contextlib.contextmanager
def serve_grpc(served: ServedModel) -> Iterator[str]:
    """Gives `host:port` of a gRPC server."""
    server = grpc.server(futures.ThreadPoolExecutor(2))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        GrpcService(served), server
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(0)
