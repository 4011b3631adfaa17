"""Weights go through every format, and through runs, to the bit."""

import dataclasses

import numpy as np
import pytest

from electra_tf import errors
from electra_tf.export import conversion
from electra_tf.formats import own_run
from electra_tf.formats import reading
from electra_tf.formats import tokenizer_files
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import checkpoints
from tests.formats import tiny_models

TF1, OURS, HUGGING_FACE, KERAS_HUB = reading.FORMATS
_CHAIN = (TF1, OURS, HUGGING_FACE, OURS, TF1)
# What a preset can state.
_STATED = dataclasses.replace(
    tiny_models.ENCODER,
    attention_probs_dropout_prob=0.25,
    initializer_range=0.02,
)


def _travel(model, folder, chain):
    """The model after each stop, read from what was written there."""
    (folder / "0").mkdir()
    found = conversion.write(model, chain[0], folder / "0")
    stops = [conversion.read(folder / "0")]
    tiny_models.require_same(stops[0], found, ("task",))
    for number, target in enumerate(chain[1:], start=1):
        before, after = (folder / str(n) for n in (number - 1, number))
        conversion.convert(before, target, after)
        stops.append(conversion.read(after))
        assert not list(folder.glob(".*"))
    return stops


_HUB = (TF1, KERAS_HUB, OURS, HUGGING_FACE, KERAS_HUB, TF1)
_WITHOUT_TF1 = _CHAIN[1:-1]


@pytest.mark.parametrize(
    ("kind", "chain", "fields"),
    [
        *((k, _CHAIN, {}) for k in ("none", "all", "wide", "equal")),
        *((k, _CHAIN, {}) for k in ("same_size", "masked_lm")),
        # The original has heads of one width.
        ("other_heads", _WITHOUT_TF1, {}),
        ("encoder", _HUB, {"encoder": _STATED}),
        *((k, _CHAIN, {}) for k in ("classification", "regression")),
        ("answering", _CHAIN, {}),
        # Heads that one format lacks.
        *(
            pytest.param(kind, _WITHOUT_TF1, {}, marks=pytest.mark.slow)
            for kind in ("hidden_layer", "hidden_regression", "own")
        ),
        pytest.param(
            "joint_answering", (TF1, OURS, TF1), {}, marks=pytest.mark.slow
        ),
    ],
)
def test_a_model_goes_there_and_back(tmp_path, kind, chain, fields):
    model = tiny_models.build(kind, **fields)
    for stop in _travel(model, tmp_path, chain):
        tiny_models.require_same(stop, model, ("task",))
        # TF1 files name no labels, but the task has known ones.
        unnamed = model.task and dataclasses.replace(model.task, labels=())
        assert stop.task in (model.task, unnamed)
    assert stop.step in (model.step, 0)


def test_tags_are_given_where_files_do_not_name_them(tmp_path):
    model = tiny_models.build("tagging")
    chain = (HUGGING_FACE, OURS, TF1)
    stops = _travel(model, tmp_path, chain)
    for stop in stops[:-1]:
        tiny_models.require_same(stop, model)
    for target in (OURS, HUGGING_FACE):
        with pytest.raises(ValueError, match="--labels=NAME,NAME"):
            conversion.convert(tmp_path / "2", target, tmp_path / "3")
    options = conversion.ConversionOptions(labels=model.task.labels)
    conversion.convert(tmp_path / "2", OURS, tmp_path / "3", options)
    tiny_models.require_same(conversion.read(tmp_path / "3"), model)


@pytest.mark.parametrize(
    "settings",
    [
        {"do_lower_case": False, "strip_accents": False},
        {"strip_accents": False, "max_word_length": 37},
    ],
)
def test_vocabulary_and_settings_travel_along(tmp_path, settings):
    vocabulary = vocabulary_lib.Vocabulary(
        tiny_models.VOCABULARY.tokens,
        vocabulary_lib.TokenizerSettings(**settings),
    )
    model = tiny_models.build("discriminator", vocabulary=vocabulary)
    for stop in _travel(model, tmp_path, _CHAIN):
        assert tokenizer_files.are_alike(vocabulary, stop.vocabulary)


def _write_run(folder, kind="embeddings", **fields):
    return tiny_models.write(folder, kind, OURS, **fields)


def _put_tensors(folder, tensors, state=None, keep=1, **others):
    weights = {
        f"{prefix}/{name}": value
        for prefix, found in {"model": tensors, **others}.items()
        for name, value in found.items()
    }
    checkpoints.save(folder, 50, weights, state or {}, keep)


def test_parts_of_a_users_own_objective_are_kept(tmp_path):
    folder = tmp_path / "run"
    model = _write_run(folder)
    _put_tensors(folder, model.tensors | {"mine/kernel": np.ones([2, 3])})
    found = own_run.read(folder)
    assert found.step == 50
    assert found.tensors["mine/kernel"].shape == (2, 3)
    # No other format has a place for them.
    for target in (HUGGING_FACE, KERAS_HUB, TF1):
        with pytest.raises(errors.ModelError, match="mine"):
            conversion.convert(folder, target, tmp_path / target)
    options = conversion.ConversionOptions(drop="mine")
    conversion.convert(folder, TF1, tmp_path / "without", options)


def test_a_config_of_other_sizes_is_refused(tmp_path):
    sizes = dataclasses.asdict(_write_run(tmp_path).encoder)
    for field, value, error, message in (
        (
            "intermediate_size",
            32,
            errors.ModelError,
            r"24\) should be \(16, 32",
        ),
        ("vocab_size", 99, errors.ConfigError, "vocab_size=99, vocab"),
    ):
        changed = sizes | {field: value}
        tiny_models.change_json(tmp_path / "config.json", encoder=changed)
        with pytest.raises(error, match=message):
            own_run.read(tmp_path)


def test_what_a_run_cannot_hold_is_refused(tmp_path):
    with pytest.raises(errors.ModelError, match="--vocab_file"):
        _write_run(tmp_path, vocabulary=None)
    generator = tiny_models.build("none").generator
    generator = dataclasses.replace(generator, type_vocab_size=2)
    with pytest.raises(errors.ModelError, match="more than.*type_vocab_size"):
        _write_run(tmp_path, "none", generator=generator)


def test_one_checkpoint_of_several_is_chosen(tmp_path):
    model = _write_run(tmp_path)
    other = {name: value + 1 for name, value in model.tensors.items()}
    _put_tensors(tmp_path, other, {"best_step": 41}, keep=3)
    tiny_models.require_same(own_run.read(tmp_path, "best"), model)
    assert own_run.read(tmp_path).step == 50
    with pytest.raises(FileNotFoundError, match="absent"):
        own_run.read(tmp_path, str(tmp_path / "absent"))


def test_an_average_is_read_where_it_was_kept(tmp_path):
    model = _write_run(tmp_path)
    with pytest.raises(ValueError, match="ema_decay"):
        own_run.read(tmp_path, use_average=True)
    other = {name: value + 1 for name, value in model.tensors.items()}
    _put_tensors(tmp_path, other, average=model.tensors)
    found = own_run.read(tmp_path, use_average=True)
    tiny_models.require_same(found, model)
