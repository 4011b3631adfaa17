"""Sizes, sharing and initial values of both networks."""

import math
import pathlib

import numpy as np
import pytest

from electra_tf import config
from electra_tf.modeling import networks
from tests import tiny

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
