"""Electric: noise-contrastive estimation of energies."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import errors
from tests.pretraining import tiny_objectives

_NOISE_SHARE = 0.3  # `mask_prob` of these tiny models


@pytest.fixture(scope="module")
def model():
    return tiny_objectives.build_model("electric")


def _expected_logits(energies, prediction_logits, ids):
    """`E + log q + log(k / (1 - k))` in float64."""
    scores = prediction_logits.numpy().astype(np.float64)
    log_q = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
    of_ids = np.take_along_axis(log_q, ids.numpy()[..., None], -1)[..., 0]
    odds = _NOISE_SHARE / (1 - _NOISE_SHARE)
    return energies.numpy() + of_ids + np.log(odds)


def test_the_loss_is_that_of_these_logits_with_noise_as_label(model):
    prepared = tiny_objectives.prepare(model)
    masked = prepared.masked
    sampled = tiny_objectives.sample(model, prepared)
    generated, fake = sampled.generated, sampled.fake
    energies = model.discriminate(sampled, None)
    logits = _expected_logits(
        energies, generated.prediction_logits, fake.input_ids
    )
    is_noise = tiny_objectives.chosen_positions(prepared)
    probability = 1 / (1 + np.exp(-logits))
    likelihood = np.where(is_noise, probability, 1 - probability)
    expected = -(np.log(likelihood) * masked.input_mask.numpy()).sum()
    sums = model.compute_losses(prepared, None)
    np.testing.assert_allclose(sums.losses["disc_loss"], expected, rtol=1e-5)


def test_a_sample_that_equals_the_original_still_counts_as_noise(
    model, monkeypatch
):
    prepared = tiny_objectives.prepare(model)
    masked = prepared.masked
    generated = model.generator(masked, None)
    # Logits that leave the generator no choice but the original token.
    certain = generated._replace(logits=1e4 * tf.one_hot(masked.masked_ids, 50))
    monkeypatch.setattr(model.generator, "call", lambda *_: certain)
    fake = model._get_fake_data(prepared, certain.logits)
    np.testing.assert_array_equal(fake.input_ids, masked.original_ids)
    statistics = model.compute_losses(prepared, None).statistics
    assert statistics["sampled_correct"] == statistics["masked_tokens"]
    num_noise = statistics["masked_tokens"] + statistics["kept_tokens"]
    assert statistics["true_fake"] == num_noise > 8


def test_no_gradient_reaches_the_cloze_model_through_log_q(model):
    prepared = tiny_objectives.prepare(model)
    own = [v.path for v in model.generator.trainable_variables]
    contrastive = tiny_objectives.gradients_of(model, prepared, ("disc_loss",))
    assert all(not contrastive[path].any() for path in own)
    assert contrastive["electra/embeddings/word_embeddings"].any()
    likelihood = tiny_objectives.gradients_of(model, prepared, ("gen_loss",))
    assert all(likelihood[path].any() for path in own)
    assert not likelihood["electra/embeddings/word_embeddings"].any()


def test_the_cloze_model_learns_from_every_token(model):
    prepared = tiny_objectives.prepare(model)
    masked = prepared.masked
    special = [2, 3, 4]  # [CLS], [SEP], [MASK]
    is_word = (masked.input_mask.numpy() == 1) & ~np.isin(
        masked.original_ids.numpy(), special
    )
    sums = model.compute_losses(prepared, None)
    assert model.loss_normalizers(prepared)["gen_loss"] == is_word.sum()
    logits = model.generator(masked, None).prediction_logits.numpy()
    scores = logits.astype(np.float64)
    log_q = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
    ids = masked.original_ids.numpy()[..., None]
    expected = -np.take_along_axis(log_q, ids, -1)[..., 0][is_word].sum()
    np.testing.assert_allclose(sums.losses["gen_loss"], expected, rtol=1e-5)


def test_another_generator_is_refused():
    with pytest.raises(errors.ConfigError, match="two_tower_generator=true"):
        tiny_objectives.build_model(
            "electric", generator={"two_tower_generator": False}
        )
