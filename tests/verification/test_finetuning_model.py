"""The two-task model is compared whole, and a wrong number is noticed."""

import shutil

import numpy as np
import pytest

from electra_tf.verification import finetuning_model


@pytest.fixture
def folder(oracles, tmp_path):
    copy = tmp_path / "model"
    shutil.copytree(oracles / "finetuning" / "model", copy)
    return copy


def test_all_of_the_reference_model_agrees(folder):
    results = [
        result
        for _, check in finetuning_model.list_cases(folder)
        for result in check()
    ]
    assert len(results) == 7
    assert all(result.passed for result in results)


def test_a_wrong_loss_is_a_miss(folder):
    path = folder / "outputs.npz"
    arrays = dict(np.load(path))
    arrays["mnli_loss"] = arrays["mnli_loss"] * 1.001
    np.savez(path, **arrays)
    forward, _ = finetuning_model.check_forward(folder)
    assert not forward.passed and "mnli_loss" in forward.case


def test_a_wrong_rate_is_a_miss(folder):
    path = folder / "train.npz"
    arrays = dict(np.load(path))
    name = "learning_rate/encoder/layer_0/"
    arrays[name] = arrays[name] * 1.25
    np.savez(path, **arrays)
    _, rates, _ = finetuning_model.check_training(folder)
    assert not rates.passed and "layer_0" in rates.case
