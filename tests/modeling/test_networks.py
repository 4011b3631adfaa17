"""The networks: sizes, sharing, initial values, and what each proposes."""

import math
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from electra_tf import config
from electra_tf.modeling import networks
from tests import tiny
from tests.objectives import tiny_objectives

CONFIGS = pathlib.Path(__file__).parents[2] / "configs" / "pretrain"
_VOCAB = tiny.VOCABULARY.size


def _count(variables) -> int:
    return sum(math.prod(v.shape) for v in variables)


def _build(sizes, kind):
    main = networks.Discriminator(sizes)
    return networks.build_generator(kind, main.encoder), main


def _build_generator(**fields):
    return _build(tiny.ENCODER, config.GeneratorConfig(**fields))[0]


@pytest.mark.parametrize(
    ("name", "encoder_size", "generator_size"),
    [
        # 14 M, 110 M and 335 M in the paper's tables.
        ("electra_small", 13_483_008, 647_162),
        ("electra_base", 108_891_648, 9_903_418),
        ("electra_large", 334_092_288, 19_512_378),
    ],
)
def test_parameter_counts_are_the_papers(name, encoder_size, generator_size):
    settings = config.load_file(CONFIGS / f"{name}.py")
    with tf.Graph().as_default():  # which allocates nothing
        sizes = networks.resolve_vocab_size(settings.encoder, 30522)
        generator, main = _build(sizes, settings.generator)
    assert _count(main.encoder.variables) == encoder_size
    width = settings.encoder.hidden_size
    assert _count(main.head.variables) == width * width + 2 * width + 1
    shared = _count(main.encoder.embeddings.variables)
    assert _count(generator.variables) - shared == generator_size


def test_initial_values_follow_the_original():
    sizes = config.EncoderConfig(vocab_size=2000, num_hidden_layers=1)
    main = networks.Discriminator(sizes)
    values = {v.path: v.numpy() for v in main.variables}
    normal = values["electra/encoder/layer_0/attention/self/qkv/kernel"]
    assert np.abs(normal).max() <= 0.04 + 1e-6
    assert normal.std() == pytest.approx(0.02 * 0.88, rel=0.03)
    for name in ("embeddings_project/kernel", "dense_1/kernel"):
        (path,) = [path for path in values if path.endswith(name)]
        bound = math.sqrt(6 / sum(values[path].shape))
        assert 0.8 * bound < np.abs(values[path]).max() <= bound
    for path, value in values.items():
        assert not path.endswith(("bias", "beta")) or not value.any()
        assert not path.endswith("gamma") or (value == 1).all()


def test_what_does_not_fit_the_vocabulary_is_refused():
    with pytest.raises(ValueError, match="vocab_size=30522.*of 50 entries"):
        networks.resolve_vocab_size(config.EncoderConfig(), 50)
    with pytest.raises(ValueError, match="needs the token counts"):
        _build_generator(unigram_generator=True)


def test_no_two_places_of_a_model_share_dropout(monkeypatch):
    encoder = {"num_hidden_layers": 2}
    model = tiny_objectives.build_model("electric", encoder=encoder)
    watch = tiny_objectives.EncoderWatch(monkeypatch)
    places = tiny.watch_dropout(monkeypatch)
    seed = tf.constant([99, 0, 4096], tf.int64)
    model.compute_losses(tiny_objectives.prepare(model), seed)
    assert set(watch.seeds) == {"generator_ltr", "generator_rtl", "electra"}
    assert {int(found[0]) for found in watch.seeds.values()} == {99}
    counters = sorted(int(found[2]) for found in watch.seeds.values())
    # Room for the embeddings and three sites of each of 80 layers.
    assert np.diff([*counters, 4096 + 1024]).min() > 3 * 80
    assert counters[0] >= 4096
    # The embeddings and three places of each layer, in three encoders.
    assert len(places) == len(set(places)) == 3 * (1 + 3 * 2)


def test_the_unigram_generator_samples_by_the_counts_of_the_corpus():
    # Some entries do not occur.
    counts = np.random.default_rng(0).zipf(1.3, _VOCAB).clip(3, 400)
    counts[[*range(5), 11, 30, 49]] = 0
    kind = {"unigram_generator": True, "untied_generator_embeddings": False}
    model = tiny_objectives.build_model("electra", counts, generator=kind)
    drawn = np.zeros(_VOCAB, int)
    for step in range(20):
        prepared = tiny_objectives.prepare(model, step, num_rows=256)
        samples = tiny_objectives.fake_data(model, prepared).sampled_tokens
        drawn += np.bincount(samples.numpy().ravel(), minlength=_VOCAB)
    assert drawn.sum() > 20_000
    assert not drawn[counts == 0].any()
    expected = counts[counts > 0] / counts.sum() * drawn.sum()
    assert expected.min() > 5
    assert stats.chisquare(drawn[counts > 0], expected).pvalue > 1e-3
    # It could tell the uniform generator from it.
    assert stats.chisquare(drawn[counts > 0]).pvalue < 1e-12
