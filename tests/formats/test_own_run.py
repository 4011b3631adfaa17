"""Runs of ours as portable models, and converted ones as runs."""

import dataclasses
import json

import numpy as np
import pytest

from electra_tf import config
from electra_tf import errors
from electra_tf.export import conversion
from electra_tf.formats import own_run
from electra_tf.formats import reading
from electra_tf.training import checkpoints
from tests.formats import tiny_models


def _write(folder, kind="embeddings", **fields):
    folder.mkdir(exist_ok=True)
    model = tiny_models.build(kind, **fields)
    own_run.write(model, folder)
    return model


def _put_tensors(folder, tensors, step=50, state=None, keep=1):
    weights = {f"model/{name}": value for name, value in tensors.items()}
    checkpoints.save(folder, step, weights, state or {}, keep)


def test_parts_of_a_users_own_objective_are_kept(tmp_path):
    folder = tmp_path / "run"
    model = _write(folder)
    _put_tensors(folder, model.tensors | {"mine/kernel": np.ones([2, 3])})
    found = own_run.read(folder)
    assert found.step == 50
    assert found.tensors["mine/kernel"].shape == (2, 3)
    # No other format has a place for them.
    for target in (reading.HUGGING_FACE, reading.KERAS_HUB, reading.TF1):
        with pytest.raises(errors.ModelError, match="mine"):
            conversion.convert(folder, target, tmp_path / target)
    options = conversion.ConversionOptions(drop="mine")
    conversion.convert(folder, reading.TF1, tmp_path / "without", options)


def test_a_checkpoint_of_other_tensors_is_refused(tmp_path):
    model = _write(tmp_path)
    path = "electra/encoder/layer_1/output/dense/bias"
    for changed in (
        {p: v for p, v in model.tensors.items() if p != path},
        {**model.tensors, path: np.full([16], np.nan, np.float32)},
        {**model.tensors, path: np.zeros([16], np.float16)},
    ):
        step = checkpoints.step_of(checkpoints.latest(tmp_path)) + 1
        _put_tensors(tmp_path, changed, step)
        with pytest.raises(errors.ModelError, match=path):
            own_run.read(tmp_path)


def test_a_config_of_other_sizes_is_refused(tmp_path):
    _write(tmp_path)
    file = tmp_path / "config.json"
    content = json.loads(file.read_text())
    content["encoder"]["intermediate_size"] = 32
    file.write_text(json.dumps(content))
    with pytest.raises(errors.ModelError, match=r"24\) should be \(16, 32"):
        own_run.read(tmp_path)
    content["encoder"]["vocab_size"] = 99
    file.write_text(json.dumps(content))
    with pytest.raises(errors.ModelError, match="of 99 entries"):
        own_run.read(tmp_path)


def test_a_run_holds_its_vocabulary(tmp_path):
    with pytest.raises(errors.ModelError, match="--vocab_file"):
        _write(tmp_path, vocabulary=None)
    assert not list(tmp_path.iterdir())


def test_a_generator_that_no_config_describes_is_refused(tmp_path):
    generator = tiny_models.build("none").generator
    generator = dataclasses.replace(generator, type_vocab_size=2)
    with pytest.raises(errors.ModelError, match="more than.*type_vocab_size"):
        _write(tmp_path, "none", generator=generator)


def test_one_checkpoint_of_several_is_chosen(tmp_path):
    model = _write(tmp_path)
    other = {name: value + 1 for name, value in model.tensors.items()}
    _put_tensors(tmp_path, other, state={"best_step": 41}, keep=3)
    tiny_models.require_same(own_run.read(tmp_path, "best"), model)
    assert own_run.read(tmp_path).step == 50
    with pytest.raises(FileNotFoundError, match="absent"):
        own_run.read(tmp_path, str(tmp_path / "absent"))


def test_an_average_is_read_where_it_was_kept(tmp_path):
    model = _write(tmp_path)
    with pytest.raises(ValueError, match="ema_decay"):
        own_run.read(tmp_path, use_average=True)
    file = tmp_path / "config.json"
    settings = config.from_json(file.read_text())
    training = dataclasses.replace(settings.training, ema_decay=0.9)
    settings = dataclasses.replace(settings, training=training)
    file.write_text(config.to_json(settings))
    weights = {f"model/{n}": v + 1 for n, v in model.tensors.items()}
    weights |= {f"average/{n}": v for n, v in model.tensors.items()}
    checkpoints.save(tmp_path, 50, weights, {}, keep=1)
    found = own_run.read(tmp_path, use_average=True)
    tiny_models.require_same(found, model)
