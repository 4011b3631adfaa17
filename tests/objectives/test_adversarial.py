"""Adversarial training, by REINFORCE and straight through."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.objectives import adversarial
from electra_tf.objectives import electra
from tests.objectives import tiny_objectives


def _build(name, **fields):
    own = tiny_objectives.SECTIONS[name].get("objective", {})
    if name != "electra":
        own = {"adversarial_weight": 3.0} | own
    own = own | {"gen_weight": 2.0, "disc_weight": 20.0} | fields
    return tiny_objectives.build_model(name, objective=own)


def _build_like(model, name, **fields):
    """Another objective's model with the same weights."""
    other = _build(name, **fields)
    values = {v.path: v for v in model.trainable_variables}
    for variable in other.trainable_variables:
        if variable.path in values:
            variable.assign(values[variable.path])
    return other


@pytest.fixture(scope="module")
def joint():
    return _build("electra")


@pytest.fixture(scope="module")
def reinforce(joint):
    return _build_like(joint, "adversarial")


def _differentiate(tape, target, model):
    """Gradients by path of the generator's weights; all say something."""
    variables = {v.path: v.value for v in model.generator.trainable_variables}
    found = tape.gradient(target, variables)
    found = {n: tf.convert_to_tensor(g).numpy() for n, g in found.items()}
    assert all(gradient.any() for gradient in found.values())
    return found


def _require_close(found, expected):
    for path, gradient in expected.items():
        np.testing.assert_allclose(found[path], gradient, 1e-3, 1e-6)


@pytest.mark.parametrize(
    ("start", "full", "expected"),
    [
        (0, 0, {0: 1.0, 5: 1.0}),
        (4, 4, {0: 0.0, 3: 0.0, 4: 1.0, 9: 1.0}),
        (2, 6, {0: 0.0, 2: 0.0, 3: 0.25, 5: 0.75, 6: 1.0, 90: 1.0}),
    ],
)
def test_the_share_goes_from_likelihood_to_adversarial(start, full, expected):
    model = _build(
        "adversarial", adversarial_start_step=start, adversarial_full_step=full
    )
    for step, share in expected.items():
        assert float(model.adversarial_share(tf.constant(step))) == share
        factors = model.loss_factors(tf.constant(step))
        assert float(factors["gen_loss"]) == 2.0 * (1 - share)
        assert float(factors["adversarial_loss"]) == 6.0 * share


def _rewards(model, prepared, fake):
    """Rewards and mask of the slots, `[B, P]` float64."""
    masked = prepared.masked
    sampled = electra.SampledBatch(prepared, None, fake)
    logits = model.discriminate(sampled, None).logits.numpy()
    is_real = 1 / (1 + np.exp(logits.astype(np.float64)))
    positions = masked.masked_positions.numpy()
    at_slots = np.take_along_axis(is_real, positions, 1)
    is_original = (fake.sampled_tokens == masked.masked_ids).numpy()
    return -np.log(np.where(is_original, at_slots, 1 - at_slots))


def test_the_generators_gradient_is_the_formula_of_the_paper(reinforce):
    model = reinforce
    prepared = tiny_objectives.prepare(model)
    masked = prepared.masked
    with tf.GradientTape() as tape:
        generated = model.generator(masked, None)
        fake = model._get_fake_data(prepared, generated.logits)
        log_probs = tf.nn.log_softmax(generated.logits)
        log_probs = tf.gather(log_probs, fake.sampled_tokens, batch_dims=2)
        kernel, bias = (v.numpy() for v in model.baseline.trainable_variables)
        states = generated.encoder_outputs[0].sequence_output.numpy()
        hidden = np.take_along_axis(
            states, masked.masked_positions.numpy()[..., None], 1
        )
        baselines = np.log1p(np.exp(-(hidden @ kernel + bias)[..., 0]))
        advantages = _rewards(model, prepared, fake) - baselines
        weights = masked.masked_weights.numpy()
        ascended = tf.reduce_sum(
            log_probs * (advantages * weights / weights.sum())
        )
    expected = _differentiate(tape, ascended, model)
    found = tiny_objectives.gradients_of(model, prepared)
    # Descended with gen_weight 2 and adversarial_weight 3.
    _require_close(found, {n: -6.0 * g for n, g in expected.items()})


def test_the_baseline_learns_alone(reinforce):
    prepared = tiny_objectives.prepare(reinforce)
    baseline, others = (
        tiny_objectives.gradients_of(reinforce, prepared, names)
        for names in (
            ("baseline_loss",),
            ("adversarial_loss", "gen_loss", "disc_loss"),
        )
    )
    trained = {path for path, gradient in baseline.items() if gradient.any()}
    assert trained == {"reward_baseline/kernel", "reward_baseline/bias"}
    assert not any(others[path].any() for path in trained)


def _soft_loss(model, prepared, generated):
    """The discriminator's loss as a function of relaxed samples."""
    masked = prepared.masked
    fake = model._get_fake_data(prepared, generated.logits)
    uniform = model.draw_uniform(prepared)
    noise = -tf.math.log(-tf.math.log(uniform + 1e-9) + 1e-9)
    # Sampled at temperature 2, relaxed at one half.
    scores = tf.exp((generated.logits / 2.0 + noise) / 0.5)
    soft = scores / tf.reduce_sum(scores, -1, keepdims=True)
    table = model.main.encoder.embeddings.word_embeddings.numpy()
    relaxed = tf.einsum("bpv,ve->bpe", soft, table)
    change = relaxed - relaxed.numpy()
    used = np.argwhere(masked.masked_weights.numpy())
    positions = masked.masked_positions.numpy()
    places = [[row, positions[row, slot]] for row, slot in used]
    offset = tf.scatter_nd(places, tf.gather_nd(change, used), [8, 16, 12])
    sampled = electra.SampledBatch(prepared, generated, fake)
    logits = model.discriminate(sampled, None, offset).logits
    labels = tf.cast(fake.input_ids != masked.original_ids, tf.float32)
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
    mask = tf.cast(masked.input_mask, tf.float32)
    return tf.reduce_sum(losses * mask) / tf.reduce_sum(mask)


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_the_generator_ascends_the_loss_through_the_relaxed_samples(
    joint, share
):
    settings = {"temperature": 2.0, "gumbel_temperature": 0.5}
    model = _build_like(
        joint, "straight_through", adversarial_full_step=8, **settings
    )
    model.optimizer.iterations.assign(round(8 * share))
    prepared = tiny_objectives.prepare(model)
    with tf.GradientTape() as tape:
        generated = model.generator(prepared.masked, None)
        loss = _soft_loss(model, prepared, generated)
    expected = _differentiate(tape, loss, model)
    found = tiny_objectives.gradients_of(model, prepared)
    plain = tiny_objectives.gradients_of(joint, prepared, ("gen_loss",))
    # gen_weight 2 and adversarial_weight 3.
    for path, gradient in expected.items():
        expected[path] = -6.0 * share * gradient + (1 - share) * plain[path]
    _require_close(found, expected)


def test_files_that_name_an_estimator_for_the_model_are_read():
    for name in ("Reinforce", "StraightThrough"):
        found = keras.saving.get_registered_object(f"electra_tf>{name}")
        assert found is adversarial.Adversarial
