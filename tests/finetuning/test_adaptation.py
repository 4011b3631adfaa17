"""Frozen weights stay; adapters are a product that merges into weights."""

import dataclasses
import re

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config import finetuning as finetuning_config
from electra_tf.export import saved_model
from electra_tf.finetuning import adaptation
from electra_tf.finetuning import finetune
from electra_tf.finetuning import model as model_lib
from electra_tf.finetuning import portable_trial
from electra_tf.finetuning import trial as trial_lib
from electra_tf.training import checkpoints
from tests.finetuning import little_task
from tests.finetuning.conftest import VOCABULARY

_QKV = "electra/encoder/layer_0/attention/self/qkv"
_ALL = ",".join(finetuning_config.PROJECTIONS)


def _adapt(encoder, seed=1, **options):
    lora = adaptation.LoRA()
    options = {"rank": 2, "alpha": 6.0} | options
    lora.adapt(encoder, finetuning_config.LoRAConfig(**options), seed)
    return lora


def _fill(lora):
    """Sets every A and B to numbers that are no zeros."""
    generator = np.random.default_rng(0)
    for variable in lora.variables.values():
        variable.assign(generator.normal(size=variable.shape))


def test_adapters_change_their_own_columns_by_their_scaled_product(loaded):
    encoder, width = loaded.encoder, loaded.settings.hidden_size
    before = {v.path: v.numpy() for v in encoder.variables}
    lora = _adapt(encoder, projections="query,value")
    layers = [v for name, v in lora.variables.items() if name.endswith("/a")]
    assert not np.isclose(*layers).any()
    _fill(lora)
    lora.merge()
    after = {v.path: v.numpy() for v in encoder.variables}
    a, b = (lora.variables[f"{_QKV}/lora/{n}"].numpy() for n in "ab")
    expected = before[f"{_QKV}/kernel"]
    # Queries stand first, then keys, then values; alpha / rank is 3.
    expected[:, :width] += 3.0 * a[0] @ b[0]
    expected[:, 2 * width :] += 3.0 * a[1] @ b[1]
    np.testing.assert_allclose(after[f"{_QKV}/kernel"], expected, atol=1e-5)
    lora.merge()  # again, it gives the same
    for v in encoder.variables:
        np.testing.assert_array_equal(v.numpy(), after[v.path])
        if not v.path.endswith("qkv/kernel"):
            np.testing.assert_array_equal(v.numpy(), before[v.path])


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_adapters_start_at_the_frozen_model_and_merge_into_it(
    settings, precision
):
    own = model_lib.random_encoder(settings.encoder, VOCABULARY, 5, precision)
    model = model_lib.FinetuningModel(own.encoder, {})
    ids = tf.constant([[2, 9, 5, 7, 3, 0]])
    features = {
        "input_ids": ids,
        "input_mask": tf.cast(ids > 0, tf.int32),
        "segment_ids": tf.zeros_like(ids),
    }
    plain = model.encode(features, None).numpy()
    model.lora = _adapt(own.encoder, projections=_ALL)
    np.testing.assert_array_equal(model.encode(features, None), plain)
    _fill(model.lora)
    adapted = model.encode(features, None).numpy()
    assert np.abs(adapted - plain).max() > 0.1
    model.lora.merge()
    model.lora = adaptation.LoRA()
    np.testing.assert_allclose(model.encode(features, None), adapted, atol=1e-6)


@pytest.mark.parametrize(
    ("lora", "training", "moving"),
    [
        ({}, {"frozen_layers": -1}, "nothing"),
        # A frozen layer has no adapters.
        ({"rank": 2, "projections": _ALL},
         {"frozen_layers": 1, "strategy": "mirrored"}, "layer_1/.*kernel"),
    ],
)  # fmt: skip
def test_only_what_is_trained_moves_and_has_moments(
    lora, training, moving, ask, loaded
):
    request = ask(training | {"num_train_epochs": 0.5})
    trial, _ = little_task.run(little_task.replace(request, "lora", **lora))
    last = {v.path: v.numpy() for v in trial.model.weights}
    for variable in loaded.encoder.variables:  # those that it began with
        has_moved = not np.array_equal(variable.numpy(), last[variable.path])
        assert has_moved == bool(re.search(moving, variable.path))
    trained = len(trial.model.trained_variables)
    # Two moments, the step and the rate.
    assert len(trial.model.optimizer.variables) <= 2 * trained + 2


def test_adapters_resume_to_the_bit_and_whatever_reads_a_trial_is_plain(
    ask, tmp_path
):
    request = ask({"eval_steps": 4, "early_stopping_patience": 3})
    request = little_task.replace(request, "lora", rank=4, projections=_ALL)
    uncut, expected = little_task.run(request)
    assert expected.scores["own"]["dev"].metrics["accuracy"] > 60
    cut = dataclasses.replace(request, output_dir=tmp_path / "cut")
    assert little_task.run(cut, little_task.StopAfter(cut))[1] is None
    trial, result = little_task.run(cut)
    assert result == dataclasses.replace(expected, seconds=result.seconds)
    checkpoint = trial_lib.final_checkpoint(trial.folder, trial.settings)
    saved = checkpoints.load_tensors(checkpoint, "model")
    assert saved.keys() == {v.path for v in uncut.model.weights}
    for variable in uncut.model.weights:
        np.testing.assert_array_equal(saved[variable.path], variable.numpy())
    # Conversion, export and predictions read just these.
    read = portable_trial.read_trial(trial.folder)
    assert read.tensors.keys() == saved.keys()
    loaded = finetune.Session(cut).load(1)
    assert not loaded.model.lora.variables
    assert loaded.evaluate() == expected.scores
    assert saved_model.load_task(trial.folder).checkpoint == checkpoint
