"""The model for a Keras user, and what its statistics mean."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf import config
from electra_tf.pretraining import model as model_lib
from electra_tf.pretraining import run
from electra_tf.training import optimizers
from tests import tiny


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: optimizers.AdamWeightDecay(3e-3),
        lambda: keras.optimizers.AdamW(3e-3),
    ],
)
def test_plain_compile_and_fit_lower_the_loss(optimizer):
    keras.utils.set_random_seed(5)
    model = model_lib.build_pretraining_model(
        tiny.build_settings(), tiny.VOCABULARY
    )
    model.compile(optimizer=optimizer())
    dataset = tf.data.Dataset.from_tensors(tiny.build_features()).repeat(25)
    history = model.fit(dataset, epochs=3, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]
    assert set(history) == {"loss", "gen_loss", "disc_loss"}
    scores = model.evaluate(dataset.take(2), verbose=0, return_dict=True)
    assert np.isfinite(list(scores.values())).all()
    probabilities = model.predict(dataset.take(1), verbose=0)
    assert probabilities.shape == (8, 16)
    assert ((probabilities > 0) & (probabilities < 1)).all()


def test_fit_works_on_two_replicas(two_devices):
    keras.utils.set_random_seed(5)
    with two_devices.scope():
        model = model_lib.build_pretraining_model(
            tiny.build_settings(), tiny.VOCABULARY
        )
        model.compile(optimizer=optimizers.AdamWeightDecay(3e-3))
    rows = tiny.build_features()
    dataset = tf.data.Dataset.from_tensor_slices(rows).repeat(6)
    history = model.fit(
        dataset.batch(8, drop_remainder=True), epochs=1, verbose=0
    ).history
    assert np.isfinite(history["loss"]).all()


def test_the_statistics_count_what_they_say():
    settings = tiny.build_settings()
    model = run.build_model_and_optimizer(settings, tiny.VOCABULARY)
    features = tiny.deal(tiny.build_features())
    prepared = model.prepare(features, tf.constant(0, tf.int64), True)
    found = model.compute_statistics(prepared)
    statistics = {name: value.numpy() for name, value in found.items()}
    num_tokens = features["input_mask"].numpy().sum()
    assert statistics["disc_loss_normalizer"] == num_tokens
    assert statistics["masked_tokens"] + statistics["kept_tokens"] == (
        prepared.masked.masked_weights.numpy().sum()
    )
    metrics = model.summarize(statistics)
    assert metrics["loss"] == pytest.approx(
        metrics["gen_loss"] + 50 * metrics["disc_loss"]
    )
    # Nothing learned yet: generator near log V, discriminator near log 2.
    assert metrics["gen_loss"] == pytest.approx(np.log(50), rel=0.05)
    assert 0.3 < metrics["disc_loss"] < 2.0


def test_the_uniform_generator_costs_log_v_and_has_no_weights():
    settings = dataclasses.replace(
        tiny.build_settings(),
        generator=config.GeneratorConfig(uniform_generator=True),
    )
    model = run.build_model_and_optimizer(settings, tiny.VOCABULARY)
    assert all(
        v.path.startswith(("electra/", "discriminator_predictions/"))
        for v in model.trainable_variables
    )
    statistics = model.training_step(tiny.deal(tiny.build_features()))
    metrics = model.summarize({n: v.numpy() for n, v in statistics.items()})
    assert metrics["gen_loss"] == pytest.approx(np.log(50), rel=1e-5)


def test_disallow_correct_replaces_every_masked_token():
    settings = dataclasses.replace(
        tiny.build_settings(),
        objective=config.ObjectiveConfig(disallow_correct=True),
    )
    model = run.build_model_and_optimizer(settings, tiny.VOCABULARY)
    statistics = model.evaluation_step(
        tiny.deal(tiny.build_features()), tf.constant(0, tf.int64)
    )
    assert statistics["sampled_correct"].numpy() == 0
    assert statistics["kept_sampled_correct"].numpy() == 0
    assert statistics["true_fake"] == (
        statistics["masked_tokens"] + statistics["kept_tokens"]
    )


def test_empty_rows_carry_no_weight():
    model = run.build_model_and_optimizer(
        tiny.build_settings(), tiny.VOCABULARY
    )
    features = tiny.deal(tiny.build_features())
    last = tf.reshape(tf.range(8) < 6, [4, 2, 1])
    emptied = {
        n: v if n == "stream_ids" else tf.where(last, v, 0)
        for n, v in features.items()
    }
    index = tf.constant(0, tf.int64)
    full = model.evaluation_step(features, index)
    some = model.evaluation_step(emptied, index)
    mask = features["input_mask"].numpy().reshape(8, -1)
    assert some["disc_loss_normalizer"].numpy() == mask[:6].sum()
    assert some["masked_tokens"] < full["masked_tokens"]
    assert np.isfinite(some["disc_loss"]).all()
