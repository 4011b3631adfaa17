"""Models of Hugging Face's are read whole, or refused with the reason."""

import json
import math
import pathlib

import numpy as np
import pytest
import safetensors.numpy
from scipy import special

from electra_tf import errors
from electra_tf.formats import hugging_face
from electra_tf.formats import portable
from electra_tf.tasks import base
from tests.formats import tiny_models


def _write(folder, kind):
    return tiny_models.write(folder, kind, "huggingface")


def _tensors(folder):
    return safetensors.numpy.load_file(folder / "model.safetensors")


def _put_tensors(folder, tensors):
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")


def _refuses(folder, message, kind=errors.ModelError):
    with pytest.raises(kind, match=message):
        hugging_face.read_model(folder)


_SEQUENCE = "ElectraForSequenceClassification"
_CLASSES = {
    "discriminator": "ElectraForPreTraining",
    "masked_lm": "ElectraForMaskedLM",
    "encoder": "ElectraModel",
    "classification": _SEQUENCE,
    "hidden_layer": _SEQUENCE,
    "regression": _SEQUENCE,
    "multilabel": _SEQUENCE,
    "multiple_choice": "ElectraForMultipleChoice",
    "ranking": _SEQUENCE,
    "tagging": "ElectraForTokenClassification",
    "answering": "ElectraForQuestionAnswering",
}


@pytest.mark.parametrize(("kind", "architecture"), _CLASSES.items())
def test_every_kind_has_its_class_and_comes_back(tmp_path, kind, architecture):
    folder, model = tmp_path, _write(tmp_path, kind)
    content = json.loads((folder / "config.json").read_text())
    assert content["architectures"] == [architecture]
    tensors = _tensors(folder)
    tiny_models.require_same(hugging_face.read_model(folder), model)
    name = max(tensors)
    _put_tensors(folder, {n: tensors[n] for n in tensors if n != name})
    _refuses(folder, f"model.safetensors, by its config.json,.*{name} is miss")
    _put_tensors(folder, tensors | {f"{name}_2": tensors[name]})
    _refuses(folder, f"{name}_2 .*not used")


def _task(labels):
    return {"task": portable.PortableTask("mnli", "classification", labels)}


def test_what_has_no_class_or_name_there_is_not_written(tmp_path):
    for kind, fields, message in (
        ("electric", {}, "--drop='cloze_pred.*ltr"),
        ("discriminator", {"objective": "electric"},
         "energies.*--drop='discriminator_pred"),
        ("classification", _task(()), "--labels=NAME"),
        ("classification", _task(("a", "a", "b")), "different name"),
        ("joint_answering", {}, "end independently.*joint_prediction=false"),
    ):  # fmt: skip
        model = tiny_models.build(kind, **fields)
        with pytest.raises(errors.ModelError, match=message):
            hugging_face.write(model, tmp_path)
        assert not list(tmp_path.iterdir())


_LABELS = {"0": "a", "1": "b", "2": "c"}
_REGRESSION = {"problem_type": "regression"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"vocab_size": 25}, r"word_embeddings.weight \(24, 12\).*\(25, 12"),
        ({"num_hidden_layers": 3}, "electra.encoder.layer.2.*is missing"),
        # What it is if it is left out is the library's default.
        ({"num_attention_heads": 3}, "divisible"),
        (
            {"model_type": "bert", "architectures": ["BertModel"]},
            r"type` must be 'electra'.*'bert'. `architectures.0`.*Model'\.$",
        ),
        ({"hidden_act": "gelu_new"}, "hidden_act.*gelu_new"),
        ({"layer_norm_eps": 1e-6}, "layer_norm_eps.*1e-06"),
        ({"architectures": ["ElectraForCausalLM"]}, "ForCausalLM"),
        # Of a task, which has to say what the outputs are.
        ({"id2label": {"0": None}}, ""),
        ({"id2label": {"1": "a", "2": "b", "3": "c"}}, ""),
        ({"id2label": _LABELS | {"2": "a"}}, ""),
        ({"id2label": _LABELS | {"2": "c\nd"}}, ""),
        ({"problem_type": "other"}, ""),
        (_REGRESSION | {"regression_value_range": [0, math.inf]}, ""),
    ],
)
def test_what_ours_does_not_compute_is_refused(tmp_path, fields, message):
    _write(tmp_path, "discriminator" if message else "classification")
    tiny_models.change_json(tmp_path / "config.json", **fields)
    _refuses(tmp_path, rf"config\.json.*{message}")


def test_the_tied_output_may_be_there_but_not_differ(tmp_path):
    model, tensors = _write(tmp_path, "masked_lm"), _tensors(tmp_path)
    # A buffer of older releases.
    tensors["electra.embeddings.position_ids"] = np.arange(20)[None]
    table = tensors["electra.embeddings.word_embeddings.weight"]
    _put_tensors(tmp_path, tensors | {"generator_lm_head.weight": table})
    found = hugging_face.read_model(tmp_path)
    tiny_models.require_same(found, model)
    assert "generator_lm_head.weight" in found.notes[0]
    _put_tensors(tmp_path, tensors | {"generator_lm_head.weight": table + 1})
    _refuses(tmp_path, "is tied. Received: another")


@pytest.mark.parametrize(
    ("kind", "prefix"),
    [
        ("encoder", "electra."),
        ("encoder", "module."),
        ("encoder", "_orig_mod.module.electra."),
        ("discriminator", "module."),
        ("classification", "model."),
    ],
)
def test_names_lose_what_wrappers_put_before_them(tmp_path, kind, prefix):
    model, tensors = _write(tmp_path, kind), _tensors(tmp_path)
    _put_tensors(tmp_path, {f"{prefix}{n}": v for n, v in tensors.items()})
    tiny_models.require_same(hugging_face.read_model(tmp_path), model)


@pytest.mark.parametrize("kind", tuple(_CLASSES))
def test_a_config_without_a_class_leaves_it_to_the_tensors(tmp_path, kind):
    model = _write(tmp_path, kind)
    for absent in (None, [], ...):
        path = tmp_path / "config.json"
        tiny_models.change_json(path, architectures=absent)
        found = hugging_face.read_model(tmp_path)
        tiny_models.require_same(found, model)
        assert f"read as {_CLASSES[kind]}" in " ".join(found.notes)


def test_taggers_exchange_the_segments_there_and_back(tmp_path):
    model, written = _write(tmp_path, "tagging"), _tensors(tmp_path)
    theirs = written["electra.embeddings.token_type_embeddings.weight"]
    ours = model.tensors["electra/embeddings/token_type_embeddings"]
    # Words are in segment 1 here and in 0 there; a third stays.
    np.testing.assert_array_equal(theirs, ours[[1, 0, 2]])
    assert "segments 0 and 1" in hugging_face.read_model(tmp_path).notes[0]


@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_a_linear_layer_and_its_gelu_twin_are_equal(tmp_path, kind):
    model = _write(tmp_path, kind)
    there = {n: v.astype(np.float64) for n, v in _tensors(tmp_path).items()}
    layer = f"{model.task.head}/dense"
    kernel, bias = (model.tensors[f"{layer}/{v}"] for v in ("kernel", "bias"))
    states = np.random.default_rng(1).normal(size=[200, 16])
    inner = states @ there["classifier.dense.weight"].T
    inner += there["classifier.dense.bias"]
    found = inner * special.ndtr(inner)  # gelu
    found = found @ there["classifier.out_proj.weight"].T
    found += there["classifier.out_proj.bias"]
    np.testing.assert_allclose(found, states @ kernel + bias, atol=1e-12)
    assert np.abs(found).max() > 1


_NUMBER = {"id2label": {"0": "a"}}
_UNNAMED = {"id2label": None, "finetuning_task": "rte"}


@pytest.mark.parametrize(
    ("kind", "problem", "stated", "expected"),
    [
        ("classification", None, {}, ("classification", ("a", "b", "c"))),
        ("classification", None, _NUMBER, ("regression",)),
        ("classification", "regression", {}, ("regression",)),
        ("classification", "single_label_classification", _NUMBER,
         ("classification", ("a",))),
        ("classification", None, _UNNAMED,
         ("classification", ("LABEL_0", "LABEL_1"))),
        ("classification", "multi_label_classification", {},
         ("multilabel", ("a", "b", "c"))),
        ("multiple_choice", None, _NUMBER, ("multiple_choice",)),
        ("tagging", None, _NUMBER, ("tagging", ("a",))),
        ("qa", None, {"finetuning_task": "squad1"}, ("qa",)),
    ],
)  # fmt: skip
def test_a_task_is_what_its_class_and_config_say(
    kind, problem, stated, expected
):
    fields = {"id2label": _LABELS, "text_pairs": True, "problem_type": problem}
    head = hugging_face.HEAD_CLASSES[base.find_kind(kind).hugging_face]
    known = hugging_face._Config(**fields | stated)
    task = hugging_face._read_task(known, head, {}, pathlib.Path("a"))
    assert task == portable.PortableTask(
        stated.get("finetuning_task", "own"),
        *expected,
        has_pairs=True,
        has_hidden_layer=kind in ("classification", "multiple_choice"),
    )
