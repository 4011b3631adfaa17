"""Measures of states, on states whose answer is known."""

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from analyses import representations
from analyses import texts

from tests import tiny_electra

STATES = np.random.default_rng(0).normal(size=[2_000, 8])


def test_cka_sees_rotations_and_not_independence():
    rotation, _ = np.linalg.qr(np.random.default_rng(1).normal(size=[8, 8]))
    assert representations.cka(STATES, STATES) == pytest.approx(1)
    turned = 3 * STATES @ rotation + 5
    assert representations.cka(STATES, turned) == pytest.approx(1)
    other = np.random.default_rng(2).normal(size=[2_000, 8])
    assert representations.cka(STATES, other) < 0.02


def test_anisotropy_of_a_ball_and_of_a_cone():
    assert representations.anisotropy(STATES, 1) == pytest.approx(0, abs=0.02)
    cone = STATES * 0.01 + np.eye(8)[0]
    assert representations.anisotropy(cone, 1) > 0.99


def test_a_probe_reads_what_is_there_and_no_more():
    words = pd.DataFrame({"sentence": np.arange(2_000) // 10})
    words["label"] = np.where(STATES[:, 3] > 0, "noun", "verb")
    assert representations.probe(STATES, words) > 0.95
    words["label"] = words["label"].sample(frac=1, random_state=1).to_numpy()
    assert representations.probe(STATES, words) == pytest.approx(0.5, abs=0.05)


def test_states_and_attention_are_those_of_the_words():
    electra = tiny_electra.build()
    sentences = [
        texts.Sentence(("the", "cats", "sat")),
        texts.Sentence(("good", "film")),
    ]
    found = representations.read_layers(electra, sentences, "")
    encoder = electra.networks.main.encoder
    rows = electra.tokenize(["the cats sat", "good film"])
    output = encoder(*rows.values())
    last = output.sequence_output.numpy()
    # Second piece, ##s, is not the first of its word.
    expected = [last[0, 1], last[0, 2], last[0, 4], last[1, 1], last[1, 2]]
    np.testing.assert_allclose(found.states[-1], expected, atol=1e-5)
    assert found.states.shape[0] == len(encoder.blocks) + 1
    assert found.attention.shape == (len(encoder.blocks), 4)
    assert (found.attention > 0).all()
    assert (found.attention.sum(1) < 1).all()


def test_attention_to_neighbours_by_hand(monkeypatch):
    electra = tiny_electra.build()
    # Row t looks at s with weight (s + 1) / 15, the same for all t.
    weights = np.tile(np.arange(1, 6) / 15, [1, 1, 5, 1]).astype(np.float32)
    monkeypatch.setattr(
        representations.encoder_lib,
        "compute_probs",
        lambda *unused: tf.constant(weights),
    )
    found = representations.read_layers(
        electra, [texts.Sentence(("the", "cat", "sat"))], ""
    )
    # Pieces 1, 2 and 3 of [CLS] the cat sat [SEP].
    previous, following, itself, sep = found.attention[0] * 15
    assert previous == pytest.approx((1 + 2 + 3) / 3)
    assert following == pytest.approx((3 + 4 + 5) / 3)
    assert itself == pytest.approx((2 + 3 + 4) / 3)
    assert sep == pytest.approx(5)
