"""Electric: noise-contrastive estimation of energies."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import errors
from tests.pretraining import tiny_objectives


@pytest.fixture(scope="module")
def model():
    return tiny_objectives.build_model("electric")


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


def test_another_generator_is_refused():
    with pytest.raises(errors.ConfigError, match="two_tower_generator=true"):
        tiny_objectives.build_model(
            "electric", generator={"two_tower_generator": False}
        )
