"""Masking against recorded counts, draws and statistics."""

import json
import shutil

import numpy as np
import pytest

from electra_tf.inputs import masking as masking_lib
from electra_tf.verification import masking
from electra_tf.verification import masking_statistics


@pytest.fixture
def folder(golden, tmp_path):
    """The stored statistics, with a vocabulary that has its special ids."""
    folder = tmp_path / "masking"
    shutil.copytree(golden / "masking", folder)
    tokens = [f"w{i}" for i in range(104)]
    tokens[0] = "[PAD]"
    tokens[100:104] = ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n")
    return folder


def _change_statistics(folder, change):
    path = folder / "statistics.json"
    statistics = json.loads(path.read_text())
    change(statistics)
    path.write_text(json.dumps(statistics))


def test_counts_rules_and_statistics_of_the_original_are_met(folder):
    results = [
        masking.check_counts(folder),
        masking.check_recorded_draws(folder),
        *masking_statistics.check_without_replacement(folder),
        *masking_statistics.check_with_replacement(folder),
    ]
    assert [result for result in results if not result.passed] == []
    assert sum(result.num_cases for result in results) > 50


def test_one_wrong_count_is_a_miss(folder):
    def change(statistics):
        table = next(iter(statistics["predictions_table"].values()))
        table["predictions_for_length_1_to_max"][9] += 1

    _change_statistics(folder, change)
    assert masking.check_counts(folder).largest_error == 1


def test_a_recorded_draw_of_a_special_token_is_a_miss(folder):
    sample = dict(np.load(folder / "sample.npz"))
    sample["masked_lm_positions"][0, 0, 0] = 0
    np.savez(folder / "sample.npz", **sample)
    result = masking.check_recorded_draws(folder)
    assert not result.passed


def test_another_share_of_masks_is_a_miss_in_both_ways(folder, monkeypatch):
    original = masking_lib.mask_inputs

    def mask_more(*args, replace_prob, **kwargs):
        return original(*args, replace_prob=replace_prob + 0.05, **kwargs)

    monkeypatch.setattr(masking_lib, "mask_inputs", mask_more)
    *_, share = masking_statistics.check_without_replacement(folder)
    assert not share.passed
    results = masking_statistics.check_with_replacement(folder)
    assert [r.passed for r in results] == [True, True, True, False, False]


def test_positions_that_are_not_equally_likely_are_a_miss(folder, monkeypatch):
    def draw_early(eligible, num, uniform, max_predictions):
        tilt = np.linspace(1.0, 0.9, uniform.shape[1], dtype=np.float32)
        return original(eligible, num, uniform * tilt, max_predictions)

    original = masking_lib.draw_positions
    monkeypatch.setattr(masking_lib, "draw_positions", draw_early)
    exact, uniformity, share = masking_statistics.check_without_replacement(
        folder
    )
    assert exact.passed and share.passed
    assert not uniformity.passed


def test_the_original_way_of_drawing_is_not_taken_for_ours(folder, monkeypatch):
    monkeypatch.setattr(
        masking_lib,
        "draw_positions",
        masking_lib.draw_positions_with_replacement,
    )
    exact, *_ = masking_statistics.check_without_replacement(folder)
    assert not exact.passed


def test_slots_are_counted_by_position():
    counts = masking.count_slots(
        np.array([[3, 1, 3, 0]]), np.array([[1, 1, 1, 0]]), 5
    )
    assert counts.tolist() == [[0, 1, 0, 2, 0]]
