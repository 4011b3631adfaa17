"""Counts of operations: the profiler's, the paper's, and by hand."""

import dataclasses

import pytest
import tensorflow as tf

from electra_tf import config
from electra_tf.inputs import masking
from electra_tf.modeling import flops
from electra_tf.modeling import networks
from tests import profiler
from tests import tiny

ROWS, SLOTS = 3, 2
ENCODER = dataclasses.replace(
    tiny.build_settings().encoder, vocab_size=tiny.VOCABULARY.size
)
GENERATORS = {
    "half": {},
    "untied": {"untied_generator_embeddings": True},
    "all tied": {"untied_generator": False},
    "two towers": {"two_tower_generator": True},
    "uniform": {"uniform_generator": True},
    "unigram": {"unigram_generator": True},
}


def _generator_config(**fields):
    """Half as wide as the main encoder, where it has a width."""
    if not {"uniform_generator", "unigram_generator"} & fields.keys():
        fields = {"generator_hidden_size": 0.5} | fields
    return config.GeneratorConfig(**fields)


def _convention(kind="exact", encoder=ENCODER, **generator):
    settings = _generator_config(**generator)
    return flops.Convention(
        kind, flops.Sizes(encoder, settings, tiny.LENGTH, SLOTS)
    )


def _masked() -> masking.MaskedInputs:
    return masking.mask_inputs(
        tiny.build_features(ROWS),
        tf.random.stateless_uniform([ROWS, tiny.LENGTH], [1, 2]),
        tf.random.stateless_uniform([ROWS, SLOTS], [3, 4]),
        config.MaskingConfig(),
        (tiny.VOCABULARY.cls_id, tiny.VOCABULARY.mask_id),
    )


def _rows() -> list[tf.Tensor]:
    features = tiny.build_features(ROWS)
    names = ("input_ids", "input_mask", "segment_ids")
    return [features[name] for name in names]


def _build_generator(**kind):
    settings = _generator_config(**kind)
    main = networks.Discriminator(ENCODER)
    counts = range(ENCODER.vocab_size)
    return networks.build_generator(settings, main.encoder, counts)


def _with_gradients(layer, read_fn):
    """A forward and a backward pass through all weights of a layer."""

    def compute(*arguments):
        with tf.GradientTape() as tape:
            outputs = read_fn(layer(*arguments))
            loss = tf.add_n([tf.reduce_sum(tf.square(o)) for o in outputs])
        variables = [v.value for v in layer.trainable_variables]
        gradients = tape.gradient(loss, variables)
        assert None not in gradients
        return gradients

    return compute


@pytest.mark.parametrize("kind", GENERATORS)
def test_a_generator_costs_what_the_profiler_counts(kind):
    generator = _build_generator(**GENERATORS[kind])
    exact = _convention(**GENERATORS[kind])
    forward = profiler.count_matrix_products(generator, _masked())
    assert ROWS * exact.generator().forward == forward
    if not generator.trainable_variables:
        assert forward == 0
        return
    step = _with_gradients(generator, lambda out: [out.prediction_logits])
    trained = profiler.count_matrix_products(step, _masked())
    assert ROWS * exact.trained(exact.generator()) == trained
    assert 2.9 * forward < trained < 3 * forward


@pytest.mark.parametrize("embedding_size", [12, 16])
def test_main_towers_cost_what_the_profiler_counts(embedding_size):
    encoder = dataclasses.replace(ENCODER, embedding_size=embedding_size)
    exact = _convention(encoder=encoder)
    discriminator = networks.Discriminator(encoder)
    masked_lm = networks.MaskedLMGenerator(encoder)
    copying = networks.CopyingMaskedLM(encoder)
    for tower, arguments, read_fn, forward in (
        (discriminator, _rows(), lambda o: [o.logits], exact.discriminator()),
        (masked_lm, [_masked()], lambda o: [o.logits], exact.masked_lm()),
        (
            copying,
            _rows(),
            lambda o: [o.logits, o.copy_logits],
            exact.all_tokens_masked_lm(),
        ),
    ):
        assert ROWS * forward.forward == profiler.count_matrix_products(
            tower, *arguments
        )
        trained = profiler.count_matrix_products(
            _with_gradients(tower, read_fn), *arguments
        )
        assert ROWS * exact.trained(forward) == trained


def test_what_the_original_has_no_formula_for_is_composed_of_its_formulas():
    original = _convention("original", two_tower_generator=True)
    s, v, e, h, wide = tiny.LENGTH, ENCODER.vocab_size, 12, 16, 2 * 8
    tower = flops.OriginalTransformer(8, 2, s, v, e, 32, 1).encoder()
    head = s * (2 * e * v + 2 * wide * e + 14 * e + 7 * v)
    assert original.generator().forward == 2 * tower + head
    main = flops.OriginalTransformer(h, 2, s, v, e, 32, 2).encoder()
    head = s * (2 * e * v + 2 * h * e + 14 * e + 7 * v)
    assert original.all_tokens_masked_lm().forward == main + head + s * 2 * h
    assert original.masked_lm().forward == main + 0.15625 * head
    for kind in ("uniform_generator", "unigram_generator"):
        fixed = _convention("original", **{kind: True})
        assert fixed.trained(fixed.generator()) == 0


def test_what_cannot_be_counted_is_refused():
    with pytest.raises(ValueError, match=r"--config\.encoder\.vocab_size"):
        _convention(encoder=tiny.build_settings().encoder)
