"""Fast-ELECTRA: the generator comes from elsewhere and never moves."""

import dataclasses
import pathlib

import numpy as np
import pytest

from electra_tf import errors
from electra_tf.formats import reading
from electra_tf.objectives import base
from electra_tf.objectives import registry
from electra_tf.pretraining import cost
from tests import tiny
from tests import tiny_electra
from tests.objectives import tiny_objectives

# From 2 to 1.
COOLING = {"temperature": 2.0, "temperature_steps": 10}
SECTIONS = {"objective": COOLING | {"final_temperature": 1.0}}


def _bits(network):
    return {v.path: v.numpy().tobytes() for v in network.trainable_variables}


def test_the_generator_never_moves_and_the_discriminator_does():
    model = tiny_objectives.build_model("fast_electra", **SECTIONS)
    before = _bits(model.generator), _bits(model.main)
    features = tiny.deal(tiny.build_features())
    for _ in range(2):
        model.training_step(features)
    after = _bits(model.generator), _bits(model.main)
    assert after[0] == before[0]
    assert all(after[1][path] != bits for path, bits in before[1].items())
    # Temperature 2 at step 0, 1.9 now that a tenth of the way... twice.
    logits = np.ones([1, 1, 3], np.float32)
    tempered = model.sampling_logits(logits, None, is_training=True)
    np.testing.assert_allclose(tempered, logits / 1.8)


def test_it_costs_a_forward_pass_less_than_joint_training():
    fast = tiny_objectives.build_settings("fast_electra", **SECTIONS)
    joint = tiny_objectives.build_settings("electra")
    saved = [
        cost.Cost(base.resolve(settings, tiny.VOCABULARY.size))
        for settings in (joint, fast)
    ]
    generator = saved[0].convention.generator()
    difference = saved[0].row_flops(0) - saved[1].row_flops(0)
    assert difference == pytest.approx(generator.backward)


@pytest.mark.parametrize("source", ["electra", "mlm"])
def test_the_generator_is_that_of_any_model(source, tmp_path: pathlib.Path):
    sizes = {"embedding_size": 8, "hidden_size": 8, "num_attention_heads": 1}
    sizes = {"mlm": {"encoder": sizes}}.get(source, {})
    other = tiny_objectives.build_model(source, **sizes)
    tiny_electra.save(tmp_path, other, other.settings, tiny.VOCABULARY)
    model = tiny_objectives.build_model("fast_electra", **SECTIONS)
    main = _bits(model.main)
    settings = model.settings
    target = reading.Target(
        {v.path: v for v in model.trainable_variables},
        settings.encoder,
        settings.generator.encoder_config(settings.encoder),
        tiny.VOCABULARY,
    )
    reading.warm_start(tmp_path, target, as_generator=True)
    assert _bits(model.main) == main
    lm = other.generator if source == "electra" else other.main
    networks = model.generator, lm
    for pair in zip(*(n.trainable_variables for n in networks), strict=True):
        np.testing.assert_array_equal(*pair)


def test_what_would_move_it_is_refused():
    settings = tiny_objectives.build_settings("fast_electra", **SECTIONS)
    for change in ({"init_from": ""}, {"untied_generator_embeddings": False}):
        with pytest.raises(errors.ConfigError, match="generator.init_from"):
            generator = dataclasses.replace(settings.generator, **change)
            changed = dataclasses.replace(settings, generator=generator)
            registry.find(changed)
