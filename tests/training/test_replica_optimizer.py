"""Optimizers in loops, conditions, replicas, under XLA and in Keras."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.training.optimizers import LAMB
from electra_tf.training.optimizers import AdamWeightDecay
from electra_tf.training.optimizers import AddonsAdamW
from electra_tf.training.schedules import PolynomialDecayTimesWarmup

SCHEDULE = PolynomialDecayTimesWarmup(0.1, 20, num_warmup_steps=3)
BUILDERS = {
    "adam": lambda: AdamWeightDecay(SCHEDULE),
    "addons_adamw": lambda: AddonsAdamW(SCHEDULE, weight_decay=0.01),
    "lamb": lambda: LAMB(SCHEDULE, weight_decay=0.01),
}


@pytest.fixture(params=BUILDERS)
def build_optimizer(request):
    return BUILDERS[request.param]


def variables_named(**values):
    return [
        keras.Variable(np.array(value, np.float32), name=name)
        for name, value in values.items()
    ]


def small_model_variables():
    return variables_named(
        kernel=[[0.5, -0.3], [0.2, 0.1]], bias=[0.1, -0.2], gamma=[1.0, 1.0]
    )


def gradients_of(step):
    """Fixed gradients of `small_model_variables` at a step."""
    generator = np.random.default_rng(step)
    shapes = ([2, 2], [2], [2])
    return [tf.constant(generator.normal(size=s), tf.float32) for s in shapes]


def values_of(variables):
    return [variable.numpy() for variable in variables]


def train_in_replica(optimizer, variables, num_steps, **function_options):
    update = tf.function(optimizer.apply_in_replica_context, **function_options)
    for step in range(num_steps):
        update(gradients_of(step))
    assert update.experimental_get_tracing_count() == 1
    return values_of(variables)


def reference_values(build_optimizer, num_steps):
    """What the optimizer gives eagerly on one device."""
    variables, optimizer = small_model_variables(), build_optimizer()
    optimizer.build(variables)
    for step in range(num_steps):
        optimizer.apply_in_replica_context(gradients_of(step))
    return values_of(variables)


def assert_close(values, expected, tolerance=1e-6):
    for value, other in zip(values, expected, strict=True):
        np.testing.assert_allclose(value, other, rtol=0, atol=tolerance)


def test_at_rate_zero_only_the_moments_change():
    variables = small_model_variables()
    optimizer = AdamWeightDecay(SCHEDULE)
    optimizer.build(variables)
    before = values_of(variables)
    rate = optimizer.apply_in_replica_context(gradients_of(0))
    assert float(rate) == 0.0
    assert_close(values_of(variables), before, tolerance=0)
    assert all(np.any(m.numpy() != 0) for m in optimizer.second_moments)
    assert int(optimizer.iterations) == 1


@pytest.mark.parametrize("jit_compile", [False, True])
def test_graph_and_xla_give_the_eager_numbers(build_optimizer, jit_compile):
    variables, optimizer = small_model_variables(), build_optimizer()
    optimizer.build(variables)
    values = train_in_replica(optimizer, variables, 5, jit_compile=jit_compile)
    assert_close(values, reference_values(build_optimizer, 5))


def test_replicas_stay_equal_inside_a_loop_and_a_condition(
    build_optimizer, two_devices
):
    with two_devices.scope():
        variables, optimizer = small_model_variables(), build_optimizer()
        optimizer.build(variables)
    stacked = [
        tf.stack(g) for g in zip(*map(gradients_of, range(6)), strict=True)
    ]

    def replica_step(step):
        gradients = [gradient[step] for gradient in stacked]

        def update():
            optimizer.apply_in_replica_context(gradients)
            return 0

        # The last step is left out, as a step with overflow would be.
        tf.cond(step < 5, update, lambda: 0)

    @tf.function
    def train():
        for step in tf.range(6):
            two_devices.run(replica_step, args=(step,))

    train()
    for variable in [*variables, *optimizer.variables]:
        first, second = variable.value.values
        np.testing.assert_array_equal(first.numpy(), second.numpy())
    assert optimizer.iterations.numpy() == 5
    assert_close(values_of(variables), reference_values(build_optimizer, 5))


def test_fit_and_our_own_loop_make_the_same_updates(build_optimizer):
    variables, optimizer = small_model_variables(), build_optimizer()
    for step in range(4):
        optimizer.apply(gradients_of(step), variables)
    assert_close(values_of(variables), reference_values(build_optimizer, 4), 0)


@pytest.mark.parametrize(
    "optimizer",
    [
        AdamWeightDecay(
            SCHEDULE,
            weight_decay=0.02,
            beta_1=0.8,
            beta_2=0.99,
            epsilon=1e-5,
            exclude_from_weight_decay=["x"],
            learning_rate_multipliers=[("a", 0.5), (".*", 1.0)],
        ),
        AddonsAdamW(
            0.01,
            weight_decay=SCHEDULE,
            weight_decay_multipliers=[(".*", 0.3)],
        ),
        LAMB(
            0.01,
            weight_decay=0.1,
            exclude_from_weight_decay=["a"],
            exclude_from_layer_adaptation=["b"],
            name="lamb",
        ),
    ],
    ids=lambda optimizer: type(optimizer).__name__,
)
def test_an_optimizer_survives_serialization(optimizer):
    config = keras.optimizers.serialize(optimizer)
    copy = keras.optimizers.deserialize(config)
    assert type(copy) is type(optimizer)
    assert copy.get_config() == optimizer.get_config()


def test_keras_exclusion_by_short_name_is_refused():
    with pytest.raises(ValueError, match="constructor's argument"):
        AdamWeightDecay(0.1).exclude_from_weight_decay(var_names=["bias"])


def test_variables_must_be_float32():
    half = keras.Variable(np.ones(2), dtype="bfloat16", name="kernel")
    with pytest.raises(ValueError, match="kernel of bfloat16.*mixed"):
        AdamWeightDecay(0.1).build([half])
