"""Joint replaced-token detection."""

import numpy as np
import pytest
import tensorflow as tf

from tests.pretraining import tiny_objectives


@pytest.fixture(scope="module")
def model():
    return tiny_objectives.build_model("electra")


@pytest.fixture(scope="module")
def prepared(model):
    return tiny_objectives.prepare(model)


def test_no_gradient_flows_through_the_samples(model, prepared):
    found = tiny_objectives.gradients_of(model, prepared, ("disc_loss",))
    own = [v.path for v in model.generator.trainable_variables]
    assert own
    assert all(not found[path].any() for path in own)
    assert found["electra/embeddings/word_embeddings"].any()


def test_the_temperature_of_the_samples_follows_its_schedule():
    model = tiny_objectives.build_model(
        "electra",
        objective={
            "temperature": 4.0,
            "final_temperature": 2.0,
            "temperature_steps": 10,
        },
    )
    logits = tf.constant([[8.0, -4.0]])
    for step, temperature in ((0, 4.0), (5, 3.0), (10, 2.0), (50, 2.0)):
        model.optimizer.iterations.assign(step)
        np.testing.assert_allclose(
            model.divide_by_temperature(logits), logits / temperature
        )


def test_the_discriminators_weight_rises_linearly_to_its_value():
    ramped = tiny_objectives.build_model(
        "electra", objective={"disc_weight_steps": 4}
    )
    factors = [
        float(ramped.loss_factors(tf.constant(step, tf.int64))["disc_loss"])
        for step in (0, 1, 4, 9)
    ]
    assert factors == [0.0, 12.5, 50.0, 50.0]


def test_each_tower_can_be_clipped_by_its_own_norm():
    model = tiny_objectives.build_model(
        "electra", optimizer={"clip_norm": 1e-3, "clip_per_tower": True}
    )
    gradients = [
        tf.random.stateless_normal(v.shape, [1, i])
        for i, v in enumerate(model.trained_variables)
    ]
    clipped, norm = model._clip(gradients)
    assert float(norm) == pytest.approx(float(tf.linalg.global_norm(gradients)))
    generator = {v.path for v in model.generator.trainable_variables}
    parts = {True: [], False: []}
    for variable, value in zip(model.trained_variables, clipped, strict=True):
        parts[variable.path in generator].append(value)
    for values in parts.values():
        assert float(tf.linalg.global_norm(values)) == pytest.approx(1e-3)
