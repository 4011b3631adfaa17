"""The objectives beside two-stage and adversarial training, by hand."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import errors
from tests import tiny
from tests.objectives import tiny_objectives

_MASK = tiny.VOCABULARY.mask_id
_FIXED = {"untied_generator_embeddings": False, "uniform_generator": True}


@pytest.mark.parametrize(
    ("name", "loss", "weight"),
    [
        ("electra", "disc_loss", "electra/embeddings/word_embeddings"),
        ("electric", "disc_loss", "electra/embeddings/word_embeddings"),
        ("replace_mlm", "mlm_loss", "masked_lm_predictions/dense/kernel"),
    ],
)
def test_no_gradient_of_the_main_loss_reaches_the_generator(name, loss, weight):
    model = tiny_objectives.build_model(name)
    prepared = tiny_objectives.prepare(model)
    own = [v.path for v in model.generator.trainable_variables]
    main = tiny_objectives.gradients_of(model, prepared, (loss,))
    assert not any(main[path].any() for path in own)
    assert main[weight].any()
    likelihood = tiny_objectives.gradients_of(model, prepared, ("gen_loss",))
    assert all(likelihood[path].any() for path in own)
    assert not likelihood[weight].any()


def test_the_temperature_of_the_samples_follows_its_schedule():
    cooling = {"final_temperature": 2.0, "temperature_steps": 10}
    model = tiny_objectives.build_model(
        "electra", objective={"temperature": 4.0} | cooling
    )
    logits = tf.constant([[8.0, -4.0]])
    prepared, held_out = tiny_objectives.prepare(model), set()
    quiet = model.sampling_logits(logits, None, False)
    np.testing.assert_allclose(quiet, logits / 2.0)
    for step, temperature in ((0, 4.0), (5, 3.0), (10, 2.0), (50, 2.0)):
        model.optimizer.iterations.assign(step)
        np.testing.assert_allclose(
            model.sampling_logits(logits, None, True), logits / temperature
        )
        held_out.add(float(model.compute_statistics(prepared)["disc_loss"][0]))
    # Held-out text is sampled at the last one, whatever the step is.
    assert len(held_out) == 1


def test_the_mask_rate_follows_its_schedule_in_slots_for_the_largest():
    rows, places = tiny.deal(tiny.build_features()), (0, 5, 10, 50)
    for first, half, last in ((0.5, 0.375, 0.25), (0.25, 0.375, 0.5)):
        masking = {"final_mask_prob": last, "mask_prob_steps": 10}
        masking["mask_prob"] = first
        model = tiny_objectives.build_model("electra", masking=masking)
        for step, rate in zip(places, (first, half, last, last), strict=True):
            for is_training in (True, False):
                masked = model.prepare(rows, step, is_training).masked
                assert masked.masked_weights.shape == (8, 8)
                rate = rate if is_training else last
                wanted = np.round(rate * np.sum(masked.input_mask, axis=1))
                found = np.sum(masked.masked_weights, axis=1)
                np.testing.assert_array_equal(found, wanted)


def test_half_of_the_pairs_are_swapped_and_the_head_is_told():
    model = tiny_objectives.build_model("sentence_order")
    pair = [2, 7, 8, 3, 9, 3, 0], [1] * 6 + [0], [0] * 4 + [1, 1, 0]
    single = [2, 7, 8, 3, 0, 0, 0], [1] * 4 + [0] * 3, [0] * 7
    rows = np.array([[*[pair] * 32, *[single] * 32]], np.int32)
    names = "input_ids", "input_mask", "segment_ids"
    features = dict(zip(names, np.moveaxis(rows, 2, 0), strict=True))
    prepared = model.prepare(features | {"stream_ids": np.array([0])}, 0, True)
    is_swapped = prepared.row_labels.numpy()[:, np.newaxis] > 0
    assert 6 < is_swapped[:32].sum() == is_swapped.sum() < 26
    ids = np.where(is_swapped, [2, 9, 3, 7, 8, 3, 0], rows[0, :, 0])
    segments = np.where(is_swapped, [0, 0, 0, 1, 1, 1, 0], rows[0, :, 2])
    np.testing.assert_array_equal(prepared.masked.original_ids, ids)
    np.testing.assert_array_equal(prepared.masked.segment_ids, segments)
    assert model.loss_normalizers(prepared)["order_loss"] == 32


@pytest.mark.parametrize("name", ["electra", "two_stage"])
def test_the_discriminators_weight_rises_linearly_to_its_value(name):
    rising = {"disc_weight_steps": 4}
    model = tiny_objectives.build_model(name, objective=rising)
    # From where the discriminator begins to learn.
    start = model.stage_starts[-1]
    model.enter_stage(len(model.stage_starts) - 1, is_beginning=False)
    factors = [
        float(model.loss_factors(tf.constant(step, tf.int64))["disc_loss"])
        for step in (start, start + 1, start + 4, start + 9)
    ]
    assert factors == [0.0, 12.5, 50.0, 50.0]


@pytest.mark.parametrize(
    ("name", "num_parts"),
    # A head for the order, and a baseline, are neither network's.
    [("mlm", 1), ("electra", 2), ("sentence_order", 3), ("adversarial", 3)],
)
def test_each_network_can_be_clipped_by_its_own_norm(name, num_parts):
    clipping = {"clip_norm": 1e-3, "clip_per_tower": True}
    model = tiny_objectives.build_model(name, optimizer=clipping)
    gradients = [
        tf.random.stateless_normal(v.shape, [1, i])
        for i, v in enumerate(model.trained_variables)
    ]
    clipped, norm = model._clip(gradients, model.trained_variables)
    assert float(norm) == pytest.approx(float(tf.linalg.global_norm(gradients)))
    parts = collections.defaultdict(list)
    for variable, value in zip(model.trained_variables, clipped, strict=True):
        owners = [
            network is not None
            and any(variable is own for own in network.trainable_variables)
            for network in (model.generator, model.main)
        ]
        parts[tuple(owners)].append(value)
    assert len(parts) == num_parts
    for values in parts.values():
        assert float(tf.linalg.global_norm(values)) == pytest.approx(1e-3)


def test_electra_15_learns_from_chosen_positions_alone(monkeypatch):
    model = tiny_objectives.build_model("electra_15")
    logits = np.random.default_rng(4).normal(0, 2, (8, 16)).astype(np.float32)
    monkeypatch.setattr(model.main.head, "call", lambda _: tf.constant(logits))
    prepared = tiny_objectives.prepare(model, step=1)
    fake = tiny_objectives.fake_data(model, prepared)
    original = prepared.masked.original_ids
    expected = 0.0
    for place in np.argwhere(tiny_objectives.chosen_positions(prepared)):
        row, position = place
        probability = 1 / (1 + np.exp(-float(logits[row, position])))
        is_fake = fake.input_ids[row, position] != original[row, position]
        expected -= np.log(probability if is_fake else 1 - probability)
    total = tiny_objectives.loss_of(model, prepared)["disc_loss"]
    np.testing.assert_allclose(total, expected, rtol=1e-5)


def test_replace_mlm_predicts_the_originals_from_samples(monkeypatch):
    replace_mlm = tiny_objectives.build_model("replace_mlm")
    # The generator could sample [MASK] like any other entry.
    bias = replace_mlm.generator.head.output_bias
    bias.assign(bias - 1e4 * tf.one_hot(_MASK, tiny.VOCABULARY.size))
    watch = tiny_objectives.EncoderWatch(monkeypatch)
    prepared = tiny_objectives.prepare(replace_mlm)
    loss = tiny_objectives.loss_of(replace_mlm, prepared)["mlm_loss"]
    seen = watch.ids["electra"]
    assert (watch.ids["generator"] == _MASK).sum() > 8
    assert (seen != _MASK).all()
    masked = prepared.masked
    chosen = tiny_objectives.chosen_positions(prepared)
    differs = seen != masked.original_ids.numpy()
    assert not differs[~chosen].any() and differs[chosen].mean() > 0.5
    fake = tiny_objectives.fake_data(replace_mlm, prepared)
    np.testing.assert_array_equal(seen, fake.input_ids)
    logits = replace_mlm.main(masked._replace(input_ids=fake.input_ids)).logits
    expected = 0.0
    for row, slot in np.argwhere(masked.masked_weights.numpy()):
        scores = logits[row, slot].numpy().astype(np.float64)
        position = masked.masked_positions[row, slot]
        original = masked.original_ids[row, position].numpy()
        expected += np.log(np.exp(scores).sum()) - scores[original]
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


def test_all_tokens_mlm_is_the_likelihood_of_a_mixture():
    """`D 1[x = input] + (1 - D) softmax`, and `1 - D` detects."""
    all_tokens = tiny_objectives.build_model("all_tokens_mlm")
    prepared = tiny_objectives.prepare(all_tokens)
    masked = prepared.masked
    fake = tiny_objectives.fake_data(all_tokens, prepared)
    rows = fake.input_ids, masked.input_mask, masked.segment_ids
    output = all_tokens.main(*rows)
    scores = output.logits.numpy().astype(np.float64)
    softmax = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    copied = 1 / (1 + np.exp(-output.copy_logits.numpy().astype(np.float64)))
    one_hot = np.eye(tiny.VOCABULARY.size)[fake.input_ids.numpy()]
    mixture = copied[..., None] * one_hot + (1 - copied[..., None]) * softmax
    originals = masked.original_ids.numpy()[..., None]
    likelihood = np.take_along_axis(mixture, originals, -1)[..., 0]
    expected = -(np.log(likelihood) * masked.input_mask.numpy()).sum()
    losses = tiny_objectives.loss_of(all_tokens, prepared)
    np.testing.assert_allclose(losses["all_loss"], expected, rtol=1e-5)
    is_token = masked.input_mask.numpy() == 1
    normalizers = all_tokens.loss_normalizers(prepared)
    assert normalizers["all_loss"] == is_token.sum()
    is_kept = (fake.input_ids == masked.original_ids).numpy()
    accuracy = (is_kept == (copied > 0.5))[is_token].mean()
    metrics = all_tokens.summarize(all_tokens.compute_statistics(prepared))
    assert metrics["disc_accuracy"] == pytest.approx(accuracy)
    assert 0.1 < accuracy < 0.95


def test_to_electric_a_sample_that_equals_the_original_is_still_noise(
    monkeypatch,
):
    electric = tiny_objectives.build_model("electric")
    prepared = tiny_objectives.prepare(electric)
    masked = prepared.masked
    generated = electric.generator(masked, None)
    # Logits that leave the generator no choice but the original token.
    certain = generated._replace(logits=1e4 * tf.one_hot(masked.masked_ids, 50))
    monkeypatch.setattr(electric.generator, "call", lambda *_: certain)
    fake = electric._get_fake_data(prepared, certain.logits)
    np.testing.assert_array_equal(fake.input_ids, masked.original_ids)
    statistics = electric.compute_losses(prepared, None).statistics
    assert statistics["sampled_correct"] == statistics["masked_tokens"]
    num_noise = statistics["masked_tokens"] + statistics["kept_tokens"]
    assert statistics["true_fake"] == num_noise > 8


_NO_MASKED_LM = "needs a masked-LM generator"
_TWO_TOWERS = {"two_tower_generator": True}
_TIED = {"untied_generator_embeddings": False}
_SHARING = _TIED | {"disentangled_embeddings": True}


@pytest.mark.parametrize(
    ("name", "section", "fields", "message"),
    [
        ("mlm", "generator", {"generator_layers": 0.5}, "has no generator"),
        ("electric", "generator", {"two_tower_generator": False},
         "two_tower_generator=true"),
        *(("electric", "masking", {field: value}, "draws noise for each")
          for field, value in (("mask_prob_steps", 5), ("whole_word", True),
                               ("frequency_power", 0.5),
                               ("draw_with_replacement", True))),
        *((name, "generator", _SHARING, f"the objective {name!r}")
          for name in ("replace_mlm", "adversarial")),
        ("fast_electra", "generator", {"init_from": ""}, "generator.init_from"),
        ("fast_electra", "generator", _TIED, "generator.init_from"),
        ("two_stage", "generator", _TWO_TOWERS, _NO_MASKED_LM),
        ("two_stage", "objective", {"generator_steps": 0}, "steps=0"),
        ("two_stage", "generator", _TIED, "weights of its own"),
        ("two_stage", "encoder", {"num_attention_heads": 2},
         "two encoders of the same sizes"),
        ("adversarial", "generator", _TWO_TOWERS, _NO_MASKED_LM),
        ("adversarial", "generator", _FIXED, _NO_MASKED_LM),
        ("adversarial", "objective", {"gumbel_temperature": 0.5},
         "no effect on the estimator"),
    ],
)  # fmt: skip
def test_settings_that_cannot_work_are_refused(name, section, fields, message):
    with pytest.raises(errors.ConfigError, match=message):
        tiny_objectives.build_model(name, **{section: fields})
