"""One call measures an encoder, and leaves no trace in it."""

import numpy as np

from electra_tf.finetuning import measure

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
