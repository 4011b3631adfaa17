"""A search trains combinations and ranks them; a trial can be the start."""

import dataclasses

import numpy as np
import pytest

from electra_tf import errors
from electra_tf.config import finetuning as finetuning_config
from electra_tf.finetuning import finetune
from electra_tf.finetuning import results
from tests import tiny
from tests.finetuning import little_task
from tests.finetuning.test_results import _mood
from tests.finetuning.test_results import _size
from tests.finetuning.test_results import _write


def test_a_grid_has_every_combination_by_a_name_that_says_it():
    settings = finetuning_config.FinetuningConfig()
    search = {"learning_rate": (1e-4, 1), "rank": (0, 8), "frozen_layers": (2,)}
    grid = finetuning_config.build_grid(settings, search)
    assert list(grid) == [
        f"learning_rate={rate},rank={rank},frozen_layers=2"
        for rate in (0.0001, 1)
        for rank in (0, 8)
    ]
    found = grid["learning_rate=0.0001,rank=8,frozen_layers=2"]
    assert found.optimizer.learning_rate == 1e-4 and found.lora.rank == 8
    assert found.training.frozen_layers == 2
    for wrong, message in (
        ({"learning_rat": (1,)}, "'learning_rat'.*Did you mean 'learning_rate"),
        ({"train_batch_size": (8, 16.5)}, "train_batch_size.*16.5"),
    ):
        with pytest.raises(errors.ConfigError, match=message):
            finetuning_config.build_grid(settings, wrong)
    task = finetuning_config.TaskConfig(names="own")
    own = dataclasses.replace(settings, task=task)
    with pytest.raises(errors.ConfigError, match="no own.dev_file"):
        finetuning_config.build_grid(own, search)


def test_the_median_ranks_and_of_errors_the_least(tmp_path):
    values = {"a": (80.0, 81.0, 95.0), "b": (82.0, 83.0, 84.0)}
    values["c"] = 50.0, 50.0, 83.0
    for name, own in values.items():
        _write(tmp_path / name, *map(_mood, own))
    done = {name: results.summarize(tmp_path / name) for name in values}
    ranking = results.rank(done)
    assert ranking.best == done["b"]
    lines = ranking.format_table().split("\n")
    assert [" ".join(line.split()) for line in lines[:4]] == [
        "combination split metric median mean sd best trials",
        "b mood dev accuracy 83.00 83.00 1.00 84.00 3",
        "a mood dev accuracy 81.00 85.33 8.39 95.00 3",
        "c mood dev accuracy 50.00 61.00 19.05 83.00 3, 2 *",
    ]
    assert lines[4].startswith("The best is b. The score that chose it")
    _write(tmp_path / "x", _mood(90.0) | _size(8.0))
    _write(tmp_path / "y", _mood(89.0) | _size(4.0))
    both = {name: results.summarize(tmp_path / name) for name in "xy"}
    # Means of 41 and 42.5: a larger error takes away more than it gives.
    lines = results.rank(both).lines
    assert [(line.title, line.metric) for line in lines] == [
        ("y", "accuracy"), ("y", "mse"), ("x", "accuracy"), ("x", "mse"),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def searched(data, pretrained_dir, tmp_path_factory):
    output = tmp_path_factory.mktemp("searched") / "out"
    request = little_task.build_request(
        data, pretrained_dir, output, search={"learning_rate": (1e-9, 5e-3)}
    )
    with tiny.eagerly():
        return request, finetune.finetune(request)


@tiny.eagerly()
def test_combinations_are_trained_ranked_and_not_trained_again(
    searched, capsys
):
    request, ranking = searched
    best, other = (line.numbers.median for line in ranking.lines)
    assert ranking.lines[0].title == "learning_rate=0.005" and best > other
    output = request.output_dir
    table = ranking.format_table() + "\n"
    assert (output / "results.txt").read_text() == table
    capsys.readouterr()
    assert finetune.finetune(request) == ranking
    printed = capsys.readouterr().out
    assert "learning_rate=0.005, 2 of 2:" in printed and table in printed
    assert "traced" not in printed
    best = output / "learning_rate=0.005"
    assert results.summarize(best) == ranking.best
    # Its folder means the best, also as one task of a benchmark.
    for folder, task in ((output, ""), (output.parent, "out")):
        assert results.find_trial(folder, task) == best / "trial_01"


def test_a_fine_tuned_trial_gives_its_encoder_to_a_fresh_head(
    searched, data, tmp_path
):
    first = searched[0].output_dir / "learning_rate=0.005"
    request = little_task.build_request(data, first, tmp_path / "out")
    trial = finetune.Session(request).start(1)
    trained = dataclasses.replace(request, output_dir=first)
    before = finetune.Session(trained).load(1)
    own = {v.path: v.numpy() for v in trial.model.weights}
    for variable in before.model.weights:
        same = np.array_equal(own[variable.path], variable.numpy())
        is_head = variable.path.startswith("task_specific/")
        assert same != is_head or "bias" in variable.path
    assert "trial_01" in trial.loaded.origin
    best = dataclasses.replace(request, pretrained_dir=first.parent)
    for options in ({"use_average": True}, {"is_random": True}):
        other = dataclasses.replace(best, **options)
        with pytest.raises(errors.ModelError, match="a fine-tuned one"):
            finetune.Session(other).start(1)
