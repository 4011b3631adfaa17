import dataclasses

import numpy as np
import pytest

from electra_tf.export.pretrained import trained_run
from electra_tf.training import checkpoints


def test_average_weights_are_taken_when_asked(tiny_run):
    path = tiny_run.model_dir / "checkpoints" / "step-00000007"
    load = [
        trained_run.load_main_tower(
            tiny_run.settings,
            tiny_run.vocabulary,
            path,
            use_average=use_average,
        )
        for use_average in (False, True)
    ]
    for plain, average in zip(*(d.variables for d in load), strict=True):
        np.testing.assert_array_equal(average.numpy(), 0.5 * plain.numpy())


@pytest.mark.parametrize("name", ["mlm", "all_tokens_mlm", "electric"])
def test_main_tower_of_any_objective_is_restored_whole(
    objective_exports, tiny_run, name
):
    run = objective_exports(name)
    path = checkpoints.find(run.model_dir, "latest")
    for use_average, factor in ((False, 1.0), (True, 0.5)):
        tower = trained_run.load_main_tower(
            run.settings, tiny_run.vocabulary, path, use_average=use_average
        )
        assert type(tower) is type(run.model.main)
        for found, trained in zip(
            tower.variables, run.model.main.variables, strict=True
        ):
            assert found.path == trained.path
            np.testing.assert_array_equal(
                found.numpy(), factor * trained.numpy()
            )


def test_another_vocabulary_than_the_runs_is_refused(tiny_run):
    encoder = dataclasses.replace(tiny_run.settings.encoder, vocab_size=99)
    settings = dataclasses.replace(tiny_run.settings, encoder=encoder)
    with pytest.raises(ValueError, match="vocab_size=99"):
        trained_run.load_main_tower(
            settings,
            tiny_run.vocabulary,
            tiny_run.model_dir / "checkpoints" / "step-00000007",
        )


@pytest.mark.parametrize(
    ("which", "name"),
    [("latest", "step-00000007"), ("best", "step-00000006")],
)
def test_checkpoint_is_found_by_word(tiny_run, which, name):
    found = checkpoints.find(tiny_run.model_dir, which)
    assert found.name == name
    assert checkpoints.find(tiny_run.model_dir, str(found)) == found


@pytest.mark.parametrize("which", ["latest", "best", "/nowhere/step-1"])
def test_missing_checkpoint_is_an_error(tmp_path, which):
    with pytest.raises(FileNotFoundError, match="checkpoint"):
        checkpoints.find(tmp_path, which)
