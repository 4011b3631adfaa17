"""One encoder, several heads: every row counts for its own task alone."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.finetuning import model as model_lib
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import keras_models
from electra_tf.modeling import task_heads
from electra_tf.tasks import rows as rows_lib
from tests import tiny


def _build(settings=tiny.ENCODER, **options):
    keras.utils.set_random_seed(3)
    own = {"vocab_size": 50, "initializer_range": 0.2}
    settings = dataclasses.replace(settings, **own)
    encoder = encoder_lib.build_encoder(settings, "electra")
    heads = {
        "mood": task_heads.ClassificationHead(3, seed=1, name="mood"),
        "score": task_heads.RegressionHead(seed=2, name="score"),
        "tags": task_heads.TaggingHead(4, seed=3, name="tags"),
    }
    with keras.name_scope("task_specific"):
        for head in heads.values():
            head.build((None, None, settings.hidden_size))
    return model_lib.FinetuningModel(encoder, heads, **options)


def _features(task_ids):
    count = len(task_ids)
    generator = np.random.default_rng(1)
    ids = generator.integers(5, 50, (count, 8))
    return {
        "input_ids": tf.constant(ids, tf.int32),
        "input_mask": tf.ones([count, 8], tf.int32),
        "segment_ids": tf.zeros([count, 8], tf.int32),
        "task_id": tf.constant(task_ids, tf.int32),
        "mood/label": tf.constant(generator.integers(0, 3, count), tf.int32),
        "score/target": tf.constant(generator.random(count), tf.float32),
        "tags/word_positions": tf.tile([[1, 3, 4]], [count, 1]),
        "tags/tags": tf.constant(
            generator.integers(0, 4, (count, 3)), tf.int32
        ),
        "tags/tag_weights": tf.tile([[1.0, 1.0, 0.0]], [count, 1]),
    }


def test_the_loss_is_the_sum_of_each_rows_own_loss():
    model, features = _build(), _features([0, 1, 2, 0, 3])
    hidden = model.encode(features, None)
    expected = np.zeros([5, 3])
    for number, (name, head) in enumerate(model.heads.items()):
        own = {key.removeprefix(f"{name}/"): v for key, v in features.items()}
        rows = features["task_id"] == number
        expected[rows, number] = head.compute_losses(hidden, own, None)[rows]
    losses = model.compute_task_losses(features, None).numpy()
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    assert np.count_nonzero(losses) == 4  # the last row is of no task
    sums = model.compute_losses(features, None)
    total = model.total_loss(sums.losses, {}, tf.constant(0))
    np.testing.assert_allclose(total, losses.sum(), rtol=1e-6)
    assert sums.statistics["task_rows"].numpy().tolist() == [2, 1, 1]


def test_dropout_reaches_the_encoder_and_the_heads(monkeypatch):
    model = _build(tiny.with_dropout(tiny.build_settings()).encoder)
    features = _features([0, 1, 2, 0])
    seed = tf.constant([1, 0, 1024], tf.int64)
    losses = [
        model.compute_task_losses(features, s).numpy()
        for s in (None, seed, seed, seed + tf.constant([0, 0, 1024], tf.int64))
    ]
    np.testing.assert_array_equal(losses[1], losses[2])
    assert not np.allclose(losses[0], losses[1])
    assert not np.allclose(losses[1], losses[3])
    places = tiny.watch_dropout(monkeypatch)
    model.compute_task_losses(features, seed)
    # Two layers with three places, the embeddings; taggers have none.
    assert len(places) == len(set(places)) == 2 * 3 + 1 + 2


def test_a_saved_model_is_the_model(tmp_path):
    model, features = _build(clip_norm=0.5), _features([0, 1, 2, 0])
    outputs = model(features)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for name in ("encoder", "dtype", "seed", "clip_norm"):
        assert loaded.get_config()[name] == model.get_config()[name]
    found = loaded(features)
    assert list(found) == ["mood/logits", "score/prediction", "tags/logits"]
    for name, value in outputs.items():
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.parametrize("length", [0, 16])
def test_rows_are_predicted_in_their_order_at_any_or_one_length(length):
    ids = tf.ragged.constant([[7 + n] * n for n in (3, 16, 5, 2, 16, 4)])
    rows = rows_lib.EncodedRows(
        rows_lib.Ragged.join([ids]),
        np.full(6, 16, np.int32),
        np.arange(6, dtype=np.int32),
    )
    model = _build()
    strategy = tf.distribute.get_strategy()
    predictor = model_lib.Predictor(strategy, model, 4, length)
    logits = predictor.predict("mood", rows)["logits"]
    for row, found in enumerate(logits):
        ids = tf.constant([rows.ids[row]])
        tokens = ids, tf.ones_like(ids), tf.zeros_like(ids)
        features = dict(zip(keras_models.FEATURES, tokens, strict=True))
        expected = model.predict_task("mood", features)["logits"][0]
        np.testing.assert_allclose(found, expected, atol=1e-5)
