"""Masking against the original's counts and recorded draws, exactly.

What is random about masking is compared in `masking_statistics`.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.inputs import masking
from electra_tf.verification import comparison
from electra_tf.verification import reference
from electra_tf.verification.report import CheckResult

KIND = "masking"
_TABLE_NAME = r"mask_prob_(.+)_max_seq_length_(\d+)"


class MaskingReference(NamedTuple):
    """A `masking/` folder: rows, recorded draws, statistics.

    Attributes:
        statistics: content of `statistics.json`.
        sample: content of `sample.npz`.
        special_ids: ids of [CLS], [SEP] and [MASK].
        eligible: `[B, S]` bool, candidates by our rule.
        num: `[B]`, positions to choose by our rule.
    """

    statistics: Mapping[str, Any]
    sample: reference.Arrays
    special_ids: tuple[int, int, int]
    eligible: np.ndarray
    num: np.ndarray

    @property
    def mask_id(self) -> int:
        """The id of [MASK]."""
        return self.special_ids[2]

    @property
    def num_slots(self) -> int:
        """Slots of a row, P."""
        return self.sample["masked_lm_positions"].shape[-1]


def load(folder: Path) -> MaskingReference:
    """Reads `statistics.json`, `sample.npz` and the vocabulary."""
    vocabulary = reference.load_vocabulary(folder)
    statistics = reference.read_json(folder / "statistics.json")
    sample = reference.read_arrays(folder / "sample.npz")
    special_ids = (vocabulary.cls_id, vocabulary.sep_id, vocabulary.mask_id)
    eligible = masking.eligible_positions(
        tf.constant(sample["input_ids"]),
        tf.constant(sample["input_mask"]),
        special_ids,
    )
    num = masking.num_predictions(
        tf.reduce_sum(sample["input_mask"], axis=1),
        statistics["mask_prob"],
        sample["masked_lm_positions"].shape[-1],
    )
    return MaskingReference(
        statistics, sample, special_ids, eligible.numpy(), num.numpy()
    )


def check_counts(folder: Path) -> CheckResult:
    """How many tokens are masked, for every length of several settings."""
    tables = reference.read_json(folder / "statistics.json")
    line = comparison.Comparison(KIND, "predictions by length")
    for name, table in tables["predictions_table"].items():
        match = re.fullmatch(_TABLE_NAME, name)
        if match is None:
            raise reference.ReferenceFileError(
                "Expected a name like mask_prob_0.15_max_seq_length_128 in "
                f"{folder / 'statistics.json'}. Received: {name!r}."
            )
        mask_prob, length = float(match[1]), int(match[2])
        slots = masking.max_predictions_per_seq(mask_prob, length)
        line.add(f"{name}, N", abs(slots - table["max_predictions_per_seq"]))
        expected = table["predictions_for_length_1_to_max"]
        lengths = tf.range(1, len(expected) + 1)
        ours = masking.num_predictions(lengths, mask_prob, slots)
        line.add(name, comparison.count_unequal(ours.numpy(), expected))
    return line.result()


def check_recorded_draws(folder: Path) -> CheckResult:
    """Our rules applied to the original's own draws."""
    recorded = load(folder)
    sample, eligible = recorded.sample, recorded.eligible
    rows = recorded.statistics["rows"]
    positions = sample["masked_lm_positions"]
    is_used = np.broadcast_to(
        np.arange(recorded.num_slots) < recorded.num[:, np.newaxis],
        positions.shape,
    )
    row_numbers = np.arange(len(eligible))[:, np.newaxis]
    ids = sample["input_ids"][row_numbers, positions]
    is_chosen = count_slots(positions, is_used, eligible.shape[-1]) > 0
    changed = sample["masked_input_ids"] != sample["input_ids"]
    is_mask = sample["masked_input_ids"] == recorded.mask_id
    lengths = sample["input_mask"].sum(axis=1)
    line = comparison.Comparison(KIND, "rules on recorded draws")
    for name, ours, theirs in (
        ("masked_lm_weights", is_used, sample["masked_lm_weights"]),
        ("masked_lm_ids", ids * is_used, sample["masked_lm_ids"]),
        ("length", lengths, [row["length"] for row in rows]),
        ("candidates", eligible.sum(1), [row["candidates"] for row in rows]),
        ("predictions", recorded.num, [row["predictions"] for row in rows]),
        ("forbidden positions", is_chosen & ~eligible, is_chosen & False),
        (
            "changed otherwise",
            changed & ~(is_chosen & is_mask),
            changed & False,
        ),
    ):
        line.add(name, comparison.count_unequal(ours, theirs))
    return line.result()


def count_slots(
    positions: np.ndarray, is_used: np.ndarray, length: int
) -> np.ndarray:
    """In how many used slots each position stands.

    Args:
        positions: `[..., P]` integer.
        is_used: `[..., P]`, 1 or True for slots that count.
        length: positions of a row, S.

    Returns:
        `[..., S]` integer.
    """
    flat = positions.reshape(-1, positions.shape[-1])
    rows = np.arange(len(flat))[:, np.newaxis]
    counts = np.zeros([len(flat), length], np.int64)
    np.add.at(counts, (rows, flat), is_used.reshape(flat.shape).astype(int))
    return counts.reshape(*positions.shape[:-1], length)
