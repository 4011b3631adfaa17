"""Two-tower generators against a model in plain NumPy.

The other references have one such configuration, Electric with shared
embeddings. These are the combinations beside it.
"""

import numpy as np
import pytest

from electra_tf.modeling import generators
from electra_tf.pretraining.objectives import electric
from electra_tf.verification import fed_model
from electra_tf.verification import forward
from electra_tf.verification import forward_outputs
from electra_tf.verification import rounding
from electra_tf.verification import runner
from electra_tf.verification import training_steps
from tests.verification import two_tower_folder

# Name: whether it is Electric, whether embeddings are untied.
COMBINATIONS = {
    "electra_tied": (False, False),
    "electra_untied": (False, True),
    "electric_untied": (True, True),
}


@pytest.fixture(scope="module")
def reference_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two_tower")
    for seed, (name, combination) in enumerate(COMBINATIONS.items()):
        two_tower_folder.write_folder(
            folder / "forward" / name, *combination, seed
        )
    return folder


@pytest.fixture(scope="module")
def electric_untied(reference_folder):
    return fed_model.load_configuration(
        reference_folder / "forward" / "electric_untied"
    )


def _misses(results):
    assert results
    return [result.case for result in results if not result.passed]


def test_every_combination_is_met_with_its_gradients(reference_folder):
    results = runner.verify(reference_folder, ["forward"])
    assert _misses(results) == []
    assert not any(result.skipped_reason for result in results)
    for name in COMBINATIONS:
        lines = {
            result.case.removeprefix(f"{name}, "): result.num_cases
            for result in results
            if result.case.startswith(name)
        }
        assert lines["losses"] == 4
        assert lines["gradients"] > 60
        assert lines["gradient norm"] == 1
        assert lines["next to nothing but padding"] >= 5


@pytest.mark.parametrize("name", COMBINATIONS)
def test_what_is_rounded_is_close_to_padding_and_the_rest_is_not(
    reference_folder, name
):
    configuration = fed_model.load_configuration(
        reference_folder / "forward" / name
    )
    input_mask = configuration.inputs["input_mask"]
    is_rounded = rounding.find_rounded("log_q", input_mask, True)
    # The first row has no padding. In the second, of 9 of 12 tokens, the last
    # token is before padding, and the last position before the first.
    assert np.argwhere(is_rounded).tolist() == [[1, 8], [1, 9], [1, 10]]
    ours, _ = forward_outputs.compute_outputs(configuration)
    expected = np.load(configuration.folder / "outputs.npz")
    np.testing.assert_allclose(
        ours["cloze_logits"][~is_rounded],
        expected["cloze_logits"][~is_rounded],
        rtol=1e-5,
        atol=1e-5,
    )


@pytest.mark.parametrize(
    ("key", "position", "change", "is_miss"),
    [
        ("cloze_logits", 7, 1e-4, True),
        ("cloze_logits", 8, 1e-4, False),
        ("cloze_logits", 8, 1e-2, True),
        ("cloze_logits", 11, 1e-4, True),
        ("gen_rtl_sequence_output", 8, 1e-4, True),
        ("gen_rtl_sequence_output", 9, 1e-4, False),
        ("gen_rtl_sequence_output", 9, 1e-2, True),
        ("gen_ltr_sequence_output", 9, 1e-4, True),
        ("disc_logits", 8, 1e-4, False),
        ("disc_logits", 7, 1e-4, True),
        ("disc_embedding_output", 8, 1e-4, True),
    ],
)
def test_the_wide_tolerance_holds_where_nothing_is_seen_alone(
    electric_untied, key, position, change, is_miss
):
    ours, _ = forward_outputs.compute_outputs(electric_untied)
    expected = {name: value.copy() for name, value in ours.items()}
    expected[key][1, position] += change
    misses = _misses(forward._compare_outputs(electric_untied, ours, expected))
    assert bool(misses) == is_miss
    assert all(key in miss for miss in misses)


def test_another_choice_must_be_almost_a_tie():
    mask = np.array([[1, 1, 0]])
    is_rounded = rounding.find_rounded("cloze_preds", mask, False)
    ours = {"cloze_logits": np.array([[[0.0, 9.0], [1.0, 1.002], [0.0, 9.0]]])}
    error = rounding.compute_error(
        "cloze_preds", ours, np.array([[1, 0, 1]]), is_rounded
    )
    assert error == pytest.approx(1e-3)
    ours = {
        "disc_logits": np.array([[5.0, -0.2, 5.0]]),
        "disc_preds": np.array([[1, 0, 1]]),
    }
    error = rounding.compute_error(
        "disc_preds", ours, np.array([[1, 1, 1]]), is_rounded
    )
    assert error == pytest.approx(0.2)


def test_electra_keeps_the_strict_tolerance_for_the_discriminator():
    mask = np.array([[1, 1, 0]])
    assert rounding.find_rounded("disc_logits", mask, False) is None
    assert rounding.find_rounded("disc_logits", mask, True) is not None


def test_states_taken_from_the_wrong_side_are_noticed(
    reference_folder, monkeypatch
):
    folder = reference_folder / "forward" / "electra_untied"
    configuration = fed_model.load_configuration(folder)
    tower = configuration.model.generator
    assert isinstance(tower, generators.TwoTowerGenerator)
    monkeypatch.setattr(tower, "left_to_right", tower.right_to_left)
    misses = _misses(forward.check_forward(configuration))
    assert any("masks and generator" in miss for miss in misses)


def test_a_gradient_through_log_q_is_noticed(electric_untied, monkeypatch):
    monkeypatch.setattr(electric.tf, "stop_gradient", lambda tensor: tensor)
    assert _misses(training_steps.check_gradients(electric_untied))
