"""A kind of task that one file outside of the package defines."""

import numpy as np
import pytest

import electra_tf
from electra_tf import errors
from electra_tf.config import finetuning as finetuning_config
from electra_tf.export.clients import text_models
from electra_tf.finetuning import finetune
from electra_tf.finetuning import results
from tests.export import conftest
from tests.finetuning import counting
from tests.finetuning import little_task


@pytest.fixture(scope="module")
def trial(pretrained_dir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("counting")
    generator = np.random.default_rng(1)
    for split, number in (("train", 128), ("dev", 32)):
        counts = generator.integers(1, 9, number)
        texts = (" ".join(generator.choice(["cat", "dog"], n)) for n in counts)
        rows = zip(texts, counts, strict=True)
        lines = ["text,label", *(f"{text},{count}" for text, count in rows)]
        (folder / f"{split}.csv").write_text("\n".join(lines))
    # 0 epochs: as many as the kind says.
    training = {"train_batch_size": 16, "num_train_epochs": 0.0}
    request = little_task.build_request(
        folder, pretrained_dir, folder / "out", training
    )
    own = {"kind": counting.__name__, "test_file": ""}
    request = little_task.replace(request, "own", **own)
    rates = {"learning_rate": 1e-2, "layerwise_lr_decay": 1.0}
    finetune.finetune(little_task.replace(request, "optimizer", **rates))
    return folder / "out" / "trial_01"


def test_it_is_learned(trial):
    result = results.read_trials(trial.parent)[1]
    score = result.scores["own"]["dev"]
    assert score.metrics["within_one"] > 80
    assert not score.is_degenerate
    assert result.num_steps == 96


def test_its_export_and_the_loaded_model_answer_alike(trial, tmp_path):
    texts = ["cat dog cat", "dog"]
    model = electra_tf.load(trial)
    counts = model.predict(texts)
    assert {type(count) for count in counts} == {counting.CountPrediction}
    folder = tmp_path / "export"
    conftest.export_unchecked(trial, folder)
    export = text_models.LoadedExport(folder)
    lines = export.describe({"texts": texts})
    assert list(lines) == [
        f"{text}\n  {prediction.count} words"
        for text, prediction in zip(texts, counts, strict=True)
    ]
    page = (folder / "README.md").read_text()
    assert "Says how many words a text has." in page
    assert "`count_text`" in page


def test_what_no_format_holds_is_refused_and_ours_is_kept(trial, tmp_path):
    model = electra_tf.load(trial)
    with pytest.raises(
        errors.ModelError, match="no class for a task.*counting"
    ):
        model.save(tmp_path / "there")
    model.save(tmp_path / "ours", "electra_tf")
    again = electra_tf.load(tmp_path / "ours")
    assert again.predict(["cat"]) == model.predict(["cat"])


def test_a_name_that_is_no_kind_and_no_module_is_refused():
    with pytest.raises(errors.ConfigError, match="Did you mean 'ranking'"):
        finetuning_config.OwnTaskConfig(kind="rankin")
