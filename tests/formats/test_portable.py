"""A discriminator and its generator as two models, and as one again."""

import dataclasses

import numpy as np
import pytest

from electra_tf import errors
from electra_tf.formats import portable
from electra_tf.text import vocabulary as vocabulary_lib
from tests.formats import tiny_models

_KINDS = ("embeddings", "none", "all", "wide", "equal", "same_size",
          "other_heads")  # fmt: skip


def _split(kind):
    parts = portable.split(tiny_models.build(kind))
    return parts["discriminator"], parts["generator"]


@pytest.mark.parametrize("kind", _KINDS)
def test_joining_undoes_splitting(kind):
    main, generator = _split(kind)
    assert main.parts == ("discriminator_predictions", "electra")
    assert generator.parts == ("electra", "generator_predictions")
    model = tiny_models.build(kind)
    tiny_models.require_same(portable.join(main, generator), model)


@pytest.mark.parametrize("kind", ["discriminator", "masked_lm", "encoder"])
def test_a_model_of_one_encoder_is_not_split(kind):
    model = tiny_models.build(kind)
    assert portable.split(model) == {".": model}


def test_tying_is_told_by_the_bits():
    main, generator = _split("same_size")
    # One bit of one embedding less alike, and they are two.
    table = generator.tensors["electra/embeddings/token_type_embeddings"]
    changed = table.copy()
    changed.flat[2] = np.nextafter(changed.flat[2], np.float32(9))
    tensors = generator.tensors | {
        "electra/embeddings/token_type_embeddings": changed
    }
    other = dataclasses.replace(generator, tensors=tensors)
    with pytest.raises(errors.ModelError, match="embedding_size=12, hidd"):
        portable.join(main, other)
    equal = {"encoder": tiny_models.EQUAL_WIDTHS}
    main = tiny_models.build("discriminator", **equal)
    generator = tiny_models.build("masked_lm", seed=1, **equal)
    assert portable.join(main, generator).tying == "none"
    generator = tiny_models.build("masked_lm", **equal)
    generator.tensors.update(portable.take_part(main.tensors, "electra"))
    assert portable.join(main, generator).tying == "all"
    # A dropout rate is no weight, but one encoder has one.
    encoder = dataclasses.replace(generator.encoder, hidden_dropout_prob=0.0)
    other = dataclasses.replace(generator, encoder=encoder)
    assert portable.join(main, other).tying == "embeddings"


@pytest.mark.parametrize(
    ("main", "generator", "message"),
    [
        ("discriminator", "discriminator", "here generator_predictions"),
        ("masked_lm", "masked_lm", "here discriminator_predictions"),
        ("encoder", "masked_lm", "here discriminator_predictions"),
        # Both would have something that is not looked at.
        ("same_size", "masked_lm", "here discriminator_predictions"),
        ("discriminator", "same_size", "here generator_predictions"),
        ("classification", "masked_lm", "here discriminator_predictions"),
    ],
)
def test_what_has_more_than_one_head_is_not_joined(main, generator, message):
    models = tiny_models.build(main), tiny_models.build(generator)
    with pytest.raises(errors.ModelError, match=message):
        portable.join(*models)


def test_models_of_two_vocabularies_are_not_joined():
    main, generator = _split("embeddings")
    tokens = generator.vocabulary.tokens
    for other in (
        vocabulary_lib.Vocabulary((*tokens[:-2], tokens[-1], tokens[-2])),
        vocabulary_lib.Vocabulary(
            tokens, vocabulary_lib.TokenizerSettings(strip_accents=False)
        ),
        None,
    ):
        changed = dataclasses.replace(generator, vocabulary=other)
        with pytest.raises(errors.ModelError, match="one vocabulary and"):
            portable.join(main, changed)
