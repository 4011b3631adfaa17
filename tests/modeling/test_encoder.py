"""Properties of the encoder; its numbers are checked by the golden runner."""

import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf.modeling import encoder as encoder_lib
from tests import tiny


def _encoder(dtype=None):
    tf.keras.utils.set_random_seed(1)
    settings = config.EncoderConfig(**(
        tiny.build_settings().encoder.__dict__ | {"vocab_size": 50}
    ))  # fmt: skip
    return encoder_lib.build_encoder(settings, "electra", dtype=dtype)


def _arguments(features):
    names = ("input_ids", "input_mask", "segment_ids")
    return [features[name] for name in names]


def test_padding_does_not_change_what_tokens_see():
    encoder = _encoder()
    features = tiny.build_features(4)
    expected = encoder(*_arguments(features)).sequence_output
    changed = tf.where(features["input_mask"] == 0, 9, features["input_ids"])
    output = encoder(
        changed, features["input_mask"], features["segment_ids"]
    ).sequence_output
    is_token = features["input_mask"].numpy() == 1
    np.testing.assert_allclose(
        output.numpy()[is_token], expected.numpy()[is_token], atol=1e-6
    )


def test_bfloat16_follows_float32():
    features = _arguments(tiny.build_features(4))
    exact = _encoder()(*features).sequence_output
    rough = _encoder("mixed_bfloat16")(*features).sequence_output
    assert rough.dtype == tf.bfloat16
    difference = np.abs(np.asarray(rough, "float32") - exact.numpy())
    assert 0 < difference.max() < 0.1
