"""One call measures an encoder, and leaves no trace in it."""

import dataclasses

import numpy as np
import pytest

from electra_tf.config import finetuning as finetuning_config
from electra_tf.finetuning import measure
from electra_tf.tasks import catalog
from electra_tf.text import tokenizer as tokenizer_lib
from tests.finetuning.conftest import VOCABULARY

NAMES = ("cola", "sst2", "chunking")
TOKENIZER = tokenizer_lib.Tokenizer(VOCABULARY)


def test_an_encoder_is_measured_on_all_tasks_and_the_same_afterwards(
    loaded, tasks_dir
):
    before = [variable.numpy() for variable in loaded.encoder.variables]
    scores = measure.measure_loaded_encoder(
        loaded, tasks_dir, NAMES, seed=1, max_examples=0, finetune_steps=2
    )
    assert list(scores) == [
        f"{name}_{how}" for name in NAMES for how in ("probe", "finetune")
    ]
    assert all(scores[f"{name}_probe"] > 0.9 for name in NAMES)
    for value, variable in zip(before, loaded.encoder.variables, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)
    again = measure.measure_loaded_encoder(
        loaded,
        tasks_dir,
        ["chunking"],
        seed=1,
        max_examples=0,
        finetune_steps=2,
    )
    assert again.items() <= scores.items()


def test_guessing_is_the_commonest_label_in_training(loaded, tasks_dir):
    found = measure.measure_guessing(loaded, tasks_dir, NAMES)
    assert list(found) == list(NAMES)
    folder = tasks_dir / "glue_data" / "SST-2"
    labels, official = (
        [line[-1] for line in (folder / name).read_text().splitlines()[1:]]
        for name in ("train.tsv", "dev.tsv")
    )
    commonest = max("01", key=labels.count)
    assert found["sst2"] == official.count(commonest) / len(official)
    # One answer for all has no correlation, and I-NP alone is no phrase.
    assert found["cola"] == found["chunking"] == 0.0


def test_of_two_dev_splits_the_first_is_measured(loaded, tmp_path):
    (tmp_path / "MNLI").mkdir()
    heading = "\t".join(["x"] * 12)
    row = "\t".join(["x"] * 8 + ["A cat", "A dog", "x", "{}"])
    for split, labels in (
        ("train", ["neutral"] * 2),
        ("dev_matched", ["neutral"]),
        ("dev_mismatched", ["entailment"]),
    ):
        lines = [heading, *(row.format(label) for label in labels)]
        (tmp_path / "MNLI" / f"{split}.tsv").write_text("\n".join(lines))
    found = measure.measure_guessing(loaded, tmp_path, ["mnli"])
    assert found == {"mnli": 1.0}


def _build_rows(tasks_dir, name):
    settings = finetuning_config.FinetuningConfig(
        task=finetuning_config.TaskConfig(names=name, data_dir=str(tasks_dir))
    )
    task = catalog.build_task(name, settings)
    return [
        task.build_rows(task.read_split(split), TOKENIZER, 16, split == "train")
        for split in ("train", "dev")
    ]


def _hidden(encoder, ids, segment):
    ids = np.array([ids])
    ones = np.ones_like(ids)
    return encoder(ids, ones, segment * ones).sequence_output.numpy()[0]


def test_a_sentence_is_its_mean_and_its_first_vector(loaded, tasks_dir):
    train, _ = _build_rows(tasks_dir, "cola")
    vectors = measure._collect_vectors(loaded.encoder, train)
    for row in (0, 5, 17):
        hidden = _hidden(loaded.encoder, train.ids[row], 0)
        expected = np.concatenate([hidden.mean(0), hidden[0]])
        np.testing.assert_allclose(vectors[row], [expected], atol=1e-5)
    # A word is the vector of its first piece.
    train, _ = _build_rows(tasks_dir, "chunking")
    vectors = measure._collect_vectors(loaded.encoder, train)
    hidden = _hidden(loaded.encoder, train.ids[3], 1)
    positions = train.ragged["word_positions"][3]
    np.testing.assert_allclose(vectors[3], hidden[positions], atol=1e-5)


def test_what_cannot_be_probed_is_refused(tasks_dir, loaded):
    train, dev = _build_rows(tasks_dir, "cola")
    labels = np.zeros_like(train.columns["label"])
    one_label = dataclasses.replace(train, columns={"label": labels})
    with pytest.raises(ValueError, match=r"two different.*96 times"):
        measure.probe(loaded.encoder, one_label, dev)
    regression = dataclasses.replace(train, columns={"target": labels})
    with pytest.raises(ValueError, match="classification or tagging"):
        measure.probe(loaded.encoder, regression, dev)
