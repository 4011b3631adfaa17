"""All-Tokens MLM: every token is predicted, most by copying."""

import numpy as np
import pytest

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
