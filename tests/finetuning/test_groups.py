"""Rows that are compared are learned together, in groups that stay whole."""

import json

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.finetuning import task_data
from electra_tf.modeling import task_heads
from electra_tf.tasks import rows as rows_lib
from tests.finetuning import little_task


@pytest.mark.parametrize(
    ("scores", "relevance", "expected"),
    [
        # log(e + e^2) - 2, and two equal shares of log 2.
        ([1.0, 2.0, 0.0, 0.0], [[0, 1], [2, 2]], [0.313262, 0.693147]),
        # log(e + e^3 + e^2) = 3.407606, less 2/3 of 3 and 1/3 of 2.
        ([1.0, 3.0, 2.0], [[0, 2, 1]], [0.740939]),
        # What fills a group changes nothing. Where nothing is relevant there
        # is nothing to learn.
        ([1.0, 2.0, 50.0, 0.5, 1.0, -7.0], [[0, 1, -1], [0, 0, -1]],
         [0.313262, 0.0]),
    ],
)  # fmt: skip
def test_the_loss_of_a_group_by_hand(scores, relevance, expected):
    head = task_heads.ComparisonHead(seed=1)
    head.build((None, None, 1))
    head.dense.kernel.assign([[1.0]])  # Its outputs are the states.
    hidden = tf.reshape(tf.constant(scores), [-1, 1, 1])
    features = {"relevance": tf.constant(relevance, tf.float32)}
    found = head.compute_losses(hidden, features, None)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("replicas", [1, 2])
def test_no_batch_splits_a_group(replicas):
    lengths = np.array([3, 4, 5, 9, 6, 6, 8, 3])
    ids = np.repeat(np.arange(8, dtype=np.int32), lengths)
    rows = rows_lib.EncodedRows(
        rows_lib.Ragged(ids, np.cumsum([0, *lengths])),
        segment_starts=lengths.astype(np.int32),
        examples=np.arange(8, dtype=np.int32),
        columns={"relevance": np.arange(8, dtype=np.float32).reshape(4, 2)},
        group_size=2,
    )
    columns = task_heads.ComparisonHead.columns
    table = task_data.RowTable({"own": rows}, {"own": columns})
    assert table.row_lengths.tolist() == [4, 9, 6, 8]
    order = task_data.order_for_training(table.row_lengths, 2, 4, seed=3)
    context = tf.distribute.InputContext(1, 0, replicas)
    dataset = task_data.build_training_dataset(table, order, 0, context)
    share = 2 // replicas
    assert dataset.element_spec["input_ids"].shape == [2 * share, None]
    assert dataset.element_spec["own/relevance"].shape == [share, 2]
    seen = []
    for batch in dataset:
        ids = batch["input_ids"].numpy().max(1)
        np.testing.assert_array_equal(
            batch["own/relevance"], ids.reshape(-1, 2)
        )
        seen += ids.tolist()
    assert sorted(seen) == sorted([*range(8)] * 2)


def test_the_right_choice_is_learned(pretrained_dir, tmp_path):
    # A question with two or three choices; the right one has `fine`.
    generator = np.random.default_rng(3)
    own = {"kind": "multiple_choice", "test_file": ""}
    for split, count in (("train", 64), ("dev", 16)):
        lines = []
        for _ in range(count):
            nouns = generator.permutation(["cat", "dog", "item", "table"])
            nouns = nouns[: 2 + len(lines) % 2]
            choices = [f"the poor {noun} ran." for noun in nouns]
            label = int(generator.integers(len(choices)))
            choices[label] = f"the fine {nouns[label]}."
            row = {"text": "a cat sat.", "choices": choices, "label": label}
            lines.append(json.dumps(row))
        own[f"{split}_file"] = str(tmp_path / f"{split}.jsonl")
        (tmp_path / f"{split}.jsonl").write_text("\n".join(lines))
    request = little_task.build_request(
        tmp_path, pretrained_dir, tmp_path / "out", {"num_micro_batches": 2}
    )
    _, result = little_task.run(little_task.replace(request, "own", **own))
    score = result.scores["own"]["dev"]
    assert score.metrics["accuracy"] > 90
    assert not score.is_degenerate
    assert result.num_steps == 24  # three epochs of 64 questions, 8 a step
