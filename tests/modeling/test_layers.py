"""The small layers against their formulas."""

import json
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf import config
from electra_tf.modeling import encoder
from electra_tf.modeling import layers
from electra_tf.modeling import networks
from electra_tf.modeling import task_heads
from tests import tiny


def test_gelu_is_exact_not_the_tanh_approximation():
    x = np.linspace(-4, 4, 101)
    exact = [v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in x]
    np.testing.assert_allclose(
        layers.gelu(tf.constant(x, tf.float32)), exact, atol=1e-6
    )


def test_the_written_gradient_of_gelu_equals_differentiation():
    x = tf.constant(np.linspace(-5, 5, 101), tf.float32)
    slopes = []
    for function in (layers.gelu, lambda x: tf.nn.gelu(x, False)):
        with tf.GradientTape() as tape:
            tape.watch(x)
            output = function(x)
        slopes.append(tape.gradient(output, x))
    np.testing.assert_allclose(slopes[0], slopes[1], atol=2e-6)


def _reference_norm(x, gamma, beta):
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return (x - mean) / tf.sqrt(variance + 1e-12) * gamma + beta


def test_layer_norm_and_its_written_gradient_equal_differentiation():
    rng = np.random.default_rng(0)
    layer = layers.LayerNorm()
    layer.build((None, 6))
    layer.gamma.assign(rng.normal(size=6))
    layer.beta.assign(rng.normal(size=6))
    x = tf.constant(rng.normal(2, 3, (5, 6)).astype("float32"))
    upstream = tf.constant(rng.normal(size=(5, 6)).astype("float32"))
    sources = [x, layer.gamma.value, layer.beta.value]
    results = []
    for function in (layer, lambda x: _reference_norm(x, *sources[1:])):
        with tf.GradientTape() as tape:
            tape.watch(x)
            output = function(x)
            loss = tf.reduce_sum(output * upstream)
        results.append([output, *tape.gradient(loss, sources)])
    for ours, expected in zip(*results, strict=True):
        np.testing.assert_allclose(ours, expected, atol=2e-5)


def test_layer_norm_statistics_stay_float32_under_mixed_precision():
    layer = layers.LayerNorm(dtype="mixed_bfloat16")
    layer.build((None, 4))
    x = tf.constant([[1000.0, 1001.0, 1002.0, 1003.0]])
    output = layer(tf.cast(x, tf.bfloat16))
    assert output.dtype == tf.bfloat16
    # 1001 is not a bfloat16: all four become 1000, hence zero variance.
    assert np.isfinite(np.asarray(output, "float32")).all()
    assert layer.gamma.dtype == "float32"


def test_dropout_keeps_the_mean_and_drops_its_share():
    x = tf.ones([400, 500])
    seed = tf.constant([3, 4, 0], tf.int64)
    output = layers.dropout(x, 0.1, seed).numpy()
    dropped = (output == 0).mean()
    assert abs(dropped - 0.1) < 4 * math.sqrt(0.1 * 0.9 / output.size)
    assert output.mean() == pytest.approx(1.0, abs=4e-3)
    np.testing.assert_array_equal(output, layers.dropout(x, 0.1, seed))
    other = layers.dropout(x, 0.1, seed + 1).numpy()
    assert abs((output == other).mean() - 0.82) < 0.01
    # An odd number of entries; nothing without seed or rate.
    odd = tf.ones([3, 5, 7])
    assert layers.dropout(odd, 0.5, seed).shape == odd.shape
    assert layers.dropout(odd, 0.1, None) is odd
    assert layers.dropout(odd, 0.0, seed) is odd


SIZES = config.EncoderConfig(
    **vars(tiny.build_settings().encoder) | {"vocab_size": 50}
)


@pytest.mark.parametrize(
    "layer",
    [
        lambda: layers.Linear(3, "he_normal", name="dense"),
        lambda: encoder.Encoder(SIZES, direction="left_to_right", name="e"),
        lambda: encoder.Embeddings(SIZES, dtype="mixed_bfloat16"),
        lambda: encoder.TransformerBlock(SIZES),
        lambda: networks.TokenHead(SIZES, has_hidden_layer=False),
        lambda: networks.Discriminator(SIZES),
        lambda: networks.CopyingMaskedLM(SIZES),
        lambda: networks.MaskedLMGenerator(SIZES, "head", "electra"),
        lambda: networks.TwoTowerGenerator(SIZES),
        lambda: networks.FixedGenerator(3, np.array([1, 2, 3])),
        lambda: task_heads.ClassificationHead(3, 1, True),
        lambda: task_heads.RegressionHead(5),
        lambda: task_heads.TaggingHead(4, 2),
        lambda: task_heads.QuestionAnsweringHead(
            3, joint_prediction=False, beam_size=7
        ),
    ],
)
def test_a_layer_is_made_again_from_its_config(layer):
    first = layer()
    saved = json.loads(json.dumps(keras.saving.serialize_keras_object(first)))
    again = keras.saving.deserialize_keras_object(saved)
    assert type(again) is type(first)
    assert again.get_config() == first.get_config()
    shapes = [(v.path, v.shape) for v in first.variables]
    if first.built:
        assert [(v.path, v.shape) for v in again.variables] == shapes


def _arguments(features):
    names = ("input_ids", "input_mask", "segment_ids")
    return [features[name] for name in names]


def test_padding_does_not_change_what_tokens_see():
    keras.utils.set_random_seed(1)
    made = encoder.build_encoder(SIZES, "electra")
    features = tiny.build_features(4)
    expected = made(*_arguments(features)).sequence_output
    changed = tf.where(features["input_mask"] == 0, 9, features["input_ids"])
    output = made(
        changed, features["input_mask"], features["segment_ids"]
    ).sequence_output
    is_token = features["input_mask"].numpy() == 1
    np.testing.assert_allclose(
        output.numpy()[is_token], expected.numpy()[is_token], atol=1e-6
    )
