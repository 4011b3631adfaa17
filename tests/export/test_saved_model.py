import dataclasses
import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from electra_tf import config
from electra_tf import errors
from electra_tf.export import saved_model
from electra_tf.export import signatures
from electra_tf.export.checks import fresh_process
from electra_tf.export.checks import self_check
from electra_tf.text import vocabulary as vocabulary_lib


def test_fresh_process_with_tensorflow_alone_gives_the_models_numbers(
    exported, tiny_run, tmp_path
):
    ids = {
        "input_ids": np.int32([[2, 5, 6, 7, 3], [2, 9, 3, 0, 0]]),
        "input_mask": np.int32([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]),
        "segment_ids": np.int32([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]),
    }
    requests = {f"0/score_ids/{name}": value for name, value in ids.items()}
    requests |= {f"1/features_ids/{name}": v for name, v in ids.items()}
    np.savez(tmp_path / "in.npz", **requests)
    command = [sys.executable, "-P", fresh_process.__file__, exported]
    subprocess.run(
        [*command, tmp_path / "in.npz", tmp_path / "out.npz"],
        check=True,
        cwd=tmp_path,
    )
    answers = np.load(tmp_path / "out.npz")

    expected = tiny_run.discriminator(*(tf.constant(v) for v in ids.values()))
    logits = expected.logits.numpy()
    hidden = expected.encoder_output.sequence_output.numpy()
    is_token = ids["input_mask"] == 1
    probability = answers["0/score_ids/replaced_probability"]
    np.testing.assert_allclose(
        probability[is_token], 1 / (1 + np.exp(-logits[is_token])), atol=1e-5
    )
    assert np.ptp(probability[is_token]) > 0.05
    np.testing.assert_allclose(
        answers["0/score_ids/replaced_logits"][is_token],
        logits[is_token],
        atol=1e-5,
    )
    np.testing.assert_allclose(
        answers["1/features_ids/token_features"][is_token],
        hidden[is_token],
        atol=1e-5,
    )
    np.testing.assert_allclose(
        answers["1/features_ids/sentence_features"], hidden[:, 0], atol=1e-5
    )


def test_signatures_are_exactly_the_documented_ones(loaded, exported):
    documented = json.loads((exported / "signatures.json").read_text())
    assert set(loaded.signatures) == set(documented)
    assert documented["serving_default"] == documented["score_text"]
    for name, function in loaded.signatures.items():
        inputs = function.structured_input_signature[1]
        outputs = function.structured_outputs
        for found, tensors in (
            (inputs, documented[name]["inputs"]),
            (outputs, documented[name]["outputs"]),
        ):
            assert set(found) == set(tensors), name
            for key, spec in found.items():
                shape = tensors[key]["shape"].strip("[]").split(", ")
                assert spec.dtype.name == tensors[key]["dtype"], (name, key)
                assert [n is None for n in spec.shape] == [
                    letter in "BS" for letter in shape
                ], (name, key)


def test_readme_documents_every_tensor_and_where_the_weights_come_from(
    exported, tiny_run
):
    readme = (exported / "README.md").read_text()
    for name in ("score_text", "score_ids", "features_text", "features_ids"):
        documented = signatures.SIGNATURES[name]
        for tensor in (name, *documented.inputs, *documented.outputs):
            assert f"`{tensor}`" in readme
    assert "`likelihood_text`" not in readme
    assert "objective `electra`" in readme
    assert "step-00000007" in readme
    assert "cut after 24 tokens" in readme
    assert "rows of 16 tokens" in readme


def test_folder_holds_vocabulary_settings_and_config(exported, tiny_run):
    extra = exported / "assets.extra"
    assert vocabulary_lib.Vocabulary.load(extra) == tiny_run.vocabulary
    text = (extra / "config.json").read_text()
    assert config.from_json(text) == tiny_run.settings
    origin = json.loads((extra / "export.json").read_text())
    assert origin["step"] == 7
    assert origin["weights"] == "model"
    # The run trained in bfloat16; an export computes in float32 unless asked.
    assert origin["precision"] == "float32"


def test_saved_graph_has_no_python_no_accelerator_and_no_compilation(exported):
    proto = saved_model_pb2.SavedModel()
    proto.ParseFromString((exported / "saved_model.pb").read_bytes())
    (meta,) = proto.meta_graphs
    nodes = [*meta.graph_def.node]
    for function in meta.graph_def.library.function:
        assert "_XlaMustCompile" not in function.attr or (
            not function.attr["_XlaMustCompile"].b
        )
        if "traced_" not in function.signature.name:  # saving and restoring
            nodes += function.node_def
            # The tokenizer asks for the CPU, which every server has: string
            # operations exist nowhere else, and its tables stay with them.
            devices = {node.device for node in function.node_def}
            assert devices <= {"", "/device:CPU:0"}
    ops = {node.op for node in nodes}
    assert "MatMul" in ops
    assert not [op for op in ops if "PyFunc" in op or "Xla" in op]
    assert not [op for op in ops if "Random" in op]
    kinds = {
        node.user_object.identifier
        for node in meta.object_graph_def.nodes
        if node.HasField("user_object")
    }
    assert not [kind for kind in kinds if "keras" in kind]


def test_model_dir_without_config_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="No run in .*config.json"):
        saved_model.export_run(tmp_path, tmp_path / "new")


@pytest.mark.parametrize("content", ["file", None])
def test_existing_folder_is_refused_and_left_alone(tiny_run, tmp_path, content):
    folder = tmp_path / "export"
    folder.mkdir()
    if content:
        (folder / content).write_text("mine")
    with pytest.raises(FileExistsError, match="must not exist"):
        saved_model.export_run(tiny_run.model_dir, folder)
    assert [p.read_text() for p in folder.iterdir()] == (
        ["mine"] if content else []
    )
    assert list(tmp_path.iterdir()) == [folder]


def test_export_that_fails_its_check_leaves_nothing(
    tiny_run, tmp_path, monkeypatch
):
    def fail(folder: pathlib.Path, *_):
        assert (folder / "saved_model.pb").is_file()
        raise errors.ExportError("differs")

    monkeypatch.setattr(self_check, "check", fail)
    with pytest.raises(errors.ExportError, match="differs"):
        saved_model.export_run(tiny_run.model_dir, tmp_path / "export")
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
    settings = dataclasses.replace(
        run.settings,
        objective=dataclasses.replace(
            run.settings.objective, generator_steps=generator_steps
        ),
    )
    (model_dir / "config.json").write_text(config.to_json(settings))
    monkeypatch.setattr(saved_model, "save", lambda *_, **__: 0.0)
    saved_model.export_run(model_dir, tmp_path / "export")
    assert ("begins at step 7" in caplog.text) == is_early


def test_unknown_precision_is_refused():
    with pytest.raises(ValueError, match="'float64'"):
        saved_model.ExportOptions(precision="float64")


def test_unknown_device_is_refused():
    with pytest.raises(ValueError, match="cpu, any. Received: 'gpu'"):
        saved_model.ExportOptions(device="gpu")


@pytest.mark.slow
def test_export_for_any_device_gives_the_same_answers(
    tiny_run, loaded, tmp_path
):
    saved_model.export_run(
        tiny_run.model_dir,
        tmp_path / "export",
        saved_model.ExportOptions(device="any"),
    )
    graph = (tmp_path / "export" / "saved_model.pb").read_bytes()
    # The operation that holds groups of rows has no kernel elsewhere.
    assert b"MapDefun" not in graph
    model = tf.saved_model.load(str(tmp_path / "export"))
    texts = ["the cat sat on the mat", "", "dog"] * 30
    answer = model.signatures["score_text"](texts=tf.constant(texts))
    expected = loaded("score_text", texts=texts)
    for name, values in expected.items():
        np.testing.assert_allclose(answer[name], values, 1e-5, 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_lower_precision_can_be_exported(tiny_run, tmp_path, precision):
    result = saved_model.export_run(
        tiny_run.model_dir,
        tmp_path / "export",
        saved_model.ExportOptions(precision=precision, use_average=True),
    )
    assert result.largest_difference <= self_check.TOLERANCES[precision]
    model = tf.saved_model.load(str(tmp_path / "export"))
    answer = model.signatures["score_text"](texts=tf.constant(["the cat"]))
    assert answer["replaced_probability"].dtype == tf.float32
