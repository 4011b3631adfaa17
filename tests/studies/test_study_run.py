"""Measures of a run of a study, and of random weights beside it."""

import dataclasses

import numpy as np

from electra_tf.finetuning import measure
from electra_tf.finetuning import model as finetuning_model
from electra_tf.records import manifest
from electra_tf.scoring import blimp
from electra_tf.scoring import sentence_scores
from electra_tf.studies import runner
from electra_tf.studies import study_run
from tests import tiny_electra
from tests import tiny_run
from tests.scoring import test_blimp
from tests.studies import toy_study


def _measure(folder, arm, *tasks):
    """Measures an arm of a toy study in folders that are there."""
    settings = tiny_electra.build_settings()
    data = dataclasses.replace(settings.data, dataset_dir=str(folder / "data"))
    settings = dataclasses.replace(settings, data=data)
    plan = toy_study.build_plan(tasks=tasks, seeds=(3,), has_tasks=True)
    folders = folder / "data", folder, folder
    requests = runner.build_requests(plan, *folders)
    (request,) = [r for r in requests if r.arm.name == arm]
    request = dataclasses.replace(request, folder=folder)
    return study_run.measure_tasks(request, settings)


def test_a_run_has_its_share_of_right_pairs(tmp_path, capfd):
    tiny_electra.write_run(tmp_path / "model")
    test_blimp.write_files(tmp_path)
    scores, guessing = _measure(tmp_path, "electra", "blimp")
    scorer = sentence_scores.load_scorer(tmp_path / "model")
    pairs = blimp.read_pairs(tmp_path)
    expected = blimp.judge(scorer.score(blimp.list_sentences(pairs)), pairs)
    assert (scores, guessing) == ({"blimp": expected.mean()}, {})
    assert "\n".join(blimp.describe(expected)) in capfd.readouterr().out


def test_random_weights_are_those_of_a_random_encoder(tmp_path, monkeypatch):
    vocabulary = tiny_electra.VOCABULARY
    dataset = tiny_run.write_dataset(tmp_path / "data", vocabulary)
    counts = np.ones(vocabulary.size, np.int64)
    counts[vocabulary.tokens.index("good")] = 2
    np.save(dataset / "train" / manifest.TOKEN_COUNTS_FILE, counts)
    test_blimp.write_files(tmp_path)
    seen = []

    def note(loaded, tasks_dir, names, **options):
        seen.append([v.numpy() for v in loaded.encoder.variables])
        return {f"{name}_probe": 0.5 for name in names}

    monkeypatch.setattr(measure, "measure_loaded_encoder", note)
    monkeypatch.setattr(measure, "measure_guessing", lambda *_: {"sst2": 0.625})
    scores, guessing = _measure(tmp_path, "untrained", "sst2", "blimp")
    assert list(scores) == ["blimp", "sst2_probe"]
    # The two sentences differ in "good" and "bad".
    assert guessing == {"blimp": 1.0, "sst2": 0.625}
    encoder = tiny_electra.build_settings().encoder
    random = finetuning_model.random_encoder(encoder, vocabulary, seed=3)
    for one, variable in zip(seen[0], random.encoder.variables, strict=True):
        np.testing.assert_array_equal(one, variable.numpy())
