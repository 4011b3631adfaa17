"""The folder of an export: what is in it, what is checked, what is refused."""

import dataclasses
import json
import pathlib
import re
import shutil

import numpy as np
import pytest
from tensorflow.core.protobuf import saved_model_pb2

from electra_tf import config
from electra_tf import errors
from electra_tf.export import export_metadata
from electra_tf.export import saved_model
from electra_tf.export import self_check
from electra_tf.formats import own_run
from electra_tf.text import vocabulary as vocabulary_lib
from tests import full_disk
from tests import tiny_run as tiny_run_lib
from tests.export import conftest
from tests.export import finetuned_tiny

_FREE = "BSW"


def test_signatures_are_exactly_the_documented_ones(any_export):
    documented = json.loads((any_export / "signatures.json").read_text())
    loaded = conftest.load(any_export)
    assert set(loaded.signatures) == set(documented)
    default = export_metadata.read_metadata(any_export).signatures[0]
    assert documented["serving_default"] == documented[default]
    for name, function in loaded.signatures.items():
        inputs = function.structured_input_signature[1]
        for side, found in (
            ("inputs", inputs), ("outputs", function.structured_outputs),
        ):  # fmt: skip
            tensors = documented[name][side]
            assert set(found) == set(tensors), name
            for key, spec in found.items():
                letters = tensors[key]["shape"].strip("[]").split(", ")
                assert spec.dtype.name == tensors[key]["dtype"], (name, key)
                for size, letter in zip(spec.shape, letters, strict=True):
                    assert size is None or letter not in _FREE, (name, key)
                    assert size is not None or letter in _FREE + "C"


def test_readme_documents_every_tensor_and_its_example_runs(
    any_export, exported, capsys
):
    readme = (any_export / "README.md").read_text()
    for signature in export_metadata.read_metadata(any_export).signatures:
        documented = export_metadata.SIGNATURES[signature]
        for tensor in (signature, *documented.inputs, *documented.outputs):
            assert f"`{tensor}`" in readme
    for words in ("step-00000007", "24 tokens"):
        assert words in readme
    assert "{" not in readme.replace("{'", "")
    if any_export == exported:
        assert "`likelihood_text`" not in readme
        assert "is `electra`" in readme
        assert "rows of 16 tokens" in readme
    else:
        assert f"fine-tuned on {any_export.name}" in readme
    code = readme.split("```python\n")[1].split("```")[0]
    exec(code.replace("PATH_OF_THIS_FOLDER", str(any_export)), {})
    assert capsys.readouterr().out.strip()


def test_folder_holds_vocabulary_settings_and_metadata(
    exported, tiny_run, task_exports, tiny_trial
):
    extra = exported / "assets.extra"
    assert vocabulary_lib.Vocabulary.load(extra) == tiny_run.vocabulary
    text = (extra / "config.json").read_text()
    assert config.freeze(json.loads(text)) == tiny_run.settings
    origin = json.loads((extra / "export.json").read_text())
    assert (origin["step"], origin["weights"]) == (7, "model")
    assert "labels" not in origin
    # The run trained in bfloat16; an export computes in float32 unless asked.
    assert origin["precision"] == "float32"
    tagger = task_exports("chunking")
    metadata = export_metadata.read_metadata(tagger)
    assert metadata.labels == finetuned_tiny.LABELS["chunking"]
    assert metadata.cuts_early is True
    text = (tagger / "assets.extra" / "config.json").read_text()
    expected = dataclasses.asdict(tiny_trial.settings)
    assert json.loads(text)["settings"] == expected


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
    # Servers have this of TensorFlow Text; more would have to be looked up.
    assert {op for op in ops if "Tokenize" in op or "UTF8" in op} == {
        "FastWordpieceTokenizeWithOffsets",
    }
    assert "MatMul" in ops
    assert not re.search("PyFunc|Xla|Random", " ".join(ops))
    kinds = {n.user_object.identifier for n in meta.object_graph_def.nodes}
    assert not [kind for kind in kinds if "keras" in kind]


def test_export_that_fails_its_check_leaves_nothing(
    tiny_run, tmp_path, monkeypatch, without_graphs
):
    def fail(folder: pathlib.Path, *_):
        assert (folder / "saved_model.pb").is_file()
        raise errors.ExportError("differs")

    monkeypatch.setattr(self_check, "check", fail)
    with pytest.raises(errors.ExportError, match="differs"):
        saved_model.export(tiny_run.model_dir, tmp_path / "export")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing_and_says_so(
    tiny_run, tmp_path, without_graphs
):
    folder = tmp_path / "export"
    message = "export could not be written: .*Free space"
    with full_disk.largest_file(3000), pytest.raises(OSError, match=message):
        saved_model.export(tiny_run.model_dir, folder)
    assert not list(tmp_path.iterdir())


def test_checkpoint_before_the_last_phase_is_warned_of(
    objective_runs, tmp_path, caplog
):
    run = objective_runs("two_stage").folder
    for steps, is_early in ((3, False), (7, True)):
        model_dir = tmp_path / f"run_{steps}"
        shutil.copytree(run, model_dir)
        settings = tiny_run_lib.replace(
            own_run.load_settings(run), objective={"generator_steps": steps}
        )
        (model_dir / "config.json").write_text(config.to_json(settings))
        saved_model.load_run(model_dir)
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
    options = saved_model.ExportOptions(precision=precision, use_average=True)
    out = tmp_path / "export"
    result = saved_model.export(tiny_run.model_dir, out, options)
    assert result.largest_difference <= self_check.TOLERANCES[precision]
    answer = conftest.load(out)("score_text", texts=["the cat"])
    assert answer["replaced_probability"].dtype == np.float32


def test_what_cannot_be_exported_is_refused(tiny_run, tiny_trial, tmp_path):
    trial, trials = tiny_trial.folder, tiny_trial.folder.parent
    for folder, task, options, message in (
        (trial, "", {}, r"is wanted. Received: no task. Give task="),
        (trial, "cola", {}, "Received: 'cola'"),
        (trial, "sst2", {"max_length": 4}, "must be 5 to 32"),
        (trial, "squad2", {"max_length": 9}, "more than 9 tokens. Received: 9"),
        (trial, "sst2", {"use_average": True}, "averaged weights"),
        (trials, "sst2", {}, "finished trial"),
        (tiny_run.model_dir, "sst2", {}, "--task=sst2 for"),
        (tmp_path, "", {}, "No run in .*config.json"),
    ):
        options, out = saved_model.ExportOptions(**options), tmp_path / "out"
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            saved_model.export(folder, out, options, task)
        assert list(tmp_path.iterdir()) == []
    with pytest.raises(errors.ModelError, match="No trial"):
        saved_model.load_task(tmp_path)


def test_self_check_refuses_answers_that_differ():
    answers = {"p": np.float32([0.5, 0.25]), "i": np.int32([1, 2])}
    for received, message in (
        ({"p": np.float32([0.5, 0.2501])}, "9.99.*e-05 in p"),
        ({"p": np.float32([0.5, np.nan])}, "inf in p"),
        ({"p": np.float32([0.5])}, "inf in p"),
        ({"p": np.float64([0.5, 0.25])}, "inf in p"),
        ({"i": np.int32([1, 3])}, "inf in i"),
    ):
        with pytest.raises(errors.ExportError, match=message):
            self_check.compare(answers, answers | received, 1e-5)


def test_an_export_may_be_as_far_as_a_last_bit_moves_its_model(
    tiny_trial, task_exports
):
    folder = task_exports("sst2")
    module = saved_model.load_task(tiny_trial.folder, "sst2").module
    module.prepare("float32", "cpu")
    # Far below what rounding does to this model.
    assert 1e-9 < self_check.check(folder, module, 1e-9) < 1e-6
    for variable in module.model_variables:
        variable.assign(variable * 1.001)
    with pytest.raises(errors.ExportError, match="Please report"):
        self_check.check(folder, module, 1e-9)
