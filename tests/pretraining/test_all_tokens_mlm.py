"""All-Tokens MLM: every token is predicted, most by copying."""

import numpy as np
import pytest
import tensorflow as tf

from tests import tiny
from tests.pretraining import tiny_objectives


@pytest.fixture(scope="module")
def model():
    return tiny_objectives.build_model("all_tokens_mlm")


def _predict_all(model, fake, masked):
    rows = fake.input_ids, masked.input_mask, masked.segment_ids
    return model.main(*rows)


def _mixture(output, input_ids):
    """`D 1[x = input] + (1 - D) softmax`, `[B, S, V]` float64."""
    scores = output.logits.numpy().astype(np.float64)
    softmax = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    copied = 1 / (1 + np.exp(-output.copy_logits.numpy().astype(np.float64)))
    one_hot = np.eye(tiny.VOCABULARY.size)[input_ids.numpy()]
    return copied[..., None] * one_hot + (1 - copied[..., None]) * softmax


def test_the_loss_is_the_likelihood_of_the_originals_in_the_mixture(model):
    prepared = tiny_objectives.prepare(model)
    masked = prepared.masked
    fake = model._get_fake_data(prepared, model.generator(masked, None).logits)
    mixture = _mixture(_predict_all(model, fake, masked), fake.input_ids)
    np.testing.assert_allclose(mixture.sum(-1), 1.0, rtol=1e-12)
    originals = masked.original_ids.numpy()[..., None]
    likelihood = np.take_along_axis(mixture, originals, -1)[..., 0]
    expected = -(np.log(likelihood) * masked.input_mask.numpy()).sum()
    sums = model.compute_losses(prepared, None)
    np.testing.assert_allclose(sums.losses["all_loss"], expected, rtol=1e-5)
    num_tokens = masked.input_mask.numpy().sum()
    assert model.loss_normalizers(prepared)["all_loss"] == num_tokens


def test_every_token_but_padding_contributes(model, monkeypatch):
    prepared = tiny_objectives.prepare(model)
    watch = tiny_objectives.EncoderWatch(monkeypatch)
    slopes = tiny_objectives.state_gradient(watch, model, prepared, "all_loss")
    np.testing.assert_array_equal(
        slopes > 0, prepared.masked.input_mask.numpy() == 1
    )


def test_the_main_encoder_sees_the_samples(model, monkeypatch):
    watch = tiny_objectives.EncoderWatch(monkeypatch)
    prepared = tiny_objectives.prepare(model)
    model.compute_losses(prepared, None)
    masked = prepared.masked
    fake = model._get_fake_data(prepared, model.generator(masked, None).logits)
    np.testing.assert_array_equal(watch.ids["electra"], fake.input_ids)
    np.testing.assert_array_equal(watch.ids["generator"], masked.input_ids)


def _set_copying(model, logit):
    """Makes the copy decision the same everywhere."""
    kernel, bias = model.main.copy_head.logit.trainable_variables
    kernel.assign(tf.zeros_like(kernel))
    bias.assign([logit])


@pytest.mark.parametrize("logit", [-60.0, 60.0])
def test_a_model_sure_of_copying_or_not_has_finite_gradients(logit):
    model = tiny_objectives.build_model("all_tokens_mlm")
    _set_copying(model, logit)
    prepared = tiny_objectives.prepare(model)
    sums = model.compute_losses(prepared, None)
    num_fake = sums.statistics["true_fake"].numpy()[0]
    assert num_fake > 8
    found = tiny_objectives.gradients_of(model, prepared)
    assert all(np.isfinite(gradient).all() for gradient in found.values())
    if logit > 0:
        # Copying a replaced token costs its log odds, a real one nothing.
        costs = sums.losses["all_loss"].numpy() / num_fake
        assert 60 < costs < 75
        # ... and is unlearned there: for each replaced token a gradient of 1.
        bias = found["copy_predictions/dense/bias"][0]
        num_tokens = prepared.masked.input_mask.numpy().sum()
        np.testing.assert_allclose(bias, num_fake / num_tokens, rtol=1e-4)


def test_copying_as_a_detector_is_scored(model):
    prepared = tiny_objectives.prepare(model)
    metrics = model.summarize(model.compute_statistics(prepared))
    masked = prepared.masked
    fake = model._get_fake_data(prepared, model.generator(masked, None).logits)
    output = _predict_all(model, fake, masked)
    is_token = masked.input_mask.numpy() == 1
    is_kept = (fake.input_ids == masked.original_ids).numpy()
    predicts_copy = output.copy_logits.numpy() > 0
    accuracy = (is_kept == predicts_copy)[is_token].mean()
    assert metrics["disc_accuracy"] == pytest.approx(accuracy)
    assert 0.1 < accuracy < 0.95
