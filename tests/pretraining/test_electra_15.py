"""ELECTRA-15%: what is not masked out teaches the discriminator nothing."""

import numpy as np
import pytest
import tensorflow as tf

from tests.pretraining import tiny_objectives


@pytest.fixture(scope="module")
def model():
    return tiny_objectives.build_model("electra_15")


@pytest.fixture
def logits(model, monkeypatch):
    """Logits of our own in place of the discriminator's."""
    values = np.random.default_rng(4).normal(0, 2, (8, 16))
    variable = tf.Variable(values.astype(np.float32))
    monkeypatch.setattr(
        model,
        "discriminate",
        lambda *_: tf.identity(variable),
    )
    return variable


def test_the_loss_equals_a_computation_by_hand(model, logits):
    prepared = tiny_objectives.prepare(model, step=1)
    masked = prepared.masked
    fake = model._get_fake_data(prepared, model.generator(masked, None).logits)
    expected = 0.0
    for row, position in np.argwhere(
        tiny_objectives.chosen_positions(prepared)
    ):
        is_fake = (
            fake.input_ids[row, position]
            != (masked.original_ids[row, position])
        )
        probability = 1 / (1 + np.exp(-float(logits[row, position])))
        expected -= np.log(probability if is_fake else 1 - probability)
    total = model.compute_losses(prepared, None).losses["disc_loss"]
    np.testing.assert_allclose(total, expected, rtol=1e-5)


@pytest.mark.parametrize("with_replacement", [False, True])
def test_the_weight_is_the_number_of_distinct_positions(with_replacement):
    model = tiny_objectives.build_model(
        "electra_15", masking={"draw_with_replacement": with_replacement}
    )
    for step in range(3):
        prepared = tiny_objectives.prepare(model, step)
        num_chosen = tiny_objectives.chosen_positions(prepared).sum()
        num_slots = prepared.masked.masked_weights.numpy().sum()
        assert (num_chosen < num_slots) == with_replacement
        statistics = model.compute_statistics(prepared)
        assert statistics["disc_loss_normalizer"] == num_chosen
        assert statistics["detected_tokens"] == num_chosen
