"""The small layers against their formulas."""

import math

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.acceleration import operations
from electra_tf.modeling import encoder
from electra_tf.modeling import layers
from electra_tf.modeling import task_heads


def _differentiate(function, upstream, x, *weights):
    """The output, and its gradients by all sources."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        output = function(x)
    return output, *tape.gradient(output, [x, *weights], upstream)


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_attention_and_its_written_gradient_equal_differentiation(rate):
    rng = np.random.default_rng(1)
    batch, length, heads, size = 2, 5, 3, 4
    shape = [batch * length, 3 * heads * size]
    fused, upstream = (
        tf.constant(rng.normal(size=[shape[0], width]), tf.float32)
        for width in (shape[1], heads * size)
    )
    mask = tf.constant([[1, 1, 1, 1, 0], [1, 1, 1, 0, 0]])
    bias = encoder.compute_attention_bias(mask)
    seed = tf.constant([1, 2, 3], tf.int64)
    kept = layers.draw_kept([batch, heads, length, length], rate, seed)
    choice = kept, rate

    def reference(fused):
        parts = tf.reshape(fused, [batch, length, 3, heads, size])
        query, key, value = tf.unstack(parts, axis=2)
        scores = tf.einsum("bshd,bthd->bhst", query, key) / size**0.5
        probs = operations.drop(tf.nn.softmax(scores + bias), *choice)
        outputs = tf.einsum("bhst,bthd->bshd", probs, value)
        return tf.reshape(outputs, [batch * length, heads * size])

    ours, expected = (
        _differentiate(function, upstream, fused)
        for function in (
            lambda fused: encoder.attend(fused, bias, heads, choice),
            reference,
        )
    )
    for one, other in zip(ours, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


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


def test_every_start_of_a_beam_has_the_ends_it_would_have_alone():
    head = task_heads.QuestionAnsweringHead(seed=3, beam_size=4)
    head.build((None, None, 6))
    hidden = tf.random.stateless_normal([3, 12, 6], [1, 2])
    places, lengths = np.arange(12), np.array([[12], [9], [7]])
    mask = places < lengths
    features = {"input_mask": mask, "segment_ids": mask & (places >= 4)}
    features = {n: tf.constant(v, tf.int32) for n, v in features.items()}
    outputs = head.predict(hidden, features)
    assert outputs["end_top_index"].shape == (3, 4, 4)
    for k in range(4):
        starts = outputs["start_top_index"][:, k]
        logits = head.compute_end_logits(hidden, features, starts)
        values, indices = tf.math.top_k(tf.nn.log_softmax(logits), 4)
        np.testing.assert_allclose(
            outputs["end_top_log_probs"][:, k], values, atol=1e-5
        )
        np.testing.assert_array_equal(outputs["end_top_index"][:, k], indices)


def test_layer_norm_statistics_stay_float32_under_mixed_precision():
    layer = layers.LayerNorm(dtype="mixed_bfloat16")
    # 1001 is not a bfloat16: all four become 1000, hence zero variance.
    output = layer(tf.constant([[1000, 1001, 1002, 1003]], tf.bfloat16))
    assert np.isfinite(np.asarray(output, "float32")).all()
    assert layer.gamma.dtype == "float32"
