"""The update rules by hand, in replicas, under XLA and in Keras.

Whole trajectories are compared with the originals' in tests/golden.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.training import schedules
from electra_tf.training.optimizers import LAMB
from electra_tf.training.optimizers import AdamWeightDecay
from electra_tf.training.optimizers import AddonsAdamW
from electra_tf.training.optimizers import clip_by_global_norm

SCHEDULE = schedules.PolynomialDecayTimesWarmup(0.1, 20, num_warmup_steps=3)
BUILDERS = {
    "adam": lambda: AdamWeightDecay(SCHEDULE),
    "addons_adamw": lambda: AddonsAdamW(SCHEDULE, weight_decay=0.01),
    "lamb": lambda: LAMB(SCHEDULE, weight_decay=0.01),
}


@pytest.fixture(params=BUILDERS)
def build_optimizer(request):
    return BUILDERS[request.param]


def test_the_ratio_of_lamb_is_1_where_a_norm_is_0():
    variables = [keras.Variable([value]) for value in (0.0, 2.0)]
    optimizer = LAMB(0.1)
    optimizer.build(variables)
    gradients = [tf.constant([value]) for value in (0.5, 0.0)]
    optimizer.apply_in_replica_context(gradients)
    np.testing.assert_allclose(variables, [[-0.1], [2.0]], rtol=1e-5)


def test_clipping_scales_to_the_true_norm_of_summed_rows():
    rows = tf.IndexedSlices(
        tf.constant([[1.0], [2.0]]), tf.constant([1, 1]), tf.constant([3, 1])
    )
    clipped, norm = clip_by_global_norm([rows, tf.constant([4.0])], 1.0)
    assert float(norm) == 5.0
    np.testing.assert_allclose(clipped[0], [[0.0], [0.6], [0.0]], rtol=1e-6)
    np.testing.assert_allclose(clipped[1], [0.8], rtol=1e-6)


def build(build_optimizer):
    """An optimizer and its variables."""
    variables = [
        keras.Variable([[0.5, -0.3], [0.2, 0.1]], name="kernel"),
        keras.Variable([0.1, -0.2], name="bias"),
    ]
    optimizer = build_optimizer()
    optimizer.build(variables)
    return optimizer, variables


def gradients_of(step):
    numbers = np.random.default_rng(step).normal(size=[3, 2])
    return [tf.constant(n, tf.float32) for n in (numbers[:2], numbers[2])]


def require_close(variables, build_optimizer, num_steps, tolerance=1e-6):
    """To what the optimizer gives eagerly on one device."""
    optimizer, expected = build(build_optimizer)
    for step in range(num_steps):
        optimizer.apply_in_replica_context(gradients_of(step))
    for value, other in zip(variables, expected, strict=True):
        np.testing.assert_allclose(value, other, rtol=0, atol=tolerance)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_graph_and_xla_give_the_eager_numbers(build_optimizer, jit_compile):
    optimizer, variables = build(build_optimizer)
    apply, options = optimizer.apply_in_replica_context, {"autograph": False}
    update = tf.function(apply, jit_compile=jit_compile, **options)
    for step in range(5):
        update(gradients_of(step))
    assert update.experimental_get_tracing_count() == 1
    require_close(variables, build_optimizer, 5)


@pytest.mark.parametrize(
    "optimizer",
    [
        AdamWeightDecay(
            SCHEDULE, weight_decay=0.02, beta_1=0.8, beta_2=0.99, epsilon=1e-5,
            exclude_from_weight_decay=["x"],
            learning_rate_multipliers=[("a", 0.5), (".*", 1.0)],
        ),
        AddonsAdamW(
            0.01, weight_decay=SCHEDULE, weight_decay_multipliers=[(".*", 0.3)],
        ),
        LAMB(
            0.01, weight_decay=0.1, exclude_from_weight_decay=["a"],
            exclude_from_layer_adaptation=["b"], name="lamb",
        ),
    ],
    ids=lambda optimizer: type(optimizer).__name__,
)  # fmt: skip
def test_an_optimizer_survives_serialization(optimizer):
    config = keras.optimizers.serialize(optimizer)
    copy = keras.optimizers.deserialize(config)
    assert type(copy) is type(optimizer)
    assert copy.get_config() == optimizer.get_config()


def test_what_an_optimizer_would_not_do_is_refused():
    optimizer = AdamWeightDecay(0.1)
    with pytest.raises(ValueError, match="constructor's argument.*'bias'"):
        optimizer.exclude_from_weight_decay(var_names=["bias"])
    half = keras.Variable(np.ones(2), dtype="bfloat16", name="kernel")
    with pytest.raises(ValueError, match="kernel of bfloat16.*mixed"):
        optimizer.build([half])
    with pytest.raises(ValueError, match=r"2 that match none.*'b', 'c'"):
        schedules.resolve_rules((("a", 1.0),), ["a", "b", "c"], "rate")


def test_contiguous_exponents_leave_no_gap_above_the_last_layer():
    rules = schedules.layerwise_learning_rate_rules(0.5, 12, is_contiguous=True)
    exponents = {
        "electra/embeddings/word_embeddings": 13,
        "electra/embeddings_project/kernel": 13,
        "electra/encoder/layer_0/kernel": 12,
        "electra/encoder/layer_1/kernel": 11,
        "electra/encoder/layer_11/kernel": 1,
        "task_specific/squad/kernel": 0,
    }
    values = schedules.resolve_rules(rules, exponents, "learning rate")
    assert values == [0.5**k for k in exponents.values()]
