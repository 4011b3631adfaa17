"""The small layers against their formulas."""

import json
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.acceleration import operations
from electra_tf.modeling import encoder
from electra_tf.modeling import layers
from electra_tf.modeling import networks
from electra_tf.modeling import task_heads
from tests.tiny import ENCODER


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
    choice = layers.draw_choice([batch, heads, length, length], rate, seed)

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


@pytest.mark.parametrize(
    "layer",
    [
        lambda: layers.Linear(3, "he_normal", name="dense"),
        lambda: encoder.Encoder(ENCODER, direction="left_to_right", name="e"),
        lambda: encoder.Embeddings(ENCODER, dtype="mixed_bfloat16"),
        lambda: encoder.TransformerBlock(ENCODER),
        lambda: networks.TokenHead(ENCODER, has_hidden_layer=False),
        lambda: networks.Discriminator(ENCODER),
        lambda: networks.CopyingMaskedLM(ENCODER),
        lambda: networks.MaskedLMGenerator(ENCODER, "head", "electra"),
        lambda: networks.TwoTowerGenerator(ENCODER),
        lambda: networks.FixedGenerator(3, np.array([1, 2, 3])),
        lambda: task_heads.ClassificationHead(3, 1, True),
        lambda: task_heads.RegressionHead(5),
        lambda: task_heads.TaggingHead(4, 2),
        lambda: task_heads.QuestionAnsweringHead(3, False, beam_size=7),
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
