"""Requests with which TensorFlow Serving warms an export up.

The first request of a kind is slow, because the server prepares a graph for
it. What it finds in `assets.extra/tf_serving_warmup_requests` it asks before
it calls a version available, so that no client waits for that. The file is a
TFRecord of `PredictionLog` messages, 1000 at most.
"""

import pathlib
from collections.abc import Iterator

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2
from tensorflow_serving.apis import prediction_log_pb2

from electra_tf.export import signature_module
from electra_tf.export.checks import sample_requests

FILE_NAME = "tf_serving_warmup_requests"
"""In `assets.extra`; TensorFlow Serving looks for this name."""
BATCH_SIZES = (1, 8)
"""Texts of a request. A server that batches must allow the largest: it does
not load a model that cannot answer its warm-up."""

_TEXT = "The function returns the number of items in a container. "
_DEFAULT = "serving_default"


def write(path: pathlib.Path, module: signature_module.SignatureModule) -> int:
    """Writes requests for every signature: one text and several, short, long.

    Args:
        path: of the file.
        module: what is exported.

    Returns:
        How many there are.
    """
    count = 0
    with tf.io.TFRecordWriter(str(path)) as writer:
        for request in _build_requests(module):
            log = prediction_log_pb2.PredictionLog()
            log.predict_log.request.CopyFrom(request)
            writer.write(log.SerializeToString())
            count += 1
    return count


def _build_requests(
    module: signature_module.SignatureModule,
) -> Iterator[predict_pb2.PredictRequest]:
    short = _TEXT.encode()
    # A word has at least one piece, so this fills a row.
    repeats = -(-module.max_length // len(_TEXT.split()))
    names = {_DEFAULT: module.signature_names[0]}
    # A server prepares a second name of a signature once more.
    names |= {name: name for name in module.signature_names}
    for name, signature in names.items():
        for text in (short, short * repeats):
            for size in BATCH_SIZES:
                request = predict_pb2.PredictRequest()
                request.model_spec.signature_name = name
                arguments = sample_requests.build_request(
                    module, signature, np.array([text] * size, np.bytes_)
                )
                for key, value in arguments.items():
                    request.inputs[key].CopyFrom(tf.make_tensor_proto(value))
                yield request
