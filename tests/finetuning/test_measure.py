"""One call measures a run, and leaves no trace of it."""

import numpy as np
import pytest

from electra_tf.finetuning import encoders
from electra_tf.finetuning import measure
from tests.finetuning.conftest import write_run

NAMES = ("cola", "sst2", "chunking")


def _files(folder):
    return {
        path: (path.stat().st_mtime_ns, path.is_file() and path.read_bytes())
        for path in [folder, *folder.rglob("*")]
    }


def test_a_run_is_measured_on_all_tasks_and_left_alone(
    tmp_path, settings, loaded, tasks_dir
):
    model_dir = write_run(tmp_path / "run", settings, loaded.encoder.variables)
    before = _files(model_dir)
    scores = measure.measure_loaded_encoder(
        encoders.load_encoder(model_dir), tasks_dir, NAMES, finetune_steps=2
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


def test_guessing_is_the_commonest_label_of_the_training_data(
    loaded, tasks_dir
):
    found = measure.measure_guessing(loaded, tasks_dir, NAMES)
    assert list(found) == list(NAMES)
    labels, official = (
        [line.split("\t")[1] for line in path.read_text().splitlines()[1:]]
        for path in (
            tasks_dir / "glue_data" / "SST-2" / name
            for name in ("train.tsv", "dev.tsv")
        )
    )
    commonest = max("01", key=labels.count)
    assert found["sst2"] == official.count(commonest) / len(official)
    # One answer for all has no correlation, and I-NP alone is no phrase.
    assert found["cola"] == 0.0
    assert found["chunking"] == 0.0


def _rows_of_probe(monkeypatch, loaded, tasks_dir, **options):
    seen = []

    def note(encoder, train, dev):
        seen.append((train, dev))
        return {"logits": np.zeros((dev.num_rows, 2))}

    monkeypatch.setattr(measure.probing, "probe", note)
    measure.measure_loaded_encoder(
        loaded, tasks_dir, ["sst2"], finetune_steps=0, **options
    )
    return seen[0]


def test_training_data_are_limited_and_drawn_by_the_seed(
    monkeypatch, loaded, tasks_dir
):
    def rows(**options):
        train, dev = _rows_of_probe(monkeypatch, loaded, tasks_dir, **options)
        assert dev.num_rows == 40
        return [train.ids[row].tolist() for row in range(train.num_rows)]

    assert len(rows(max_examples=0)) == len(rows(max_examples=500)) == 96
    some = rows(max_examples=10, seed=1)
    assert len(some) == 10
    assert some == rows(max_examples=10, seed=1)
    assert some != rows(max_examples=10, seed=2)
    assert some != rows(max_examples=0)[:10]


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
    with pytest.raises(ValueError, match="'colb'"):
        measure.measure_loaded_encoder(loaded, tasks_dir, ["cola", "colb"])
    with pytest.raises(FileNotFoundError, match="CoLA"):
        measure.measure_loaded_encoder(loaded, tmp_path, ["cola"])
