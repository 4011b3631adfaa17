"""A whole study by its script, with real runs; kept small."""

import json

import pytest

from electra_tf import config
from electra_tf.pretraining import cost
from tests import script_modules
from tests import tiny_run

pytestmark = pytest.mark.slow


def _run(*arguments):
    return script_modules.run("run_study", *map(str, arguments))


def test_a_study_of_real_runs_compares_arms_and_names_the_one_that_fails(
    tmp_path,
):
    dataset = tiny_run.write_dataset(tmp_path / "dataset")
    base = tiny_run.replace(
        tiny_run.build_settings(dataset, num_train_steps=8),
        data={"dataset_dir": ""},
    )
    broken = {"broken": {"training": {"init_from": "nowhere"}}}
    path = tiny_run.write_study(tmp_path / "study.py", base, broken)
    output = tmp_path / "output"
    done = _run(path, f"--dataset_dir={dataset}", f"--output_dir={output}")
    assert done.returncode == 1, done.stderr
    log = output / "runs" / "broken" / "seed-1" / "log.txt"
    assert f"FAILED: broken, seed 1: {log}" in done.stdout
    assert "nowhere" in log.read_text()

    results = json.loads((output / "results.json").read_text())
    assert [run["arm"] for run in results["runs"]] == ["electra", "mlm"]
    electra, mlm = results["runs"]
    assert electra["steps"] == 8
    assert mlm["steps"] > 8
    for run in (electra, mlm):
        model_dir = output / "runs" / run["arm"] / "seed-1" / "model"
        own = config.freeze(json.loads((model_dir / "config.json").read_text()))
        assert cost.Cost(own).run_flops() == run["flops"]
        lines = tiny_run.reproducible_metrics(model_dir)
        last = [line for line in lines if line["split"] == "validation"][-1]
        assert last["step"] == run["steps"]
        assert last["loss"] == run["held_out"]["loss"]
        assert run["training_seconds"] > 0
    assert "Not measured: no tasks." in (output / "table.md").read_text()
    # Rows of another length are noticed before any run.
    given = f"--dataset_dir={dataset}", f"--output_dir={tmp_path / 'other'}"
    refused = _run("configs/studies/table5.py", *given)
    assert "max_seq_length" in refused.stderr
    assert not (tmp_path / "other").exists()
