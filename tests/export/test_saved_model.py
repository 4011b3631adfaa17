"""The folder of an export: what is in it, what is checked, what is refused."""

import dataclasses
import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from electra_tf import config
from electra_tf import errors
from electra_tf.export import export_metadata
from electra_tf.export import saved_model
from electra_tf.export import self_check
from electra_tf.export import signatures
from electra_tf.export.models import exported_module
from electra_tf.finetuning import results
from electra_tf.finetuning import trial as trial_lib
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import checkpoints
from tests.export import conftest
from tests.export import finetuned_tiny

EXPORTS = (
    *("run", "sst2", "chunking", "squad2"),
    # Their exports are like that of sst2.
    pytest.param("mrpc", marks=pytest.mark.slow),
    pytest.param("stsb", marks=pytest.mark.slow),
)
_FREE = "BSW"


@pytest.fixture(scope="module")
def find(exported, task_exports):
    """The folder of the run's export, or of a task's."""
    return lambda name: exported if name == "run" else task_exports(name)


@pytest.fixture
def unchecked(monkeypatch):
    monkeypatch.setattr(self_check, "check", lambda *_: 0.0)


@pytest.mark.parametrize("name", EXPORTS)
def test_signatures_are_exactly_the_documented_ones(find, name):
    folder = find(name)
    documented = json.loads((folder / "signatures.json").read_text())
    loaded = conftest.load(folder)
    assert set(loaded.signatures) == set(documented)
    default = export_metadata.read(folder).signatures[0]
    assert documented["serving_default"] == documented[default]
    for name, function in loaded.signatures.items():
        sides = documented[name]
        for found, tensors in (
            (function.structured_input_signature[1], sides["inputs"]),
            (function.structured_outputs, sides["outputs"]),
        ):
            assert set(found) == set(tensors), name
            for key, spec in found.items():
                letters = tensors[key]["shape"].strip("[]").split(", ")
                assert spec.dtype.name == tensors[key]["dtype"], (name, key)
                assert spec.shape.rank == len(letters), (name, key)
                for size, letter in zip(spec.shape, letters, strict=True):
                    assert size is None or letter not in _FREE, (name, key)
                    assert size is not None or letter in _FREE + "C"


@pytest.mark.parametrize("name", EXPORTS)
def test_readme_documents_every_tensor_and_its_origin(find, name):
    folder = find(name)
    readme = (folder / "README.md").read_text()
    for signature in export_metadata.read(folder).signatures:
        documented = signatures.SIGNATURES[signature]
        for tensor in (signature, *documented.inputs, *documented.outputs):
            assert f"`{tensor}`" in readme
    assert "step-00000007" in readme
    assert "24 tokens" in readme
    assert "{" not in readme.replace("{'", "")
    if name == "run":
        assert "`likelihood_text`" not in readme
        assert "objective `electra`" in readme
        assert "rows of 16 tokens" in readme
    else:
        assert f"fine-tuned on {name}" in readme


@pytest.mark.parametrize("name", EXPORTS)
def test_example_of_the_readme_runs(find, name, capsys):
    folder = find(name)
    readme = (folder / "README.md").read_text()
    code = readme.split("```python\n")[1].split("```")[0]
    exec(code.replace("PATH_OF_THIS_FOLDER", str(folder)), {})
    assert capsys.readouterr().out.strip()


def test_folder_holds_vocabulary_settings_and_metadata(
    exported, tiny_run, task_exports, tiny_trial
):
    extra = exported / "assets.extra"
    assert vocabulary_lib.Vocabulary.load(extra) == tiny_run.vocabulary
    text = (extra / "config.json").read_text()
    assert config.from_json(text) == tiny_run.settings
    origin = json.loads((extra / "export.json").read_text())
    assert (origin["step"], origin["weights"]) == (7, "model")
    assert "labels" not in origin
    # The run trained in bfloat16; an export computes in float32 unless asked.
    assert origin["precision"] == "float32"
    tagger = task_exports("chunking")
    metadata = export_metadata.read(tagger)
    assert metadata.labels == finetuned_tiny.LABELS["chunking"]
    assert metadata.cuts_early is True
    text = (tagger / "assets.extra" / "config.json").read_text()
    described = json.loads(text)
    assert described["settings"] == dataclasses.asdict(tiny_trial.settings)


def test_damaged_metadata_are_told(exported, tmp_path):
    folder = tmp_path / "assets.extra"
    folder.mkdir()
    content = (exported / "assets.extra" / "export.json").read_text()
    for changed in (content[:-9], content.replace('"step": 7', '"steps": 7')):
        (folder / "export.json").write_text(changed)
        with pytest.raises(errors.ExportError, match="export.json"):
            export_metadata.read(tmp_path)


def test_saved_graph_has_no_python_no_accelerator_and_no_compilation(exported):
    proto = saved_model_pb2.SavedModel()
    proto.ParseFromString((exported / "saved_model.pb").read_bytes())
    (meta,) = proto.meta_graphs
    nodes = [*meta.graph_def.node]
    for function in meta.graph_def.library.function:
        assert not function.attr["_XlaMustCompile"].b
        if "traced_" not in function.signature.name:  # saving and restoring
            nodes += function.node_def
            # The tokenizer asks for the CPU, which every server has: string
            # operations exist nowhere else, and its tables stay with them.
            devices = {node.device for node in function.node_def}
            assert devices <= {"", "/device:CPU:0"}
    ops = {node.op for node in nodes}
    # Servers have these of TensorFlow Text; more would have to be looked up.
    assert {op for op in ops if "Tokenize" in op or "UTF8" in op} == {
        "FastWordpieceTokenizeWithOffsets",
        "NormalizeUTF8",
    }
    assert "MatMul" in ops
    assert not [op for op in ops if "PyFunc" in op or "Xla" in op]
    assert not [op for op in ops if "Random" in op]
    kinds = {
        node.user_object.identifier
        for node in meta.object_graph_def.nodes
        if node.HasField("user_object")
    }
    assert not [kind for kind in kinds if "keras" in kind]


def test_export_that_fails_its_check_leaves_nothing(
    tiny_run, tmp_path, monkeypatch
):
    def fail(folder: pathlib.Path, *_):
        assert (folder / "saved_model.pb").is_file()
        raise errors.ExportError("differs")

    monkeypatch.setattr(self_check, "check", fail)
    with pytest.raises(errors.ExportError, match="differs"):
        saved_model.export(tiny_run.model_dir, tmp_path / "export")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("generator_steps", "is_early"), [(3, False), (7, True)]
)
def test_checkpoint_before_the_last_phase_is_warned_of(
    objective_exports, tmp_path, monkeypatch, caplog, generator_steps, is_early
):
    run = objective_exports("two_stage")
    model_dir = tmp_path / "run"
    shutil.copytree(run.model_dir, model_dir)
    objective = dataclasses.replace(
        run.settings.objective, generator_steps=generator_steps
    )
    settings = dataclasses.replace(run.settings, objective=objective)
    (model_dir / "config.json").write_text(config.to_json(settings))
    monkeypatch.setattr(saved_model, "_write", lambda *_, **__: 0.0)
    saved_model.export(model_dir, tmp_path / "export")
    assert ("begins at step 7" in caplog.text) == is_early


@pytest.mark.slow
def test_export_for_any_device_gives_the_same_answers(
    tiny_run, loaded, tmp_path
):
    options = saved_model.ExportOptions(device="any")
    saved_model.export(tiny_run.model_dir, tmp_path / "export", options)
    graph = (tmp_path / "export" / "saved_model.pb").read_bytes()
    # The operation that holds buckets of rows has no kernel elsewhere.
    assert b"MapDefun" not in graph
    texts = ["the cat sat on the mat", "", "dog"] * 30
    answer = conftest.load(tmp_path / "export")("score_text", texts=texts)
    conftest.assert_close(answer, loaded("score_text", texts=texts))


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_lower_precision_can_be_exported(tiny_run, tmp_path, precision):
    result = saved_model.export(
        tiny_run.model_dir,
        tmp_path / "export",
        saved_model.ExportOptions(precision=precision, use_average=True),
    )
    assert result.largest_difference <= self_check.TOLERANCES[precision]
    model = tf.saved_model.load(str(tmp_path / "export"))
    answer = model.signatures["score_text"](texts=tf.constant(["the cat"]))
    assert answer["replaced_probability"].dtype == tf.float32


def test_output_dir_means_the_trial_with_the_best_score(
    tmp_path, tiny_trial, unchecked
):
    for number, value in enumerate((50.0, 70.0, 60.0), 1):
        folder = tmp_path / "out" / f"trial_{number:02d}"
        shutil.copytree(tiny_trial.folder, folder)
        finetuned_tiny.write_scores(folder, value)
    result = saved_model.export(
        tmp_path / "out", tmp_path / "export", task="sst2"
    )
    assert result.checkpoint.parts[-3] == "trial_02"
    readme = (result.folder / "README.md").read_text()
    assert "accuracy 70.00" in readme


def test_the_best_checkpoint_is_taken_of_a_trial_that_stopped_early(tmp_path):
    settings = finetuned_tiny.replace(
        finetuned_tiny.build_settings(),
        "training",
        eval_steps=1,
        early_stopping_patience=1,
    )
    trial = finetuned_tiny.write_trial(tmp_path / "trial", settings)
    weights = {f"model/{v.path}": v for v in trial.model.trainable_variables}
    checkpoints.save(trial.folder, 9, weights, {"best_step": 7}, keep=2)
    for which in ("latest", "best"):
        trained = saved_model.load_task(trial.folder, "stsb", which)
        assert checkpoints.step_of(trained.checkpoint) == 7


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("", {}, r"one of them is wanted. Received: no --task. Give --task="),
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
        saved_model.export(
            tiny_trial.folder,
            tmp_path / "export",
            saved_model.ExportOptions(**options),
            task,
        )
    assert list(tmp_path.iterdir()) == []


def test_folders_that_are_no_model_are_refused(tiny_run, tiny_trial, tmp_path):
    out = tmp_path / "export"
    with pytest.raises(ValueError, match="--task=sst2 for"):
        saved_model.export(tiny_run.model_dir, out, task="sst2")
    with pytest.raises(ValueError, match="No run in .*config.json"):
        saved_model.export(tmp_path, out)
    with pytest.raises(FileNotFoundError, match="finished trial"):
        saved_model.export(tiny_trial.folder.parent, out, task="sst2")
    assert trial_lib.read_result(tiny_trial.folder) is None
    assert results.find_trial(tmp_path) is None
    assert results.find_trial(tiny_run.model_dir) is None
    assert results.find_trial(tiny_trial.folder) == tiny_trial.folder
    with pytest.raises(errors.ModelError, match="No trial"):
        saved_model.load_task(tmp_path)
    with pytest.raises(OSError, match="too long"):
        results.find_trial(tmp_path / ("a" * 256))


ANSWERS = {"p": np.float32([0.5, 0.25]), "i": np.int32([1, 2])}


@pytest.mark.parametrize(
    ("received", "message"),
    [
        ({"p": np.float32([0.5, 0.2501])}, "9.99.*e-05 in p"),
        ({"p": np.float32([0.5, np.nan])}, "inf in p"),
        ({"i": np.int32([1, 2]), "p": np.float32([np.nan, 0.25])}, "inf in p"),
        ({"p": np.float32([0.5])}, "inf in p"),
        ({"p": np.float64([0.5, 0.25])}, "inf in p"),
        ({"i": np.int32([1, 3])}, "inf in i"),
        ({"q": np.int32([1, 3])}, r"unknown: \['q'\]"),
    ],
)
def test_self_check_refuses_answers_that_differ(received, message):
    with pytest.raises(errors.ExportError, match=message):
        self_check.compare(ANSWERS, ANSWERS | received, 1e-5)


def test_self_check_measures_the_largest_difference():
    received = ANSWERS | {"p": ANSWERS["p"] + np.float32([0, 2**-20])}
    assert self_check.compare(ANSWERS, received, 1e-5) == 2**-20
    large = {"f": np.float32([100.0, -3.0])}
    near = {"f": np.float32([100.0, -3.5])}
    assert self_check.compare(large, near, 0.1) == pytest.approx(0.005)
    # Rounding may exchange what is read off the largest of numbers.
    label = {"0/classify_text/label": np.bytes_(["a"])}
    other = {"0/classify_text/label": np.bytes_(["b"])}
    assert self_check.compare(large | label, near | other, 0.1) < 0.1
    with pytest.raises(errors.ExportError, match="inf in 0/classify_text/l"):
        self_check.compare(large | label, large | other, 1e-5)


@pytest.mark.parametrize(
    ("received", "probabilities", "is_refused"),
    [
        ([7, 8, 9], [0.5, 0.3, 0.2], False),
        ([8, 7, 9], [0.5, 0.3, 0.2], True),
        ([8, 7, 9], [0.400015, 0.4, 0.1], False),
        # The third could be any that is as probable and did not make it.
        ([7, 8, 6], [0.5, 0.3, 0.2], False),
        ([7, 6, 9], [0.5, 0.3, 0.2], True),
        ([7, 8], [0.5, 0.3, 0.2], True),
    ],
)
def test_order_of_predictions_may_differ_only_among_equals(
    received, probabilities, is_refused
):
    row = {"1/top_probabilities": np.float32([[probabilities]])}
    expected = row | {"1/top_ids": np.int32([[[7, 8, 9]]])}
    answers = row | {"1/top_ids": np.int32([[received]])}
    if not is_refused:
        assert self_check.compare(expected, answers, 1e-5) == 0
        return
    with pytest.raises(errors.ExportError, match="inf in 1/top_ids"):
        self_check.compare(expected, answers, 1e-5)


def test_folder_that_does_not_load_fails_the_self_check(tiny_trial, tmp_path):
    module = saved_model.load_task(tiny_trial.folder, "sst2").module
    assert isinstance(module, exported_module.ExportedModule)
    with pytest.raises(errors.ExportError, match="must load and answer"):
        self_check.check(tmp_path, module, 1e-5)
