"""Models of Hugging Face's are read whole, or refused with the reason."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
import safetensors.numpy

from electra_tf import errors
from electra_tf.formats import assembly
from electra_tf.formats import hugging_face
from electra_tf.formats import portable
from tests.formats import tiny_models


def _write(folder, kind):
    folder.mkdir()
    model = tiny_models.build(kind)
    hugging_face.write(model, folder)
    return model


@pytest.fixture
def folder(tmp_path):
    """A discriminator's."""
    _write(tmp_path / "hf", "discriminator")
    return tmp_path / "hf"


def _tensors(folder):
    return safetensors.numpy.load_file(folder / "model.safetensors")


def _put_tensors(folder, tensors):
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")


def _change_config(folder, **fields):
    path = folder / "config.json"
    content = json.loads(path.read_text()) | fields
    content = {n: v for n, v in content.items() if v is not ...}
    path.write_text(json.dumps(content))


def _refuses(folder, message, kind=errors.ModelError):
    with pytest.raises(kind, match=message):
        hugging_face.read(folder)


@pytest.mark.parametrize(
    ("kind", "architecture"),
    [
        ("discriminator", "ElectraForPreTraining"),
        ("masked_lm", "ElectraForMaskedLM"),
        ("encoder", "ElectraModel"),
        ("classification", "ElectraForSequenceClassification"),
        ("hidden_layer", "ElectraForSequenceClassification"),
        ("regression", "ElectraForSequenceClassification"),
        ("tagging", "ElectraForTokenClassification"),
        ("answering", "ElectraForQuestionAnswering"),
    ],
)
def test_every_kind_has_its_class_and_misses_no_tensor(
    tmp_path, kind, architecture
):
    folder = tmp_path / "hf"
    model = _write(folder, kind)
    content = json.loads((folder / "config.json").read_text())
    assert content["architectures"] == [architecture]
    tensors = _tensors(folder)
    tiny_models.require_same(hugging_face.read(folder), model)
    for name in tensors:
        _put_tensors(folder, {n: tensors[n] for n in tensors if n != name})
        # Without some there are no sizes, or other ones.
        message = f"{name}|sizes off|num_hidden_layers is 2 there, 1"
        with pytest.raises(errors.ModelError, match=message):
            hugging_face.read(folder)
        _put_tensors(folder, tensors | {f"{name}_2": tensors[name]})
        with pytest.raises(errors.ModelError, match=f"{name}_2 .*not used"):
            hugging_face.read(folder)


def test_two_towers_are_two_folders(tmp_path):
    model = _write(tmp_path / "hf", "embeddings")
    assert tiny_models.names_in(tmp_path / "hf") == [
        "discriminator",
        "generator",
    ]
    assert hugging_face.is_folder(tmp_path / "hf")
    tiny_models.require_same(hugging_face.read(tmp_path / "hf"), model)
    # One alone is a model too.
    shutil.rmtree(tmp_path / "hf" / "generator")
    alone = hugging_face.read(tmp_path / "hf")
    assert alone.parts == ("discriminator_predictions", "electra")
    assert alone.generator is None


def test_kernels_are_transposed_there_and_the_three_products_are_apart(folder):
    model, tensors = hugging_face.read(folder), _tensors(folder)
    block = "electra.encoder.layer.1.attention.self"
    fused = model.tensors["electra/encoder/layer_1/attention/self/qkv/kernel"]
    for number, name in enumerate(("query", "key", "value")):
        np.testing.assert_array_equal(
            tensors[f"{block}.{name}.weight"],
            fused[:, 16 * number : 16 * number + 16].T,
        )
    np.testing.assert_array_equal(
        tensors["electra.embeddings_project.weight"],
        model.tensors["electra/embeddings_project/kernel"].T,
    )
    np.testing.assert_array_equal(
        tensors["electra.embeddings.word_embeddings.weight"],
        model.tensors["electra/embeddings/word_embeddings"],
    )


def test_shapes_are_those_of_the_library(folder, golden_shapes):
    tensors = _tensors(folder)
    assert tensors.keys() == golden_shapes


@pytest.fixture
def golden_shapes():
    """Names in a file of `ElectraForPreTraining`, as transformers writes."""
    block = "electra.encoder.layer.{}."
    norm = "LayerNorm"
    layers = [
        *(f"attention.self.{n}" for n in ("query", "key", "value")),
        "attention.output.dense",
        f"attention.output.{norm}",
        "intermediate.dense",
        "output.dense",
        f"output.{norm}",
    ]
    both = [
        *(block.format(n) + layer for n in range(2) for layer in layers),
        f"electra.embeddings.{norm}",
        "electra.embeddings_project",
        "discriminator_predictions.dense",
        "discriminator_predictions.dense_prediction",
    ]
    tables = ("word", "position", "token_type")
    return {
        *(f"electra.embeddings.{n}_embeddings.weight" for n in tables),
        *(f"{name}.{end}" for name in both for end in ("weight", "bias")),
    }


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("vocab_size", 25),
        ("embedding_size", 16),
        ("hidden_size", 32),
        ("num_hidden_layers", 3),
        ("num_hidden_layers", 1),
        ("intermediate_size", 64),
        ("max_position_embeddings", 512),
        ("type_vocab_size", 2),
        # What it is if it is left out is the library's default.
        ("hidden_size", ...),
        ("vocab_size", ...),
        ("type_vocab_size", ...),
    ],
)
def test_a_config_that_contradicts_the_tensors_is_refused(folder, field, value):
    _change_config(folder, **{field: value})
    _refuses(folder, rf"config\.json does not describe.*{field} is")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_attention_heads": 3}, "does not describe.*divisible"),
        ({"num_attention_heads": 0}, "does not describe.*num_attention_heads"),
        ({"num_attention_heads": "2"}, "as numbers.*num_attention_heads"),
        ({"num_attention_heads": None}, "as numbers.*num_attention_heads"),
        ({"hidden_size": 16.0}, "as numbers.*hidden_size"),
        ({"hidden_dropout_prob": None}, "as numbers.*hidden_dropout_prob"),
        ({"hidden_dropout_prob": 1.5}, "does not describe.*hidden_dropout"),
        ({"model_type": "bert"}, "model type 'electra'.*'bert'"),
        ({"hidden_act": "relu"}, "hidden_act.*relu"),
        ({"hidden_act": "gelu_new"}, "hidden_act.*gelu_new"),
        ({"layer_norm_eps": 1e-6}, "layer_norm_eps.*1e-06"),
        ({"position_embedding_type": "relative_key"}, "relative_key"),
        ({"is_decoder": True}, "is_decoder"),
        ({"add_cross_attention": True}, "add_cross_attention"),
        ({"architectures": ["ElectraForMultipleChoice"]}, "MultipleChoice"),
        ({"architectures": ["ElectraForCausalLM"]}, "ElectraForCausalLM"),
        ({"architectures": ["ElectraModel", "ElectraModel"]}, "one class"),
        ({"architectures": ["ElectraModel"]}, "discriminator_predictions"),
        ({"architectures": None}, "discriminator_predictions.*not used"),
        ({"architectures": ["ElectraForMaskedLM"]}, "generator_lm_head.*miss"),
    ],
)
def test_what_ours_does_not_compute_is_refused(folder, fields, message):
    _change_config(folder, **fields)
    _refuses(folder, message)


def test_what_a_config_leaves_out_is_the_librarys_default(folder):
    names = ("hidden_dropout_prob", "initializer_range", "layer_norm_eps",
             "hidden_act")  # fmt: skip
    _change_config(folder, **dict.fromkeys(names, ...))
    sizes = hugging_face.read(folder).encoder
    assert (sizes.hidden_dropout_prob, sizes.initializer_range) == (0.1, 0.02)
    assert sizes.attention_probs_dropout_prob == 0.05


@pytest.mark.parametrize(
    "content", ["", "{", "[1]", '"electra"', "\xff", "[" * 10**5,
                '{"hidden_size": ' + "9" * 4000 + "}"]
)  # fmt: skip
def test_a_config_that_is_none_is_refused(folder, content):
    (folder / "config.json").write_bytes(content.encode("latin-1"))
    _refuses(folder, r"config\.json")
    (folder / "config.json").unlink()
    _refuses(folder, r"config\.json", FileNotFoundError)


def test_a_tensor_of_another_shape_is_named_with_both_shapes(folder):
    tensors = _tensors(folder)
    block = "electra.encoder.layer.0.attention.self"
    for name, shape in {
        f"{block}.key.weight": (16, 8),
        f"{block}.key.bias": (3,),
        f"{block}.value.weight": (8, 16),
        "electra.embeddings.LayerNorm.weight": (16,),
        "discriminator_predictions.dense.weight": (16,),
        "electra.embeddings_project.bias": (),
    }.items():
        changed = tensors | {name: np.zeros(shape, np.float32)}
        _put_tensors(folder, changed)
        shown = str(shape).replace("(", r"\(").replace(")", r"\)")
        _refuses(folder, f"{name} {shown}")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_none_is_refused(tmp_path, value):
    folder = tmp_path / "hf"
    _write(folder, "hidden_layer")
    tensors = _tensors(folder)
    for name in (
        "classifier.dense.bias",
        "classifier.out_proj.weight",
        "electra.embeddings.word_embeddings.weight",
    ):
        changed = tensors[name].copy()
        changed.flat[3 % changed.size] = value
        _put_tensors(folder, tensors | {name: changed})
        _refuses(folder, "holds NaN or infinity")


def test_quantized_weights_are_refused(folder):
    tensors = _tensors(folder)
    name = "electra.encoder.layer.0.output.dense.weight"
    _put_tensors(folder, tensors | {name: tensors[name].astype(np.int8)})
    _refuses(folder, f"{name} holds int8")


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_precisions_become_float32_and_are_noted(folder, dtype):
    tensors = {n: v.astype(dtype) for n, v in _tensors(folder).items()}
    _put_tensors(folder, tensors)
    model = hugging_face.read(folder)
    assert model.notes == (f"{np.dtype(dtype)} weights became float32",)
    bias = "discriminator_predictions.dense.bias"
    np.testing.assert_array_equal(
        model.tensors["discriminator_predictions/dense/bias"],
        tensors[bias].astype(np.float32),
    )


def test_a_number_too_large_for_float32_is_refused(folder):
    tensors = _tensors(folder)
    name = "discriminator_predictions.dense.bias"
    _put_tensors(folder, tensors | {name: np.full([16], 1e300)})
    with np.errstate(over="ignore"):
        _refuses(folder, "holds NaN or infinity")


def test_buffers_of_older_releases_are_left_out(folder):
    positions = {"electra.embeddings.position_ids": np.arange(20)[None]}
    _put_tensors(folder, _tensors(folder) | positions)
    tiny_models.require_same(
        hugging_face.read(folder), tiny_models.build("discriminator")
    )


def test_the_tied_output_may_be_there_but_not_differ(tmp_path):
    folder = tmp_path / "hf"
    model = _write(folder, "masked_lm")
    tensors = _tensors(folder)
    table = tensors["electra.embeddings.word_embeddings.weight"]
    _put_tensors(folder, tensors | {"generator_lm_head.weight": table})
    found = hugging_face.read(folder)
    tiny_models.require_same(found, model)
    assert "generator_lm_head.weight" in found.notes[0]
    _put_tensors(folder, tensors | {"generator_lm_head.weight": table + 1})
    _refuses(folder, "tied to. Received: another")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"problem_type": "multi_label_classification"}, "exclude each other"),
        (
            {"problem_type": "regression"},
            r"out_proj.weight \(3, 16\) should .*\(16, 1\)",
        ),
        (
            {"id2label": {"0": "a", "1": "b"}},
            r"out_proj.weight \(3, 16\) should .*\(16, 2\)",
        ),
        ({"id2label": None}, r"out_proj.weight \(3, 16\) should .*\(16, 2\)"),
        ({"id2label": {"0": "a", "1": "b", "3": "c"}}, "0, 1 and so on"),
        ({"id2label": {"a": "0"}}, "0, 1 and so on"),
        ({"id2label": ["a", "b", "c"]}, "0, 1 and so on"),
        ({"regression_value_range": [1]}, None),
    ],
)
def test_a_config_that_contradicts_the_head_is_refused(
    tmp_path, fields, message
):
    _write(tmp_path / "hf", "classification")
    _change_config(tmp_path / "hf", **fields)
    if message is None:
        hugging_face.read(tmp_path / "hf")
    else:
        _refuses(tmp_path / "hf", message)


def test_what_numbers_mean_is_told_or_they_are_the_values(tmp_path):
    model = _write(tmp_path / "hf", "regression")
    assert model.task.value_range == (0.0, 5.0)
    _change_config(tmp_path / "hf", regression_value_range="x")
    _refuses(tmp_path / "hf", "two numbers")
    _change_config(tmp_path / "hf", regression_value_range=...)
    task = hugging_face.read(tmp_path / "hf").task
    assert task.value_range == (0.0, 1.0)
    assert task.name == "stsb"


def test_a_task_without_a_name_is_ones_own(tmp_path):
    _write(tmp_path / "hf", "tagging")
    _change_config(tmp_path / "hf", finetuning_task=...)
    model = hugging_face.read(tmp_path / "hf")
    assert model.task == portable.PortableTask(
        "own", "tagging", ("B-NP", "I-NP", "O")
    )
    assert "task_specific/own/dense/kernel" in model.tensors


def test_more_than_nine_labels_keep_their_order(tmp_path):
    labels = tuple(f"label {number}" for number in range(12))
    task = portable.PortableTask("own", "tagging", labels)
    model = tiny_models.build("tagging", task=task)
    (tmp_path / "hf").mkdir()
    hugging_face.write(model, tmp_path / "hf")
    assert hugging_face.read(tmp_path / "hf").task.labels == labels


def test_labels_must_be_known_to_be_written(tmp_path):
    model = tiny_models.build("tagging")
    task = dataclasses.replace(model.task, labels=())
    (tmp_path / "hf").mkdir()
    with pytest.raises(errors.ModelError, match="--labels=NAME"):
        hugging_face.write(dataclasses.replace(model, task=task), tmp_path)


@pytest.mark.parametrize("name", ["vocab.txt", "tokenizer.json"])
def test_a_model_without_a_vocabulary_is_noted(folder, name):
    for file in ("vocab.txt", "tokenizer.json"):
        (folder / file).unlink()
    # A folder is no file.
    (folder / name).mkdir()
    model = hugging_face.read(folder)
    assert model.vocabulary is None
    assert "no vocabulary" in model.notes[-1]


def test_rows_without_a_token_are_noted(folder):
    (folder / "tokenizer.json").unlink()
    tokens = (folder / "vocab.txt").read_text().splitlines()
    (folder / "vocab.txt").write_text("\n".join(tokens[:-3]))
    notes = hugging_face.read(folder).notes
    assert notes == ("3 rows of the token table have no token",)


@pytest.mark.parametrize("content", ["[" * 10**5, "[1]", "{", "\xff"])
def test_a_folder_whose_config_is_damaged_is_none_of_theirs(folder, content):
    (folder / "config.json").write_bytes(content.encode("latin-1"))
    assert not hugging_face.is_folder(folder)


@pytest.mark.parametrize("length", [0, 100, -4])
def test_a_file_cut_off_is_refused(folder, length):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:length])
    _refuses(folder, r"model\.safetensors must be.*download it again")


def _equal_outputs(folder, model, name):
    inputs = np.load(folder / "inputs.npz")
    expected = np.load(folder / "outputs.npz")[name]
    built = assembly.build_towers(model)
    found = built.main(
        *(inputs[n] for n in ("input_ids", "attention_mask", "token_type_ids"))
    )
    np.testing.assert_allclose(
        found.encoder_output.sequence_output, expected, atol=1e-5
    )


def test_a_folder_of_the_library_gives_its_states(oracles):
    """The others are compared by scripts/verify_golden.py."""
    folder = oracles / "huggingface" / "pretraining"
    model = hugging_face.read(folder)
    _equal_outputs(folder, model, "last_hidden_state")


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("pretraining_bin", "pretraining"),
        ("masked_lm_bin_legacy", "masked_lm"),
    ],
)
def test_a_torch_file_of_the_library_is_its_safetensors(oracles, name, plain):
    pytest.importorskip("torch", reason="pytorch_model.bin needs PyTorch")
    found, expected = (
        hugging_face.read(oracles / "huggingface" / folder)
        for folder in (name, plain)
    )
    tiny_models.require_same(found, expected)
