"""Measures of states, on states whose answer is known."""

import functools

import numpy as np
import pandas as pd
import pytest
from analyses import analysis
from analyses import representations
from analyses import texts

from tests import tiny_electra

STATES = np.random.default_rng(0).normal(size=[2_000, 8])
WORDS = pd.DataFrame({"sentence": np.arange(2_000) // 10})


def _cka(first, second):
    sums = representations.sum_products(first, second, WORDS)
    alike = functools.partial(representations.cka, width=8)
    return alike(sums.sum(0)[np.newaxis])[0], sums, alike


def test_cka_sees_rotations_and_not_independence():
    rotation, _ = np.linalg.qr(np.random.default_rng(1).normal(size=[8, 8]))
    assert _cka(STATES, STATES)[0] == pytest.approx(1)
    turned = 3 * STATES @ rotation + 5
    assert _cka(STATES, turned)[0] == pytest.approx(1)
    other = np.random.default_rng(2).normal(size=[2_000, 9])
    value, sums, alike = _cka(STATES, other)
    assert value < 0.02
    # By its equation 3, and between bounds that are near.
    left, right = STATES - STATES.mean(0), other - other.mean(0)
    between = np.linalg.norm(left.T @ right) ** 2
    within = np.linalg.norm(left.T @ left) * np.linalg.norm(right.T @ right)
    assert value == pytest.approx(between / within)
    assert len(sums) == 50
    assert 0 < analysis.half_width(alike, sums, seed=1) < 0.01


def _anisotropy(states):
    sums = representations.sum_units(states, WORDS)
    return representations.anisotropy(sums.sum(0)[np.newaxis])[0]


def test_anisotropy_of_a_ball_and_of_a_cone():
    assert _anisotropy(STATES) == pytest.approx(0, abs=0.02)
    cone = STATES * 0.01 + np.eye(8)[0]
    assert _anisotropy(cone) > 0.99
    # The second half, which is cut off, does not count.
    units = STATES / np.linalg.norm(STATES, axis=1, keepdims=True)
    cosines = (units @ units.T)[:1_000, :1_000]
    expected = (cosines.sum() - 1_000) / (1_000 * 999)
    is_there = np.arange(2_000)[:, np.newaxis] < 1_000
    assert _anisotropy(STATES * is_there) == pytest.approx(expected)


def test_states_and_attention_are_those_of_the_words():
    electra = tiny_electra.build()
    plain = ["the cats sat", "good film"]
    sentences = [texts.Sentence(tuple(text.split())) for text in plain]
    found = representations.read_layers(electra, sentences, "")
    encoder = electra.networks.main.encoder
    rows = electra.tokenize(plain)
    last = encoder(*rows.values()).sequence_output.numpy()
    # Second piece, ##s, is not the first of its word.
    expected = [last[0, 1], last[0, 2], last[0, 4], last[1, 1], last[1, 2]]
    np.testing.assert_allclose(found.states[-1], expected, atol=1e-5)
    assert found.states.shape[0] == len(encoder.blocks) + 1


def test_attention_to_neighbours_by_hand(monkeypatch):
    electra = tiny_electra.build()
    # Row t looks at s with weight (s + 1) / 15, the same for all t.
    weights = np.tile(np.arange(1, 6) / 15, [1, 1, 5, 1]).astype(np.float32)
    encoder = representations.encoder_lib
    monkeypatch.setattr(encoder, "compute_probs", lambda *_: weights)
    sentences = [texts.Sentence(("the", "cat", "sat"))]
    found = representations.read_layers(electra, sentences, "")
    # Pieces 1, 2 and 3 of [CLS] the cat sat [SEP].
    # The previous one, the next, itself, [SEP].
    expected = [(1 + 2 + 3) / 3, (3 + 4 + 5) / 3, (2 + 3 + 4) / 3, 5]
    assert found.attention[0] * 15 == pytest.approx(expected)
