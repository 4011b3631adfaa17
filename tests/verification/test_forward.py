"""Forward passes, gradients and training steps against stored numbers."""

import json
import shutil

import numpy as np
import pytest

from electra_tf.inputs import masking
from electra_tf.pretraining import losses
from electra_tf.training import optimizers
from electra_tf.verification import fed_model
from electra_tf.verification import forward
from electra_tf.verification import forward_outputs
from electra_tf.verification import training_steps


@pytest.fixture(scope="module")
def stored(golden):
    """The folder of the configuration that has everything."""
    return golden / "reference" / "forward" / "d_tied"


@pytest.fixture(scope="module")
def configuration(stored):
    return fed_model.load_configuration(stored)


def _misses(results):
    assert results
    return [result.case for result in results if not result.passed]


def test_the_originals_forward_pass_is_reproduced(configuration):
    results = forward.check_forward(configuration)
    assert _misses(results) == []
    assert not any(result.skipped_reason for result in results)
    assert sum(result.num_cases for result in results) > 80


def test_the_originals_training_steps_are_reproduced(configuration):
    results = training_steps.check_training(configuration, "train_one_hot")
    assert _misses(results) == []
    assert len(results) == 5


def test_the_gradient_norm_is_the_true_one(configuration):
    (result,) = training_steps.check_gradients(configuration)
    assert result.passed
    assert result.largest_error < 1e-6


def test_averaged_samples_of_repeated_positions_are_reproduced(configuration):
    positions = configuration.inputs["drawn_positions"]
    assert any(len(set(row)) < len(row) for row in positions.tolist())
    ours, _ = forward_outputs.compute_outputs(configuration)
    expected = np.load(configuration.folder / "outputs.npz")
    np.testing.assert_array_equal(
        ours["updated_input_ids"], expected["updated_input_ids"]
    )


def test_gradients_are_compared_under_the_references_names(
    stored, tmp_path, configuration
):
    folder = tmp_path / "renamed"
    shutil.copytree(stored, folder)
    training_steps.check_gradients(configuration)
    model = configuration.model
    ours = training_steps._split_all(
        model, [gradient.numpy() for gradient in model.trace.gradients]
    )
    norm = configuration.info["gradient_global_norm_dense"]
    unclipped = {name: norm * gradient for name, gradient in ours.items()}
    np.savez(folder / "gradients.npz", **unclipped)
    moved = fed_model.load_configuration(folder)
    norm_line, line = training_steps.check_gradients(moved)
    assert line.passed
    assert line.num_cases == len(configuration.info["variables"])
    assert line.case == "renamed, gradients"

    key_bias = next(name for name in unclipped if name.endswith("key/bias"))
    unclipped[key_bias] = unclipped[key_bias] + 1e-2
    np.savez(folder / "gradients.npz", **unclipped)
    _, line = training_steps.check_gradients(moved)
    assert not line.passed
    assert key_bias in line.case


@pytest.mark.parametrize(
    "name", ["disc_logits", "gen_layer_outputs", "is_fake"]
)
def test_one_entry_of_an_array_is_enough_for_a_miss(configuration, name):
    ours, _ = forward_outputs.compute_outputs(configuration)
    expected = dict(np.load(configuration.folder / "outputs.npz"))
    array = expected[name].copy()
    array.flat[5] += np.array(1, array.dtype) if name == "is_fake" else 1e-4
    expected[name] = array
    misses = _misses(forward._compare_outputs(configuration, ours, expected))
    assert len(misses) == 1
    assert f"worst: {name}" in misses[0]


def test_arrays_on_one_side_only_are_misses(configuration):
    ours, _ = forward_outputs.compute_outputs(configuration)
    expected = dict(np.load(configuration.folder / "outputs.npz"))
    del expected["disc_probs"]
    (miss,) = _misses(forward._compare_outputs(configuration, ours, expected))
    assert "disc_probs missing in the reference" in miss
    for name in ("cloze_logits", "something_new"):
        expected = {**ours, name: np.zeros([2])}
        (miss,) = _misses(
            forward._compare_outputs(configuration, ours, expected)
        )
        assert f"{name} unknown here" in miss


def test_a_metric_that_is_not_known_is_a_miss(stored, tmp_path):
    folder = tmp_path / "other"
    shutil.copytree(stored, folder)
    info = json.loads((folder / "info.json").read_text())
    info["eval_metrics"]["disc_f1"] = 0.5
    (folder / "info.json").write_text(json.dumps(info))
    results = forward.check_forward(fed_model.load_configuration(folder))
    (miss,) = _misses(results)
    assert "disc_f1 unknown here" in miss


@pytest.mark.parametrize(
    ("name", "losses", "num_cases"),
    [("e_electric", 4, 160), ("i_mlm_only", 2, 60)],
)
def test_the_other_objectives_are_reproduced(golden, name, losses, num_cases):
    folder = golden / "reference" / "forward" / name
    configuration = fed_model.load_configuration(folder)
    results = forward.check_forward(configuration)
    results += training_steps.check_gradients(configuration)
    assert _misses(results) == []
    lines = {result.case: result.num_cases for result in results}
    assert lines[f"{name}, losses"] == losses
    assert sum(lines.values()) > num_cases
    # A model without a discriminator has no line for one.
    assert (f"{name}, discriminator" in lines) == (name == "e_electric")


def test_a_masked_lm_alone_trains_as_its_reference_says(golden, tmp_path):
    """The run that is fed back is ours: names, samples and labels fit."""
    folder = tmp_path / "run"
    shutil.copytree(golden / "reference" / "forward" / "i_mlm_only", folder)
    configuration = fed_model.load_configuration(folder)
    samples = np.load(folder / "outputs.npz")["sampled_ids"]
    training_steps._reset(configuration)
    ours = training_steps._train(configuration, np.stack([samples] * 2))
    assert set(ours) == {
        "total_loss", "mlm_loss", "gradient_global_norm", "learning_rate",
        "sample_margin", "is_fake",
    }  # fmt: skip
    lines = training_steps._compare_losses("run", ours, ours)
    assert [line.num_cases for line in lines] == [3, 3]
    expected = {**ours, "disc_loss": np.zeros(2)}
    lines = training_steps._compare_losses("run", ours, expected)
    assert all("disc_loss on one side only" in line.case for line in lines)


def test_other_hyperparameters_than_resolved_are_a_miss(stored, tmp_path):
    folder = tmp_path / "other"
    shutil.copytree(stored, folder)
    info = json.loads((folder / "info.json").read_text())
    info["bert_config"]["num_attention_heads"] += 1
    (folder / "info.json").write_text(json.dumps(info))
    results = forward.check_forward(fed_model.load_configuration(folder))
    (miss,) = _misses(results)
    assert "bert_config.num_attention_heads" in miss


def test_a_wrong_loss_is_noticed(configuration, monkeypatch):
    original = losses.masked_lm_loss
    monkeypatch.setattr(
        losses, "masked_lm_loss", lambda *args: 1.001 * original(*args)
    )
    misses = _misses(forward.check_forward(configuration))
    assert any("losses" in miss for miss in misses)


def test_a_mask_too_many_is_noticed(configuration, monkeypatch):
    original = masking.num_predictions
    monkeypatch.setattr(
        masking, "num_predictions", lambda *args: original(*args) + 1
    )
    misses = _misses(forward.check_forward(configuration))
    assert any("ids, positions, labels" in miss for miss in misses)


def test_missing_clipping_is_noticed(configuration, monkeypatch):
    original = optimizers.clip_by_global_norm

    def leave(gradients, clip_norm):
        return list(gradients), original(gradients, clip_norm)[1]

    monkeypatch.setattr(optimizers, "clip_by_global_norm", leave)
    results = training_steps.check_training(configuration, "train_one_hot")
    assert _misses(results)


def test_a_run_clipped_by_another_norm_is_skipped(stored, tmp_path):
    folder = tmp_path / "sparse"
    shutil.copytree(stored, folder)
    info = json.loads((folder / "info.json").read_text())
    info["gradient_sparse_variables"] = ["electra/embeddings/word_embeddings"]
    (folder / "info.json").write_text(json.dumps(info))
    configuration = fed_model.load_configuration(folder)
    (result,) = training_steps.check_training(configuration, "train_lookup")
    assert "un-summed" in result.skipped_reason
