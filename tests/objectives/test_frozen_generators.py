"""Generators that stand still: two-stage training, and Fast-ELECTRA."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.formats import reading
from tests import tiny
from tests import tiny_electra
from tests.objectives import tiny_objectives


def _build(**sections):
    rates = {"learning_rate": 1e-2, "weight_decay_rate": 0.1}
    sections["optimizer"] = tiny_objectives.NO_WARMUP | rates
    return tiny_objectives.build_model("two_stage", **sections)


def _train(model, num_steps):
    features = tiny.deal(tiny.build_features())
    for _ in range(num_steps):
        model.training_step(features)


def _state(model, part):
    """Bits of a part's variables and of their moments."""
    optimizer, own = model.optimizer, {v.path for v in part.trainable_variables}
    variables = model.trainable_variables
    slots = (variables, optimizer.first_moments, optimizer.second_moments)
    return {
        (variable.path, number): array.numpy().tobytes()
        for number, arrays in enumerate(slots)
        for variable, array in zip(variables, arrays, strict=True)
        if variable.path in own
    }


def _enter_stage_two(model):
    model.optimizer.iterations.assign(model.stage_starts[1])
    model.enter_stage(1, is_beginning=True)


@pytest.fixture(scope="module")
def trained():
    """States of a model around the switch, and three steps after it."""
    model = _build()

    def state():
        return _state(model, model.generator), _state(model, model.main)

    states = {"start": state()}
    model.enter_stage(0, is_beginning=True)
    _train(model, 2)
    states["one"] = state()
    _enter_stage_two(model)
    states["switch"] = state()
    _train(model, 3)
    states["two"] = state()
    return states


def test_each_stage_trains_its_network_and_no_bit_of_the_other(trained):
    generator, main = trained["start"]
    assert trained["one"][1] == main
    one = trained["one"][0]
    assert all(one[key] != bits for key, bits in generator.items())
    generator, main = trained["switch"]
    assert trained["two"][0] == generator == one
    assert all(trained["two"][1][key] != bits for key, bits in main.items())


def _relative(network):
    return {
        v.path.removeprefix("electra/").removeprefix("generator/"): v.numpy()
        for v in network.variables
    }


def test_at_the_switch_the_encoder_is_the_generators_to_the_bit():
    model = _build()
    source = _relative(model.generator.encoder)
    before = _relative(model.main)
    model.enter_stage(1, is_beginning=False)
    # After a resume within the stage nothing is copied.
    after = _relative(model.main)
    assert all((after[name] == value).all() for name, value in before.items())
    assert model.loss_coefficients == {"gen_loss": 0.0, "disc_loss": 50.0}
    _enter_stage_two(model)
    after = _relative(model.main)
    for name, value in before.items():
        if name in source:
            assert (source[name] != value).any()
        np.testing.assert_array_equal(after[name], source.get(name, value))
    assert len(source) + 4 == len(after)


def test_a_frozen_generator_runs_without_dropout(monkeypatch):
    model, seeds = _build(), []
    watch = tiny_objectives.EncoderWatch(monkeypatch)
    prepared = tiny_objectives.prepare(model)
    for stage in range(2):
        model.enter_stage(stage, is_beginning=False)
        model.compute_losses(prepared, tf.constant([5, 0, 0], tf.int64))
        seeds.append(dict(watch.seeds))
    assert {*seeds[0]} == {"generator"} and seeds[0]["generator"] is not None
    assert seeds[1]["generator"] is None and seeds[1]["electra"] is not None


def test_the_moving_average_begins_anew_with_stage_two():
    model = _build(training={"ema_decay": 0.9})
    model.enter_stage(0, is_beginning=True)
    _train(model, 2)
    averages = model.weight_average.by_path()
    kernel = "generator_predictions/dense/kernel"
    weights = {v.path: v for v in model.trainable_variables}
    assert (averages[kernel] != weights[kernel].numpy()).numpy().any()
    _enter_stage_two(model)
    for path, average in averages.items():
        np.testing.assert_array_equal(average, weights[path])
    # After a resume within the stage it goes on.
    averages[kernel].assign_add(tf.ones_like(averages[kernel]))
    model.enter_stage(1, is_beginning=False)
    assert (averages[kernel] != weights[kernel].numpy()).numpy().all()
    assert model.weight_average.start == model.stage_starts[1] > 0


def test_fast_electra_moves_the_discriminator_alone():
    cooling = {"temperature": 2.0, "temperature_steps": 10}
    cooling["final_temperature"] = 1.0
    model = tiny_objectives.build_model("fast_electra", objective=cooling)
    parts = model.generator, model.main
    before = [_state(model, part) for part in parts]
    _train(model, 2)
    after = [_state(model, part) for part in parts]
    assert after[0] == before[0]
    assert all(after[1][key] != bits for key, bits in before[1].items())
    # A tenth of the way from 2 to 1 for each step.
    logits = np.ones([1, 1, 3], np.float32)
    tempered = model.sampling_logits(logits, None, is_training=True)
    np.testing.assert_allclose(tempered, logits / 1.8)


@pytest.mark.parametrize("source", ["electra", "mlm"])
def test_fast_electra_takes_the_generator_of_any_model(source, tmp_path):
    sizes = {"embedding_size": 8, "hidden_size": 8, "num_attention_heads": 1}
    sizes = {"mlm": {"encoder": sizes}}.get(source, {})
    other = tiny_objectives.build_model(source, **sizes)
    tiny_electra.save(tmp_path, other, other.settings, tiny.VOCABULARY)
    model = tiny_objectives.build_model("fast_electra")
    main = _state(model, model.main)
    settings = model.settings
    target = reading.Target(
        {v.path: v for v in model.trainable_variables},
        settings.encoder,
        settings.generator.encoder_config(settings.encoder),
        tiny.VOCABULARY,
    )
    reading.warm_start(tmp_path, target, as_generator=True)
    assert _state(model, model.main) == main
    lm = other.generator if source == "electra" else other.main
    networks = model.generator, lm
    for pair in zip(*(n.trainable_variables for n in networks), strict=True):
        np.testing.assert_array_equal(*pair)
