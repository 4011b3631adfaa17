"""Runs of ours as portable models."""

import dataclasses

import numpy as np
import pytest

from electra_tf.export import conversion
from electra_tf.formats import own_run
from electra_tf.formats import portable
from electra_tf.formats import reading
from electra_tf.training import checkpoints
from tests.formats import tiny_models


def _write(folder, **more):
    """A run with tensors of an objective that nobody else knows."""
    folder.mkdir()
    own_run.write(tiny_models.build("embeddings"), folder)
    checkpoint = checkpoints.latest(folder)
    tensors = checkpoints.load_tensors(checkpoint, "model") | more
    checkpoints.save(
        folder, 50, {f"model/{n}": v for n, v in tensors.items()}, {}, keep=1
    )
    return folder


def test_parts_of_a_users_own_objective_are_kept(tmp_path):
    folder = _write(tmp_path / "run", **{"mine/kernel": np.ones([2, 3])})
    model = own_run.read(folder)
    assert model.step == 50
    assert "mine" in model.parts
    assert model.tensors["mine/kernel"].shape == (2, 3)


def test_no_other_format_has_a_place_for_them(tmp_path):
    folder = _write(tmp_path / "run", **{"mine/kernel": np.ones([2, 3])})
    for target in (reading.HUGGING_FACE, reading.KERAS_HUB, reading.TF1):
        with pytest.raises(portable.FormatError, match="mine"):
            conversion.convert(folder, target, tmp_path / target)
    options = conversion.ConversionOptions(drop="mine")
    output = tmp_path / "without"
    conversion.convert(folder, reading.HUGGING_FACE, output, options)
    assert output.is_dir()


def test_half_a_known_part_is_refused(tmp_path):
    folder = _write(tmp_path / "run", **{"electra/more": np.ones([2])})
    with pytest.raises(portable.FormatError, match="electra/more"):
        own_run.read(folder)


def test_an_objective_that_files_name_is_kept():
    model = dataclasses.replace(
        tiny_models.build("embeddings"), objective="electra_15"
    )
    assert own_run.build_settings(model).objective.name == "electra_15"
