"""Weights go through every format, and through runs, to the bit."""

import dataclasses
import json

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


def _travel(model, folder, chain, **options):
    """The model after each stop, read from what was written there."""
    found = conversion.write(model, chain[0], _made(folder / "0"))
    stops = [conversion.read(folder / "0")]
    tiny_models.require_same(stops[0], found, ("task",))
    for number, target in enumerate(chain[1:], start=1):
        conversion.convert(
            folder / str(number - 1),
            target,
            folder / str(number),
            conversion.ConversionOptions(**options),
        )
        stops.append(conversion.read(folder / str(number)))
        assert not list(folder.glob(".*"))
    return stops


def _made(folder):
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    "kind", ["none", "all", "wide", "equal", "masked_lm", "other_heads"]
)
def test_a_pretrained_model_goes_there_and_back(tmp_path, kind):
    model = tiny_models.build(kind)
    # The original has heads of one width.
    chain = _CHAIN[1:-1] if kind == "other_heads" else _CHAIN
    for stop in _travel(model, tmp_path, chain):
        tiny_models.require_same(stop, model)
    assert stop.step in (model.step, 0)


def test_an_encoder_goes_through_all_formats(tmp_path):
    sizes = dataclasses.replace(
        tiny_models.ENCODER,
        attention_probs_dropout_prob=0.25,
        initializer_range=0.02,
    )
    model = tiny_models.build("encoder", encoder=sizes)
    chain = (TF1, KERAS_HUB, OURS, HUGGING_FACE, KERAS_HUB, TF1)
    for stop in _travel(model, tmp_path, chain):
        tiny_models.require_same(stop, model)


@pytest.mark.parametrize("kind", ["classification", "regression", "answering"])
def test_a_finetuned_model_goes_there_and_back(tmp_path, kind):
    model = tiny_models.build(kind)
    for stop in _travel(model, tmp_path, _CHAIN):
        tiny_models.require_same(stop, model, ("task",))
        assert stop.task.kind == model.task.kind
        # TF1 files name no labels, but the task has known ones.
        assert stop.task.labels in ((), model.task.labels)


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


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["hidden_layer", "hidden_regression", "own", "joint_answering"]
)
def test_a_head_that_one_format_lacks_goes_through_the_others(tmp_path, kind):
    model = tiny_models.build(kind)
    lacking = HUGGING_FACE if kind == "joint_answering" else TF1
    chain = [name for name in _CHAIN if name != lacking]
    for stop in _travel(model, tmp_path, chain):
        tiny_models.require_same(stop, model)
    with pytest.raises(ValueError, match="--drop=task_specific"):
        conversion.convert(tmp_path / "0", lacking, tmp_path / "refused")
    assert "refused" not in str(tiny_models.names_in(tmp_path))


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
    folder.mkdir(exist_ok=True)
    model = tiny_models.build(kind, **fields)
    own_run.write(model, folder)
    return model


def _put_tensors(folder, tensors, step=50, state=None, keep=1):
    weights = {f"model/{name}": value for name, value in tensors.items()}
    checkpoints.save(folder, step, weights, state or {}, keep)


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
    _write_run(tmp_path)
    file = tmp_path / "config.json"
    content = json.loads(file.read_text())
    content["encoder"]["intermediate_size"] = 32
    file.write_text(json.dumps(content))
    with pytest.raises(errors.ModelError, match=r"24\) should be \(16, 32"):
        own_run.read(tmp_path)
    content["encoder"]["vocab_size"] = 99
    file.write_text(json.dumps(content))
    with pytest.raises(errors.ConfigError, match="vocab_size=99, vocab"):
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
    _put_tensors(tmp_path, other, state={"best_step": 41}, keep=3)
    tiny_models.require_same(own_run.read(tmp_path, "best"), model)
    assert own_run.read(tmp_path).step == 50
    with pytest.raises(FileNotFoundError, match="absent"):
        own_run.read(tmp_path, str(tmp_path / "absent"))


def test_an_average_is_read_where_it_was_kept(tmp_path):
    model = _write_run(tmp_path)
    with pytest.raises(ValueError, match="ema_decay"):
        own_run.read(tmp_path, use_average=True)
    weights = {f"model/{n}": v + 1 for n, v in model.tensors.items()}
    weights |= {f"average/{n}": v for n, v in model.tensors.items()}
    checkpoints.save(tmp_path, 50, weights, {}, keep=1)
    found = own_run.read(tmp_path, use_average=True)
    tiny_models.require_same(found, model)
