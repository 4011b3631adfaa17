"""Gradient-disentangled embedding sharing: who moves which table."""

import dataclasses
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import config
from electra_tf import errors
from electra_tf.electra import Electra
from electra_tf.formats import own_run
from electra_tf.formats import reading
from electra_tf.pretraining import model as model_lib
from electra_tf.training import checkpoints
from tests import tiny
from tests.pretraining import tiny_objectives

SHARING = {
    "disentangled_embeddings": True,
    "untied_generator_embeddings": False,
}


def _build(name="electra", **sections):
    sections = {"generator": SHARING} | sections
    return tiny_objectives.build_model(name, **sections)


def _tables(model):
    return [
        network.encoder.embeddings.word_embeddings
        for network in (model.generator, model.main)
    ]


def _losses(model, prepared):
    sums = model.compute_losses(prepared, None).losses
    factors = model.loss_coefficients
    return {name: factors[name] * sums[name] for name in factors}


@pytest.fixture(scope="module")
def model():
    return _build()


@pytest.fixture(scope="module")
def prepared(model):
    features = tiny.deal(tiny.build_features())
    return model.prepare(features, tf.constant(0, tf.int64), is_training=True)


def test_the_discriminator_does_not_pull_at_the_generators_table(
    model, prepared
):
    shared, difference = _tables(model)
    with tf.GradientTape(persistent=True) as tape:
        losses = _losses(model, prepared)
        total = losses["gen_loss"] + losses["disc_loss"]
    # Fed back through the sampled ids, nothing: they are integers.
    assert tape.gradient(losses["disc_loss"], shared.value) is None
    assert np.any(tf.convert_to_tensor(tape.gradient(total, difference.value)))
    gradient = tf.convert_to_tensor(tape.gradient(total, shared.value)).numpy()
    # Along the gradient the generator's loss alone moves by its square.
    direction = gradient / np.linalg.norm(gradient)
    start, step = shared.numpy(), 1e-2

    def loss_at(distance):
        shared.assign(start + distance * direction)
        return float(_losses(model, prepared)["gen_loss"])

    slope = (loss_at(step) - loss_at(-step)) / (2 * step)
    shared.assign(start)
    assert slope == pytest.approx(np.linalg.norm(gradient), rel=1e-2)


def test_it_begins_with_the_generators_words(prepared):
    model = _build()
    model.reset_difference()
    ids = prepared.masked.original_ids
    rows = ids, prepared.masked.input_mask, prepared.masked.segment_ids
    found = model.read_rows(rows, None)
    shared, difference = _tables(model)
    difference.assign(shared)
    expected = tf.sigmoid(model.main(*rows).logits)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_files_hold_whole_embeddings(model, prepared, tmp_path: pathlib.Path):
    checkpoints.claim_folder(tmp_path, model.settings, tiny.VOCABULARY)
    weights = {f"model/{v.path}": v for v in model.trainable_variables}
    checkpoints.save(tmp_path, 3, weights, {"best_step": None}, keep=1)
    rows = [
        prepared.masked.original_ids,
        prepared.masked.input_mask,
        prepared.masked.segment_ids,
    ]
    loaded = Electra.from_portable(reading.read(tmp_path))
    expected = model.read_rows(rows, None)
    found = tf.sigmoid(loaded.networks.main(*rows).logits)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    # And a run that starts from them splits them again.
    other = _build()
    read = own_run.read(tmp_path)
    for variable in other.trainable_variables:
        variable.assign(read.tensors[variable.path])
    other.take_difference()
    np.testing.assert_allclose(other.read_rows(rows, None), expected, atol=1e-6)


def test_the_switch_of_stages_copies_the_words_once():
    sections = {
        "encoder": tiny_objectives.SAME_SIZE["encoder"],
        "generator": {"generator_hidden_size": 1.0, **SHARING},
    }
    model = tiny_objectives.build_model("two_stage", **sections)
    model.enter_phase(1, is_beginning=True)
    _, difference = _tables(model)
    assert not np.any(difference.numpy())


@pytest.mark.parametrize("name", ["replace_mlm", "adversarial"])
def test_other_objectives_refuse_it(name):
    settings = tiny_objectives.build_settings(name)
    generator = dataclasses.replace(
        config.GeneratorConfig(), disentangled_embeddings=True
    )
    settings = dataclasses.replace(settings, generator=generator)
    with pytest.raises(errors.ConfigError, match="electra_15, two_stage"):
        model_lib.build_pretraining_model(settings, tiny.VOCABULARY)
