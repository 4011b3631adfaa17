"""The update rules, worked by hand, and clipping."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.training.optimizers import AdamWeightDecay
from electra_tf.training.optimizers import clip_by_global_norm


def variables_named(**values):
    return [
        keras.Variable(np.array(value, np.float32), name=name)
        for name, value in values.items()
    ]


def test_the_first_adam_update_by_hand():
    # m = 0.1 * 0.5, v = 0.001 * 0.5 ** 2, no bias correction:
    # 1 - 0.1 * (0.05 / (sqrt(0.00025) + 1e-6) + 0.01 * 1) = 0.682802...
    (weight,) = variables_named(kernel=1.0)
    optimizer = AdamWeightDecay(0.1)
    optimizer.build([weight])
    rate = optimizer.apply_in_replica_context([tf.constant(0.5)])
    update = 0.05 / (0.00025**0.5 + 1e-6) + 0.01
    assert float(weight) == pytest.approx(1 - 0.1 * update, abs=1e-6)
    assert float(rate) == np.float32(0.1)
    gains = optimizer._moment_gains()
    assert float(optimizer.first_moments[0]) * gains[0] == (
        pytest.approx(0.05, rel=1e-6)
    )
    assert float(optimizer.second_moments[0]) * gains[1] == (
        pytest.approx(0.00025, rel=1e-6)
    )


def test_bias_and_layer_norm_are_not_decayed_but_embeddings_are():
    with keras.name_scope("LayerNorm"):
        (gamma,) = variables_named(gamma=[1.0, 1.0])
    variables = [
        *variables_named(word_embeddings=[[2.0]], output_bias=[2.0]),
        gamma,
    ]
    optimizer = AdamWeightDecay(0.5, weight_decay=0.01)
    optimizer.build(variables)
    optimizer.apply_in_replica_context([tf.zeros(v.shape) for v in variables])
    embeddings, bias, gamma = (variable.numpy() for variable in variables)
    np.testing.assert_allclose(embeddings, [[2.0 - 0.5 * 0.01 * 2.0]])
    np.testing.assert_array_equal(bias, [2.0])
    np.testing.assert_array_equal(gamma, [1.0, 1.0])


def test_clipping_scales_to_the_true_norm_of_summed_rows():
    rows = tf.IndexedSlices(
        tf.constant([[1.0], [2.0]]), tf.constant([1, 1]), tf.constant([3, 1])
    )
    clipped, norm = clip_by_global_norm([rows, tf.constant([4.0])], 1.0)
    assert float(norm) == 5.0
    np.testing.assert_allclose(clipped[0], [[0.0], [0.6], [0.0]], rtol=1e-6)
    np.testing.assert_allclose(clipped[1], [0.8], rtol=1e-6)


def test_a_gradient_that_is_not_finite_spreads_to_all():
    clipped, norm = clip_by_global_norm(
        [tf.constant([np.inf]), tf.constant([1.0])], 1.0
    )
    assert not np.isfinite(norm)
    assert all(np.isnan(gradient).all() for gradient in clipped)


def test_a_clip_norm_of_zero_lets_every_gradient_through():
    gradients, norm = clip_by_global_norm([tf.constant([30.0, 40.0])], 0.0)
    assert float(norm) == 50.0
    np.testing.assert_array_equal(gradients[0], [30.0, 40.0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beta_1": 1.0}, "`beta_1` and `beta_2` must be in"),
        ({"beta_2": -0.1}, "`beta_1` and `beta_2` must be in"),
        ({"epsilon": 0.0}, "`epsilon` above 0"),
        ({"weight_decay": -0.1}, "`weight_decay` must be"),
        ({"weight_decay": None}, "`weight_decay` must be"),
    ],
)
def test_numbers_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        AdamWeightDecay(0.1, **options)
