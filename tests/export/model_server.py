"""Small servers that speak as TensorFlow Serving does, for tests of clients.

What they take and answer follows TensorFlow Serving 2.20 (g3doc/api_rest.md,
util/json_tensor.cc, model_servers/http_rest_api_handler.cc). The model is a
loaded export.
"""

import base64
import contextlib
import functools
import json
import re
from concurrent import futures

import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2
from werkzeug import wrappers

from tests import local_server

NAME = "electra"
_PATH = re.compile(rf"/v1/models/{NAME}(/versions/\d+)?:predict")
_DEFAULT = "serving_default"


def _predict(call, signature, inputs):
    function = call.signatures[signature]
    specs = function.structured_input_signature[1]
    outputs = function(
        **{
            key: tf.convert_to_tensor(value, specs[key].dtype)
            for key, value in inputs.items()
        }
    )
    return {key: value.numpy() for key, value in outputs.items()}


def _answer_rest(call, request):
    if request.method == "GET":
        assert request.path == f"/v1/models/{NAME}/metadata"
        known = {
            name: {"outputs": dict.fromkeys(function.structured_outputs)}
            for name, function in call.signatures.items()
        }
        metadata = {"signature_def": {"signature_def": known}}
        return _as_response({"metadata": metadata})
    assert _PATH.fullmatch(request.path)
    body = json.loads(request.get_data())
    inputs = {k: _from_json(rows) for k, rows in body["inputs"].items()}
    outputs = _predict(call, body.get("signature_name", _DEFAULT), inputs)
    plain = {k: _to_json(value.tolist()) for k, value in outputs.items()}
    # The server leaves out the name of an only output.
    first, *others = plain.values()
    return _as_response({"outputs": plain if others else first})


def _as_response(answer):
    text = json.dumps(answer, ensure_ascii=False)
    return wrappers.Response(text.encode("utf-8", "surrogateescape"))


def _from_json(value):
    if isinstance(value, dict):
        return base64.b64decode(value["b64"])
    return [*map(_from_json, value)] if isinstance(value, list) else value


def _to_json(value):
    """Strings go out as they are, UTF-8 or not."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return [*map(_to_json, value)] if isinstance(value, list) else value


def serve_rest(call):
    """Gives `host:port` of a REST server."""
    return local_server.serve(functools.partial(_answer_rest, call))


@contextlib.contextmanager
def serve_grpc(call):
    """Gives `host:port` of a gRPC server."""

    def predict(request, context):
        signature = request.model_spec.signature_name or _DEFAULT
        inputs = {
            key: tf.constant(tf.make_ndarray(value))
            for key, value in request.inputs.items()
        }
        outputs = _predict(call, signature, inputs)
        protos = {k: tf.make_tensor_proto(v) for k, v in outputs.items()}
        return predict_pb2.PredictResponse(outputs=protos)

    method = grpc.unary_unary_rpc_method_handler(
        predict,
        predict_pb2.PredictRequest.FromString,
        predict_pb2.PredictResponse.SerializeToString,
    )
    service = grpc.method_handlers_generic_handler(
        "tensorflow.serving.PredictionService", {"Predict": method}
    )
    server = grpc.server(futures.ThreadPoolExecutor(2), [service])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(0)
