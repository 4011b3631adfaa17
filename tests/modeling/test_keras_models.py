"""The towers as Keras models in a user's hands."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.modeling import encoder
from electra_tf.modeling import keras_models
from electra_tf.modeling import networks
from tests import tiny

SIZES = dataclasses.replace(
    tiny.ENCODER, hidden_dropout_prob=0.1, initializer_range=0.2
)
LAYERS = {
    keras_models.EncoderModel: lambda: encoder.build_encoder(SIZES, "electra"),
    keras_models.DiscriminatorModel: lambda: networks.Discriminator(SIZES),
    keras_models.MaskedLMModel: lambda: networks.MaskedLMGenerator(SIZES),
}


def _build(kind=keras_models.EncoderModel):
    keras.utils.set_random_seed(1)
    return kind(LAYERS[kind]())


@pytest.fixture(scope="module")
def features():
    return tiny.build_features()


@pytest.mark.parametrize("kind", LAYERS)
def test_dropout_is_on_in_training_only(kind, features):
    model = _build(kind)
    quiet = model(features).numpy()
    np.testing.assert_array_equal(model(features, training=False), quiet)
    first = model(features, training=True).numpy()
    second = model(features, training=True).numpy()
    assert np.abs(first - quiet).max() > 1e-3
    assert np.abs(first - second).max() > 1e-3


@pytest.mark.parametrize("kind", LAYERS)
def test_a_users_model_is_saved_whole(kind, features, tmp_path):
    inputs = {
        name: keras.Input([None], dtype="int32", name=name)
        for name in keras_models.FEATURES
    }
    model = keras.Model(inputs, _build(kind)(inputs))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(
        again.predict(features, verbose=0), model.predict(features, verbose=0)
    )
    assert again.count_params() == model.count_params()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"segment_ids": None}, "must be a dict of input_ids"),
        ({"labels": tf.zeros([8, 16], tf.int32)}, "must be a dict of"),
        ({"input_ids": tf.zeros([8, 16])}, "must be .B, S. integers"),
        ({"input_mask": tf.ones([8], tf.int32)}, "must be .B, S. integers"),
        ({"input_ids": tf.ones([8, 17], tf.int32)}, "at most 16, the"),
    ],
)
def test_features_that_do_not_fit_are_refused(features, change, message):
    changed = {k: v for k, v in (features | change).items() if v is not None}
    with pytest.raises(ValueError, match=message):
        _build()(changed)
