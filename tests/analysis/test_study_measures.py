"""What a run of a study, and random weights beside it, are measured on."""

import dataclasses

import numpy as np
import pytest

from electra_tf.analysis import blimp
from electra_tf.analysis import sentence_scores
from electra_tf.analysis import study_measures
from electra_tf.finetuning import measure
from electra_tf.finetuning import model as finetuning_model
from electra_tf.records import manifest
from tests import tiny_electra
from tests import tiny_run
from tests.analysis import test_blimp


@pytest.fixture
def settings_and_tasks(tmp_path):
    """Settings, and tasks by name, whose dataset and BLiMP files exist."""
    dataset = tiny_run.write_dataset(
        tmp_path / "dataset", tiny_electra.VOCABULARY
    )
    (tmp_path / "tasks").mkdir()
    test_blimp.write_files(tmp_path / "tasks")
    settings = tiny_electra.build_settings()
    data = dataclasses.replace(settings.data, dataset_dir=str(dataset))
    settings = dataclasses.replace(settings, data=data)
    return settings, lambda *names: study_measures.Tasks(
        tmp_path / "tasks", names, seed=3, finetune_steps=0, max_examples=0
    )


def test_a_run_has_its_share_of_right_pairs(
    settings_and_tasks, tmp_path, capfd
):
    tiny_electra.write_run(tmp_path / "model")
    _, tasks = settings_and_tasks
    scores = study_measures.measure_run(tmp_path / "model", tasks("blimp"))
    scorer = sentence_scores.load_scorer(tmp_path / "model")
    expected = blimp.judge(scorer.score, blimp.read_pairs(tmp_path / "tasks"))
    assert scores == {"blimp": expected.accuracy}
    assert "\n".join(expected.describe()) in capfd.readouterr().out


def test_random_weights_are_those_of_a_random_encoder(
    settings_and_tasks, tmp_path, monkeypatch
):
    settings, tasks = settings_and_tasks
    seen = []
    counts = np.ones(tiny_electra.VOCABULARY.size, np.int64)
    counts[tiny_electra.VOCABULARY.tokens.index("good")] = 2
    np.save(tmp_path / "dataset/train" / manifest.TOKEN_COUNTS_FILE, counts)

    def note(loaded, tasks_dir, names, **options):
        seen.append([v.numpy() for v in loaded.encoder.variables])
        return {f"{name}_probe": 0.5 for name in names}

    monkeypatch.setattr(measure, "measure_loaded_encoder", note)
    monkeypatch.setattr(measure, "measure_guessing", lambda *_: {"sst2": 0.625})
    scores, guessing = study_measures.measure_untrained(
        settings, tasks("sst2", "blimp")
    )
    assert list(scores) == ["blimp", "sst2_probe"]
    # The two sentences differ in "good" and "bad".
    assert guessing == {"blimp": 1.0, "sst2": 0.625}
    random = finetuning_model.random_encoder(
        tiny_electra.build_settings().encoder, tiny_electra.VOCABULARY, seed=3
    )
    for one, variable in zip(seen[0], random.encoder.variables, strict=True):
        np.testing.assert_array_equal(one, variable.numpy())
