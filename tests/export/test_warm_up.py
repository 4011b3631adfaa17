"""The warm-up file of an export, read and asked as a server would."""

import json

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from electra_tf.export.checks import warm_up
from tests.export import conftest


def read_requests(folder):
    """What a server finds, with `signature_name` and inputs as arrays."""
    path = folder / "assets.extra" / "tf_serving_warmup_requests"
    for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
        log = prediction_log_pb2.PredictionLog.FromString(record)
        assert log.WhichOneof("log_type") == "predict_log"
        request = log.predict_log.request
        yield (
            request.model_spec.signature_name,
            {k: tf.make_ndarray(v) for k, v in request.inputs.items()},
        )


@pytest.mark.parametrize(
    "name",
    [
        "run",
        "chunking",
        "squad2",
        pytest.param("sst2", marks=pytest.mark.slow),
        pytest.param("mrpc", marks=pytest.mark.slow),
    ],
)
def test_every_signature_answers_its_warm_up(name, exported, task_exports):
    folder = exported if name == "run" else task_exports(name)
    documented = json.loads((folder / "signatures.json").read_text())
    call = conftest.load(folder)
    asked = []
    for signature, inputs in read_requests(folder):
        sizes = {len(value) for value in inputs.values()}
        assert len(sizes) == 1
        asked.append((signature, *sizes))
        for key, value in inputs.items():
            dtype = documented[signature]["inputs"][key]["dtype"]
            assert tf.as_dtype(value.dtype) == tf.as_dtype(dtype)
        answers = call(signature, **inputs)
        assert set(answers) == set(documented[signature]["outputs"])
        assert {len(value) for value in answers.values()} == sizes
    assert set(asked) == {
        (signature, size)
        for signature in documented
        for size in warm_up.BATCH_SIZES
    }
    assert len(asked) <= 1000


def test_rows_are_short_and_as_long_as_the_model_takes(exported, loaded):
    lengths = {
        name: {
            int(loaded(name, **inputs)["num_tokens"].max())
            for signature, inputs in read_requests(exported)
            if signature == name
        }
        for name in ("serving_default", "features_text")
    }
    assert all(24 in found for found in lengths.values())
    assert {
        inputs["input_ids"].shape
        for signature, inputs in read_requests(exported)
        if signature == "score_ids"
    } >= {(1, 24), (8, 24)}
    texts = {
        bytes(inputs["texts"][0])
        for signature, inputs in read_requests(exported)
        if "texts" in inputs
    }
    assert len(texts) == 2
    assert np.ptp([len(text) for text in texts]) > 50
