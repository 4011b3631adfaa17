"""The generators: what each proposes, and what it must not see."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from electra_tf import config
from electra_tf.inputs import masking
from electra_tf.modeling import networks
from tests import tiny
from tests.pretraining import tiny_objectives

_VOCAB = tiny.VOCABULARY.size


def _inputs(ids, length=None):
    """Rows without any slot chosen; `length` tokens, the rest is padding."""
    ids = np.asarray(ids, np.int32)
    num_rows, num_tokens = ids.shape
    mask = np.arange(num_tokens) < (length or num_tokens)
    mask = np.tile(mask, (num_rows, 1)).astype(np.int32)
    ids = tf.constant(ids * mask)
    slots = tf.zeros([num_rows, 1], tf.int32)
    return masking.MaskedInputs(
        input_ids=ids,
        original_ids=ids,
        input_mask=tf.constant(mask),
        segment_ids=tf.zeros_like(ids),
        masked_positions=slots,
        masked_ids=slots,
        masked_weights=tf.zeros([num_rows, 1]),
        eligible=masking.eligible_positions(ids, mask, (2, 3, 4)),
    )


@pytest.fixture(scope="module")
def two_tower():
    # How far an effect reaches depends on the weights.
    tf.keras.utils.set_random_seed(5)
    encoder = dataclasses.replace(
        tiny.build_settings().encoder, vocab_size=_VOCAB
    )
    generator = networks.build_generator(
        config.GeneratorConfig(**tiny_objectives.TWO_TOWERS),
        networks.Discriminator(encoder).encoder,
    )
    tiny_objectives.randomize(generator.trainable_variables, scale=0.5)
    return generator


def _row(length):
    ids = np.random.default_rng(1).integers(5, _VOCAB, tiny.LENGTH)
    ids[0], ids[length - 1] = 2, 3
    return ids


def _change_each(length):
    """`[S, S]`: row t with another token at t; and the row S times."""
    row = _row(length)
    rows = np.tile(row, (tiny.LENGTH, 1))
    places = np.arange(tiny.LENGTH)
    rows[places, places] = np.where(row == 7, 8, 7)
    return rows, np.tile(row, (tiny.LENGTH, 1))


@pytest.mark.parametrize("length", [tiny.LENGTH, 11])
def test_a_cloze_prediction_sees_both_sides_but_never_its_own_token(
    two_tower, length
):
    changed, row = _change_each(length)
    base = two_tower(_inputs(row, length)).prediction_logits
    found = two_tower(_inputs(changed, length)).prediction_logits
    # [changed position, predicted position]
    effect = np.abs((found - base).numpy()).max(-1)
    words = np.arange(1, length - 1)
    for position in words:
        assert effect[position, position] == 0
        others = words[words != position]
        assert (effect[others, position] > 1e-4).all()


def test_no_two_encoders_of_a_model_share_dropout(monkeypatch):
    model = tiny_objectives.build_model("electric")
    watch = tiny_objectives.EncoderWatch(monkeypatch)
    seed = tf.constant([99, 4096], tf.int64)
    model.compute_losses(tiny_objectives.prepare(model), seed)
    assert set(watch.seeds) == {"generator_ltr", "generator_rtl", "electra"}
    keys = {int(found[0]) for found in watch.seeds.values()}
    assert keys == {99}
    counters = sorted(int(found[1]) for found in watch.seeds.values())
    # Room for the embeddings and three sites of each of 80 layers.
    assert np.diff(counters).min() > 3 * 80
    assert counters[0] >= 4096
    assert counters[-1] + 3 * 80 < 4096 + 1024


def _counts():
    """Counts of a corpus in which some entries do not occur."""
    counts = np.random.default_rng(0).zipf(1.3, _VOCAB).clip(3, 400)
    counts[:5] = 0
    counts[[11, 30, 49]] = 0
    return counts


def _draw(model, num_steps=20, num_rows=256):
    """Histogram of what `model.corrupt` samples."""
    drawn = np.zeros(_VOCAB, int)
    for step in range(num_steps):
        prepared = tiny_objectives.prepare(model, step, num_rows)
        logits = model.generator(prepared.masked, None).logits
        samples = model._get_fake_data(prepared, logits).sampled_tokens.numpy()
        drawn += np.bincount(samples.ravel(), minlength=_VOCAB)
    return drawn


def test_the_unigram_generator_samples_by_the_counts_of_the_corpus():
    counts = _counts()
    model = tiny_objectives.build_model(
        "electra", counts, generator={"unigram_generator": True,
                                      "untied_generator_embeddings": False}
    )  # fmt: skip
    drawn = _draw(model)
    assert drawn.sum() > 20_000
    assert not drawn[counts == 0].any()
    expected = counts[counts > 0] / counts.sum() * drawn.sum()
    assert expected.min() > 5
    assert stats.chisquare(drawn[counts > 0], expected).pvalue > 1e-3
    # It could tell the uniform generator from it.
    even = np.full((counts > 0).sum(), drawn.sum() / (counts > 0).sum())
    assert stats.chisquare(drawn[counts > 0], even).pvalue < 1e-12


def _unigram_loss(counts, token):
    generator = networks.FixedGenerator(_VOCAB, counts)
    logits = generator(_inputs([[2, token, 3]])).prediction_logits
    return float(
        tf.nn.sparse_softmax_cross_entropy_with_logits([token], logits[0])[0]
    )


def test_an_unseen_token_costs_as_half_an_occurrence():
    counts = _counts()
    # Every absent entry has half an occurrence, in the total as well.
    total = counts.sum() + 0.5 * (counts == 0).sum()
    for token in range(_VOCAB):
        expected = np.log(total / max(counts[token], 0.5))
        assert _unigram_loss(counts, token) == pytest.approx(expected, rel=1e-5)
