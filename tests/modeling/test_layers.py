"""The small layers against their formulas."""

import math

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.modeling import layers


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
    seed = tf.constant([3, 4], tf.int64)
    output = layers.dropout(x, 0.1, seed).numpy()
    dropped = (output == 0).mean()
    assert abs(dropped - 0.1) < 4 * math.sqrt(0.1 * 0.9 / output.size)
    assert output.mean() == pytest.approx(1.0, abs=4e-3)
    np.testing.assert_array_equal(output, layers.dropout(x, 0.1, seed))
    other = layers.dropout(x, 0.1, seed + 1).numpy()
    assert abs((output == other).mean() - 0.82) < 0.01


def test_dropout_is_the_identity_without_seed_or_rate():
    x = tf.ones([3, 5])
    assert layers.dropout(x, 0.1, None) is x
    assert layers.dropout(x, 0.0, tf.constant([1, 2], tf.int64)) is x


def test_dropout_takes_an_odd_number_of_entries():
    x = tf.ones([3, 5, 7])
    seed = tf.constant([1, 2], tf.int64)
    assert layers.dropout(x, 0.5, seed).shape == x.shape


def test_linear_round_trips_its_config():
    layer = layers.Linear(3, layers.truncated_normal(0.02), name="dense")
    layer.build((None, 4))
    copy = layers.Linear.from_config(layer.get_config())
    copy.build((None, 4))
    copy.kernel.assign(layer.kernel)
    x = tf.ones([2, 4])
    np.testing.assert_array_equal(layer(x), copy(x))
