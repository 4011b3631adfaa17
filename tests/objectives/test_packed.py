"""Packed rows: a text is what it is in a row of its own, in both towers."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import config
from electra_tf import errors
from electra_tf.config import schema
from electra_tf.pretraining import run
from electra_tf.records import manifest
from electra_tf.training import step as step_lib
from tests import tiny
from tests import tiny_run
from tests.objectives import tiny_objectives


def _draw_text(seed, length):
    words = np.random.default_rng(seed).integers(5, 50, length - 1)
    return [tiny.VOCABULARY.cls_id, *words]


def _lay_out(*rows):
    """Rows of texts; the second half of each text is of segment 1."""
    features = np.zeros([3, len(rows), tiny.LENGTH], np.int32)
    for number, texts in enumerate(rows):
        ids = np.concatenate(texts)
        segments = [np.arange(len(text)) > len(text) // 2 for text in texts]
        values = ids, np.ones_like(ids), np.concatenate(segments)
        features[:, number, : len(ids)] = values
    names = "input_ids", "input_mask", "segment_ids"
    return dict(zip(names, map(tf.constant, features), strict=True))


@pytest.fixture(scope="module")
def model():
    layers = {"num_hidden_layers": 2}
    return tiny_objectives.build_model("electra", None, True, encoder=layers)


def _number(model, features):
    """The rows as the towers get them; a sampled [CLS] begins no text."""
    batch = step_lib.as_one_stream(features)
    masked = model.prepare(batch, 0, True).masked
    ids = masked.original_ids.numpy()
    ids[0, 2] = tiny.VOCABULARY.cls_id
    return tf.constant(ids), masked.input_mask, masked.segment_ids


@pytest.mark.parametrize("uses_xla", [False, True])
def test_states_are_those_that_a_text_has_alone(model, uses_xla, monkeypatch):
    texts = [_draw_text(seed, length) for seed, length in enumerate((7, 5, 3))]
    packed = _number(model, _lay_out(texts))
    alone = _number(model, _lay_out(*([text] for text in texts)))
    for network in (model.generator, model.main):
        encode = tf.function(
            network.encoder.__call__, jit_compile=uses_xla, autograph=False
        )
        found = encode(*packed).sequence_output[0, :15]
        monkeypatch.setattr(network.encoder, "is_packed", False)
        states = encode(*alone).sequence_output
        parts = [states[i, : len(text)] for i, text in enumerate(texts)]
        expected = tf.concat(parts, 0)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_the_manifest_says_that_rows_are_packed(tmp_path):
    data = tiny_run.write_dataset(tmp_path / "data")
    for split in manifest.SPLITS:
        content = manifest.Manifest.load(data / split)
        content = dataclasses.replace(content, builder={"packed": True})
        path = data / split / manifest.MANIFEST_FILE
        path.write_text(schema.to_json(content))
    settings = tiny_run.build_settings(data, num_train_steps=2)
    (phase,) = config.split_phases(settings)
    strategy = tf.distribute.get_strategy()
    task = run._Run(settings, phase, tmp_path / "run", strategy)
    networks = task.model.generator, task.model.main
    assert all(network.encoder.is_packed for network in networks)
    # Padding is no text.
    train = task.dataset.train
    assert task.units_per_step == 8 * train.num_tokens / train.num_examples
    with tiny.eagerly():
        assert run.pretrain(settings, tmp_path / "run")
    with pytest.raises(errors.ConfigError, match="built with --packed"):
        tiny_objectives.build_model("electric", None, True)
