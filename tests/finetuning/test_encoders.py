"""The encoder of a run comes back whole, and is measured."""

import numpy as np
import pytest

from electra_tf import errors
from electra_tf.export import conversion
from electra_tf.finetuning import measure
from electra_tf.finetuning import model as model_lib
from electra_tf.training import checkpoints
from tests import tiny
from tests.finetuning.conftest import VOCABULARY
from tests.finetuning.conftest import write_run


@pytest.mark.parametrize(
    ("which", "factor"), [("best", 1.0), ("latest", 2.0), ("folder", 1.0)]
)
def test_all_weights_of_the_checkpoint_are_restored(
    tmp_path, settings, loaded, which, factor
):
    variables = loaded.encoder.variables
    before = [variable.numpy() for variable in variables]
    write_run(tmp_path, settings, variables)
    for variable in variables:
        variable.assign(variable * 2.0)
    named = {f"model/{v.path}": v for v in variables}
    checkpoints.save(tmp_path, 2, named, {"best_step": 1}, keep=2)
    if which == "folder":
        which = str(tmp_path / "checkpoints" / "step-00000001")
    found = model_lib.load_encoder(tmp_path, which)
    assert found.vocabulary == VOCABULARY
    assert found.settings.vocab_size == VOCABULARY.size
    count = len(before)
    assert found.origin.startswith(f"{count} of {count} encoder variables")
    for expected, variable in zip(before, found.encoder.variables, strict=True):
        np.testing.assert_array_equal(variable.numpy(), factor * expected)


def test_an_encoder_of_another_format_is_restored(tmp_path, pretrained_dir):
    folder = tmp_path / "converted"
    conversion.convert(pretrained_dir, "huggingface", folder)
    one, other = map(model_lib.load_encoder, (pretrained_dir, folder))
    assert other.vocabulary == one.vocabulary
    assert other.settings == one.settings
    assert str(folder) in other.origin
    pairs = zip(one.encoder.variables, other.encoder.variables, strict=True)
    for mine, found in pairs:
        np.testing.assert_array_equal(mine.numpy(), found.numpy())
    for options in ({"which": "best"}, {"use_average": True}):
        with pytest.raises(ValueError, match="use_average are for runs. Rec"):
            model_lib.load_encoder(folder, **options)
    (folder / "vocab.txt").unlink()
    (folder / "tokenizer.json").unlink()
    with pytest.raises(errors.ModelError, match=r"Put its vocab\.txt there"):
        model_lib.load_encoder(folder)


NAMES = ("cola", "sst2", "stsb", "chunking")


@tiny.eagerly()
def test_an_encoder_is_measured_on_all_tasks_and_the_same_afterwards(
    loaded, tasks_dir
):
    before = [variable.numpy() for variable in loaded.encoder.variables]
    names = NAMES[1:]
    scores = measure.measure_loaded_encoder(
        loaded, tasks_dir, names, seed=1, max_examples=0, finetune_steps=2,
        finetune_trials=1,
    )  # fmt: skip
    assert list(scores) == [
        f"{name}_{how}" for name in names for how in ("probe", "finetune")
    ]
    # Gold numbers of STS-B are two, so ranks are tied: 0.87 at most.
    assert all(scores[f"{name}_probe"] > 0.85 for name in names)
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
