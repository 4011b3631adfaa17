"""Replace-MLM: the main encoder never sees [MASK]."""

import numpy as np
import pytest

from tests import tiny
from tests.pretraining import tiny_objectives

_MASK = tiny.VOCABULARY.mask_id


@pytest.fixture(scope="module")
def model():
    model = tiny_objectives.build_model("replace_mlm")
    # The generator could sample [MASK] like any other entry.
    bias = model.generator.head.output_bias
    values = bias.numpy()
    values[_MASK] = -1e4
    bias.assign(values)
    return model


def test_the_main_encoder_sees_samples_where_the_generator_sees_mask(
    model, monkeypatch
):
    watch = tiny_objectives.EncoderWatch(monkeypatch)
    for step in range(4):
        prepared = tiny_objectives.prepare(model, step)
        masked = prepared.masked
        model.compute_losses(prepared, None)
        assert (watch.ids["generator"] == _MASK).sum() > 8
        assert (watch.ids["electra"] != _MASK).all()
        chosen = tiny_objectives.chosen_positions(prepared)
        differs = watch.ids["electra"] != masked.original_ids.numpy()
        assert not differs[~chosen].any()
        assert differs[chosen].mean() > 0.5
        fake = model._get_fake_data(
            prepared, model.generator(masked, None).logits
        )
        np.testing.assert_array_equal(watch.ids["electra"], fake.input_ids)


def test_it_predicts_the_originals_not_what_it_sees(model):
    prepared = tiny_objectives.prepare(model)
    masked = prepared.masked
    fake = model._get_fake_data(prepared, model.generator(masked, None).logits)
    logits = model.main(
        masked._replace(input_ids=fake.input_ids), None
    ).logits.numpy()
    expected = 0.0
    for row, slot in np.argwhere(masked.masked_weights.numpy()):
        scores = logits[row, slot].astype(np.float64)
        original = masked.original_ids[
            row, masked.masked_positions[row, slot]
        ].numpy()
        expected += np.log(np.exp(scores).sum()) - scores[original]
    sums = model.compute_losses(prepared, None)
    np.testing.assert_allclose(sums.losses["mlm_loss"], expected, rtol=1e-5)


def test_the_main_loss_does_not_reach_the_generator(model):
    prepared = tiny_objectives.prepare(model)
    found = tiny_objectives.gradients_of(model, prepared, ("mlm_loss",))
    own = [v.path for v in model.generator.trainable_variables]
    assert own
    assert all(not found[path].any() for path in own)
    assert found["masked_lm_predictions/dense/kernel"].any()
