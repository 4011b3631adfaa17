"""One call measures a run, and leaves no trace of it."""

import logging

import numpy as np
import pytest

from electra_tf import config
from electra_tf.finetuning import measure
from electra_tf.training import checkpoints
from tests.finetuning.conftest import VOCABULARY

NAMES = ("cola", "sst2", "chunking")


def _write_run(model_dir, settings, encoder):
    VOCABULARY.save(model_dir)
    (model_dir / "config.json").write_text(config.to_json(settings))
    variables = {f"model/{v.path}": v for v in encoder.variables}
    checkpoints.save(model_dir, 1, variables, {}, keep=1)
    return model_dir


def _files(folder):
    return {
        path: (path.stat().st_mtime_ns, path.is_file() and path.read_bytes())
        for path in [folder, *folder.rglob("*")]
    }


def test_a_run_is_measured_on_all_tasks_and_left_alone(
    tmp_path, settings, loaded, tasks_dir
):
    model_dir = _write_run(tmp_path / "run", settings, loaded.encoder)
    before = _files(model_dir)
    scores = measure.measure_encoder(
        model_dir, tasks_dir, NAMES, finetune_steps=2
    )
    assert list(scores) == [
        f"{name}_{how}" for name in NAMES for how in ("probe", "finetune")
    ]
    assert all(scores[f"{name}_probe"] > 0.9 for name in NAMES)
    assert _files(model_dir) == before
    again = measure.measure_loaded_encoder(
        loaded, tasks_dir, ["chunking"], finetune_steps=2
    )
    assert again.items() <= scores.items()


def test_an_encoder_is_the_same_after_it_was_measured(loaded, tasks_dir):
    before = [variable.numpy() for variable in loaded.encoder.variables]
    measure.measure_loaded_encoder(
        loaded, tasks_dir, ["cola"], finetune_steps=3
    )
    for value, variable in zip(before, loaded.encoder.variables, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


def test_without_steps_there_are_probes_only(loaded, tasks_dir):
    scores = measure.measure_loaded_encoder(
        loaded, tasks_dir, ["chunking"], finetune_steps=0
    )
    assert list(scores) == ["chunking_probe"]


def _fitted_rows(monkeypatch, loaded, tasks_dir, **options):
    seen = []
    monkeypatch.setattr(
        measure.probing,
        "probe",
        lambda encoder, task, train, dev: seen.append((train, dev)) or 0.0,
    )
    measure.measure_loaded_encoder(
        loaded, tasks_dir, ["sst2"], finetune_steps=0, **options
    )
    return seen[0]


def test_training_data_are_limited_and_drawn_by_the_seed(
    monkeypatch, loaded, tasks_dir
):
    def rows(**options):
        train, dev = _fitted_rows(monkeypatch, loaded, tasks_dir, **options)
        assert dev.num_rows == 40
        return train.input_ids.tolist()

    assert len(rows(max_examples=0)) == len(rows(max_examples=500)) == 96
    some = rows(max_examples=10, seed=1)
    assert len(some) == 10
    assert some == rows(max_examples=10, seed=1)
    assert some != rows(max_examples=10, seed=2)
    assert some != rows(max_examples=0)[:10]


def test_a_file_is_tokenized_once_until_it_changes(
    monkeypatch, loaded, tasks_dir, tmp_path, caplog
):
    folder = tmp_path / "SST-2"
    folder.mkdir()
    for split in ("train", "dev"):
        source = tasks_dir / "glue_data" / "SST-2" / f"{split}.tsv"
        (folder / f"{split}.tsv").write_bytes(source.read_bytes())

    first = _fitted_rows(monkeypatch, loaded, tmp_path)
    second = _fitted_rows(monkeypatch, loaded, tmp_path)
    assert first[0] is second[0] and first[1] is second[1]
    with (folder / "dev.tsv").open("a") as file:
        file.write("a fine cat\t1\n")
    with caplog.at_level(logging.WARNING, logger="absl"):
        third = _fitted_rows(monkeypatch, loaded, tmp_path)
    assert third[0] is first[0] and third[1].num_rows == 41
    assert "41 sentences" in caplog.text


@pytest.mark.parametrize("name", ["max_examples", "finetune_steps"])
def test_negative_numbers_are_refused(loaded, tasks_dir, name):
    with pytest.raises(ValueError, match=f"`{name}`.*-1"):
        measure.measure_loaded_encoder(
            loaded, tasks_dir, ["cola"], **{name: -1}
        )


def test_unknown_and_absent_tasks_are_refused_before_any_work(
    monkeypatch, loaded, tasks_dir, tmp_path
):
    monkeypatch.setattr(measure.probing, "probe", None)
    with pytest.raises(ValueError, match="'mrpc'"):
        measure.measure_loaded_encoder(loaded, tasks_dir, ["cola", "mrpc"])
    with pytest.raises(FileNotFoundError, match="cola"):
        measure.measure_loaded_encoder(loaded, tmp_path, ["cola"])
