"""Gradient-disentangled embedding sharing: who moves which table."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.formats import own_run
from electra_tf.formats import reading
from electra_tf.loaded_models.pretrained import PretrainedModel
from tests import tiny
from tests import tiny_electra
from tests.objectives import tiny_objectives


def _build(name="electra"):
    kind = {"disentangled_embeddings": True}
    kind["untied_generator_embeddings"] = False
    return tiny_objectives.build_model(name, generator=kind)


def _tables(model):
    return [
        network.encoder.embeddings.word_embeddings
        for network in (model.generator, model.main)
    ]


@pytest.fixture(scope="module")
def model():
    return _build()


@pytest.fixture(scope="module")
def prepared(model):
    return tiny_objectives.prepare(model)


def test_the_discriminator_does_not_pull_at_the_generators_table(
    model, prepared
):
    shared, difference = (table.path for table in _tables(model))
    main, generator = (
        tiny_objectives.gradients_of(model, prepared, (loss,))
        for loss in ("disc_loss", "gen_loss")
    )
    assert main[difference].any() and not main[shared].any()
    assert generator[shared].any() and not generator[difference].any()


@pytest.fixture(scope="module")
def rows(prepared):
    masked = prepared.masked
    return masked.original_ids, masked.input_mask, masked.segment_ids


def test_it_begins_with_the_generators_words(rows):
    model = _build()
    model.reset_difference()
    found = model.read_rows(rows, None)
    shared, difference = _tables(model)
    difference.assign(shared)
    expected = tf.sigmoid(model.main(*rows).logits)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_files_hold_whole_embeddings(model, rows, tmp_path):
    tiny_electra.save(tmp_path, model, model.settings, tiny.VOCABULARY)
    loaded = PretrainedModel.from_portable(reading.read_model(tmp_path))
    expected = model.read_rows(rows, None)
    found = tf.sigmoid(loaded.networks.main(*rows).logits)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    # And a run that starts from them splits them again.
    other = _build()
    read = own_run.read_model(tmp_path)
    for variable in other.trainable_variables:
        variable.assign(read.tensors[variable.path])
    other.take_difference()
    np.testing.assert_allclose(other.read_rows(rows, None), expected, atol=1e-6)


def test_the_switch_of_stages_copies_the_words_once():
    model = _build("two_stage")
    model.enter_stage(1, is_beginning=True)
    _, difference = _tables(model)
    assert not np.any(difference.numpy())
