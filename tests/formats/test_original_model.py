"""The original's checkpoints are read whole, or refused with the reason."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import errors
from electra_tf.config import original_hparams
from electra_tf.formats import original_model
from electra_tf.formats import portable
from tests.formats import tiny_models

DATA = "model.ckpt.data-00000-of-00001"


def _write(folder, kind="embeddings", **fields):
    folder.mkdir()
    model = tiny_models.build(kind, **fields)
    original_model.write(model, folder)
    return model


def _tensors(folder):
    reader = tf.train.load_checkpoint(str(folder / "model.ckpt"))
    names = reader.get_variable_to_shape_map()
    return {name: reader.get_tensor(name) for name in names}


def _put_tensors(folder, tensors):
    tf.raw_ops.SaveV2(
        prefix=str(folder / "model.ckpt"),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=list(tensors.values()),
    )


def _refuses(folder, message, kind=ValueError):
    with pytest.raises(kind, match=message):
        original_model.read(folder)


@pytest.mark.parametrize(
    "kind",
    ["embeddings", "none", "all", "electric", "masked_lm", "classification",
     "tagging", "answering", "joint_answering"],
)  # fmt: skip
def test_every_tensor_is_needed_and_no_other_has_a_place(tmp_path, kind):
    folder = tmp_path / "tf1"
    model = _write(folder, kind)
    tensors = _tensors(folder)
    tiny_models.require_same(original_model.read(folder), model, ("task",))
    for name in tensors.keys() - {"global_step"}:
        _put_tensors(folder, {n: tensors[n] for n in tensors if n != name})
        with pytest.raises(ValueError, match="TF1|does not describe"):
            original_model.read(folder)
        _put_tensors(folder, tensors | {f"{name}_2": tensors[name]})
        with pytest.raises(
            errors.ModelError, match="(kernel|bias|gamma|beta|embeddings)_2"
        ):
            original_model.read(folder)


def test_names_are_the_originals(tmp_path, golden):
    source = golden / "forward" / "d_tied"
    names = json.loads((source / "info.json").read_text())["variables"]
    model = original_model.read(source)
    (tmp_path / "tf1").mkdir()
    original_model.write(model, tmp_path / "tf1")
    found = _tensors(tmp_path / "tf1")
    assert found.keys() == names.keys() | {"global_step"}
    for name, shape in names.items():
        assert list(found[name].shape) == shape


def test_optimizer_slots_are_left_out_and_counted(tmp_path):
    model = _write(tmp_path / "tf1")
    tensors = _tensors(tmp_path / "tf1")
    slots = {
        f"{name}/adam_{moment}": value
        for name, value in tensors.items()
        for moment in "mv"
        if name != "global_step"
    }
    _put_tensors(tmp_path / "tf1", tensors | slots)
    found = original_model.read(tmp_path / "tf1")
    tiny_models.require_same(found, model)
    assert found.notes == (f"left out {len(slots)} optimizer slots",)
    assert found.step == 41


def test_hyperparameters_build_the_model_again(tmp_path):
    model = _write(tmp_path / "tf1", "none")
    hparams = json.loads((tmp_path / "tf1" / "hparams.json").read_text())
    settings = original_hparams.from_original_hparams(hparams)
    assert settings.encoder == model.encoder
    assert settings.generator.encoder_config(settings.encoder) == (
        model.generator
    )
    assert settings.generator.weight_tying == "none"
    assert settings.data.max_seq_length == 20


def test_a_released_checkpoint_has_heads_64_wide(tmp_path):
    encoder = dataclasses.replace(
        tiny_models.ENCODER, hidden_size=128, num_attention_heads=2
    )
    _write(tmp_path / "tf1", "discriminator", encoder=encoder)
    (tmp_path / "tf1" / "hparams.json").unlink()
    found = original_model.read(tmp_path / "tf1" / "model.ckpt")
    assert found.encoder.num_attention_heads == 2
    assert found.encoder.hidden_dropout_prob == 0.1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hidden_size", 32),
        ("num_hidden_layers", 3),
        ("intermediate_size", 32),
        ("max_position_embeddings", 24),
        ("type_vocab_size", 2),
    ],
)
def test_hyperparameters_that_contradict_the_tensors_are_refused(
    tmp_path, field, value
):
    _write(tmp_path / "tf1")
    file = tmp_path / "tf1" / "hparams.json"
    hparams = json.loads(file.read_text())
    hparams["model_hparam_overrides"][field] = value
    file.write_text(json.dumps(hparams))
    _refuses(tmp_path / "tf1", rf"hparams\.json does not.*{field} is {value}")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocab_size": 23}, "vocab_size is 23"),
        ({"embedding_size": 16}, "embedding_size is 16"),
        ({"generator_hidden_size": 1.0}, "generator does not.*hidden_size"),
        ({"untied_generator_embeddings": True}, "share 'none' there"),
        ({"untied_generator": False}, "share 'all' there"),
        ({"hiden_size": 3}, "Unknown hyperparameter.*hiden_size"),
        ({"model_hparam_overrides": 3}, "must be a JSON object"),
        ({"model_size": ["base"]}, r"hparams\.json: `model_size`"),
        ({"debug": "false"}, r"hparams\.json: `debug`"),
        (
            {"model_hparam_overrides": {"hidden_size": "16"}},
            r"hparams\.json: `hidden_size` must be a whole number",
        ),
        (
            {"model_hparam_overrides": {"hidden_size": None}},
            r"hparams\.json: `hidden_size` must be a whole number",
        ),
    ],
)
def test_other_hyperparameters_are_refused(tmp_path, changes, message):
    _write(tmp_path / "tf1")
    file = tmp_path / "tf1" / "hparams.json"
    hparams = json.loads(file.read_text()) | changes
    if "untied_generator" in changes:
        del hparams["generator_hidden_size"], hparams["generator_layers"]
    file.write_text(json.dumps(hparams))
    _refuses(tmp_path / "tf1", message)


@pytest.mark.parametrize(
    "content", ["", "[1]", "[]", "{", "[" * 10**5, '{"vocab_size": NaN}']
)
def test_hyperparameters_that_are_none_are_refused(tmp_path, content):
    _write(tmp_path / "tf1")
    (tmp_path / "tf1" / "hparams.json").write_text(content)
    _refuses(tmp_path / "tf1", r"hparams\.json")


def test_a_data_file_cut_off_or_absent_is_refused(tmp_path):
    folder = tmp_path / "tf1"
    _write(folder)
    whole = (folder / DATA).read_bytes()
    for length in (0, 100, len(whole) - 1):
        (folder / DATA).write_bytes(whole[:length])
        _refuses(folder, r"readable TensorFlow 1 checkpoint.*Copy its")
    (folder / DATA).unlink()
    _refuses(folder, r"readable TensorFlow 1 checkpoint.*Copy its")


def test_a_changed_byte_of_the_weights_is_found(tmp_path):
    folder = tmp_path / "tf1"
    _write(folder)
    whole = bytearray((folder / DATA).read_bytes())
    whole[1000] ^= 1
    (folder / DATA).write_bytes(whole)
    _refuses(folder, "readable TensorFlow 1 checkpoint.*hecksum")


def test_an_index_cut_off_is_refused(tmp_path):
    folder = tmp_path / "tf1"
    _write(folder)
    index = folder / "model.ckpt.index"
    whole = index.read_bytes()
    for length in (0, 30, len(whole) - 1):
        index.write_bytes(whole[:length])
        _refuses(folder, "readable TensorFlow 1 checkpoint")


def test_a_number_that_is_none_is_refused(tmp_path):
    folder = tmp_path / "tf1"
    _write(folder, "classification")
    tensors = _tensors(folder)
    for name in (
        "electra/encoder/layer_1/attention/self/key/bias",
        "task_specific/mnli/dense/bias",
    ):
        changed = tensors[name].copy()
        changed[0] = np.nan
        _put_tensors(folder, tensors | {name: changed})
        _refuses(folder, "holds NaN or infinity")


def test_a_model_of_two_tasks_is_refused(tmp_path):
    folder = tmp_path / "tf1"
    _write(folder, "classification")
    tensors = _tensors(folder)
    for name, message in (
        ("cola", "2 tasks: cola, mnli"),
        ("ccgbank", "2 tasks: ccgbank, mnli"),
    ):
        head = {
            n.replace("/mnli/", f"/{name}/"): v
            for n, v in tensors.items()
            if "/mnli/" in n
        }
        _put_tensors(folder, tensors | head)
        _refuses(folder, message)
    others = {n: v for n, v in tensors.items() if "/mnli/" not in n}
    _put_tensors(folder, others | head)
    _refuses(folder, "a task 'ccgbank', which the original does not have")


@pytest.mark.parametrize(
    ("kind", "scope"), [("regression", "sts"), ("tagging", "chunk")]
)
def test_tasks_are_called_as_the_original_calls_them(tmp_path, kind, scope):
    model = _write(tmp_path / "tf1", kind)
    names = _tensors(tmp_path / "tf1")
    assert f"task_specific/{scope}/dense/kernel" in names
    task = original_model.read(tmp_path / "tf1").task
    assert task == dataclasses.replace(model.task, labels=())


@pytest.mark.parametrize(
    "task",
    [
        portable.PortableTask("own", "classification", ("a", "b")),
        portable.PortableTask("rte", "classification", ("a", "b"), True),
        # Its outputs are the values, those of the original are not.
        portable.PortableTask("stsb", "regression"),
        portable.PortableTask("mnli", "tagging", ("a", "b")),
    ],
)
def test_heads_that_the_original_lacks_are_refused(tmp_path, task):
    model = tiny_models.build("classification", task=task)
    with pytest.raises(errors.ModelError, match="--drop=task_specific"):
        original_model.write(model, tmp_path)
    assert not list(tmp_path.iterdir())


def test_parts_that_the_original_lacks_are_refused(tmp_path):
    model = tiny_models.build("discriminator")
    model.tensors["copy_predictions/dense/kernel"] = np.zeros([16, 1])
    with pytest.raises(errors.ModelError, match="--drop=copy_predictions"):
        original_model.write(model, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_vocabulary_that_is_not_the_models_is_refused(tmp_path):
    _write(tmp_path / "tf1")
    file = tmp_path / "tf1" / "vocab.txt"
    tokens = file.read_text().splitlines()
    file.write_text("\n".join([*tokens, "more"]))
    _refuses(tmp_path / "tf1", "of 24 tokens. Received: 25 tokens")
    file.write_text("\n".join(tokens[:-2]))
    found = original_model.read(tmp_path / "tf1").vocabulary
    assert found.tokens[-3:] == (tokens[-3], "[no_token_0]", "[no_token_1]")
    file.write_text("\n".join(tokens[:3]))
    _refuses(tmp_path / "tf1", r"vocab\.txt.*Special tokens are missing")
    file.unlink()
    found = original_model.read(tmp_path / "tf1")
    assert found.vocabulary is None
    assert "no vocabulary" in found.notes[0]


def test_rows_without_a_token_are_noted(tmp_path):
    _write(tmp_path / "tf1")
    file = tmp_path / "tf1" / "vocab.txt"
    tokens = file.read_text().splitlines()
    file.write_text("\n".join(tokens[:-2]))
    notes = original_model.read(tmp_path / "tf1").notes
    assert notes == ("2 rows of the token table have no token",)


def test_heads_that_are_guessed_are_told(tmp_path):
    original_model.write(tiny_models.build("discriminator"), tmp_path)
    assert original_model.read(tmp_path).notes == ()
    (tmp_path / "hparams.json").unlink()
    notes = original_model.read(tmp_path).notes
    assert any("took 1 attention heads" in note for note in notes)
