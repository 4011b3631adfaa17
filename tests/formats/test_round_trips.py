"""Weights go through every format, and through runs, to the bit."""

import dataclasses

import numpy as np
import pytest

from electra_tf import errors
from electra_tf.export import conversion
from electra_tf.formats import own_run
from electra_tf.formats import reading
from electra_tf.objectives import registry
from electra_tf.training import checkpoints
from tests.formats import tiny_models

TF1, OURS, HUGGING_FACE, KERAS_HUB = reading.FORMATS
_CHAIN = (TF1, OURS, HUGGING_FACE, OURS, TF1)
_OTHER = tiny_models.vocabulary_of(strip_accents=False, max_word_length=37)
# What a preset can state.
_STATED = dataclasses.replace(
    tiny_models.ENCODER,
    attention_probs_dropout_prob=0.25,
    initializer_range=0.02,
)

_HUB = (TF1, KERAS_HUB, OURS, HUGGING_FACE, KERAS_HUB, TF1)
_WITHOUT_TF1 = _CHAIN[1:-1]
_EVERYWHERE = (
    *("none", "all", "wide", "equal", "same_size", "masked_lm"),
    *("classification", "regression", "answering"),
)
_SLOW = [
    ("hidden_layer", _WITHOUT_TF1, {}),
    ("hidden_regression", _WITHOUT_TF1, {}),
    ("own", _WITHOUT_TF1, {}),
    ("joint_answering", (TF1, OURS, TF1), {}),
]


@pytest.mark.parametrize(
    ("kind", "chain", "fields"),
    [
        *((kind, _CHAIN, {}) for kind in _EVERYWHERE),
        ("discriminator", _CHAIN, {"vocabulary": _OTHER}),
        # The original has heads of one width.
        ("other_heads", _WITHOUT_TF1, {}),
        ("encoder", _HUB, {"encoder": _STATED}),
        ("tagging", (HUGGING_FACE, OURS), {}),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in _SLOW),
    ],
)
def test_a_model_goes_there_and_back(tmp_path, kind, chain, fields):
    model = tiny_models.write(tmp_path / "0", kind, chain[0], **fields)
    # TF1 files name no labels, but the task has known ones.
    unnamed = model.task and dataclasses.replace(model.task, labels=())
    for number, target in enumerate(chain):
        path = tmp_path / str(number)
        if number > 0:
            conversion.convert(tmp_path / str(number - 1), target, path)
        stop = conversion.read_model(path)
        tiny_models.require_same(stop, model, ("task",))
        assert stop.task in (model.task, unnamed)
        assert not list(tmp_path.glob(".*"))
    assert stop.step in (model.step, 0)


def _write_run(folder, kind="embeddings", **fields):
    return tiny_models.write(folder, kind, OURS, **fields)


@pytest.mark.parametrize(
    ("objective", "converted"),
    [("two_stage", "electra"), ("fast_electra", "electra"),
     ("adversarial", "adversarial")],
)  # fmt: skip
def test_a_converted_run_has_an_objective_that_can_go_on(
    tmp_path, objective, converted
):
    _write_run(tmp_path / "run", "none", objective=objective)
    settings = own_run.load_settings(tmp_path / "run")
    assert settings.objective["name"] == converted
    # As export and pre-training ask for it.
    registry.find(settings)


@pytest.mark.parametrize(
    ("objective", "width"), [("electric", 16), ("electra", 516)]
)
def test_a_discriminator_without_a_generator_is_a_run(
    tmp_path, objective, width
):
    # A quarter of 516, the default generator's width, is no two heads.
    sizes = {"hidden_size": width, "num_attention_heads": 4}
    encoder = dataclasses.replace(tiny_models.ENCODER, **sizes)
    fields = {"encoder": encoder, "objective": objective}
    model = _write_run(tmp_path / "run", "discriminator", **fields)
    registry.find(own_run.load_settings(tmp_path / "run"))
    tiny_models.require_same(own_run.read_model(tmp_path / "run"), model)


def _put_tensors(folder, **tensors):
    weights = {
        f"{prefix}/{name}": value
        for prefix, found in tensors.items()
        for name, value in found.items()
    }
    checkpoints.save(folder, 50, weights, {}, keep=1)


def test_parts_of_a_users_own_objective_are_kept(tmp_path):
    folder = tmp_path / "run"
    model = _write_run(folder)
    _put_tensors(folder, model=model.tensors | {"mine/x": np.ones([2, 3])})
    found = own_run.read_model(folder)
    assert found.step == 50
    assert found.tensors["mine/x"].shape == (2, 3)
    # No other format has a place for them.
    for target in (HUGGING_FACE, KERAS_HUB, TF1):
        with pytest.raises(errors.ModelError, match="mine"):
            conversion.convert(folder, target, tmp_path / target)
    options = conversion.ConversionOptions(drop="mine")
    conversion.convert(folder, TF1, tmp_path / "without", options)


def test_an_average_is_read_where_it_was_kept(tmp_path):
    model = _write_run(tmp_path)
    with pytest.raises(ValueError, match="ema_decay"):
        own_run.read_model(tmp_path, use_average=True)
    other = {name: value + 1 for name, value in model.tensors.items()}
    _put_tensors(tmp_path, model=other, average=model.tensors)
    found = own_run.read_model(tmp_path, use_average=True)
    tiny_models.require_same(found, model)
