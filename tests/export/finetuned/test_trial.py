"""The folder of an exported trial: what is in it, and what is refused."""

import dataclasses
import json
import shutil

import pytest

from electra_tf import errors
from electra_tf.export import saved_model
from electra_tf.export import signatures
from electra_tf.export.checks import self_check
from electra_tf.export.finetuned import trial as trial_export
from electra_tf.finetuning import trial_dir
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import checkpoints
from tests.export import conftest
from tests.export import finetuned_tiny

TASKS = tuple(finetuned_tiny.TASKS.split(","))
_FREE = "BSW"


@pytest.fixture
def unchecked(monkeypatch):
    monkeypatch.setattr(self_check, "check", lambda *_: 0.0)


@pytest.mark.parametrize("task", TASKS)
def test_signatures_are_exactly_the_documented_ones(task_exports, task):
    folder = task_exports(task)
    documented = json.loads((folder / "signatures.json").read_text())
    loaded = conftest.load(folder)
    assert set(loaded.signatures) == set(documented)
    facts = finetuned_tiny.read_facts(folder)
    assert documented["serving_default"] == documented[facts["signatures"][0]]
    for name, function in loaded.signatures.items():
        for found, tensors in (
            (
                function.structured_input_signature[1],
                documented[name]["inputs"],
            ),
            (function.structured_outputs, documented[name]["outputs"]),
        ):
            assert set(found) == set(tensors), name
            for key, spec in found.items():
                letters = tensors[key]["shape"].strip("[]").split(", ")
                assert spec.dtype.name == tensors[key]["dtype"], (name, key)
                assert spec.shape.rank == len(letters), (name, key)
                for size, letter in zip(spec.shape, letters, strict=True):
                    assert size is None or letter not in _FREE, (name, key)


@pytest.mark.parametrize("task", TASKS)
def test_readme_documents_every_tensor(task_exports, task):
    folder = task_exports(task)
    readme = (folder / "README.md").read_text()
    for name in finetuned_tiny.read_facts(folder)["signatures"]:
        documented = signatures.SIGNATURES[name]
        for tensor in (name, *documented.inputs, *documented.outputs):
            assert f"`{tensor}`" in readme
    assert f"fine-tuned on {task}" in readme
    assert "trial_01/step-00000007" in readme
    assert "24 tokens" in readme
    assert "{" not in readme.replace("{'", "")


@pytest.mark.parametrize("task", TASKS)
def test_example_of_the_readme_runs(task_exports, task, capsys):
    folder = task_exports(task)
    readme = (folder / "README.md").read_text()
    code = readme.split("```python\n")[1].split("```")[0]
    exec(code.replace("PATH_OF_THIS_FOLDER", str(folder)), {})
    assert capsys.readouterr().out.strip()


def test_folder_holds_vocabulary_labels_and_settings(task_exports, tiny_trial):
    extra = task_exports("chunking") / "assets.extra"
    assert vocabulary_lib.Vocabulary.load(extra) == finetuned_tiny.VOCABULARY
    facts = json.loads((extra / "export.json").read_text())
    assert tuple(facts["labels"]) == finetuned_tiny.LABELS["chunking"]
    assert facts["cuts_early"] is True
    described = json.loads((extra / "config.json").read_text())
    assert described["settings"] == dataclasses.asdict(tiny_trial.settings)


def test_output_dir_means_the_trial_with_the_best_score(
    tmp_path, tiny_trial, unchecked
):
    for number, value in enumerate((50.0, 70.0, 60.0), 1):
        folder = tmp_path / "out" / f"trial_{number:02d}"
        shutil.copytree(tiny_trial.folder, folder)
        finetuned_tiny.write_scores(folder, value)
    result = trial_export.export(
        tmp_path / "out", tmp_path / "export", task="sst2"
    )
    assert result.checkpoint.parts[-3] == "trial_02"
    readme = (result.folder / "README.md").read_text()
    assert "accuracy 70.00" in readme


def test_the_best_checkpoint_is_taken_of_a_trial_that_stopped_early(
    tmp_path, unchecked
):
    settings = finetuned_tiny.replace(
        finetuned_tiny.build_settings(),
        "training",
        eval_steps=1,
        early_stopping_patience=1,
    )
    trial = finetuned_tiny.write_trial(tmp_path / "trial", settings)
    weights = {f"model/{v.path}": v for v in trial.model.trainable_variables}
    checkpoints.save(trial.folder, 9, weights, {"best_step": 7}, keep=2)
    for which, step in (("latest", 7), ("best", 7)):
        result = trial_export.export(
            trial.folder,
            tmp_path / which,
            saved_model.ExportOptions(checkpoint=which),
            "stsb",
        )
        assert checkpoints.step_of(result.checkpoint) == step


def test_weights_that_are_not_all_there_are_refused(tmp_path, tiny_trial):
    folder = tmp_path / "trial"
    shutil.copytree(tiny_trial.folder, folder)
    shutil.rmtree(folder / "checkpoints")
    weights = {
        f"model/{v.path}": v
        for v in tiny_trial.model.trainable_variables
        if "sst2" not in v.path
    }
    checkpoints.save(folder, 7, weights, {}, keep=1)
    with pytest.raises(errors.ModelError, match="sst2/dense/kernel"):
        trial_export.export(folder, tmp_path / "export", task="sst2")
    assert not (tmp_path / "export").exists()


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        (
            "",
            {},
            r"one of them is wanted. Received: no --task. Give --task=sst2",
        ),
        ("cola", {}, "Received: 'cola'"),
        ("sst2", {"max_length": 33}, "must be 5 to 32"),
        ("sst2", {"max_length": 4}, "must be 5 to 32"),
        ("sst2", {"use_average": True}, "Averaged weights"),
    ],
)
def test_what_cannot_be_exported_is_refused(
    tmp_path, tiny_trial, task, options, message
):
    with pytest.raises(ValueError, match=message):
        trial_export.export(
            tiny_trial.folder,
            tmp_path / "export",
            saved_model.ExportOptions(**options),
            task,
        )
    assert list(tmp_path.iterdir()) == []


def test_a_task_of_a_pre_training_run_is_refused(tiny_run, tmp_path):
    with pytest.raises(ValueError, match="--task=sst2 for"):
        trial_export.export(
            tiny_run.model_dir, tmp_path / "export", task="sst2"
        )


def test_an_existing_folder_is_refused(tiny_trial, tmp_path):
    with pytest.raises(FileExistsError, match="must not exist"):
        trial_export.export(tiny_trial.folder, tmp_path, task="sst2")


def test_a_fine_tuning_without_finished_trial_is_refused(tiny_trial, tmp_path):
    with pytest.raises(FileNotFoundError, match="finished trial"):
        trial_export.export(
            tiny_trial.folder.parent, tmp_path / "export", task="sst2"
        )
    assert trial_dir.read_result(tiny_trial.folder) is None


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("task", TASKS)
def test_every_task_passes_its_self_check(
    tiny_trial, tmp_path, task, precision
):
    result = trial_export.export(
        tiny_trial.folder,
        tmp_path / "export",
        saved_model.ExportOptions(precision=precision),
        task,
    )
    assert result.largest_difference <= self_check.TOLERANCES[precision]
