"""Counts of operations: the profiler's, and the original's by hand."""

import functools

import pytest
import tensorflow as tf

from electra_tf import config
from electra_tf.inputs import masking
from electra_tf.modeling import flops
from electra_tf.modeling import networks
from electra_tf.pretraining import model as model_lib
from tests import profiler
from tests import tiny
from tests import tiny_run

_ROWS, _SLOTS = 3, 2
_HALF = {"generator_hidden_size": 0.5}


def _settings(embedding_size=12, **generator):
    settings = tiny_run.replace(
        tiny.build_settings(),
        encoder={"embedding_size": embedding_size},
        # Two slots of the 16 tokens of a row.
        masking={"mask_prob": 0.125},
        generator={"generator_hidden_size": 0.25} | generator,
    )
    return model_lib.resolve(settings, tiny.VOCABULARY.size)


def _masked() -> masking.MaskedInputs:
    return masking.mask_inputs(
        tiny.build_features(_ROWS),
        tf.random.stateless_uniform([_ROWS, tiny.LENGTH], [1, 2]),
        tf.random.stateless_uniform([_ROWS, _SLOTS], [3, 4]),
        config.MaskingConfig(mask_prob=0.125),
        (tiny.VOCABULARY.cls_id, tiny.VOCABULARY.mask_id),
    )


def _take_gradients(network, *arguments):
    """A forward and a backward pass through all weights."""
    with tf.GradientTape() as tape:
        output = network(*arguments)
        logits = [getattr(output, "prediction_logits", output.logits)]
        logits.append(getattr(output, "copy_logits", 0.0))
        loss = tf.add_n([tf.reduce_sum(tf.square(o)) for o in logits])
    variables = [v.value for v in network.trainable_variables]
    gradients = tape.gradient(loss, variables)
    assert None not in gradients
    return gradients


def _require_counts(network, part, settings, *arguments):
    exact = flops.Convention("exact", settings)
    counted = getattr(exact, part)()
    forward = profiler.count_matrix_products(network, *arguments)
    assert _ROWS * counted.forward == forward > 0
    step = functools.partial(_take_gradients, network)
    trained = profiler.count_matrix_products(step, *arguments)
    assert _ROWS * counted.total == trained
    assert 2.9 * forward < trained < 3 * forward


@pytest.mark.parametrize(
    "kind",
    [
        _HALF,
        _HALF | {"untied_generator_embeddings": True},
        {"untied_generator": False},
        _HALF | {"two_tower_generator": True},
    ],
)
def test_a_generator_costs_what_the_profiler_counts(kind):
    settings = _settings(**kind)
    main = networks.Discriminator(settings.encoder)
    generator = networks.build_generator(settings.generator, main.encoder)
    _require_counts(generator, "generator", settings, _masked())


@pytest.mark.parametrize("embedding_size", [12, 16])
def test_main_networks_cost_what_the_profiler_counts(embedding_size):
    settings = _settings(embedding_size)
    features = tiny.build_features(_ROWS)
    rows = [features[n] for n in ("input_ids", "input_mask", "segment_ids")]
    for network, part, arguments in (
        (networks.Discriminator, "discriminator", rows),
        (networks.MaskedLMGenerator, "masked_lm", [_masked()]),
        (networks.CopyingMaskedLM, "all_tokens_masked_lm", rows),
    ):
        _require_counts(network(settings.encoder), part, settings, *arguments)


def test_what_the_original_has_no_formula_for_is_composed_of_its_formulas():
    settings = _settings(**_HALF, two_tower_generator=True)
    original = flops.Convention("original", settings)
    s, v, e, h, wide = tiny.LENGTH, tiny.VOCABULARY.size, 12, 16, 2 * 8
    encoder = flops.OriginalTransformer(8, 2, s, v, e, 32, 1).encoder()
    head = s * (2 * e * v + 2 * wide * e + 14 * e + 7 * v)
    assert original.generator().forward == 2 * encoder + head
    main = flops.OriginalTransformer(h, 2, s, v, e, 32, 2).encoder()
    head = s * (2 * e * v + 2 * h * e + 14 * e + 7 * v)
    assert original.all_tokens_masked_lm().forward == main + head + s * 2 * h
    assert original.masked_lm().forward == main + 0.15625 * head
    for kind in ("uniform_generator", "unigram_generator"):
        fixed = flops.Convention("original", _settings(**{kind: True}))
        assert fixed.generator().total == 0


def test_what_cannot_be_counted_is_refused():
    with pytest.raises(ValueError, match=r"--config\.encoder\.vocab_size"):
        flops.Convention("exact", tiny.build_settings())
