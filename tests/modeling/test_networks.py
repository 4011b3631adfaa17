"""Sizes, sharing and initial values of both networks."""

import math
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from electra_tf import config
from electra_tf.inputs import masking
from electra_tf.modeling import networks
from tests import tiny
from tests.pretraining import tiny_objectives

CONFIGS = pathlib.Path(__file__).parents[2] / "configs" / "pretrain"


def _count(variables) -> int:
    return sum(math.prod(v.shape) for v in variables)


def _encoder_size(vocab, embed, width, inner, layers, positions=512) -> int:
    """The formula: tables and norm, projection, and the blocks."""
    tables = (vocab + positions + 2) * embed + 2 * embed
    project = (embed + 1) * width if embed != width else 0
    attention = 4 * width * (width + 1) + 2 * width
    feed_forward = width * inner + inner + inner * width + width + 2 * width
    return tables + project + layers * (attention + feed_forward)


def _build(encoder, generator=None, token_counts=None) -> networks.Networks:
    main = networks.Discriminator(encoder)
    return networks.Networks(
        networks.build_generator(
            generator or config.GeneratorConfig(), main.encoder, token_counts
        ),
        main,
    )


@pytest.mark.parametrize(
    ("name", "encoder_size", "generator_size"),
    [
        ("electra_small", 13_483_008, 647_162),
        ("electra_base", 108_891_648, 9_903_418),
        pytest.param(
            "electra_large", 334_092_288, 19_512_378, marks=pytest.mark.slow
        ),
    ],
)
def test_parameter_counts_are_the_papers(name, encoder_size, generator_size):
    settings = config.load_file(CONFIGS / f"{name}.py")
    sizes = networks.resolve_vocab_size(settings.encoder, 30522)
    pair = _build(sizes, settings.generator)
    encoder = pair.main.encoder
    assert _count(encoder.variables) == encoder_size
    assert encoder_size == _encoder_size(
        30522,
        sizes.embedding_size,
        sizes.hidden_size,
        sizes.intermediate_size,
        sizes.num_hidden_layers,
    )
    width = sizes.hidden_size
    head = _count(pair.main.head.variables)
    assert head == width * width + 2 * width + 1
    # 14 M, 110 M and 335 M in the paper's tables.
    shared = _count(encoder.embeddings.variables)
    assert _count(pair.generator.variables) - shared == generator_size


def _pair(**generator):
    encoder = networks.resolve_vocab_size(tiny.build_settings().encoder, 50)
    return _build(encoder, config.GeneratorConfig(**generator))


def test_tied_embeddings_are_one_layer():
    pair = _pair()
    assert pair.generator.encoder is not pair.main.encoder
    assert pair.generator.encoder.embeddings is pair.main.encoder.embeddings


def test_untied_towers_share_nothing():
    pair = _pair(untied_generator_embeddings=True)
    own = {id(v) for v in pair.generator.variables}
    assert not own & {id(v) for v in pair.main.variables}
    # As wide as the generator, so that nothing is projected.
    assert pair.generator.encoder.embeddings_project is None


def test_every_path_is_unique_and_named_as_in_the_original():
    pair = _pair()
    variables = {
        id(v): v.path for v in pair.generator.variables + pair.main.variables
    }
    paths = list(variables.values())
    assert len(paths) == len(set(paths))
    assert "electra/embeddings/word_embeddings" in paths
    assert "electra/encoder/layer_1/attention/output/LayerNorm/gamma" in paths
    assert "generator/embeddings_project/kernel" in paths
    assert "generator_predictions/output_bias" in paths
    assert "discriminator_predictions/dense_1/kernel" in paths


def test_initial_values_follow_the_original():
    settings = config.EncoderConfig(vocab_size=2000, num_hidden_layers=1)
    pair = _build(settings)
    values = {v.path: v.numpy() for v in pair.main.variables}
    normal = values["electra/encoder/layer_0/attention/self/qkv/kernel"]
    assert np.abs(normal).max() <= 0.04 + 1e-6
    assert normal.std() == pytest.approx(0.02 * 0.88, rel=0.03)
    for name in ("embeddings_project/kernel", "dense_1/kernel"):
        (path,) = [path for path in values if path.endswith(name)]
        bound = math.sqrt(6 / sum(values[path].shape))
        assert 0.8 * bound < np.abs(values[path]).max() <= bound
    for path, value in values.items():
        if path.endswith(("bias", "beta")):
            assert not value.any()
        if path.endswith("gamma"):
            assert (value == 1).all()


def test_a_vocabulary_of_another_size_is_refused():
    with pytest.raises(ValueError, match="vocab_size=30522.*of 50 entries"):
        networks.resolve_vocab_size(config.EncoderConfig(), 50)


def test_a_unigram_generator_needs_counts():
    with pytest.raises(ValueError, match="needs the token counts"):
        _pair(unigram_generator=True)


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
    generator = _pair(**tiny_objectives.TWO_TOWERS).generator
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
