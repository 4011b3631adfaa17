"""One call measures an encoder, and leaves no trace in it."""

import dataclasses

import numpy as np
import pytest

from electra_tf import errors
from electra_tf.config import finetuning as finetuning_config
from electra_tf.finetuning import measure
from electra_tf.tasks import catalog
from electra_tf.text import tokenizer as tokenizer_lib
from tests.finetuning.conftest import VOCABULARY

NAMES = ("cola", "sst2", "stsb", "chunking")


def test_an_encoder_is_measured_on_all_tasks_and_the_same_afterwards(
    loaded, tasks_dir
):
    before = [variable.numpy() for variable in loaded.encoder.variables]
    scores = measure.measure_loaded_encoder(
        loaded,
        tasks_dir,
        NAMES,
        seed=1,
        max_examples=0,
        finetune_steps=2,
        finetune_trials=2,
    )
    assert list(scores) == [
        f"{name}_{how}" for name in NAMES for how in ("probe", "finetune")
    ]
    # Gold numbers of STS-B are two, so ranks are tied: 0.87 at most.
    assert all(scores[f"{name}_probe"] > 0.85 for name in NAMES)
    for value, variable in zip(before, loaded.encoder.variables, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


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
    assert found["cola"] == found["stsb"] == found["chunking"] == 0.0


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


def test_what_cannot_be_probed_is_refused(tasks_dir, loaded):
    options = finetuning_config.TaskConfig("cola", str(tasks_dir))
    settings = finetuning_config.FinetuningConfig(options)
    task = catalog.build_task("cola", settings)
    examples = task.read_split("dev")
    tokenizer = tokenizer_lib.Tokenizer(VOCABULARY)
    rows = task.build_rows(examples, tokenizer, 16, is_training=True)
    questions = dataclasses.replace(rows, columns={})
    with pytest.raises(ValueError, match="Fine-tune that"):
        measure.probe(loaded.encoder, questions, rows)
    alike = dataclasses.replace(rows, columns={"label": np.ones(40, int)})
    with pytest.raises(errors.DataError, match="at least two labels"):
        measure.probe(loaded.encoder, alike, rows)
