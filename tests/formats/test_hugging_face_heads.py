"""Heads of fine-tuned models compute the same here and there."""

import dataclasses
import math

import numpy as np
import pytest

from electra_tf.formats import hugging_face
from electra_tf.formats import hugging_face_heads
from electra_tf.formats import portable
from electra_tf.formats import tensor_files
from tests.formats import tiny_models

_CLASSIFIER = "ElectraForSequenceClassification"
_ERF = np.vectorize(math.erf)


def _write(kind, **task):
    model = tiny_models.build(kind)
    task = dataclasses.replace(model.task, **task)
    return model, hugging_face_heads.write_head(model.tensors, task)


def _read(head, kind, labels=("0", "1", "2")):
    return hugging_face_heads.read_head(
        head, hugging_face_heads.CLASSES[kind], "t", labels, False
    )


def _gelu(values):
    return 0.5 * values * (1 + _ERF(values / math.sqrt(2)))


def _apply(head, states):
    """What `ElectraClassificationHead` computes, without dropout."""
    head = {n: v.astype(states.dtype) for n, v in head.items()}
    inner = (
        states @ head["classifier.dense.weight"].T
        + head["classifier.dense.bias"]
    )
    return (
        _gelu(inner).astype(states.dtype) @ head["classifier.out_proj.weight"].T
        + head["classifier.out_proj.bias"]
    )


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 1e-6)]
)
@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_a_linear_layer_and_its_gelu_twin_are_equal(kind, dtype, tolerance):
    model, head = _write(kind)
    path = f"task_specific/{model.task.name}/dense"
    kernel = model.tensors[f"{path}/kernel"].astype(dtype)
    states = np.random.default_rng(1).normal(size=[200, 16]).astype(dtype)
    expected = states @ kernel + model.tensors[f"{path}/bias"].astype(dtype)
    scale = np.abs(states).sum(1, keepdims=True) * np.abs(kernel).max()
    error = np.abs(_apply(head, states) - expected) / scale
    assert error.max() < tolerance
    assert np.abs(expected).max() > 1


@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_a_twin_is_recognized_to_the_bit(kind):
    model, head = _write(kind)
    tensors, task = hugging_face_heads.read_head(
        head, _CLASSIFIER, model.task.name, model.task.labels,
        kind == "regression",
    )  # fmt: skip
    # A config tells the range.
    assert task == dataclasses.replace(model.task, value_range=(0.0, 1.0))
    ours = portable.take_part(model.tensors, "task_specific")
    assert tensors.keys() == ours.keys()
    for path, value in ours.items():
        assert tensors[path].tobytes() == value.tobytes()


def test_a_head_that_differs_anywhere_is_no_twin():
    _, head = _write("classification")
    for name in head:
        if name == "classifier.out_proj.bias":
            # It is the linear layer's own.
            continue
        for place in np.ndindex(head[name].shape):
            changed = {n: value.copy() for n, value in head.items()}
            # The least that a number can change by; zeros change their sign.
            changed[name][place] = (
                np.nextafter(changed[name][place], np.float32(9))
                if changed[name][place]
                else -changed[name][place]
            )
            _, task = _read(changed, "classification")
            assert task.has_hidden_layer, (name, place)


def test_a_head_of_another_width_is_no_twin():
    _, head = _write("classification")
    narrow = {
        n: v[:8] if n.startswith("classifier.dense") else v
        for n, v in head.items()
    }
    narrow["classifier.out_proj.weight"] = head["classifier.out_proj.weight"][
        :, :8
    ]
    tensors, task = _read(narrow, "classification")
    assert task.has_hidden_layer
    assert tensors["task_specific/t/hidden/kernel"].shape == (16, 8)


def test_more_labels_than_half_the_width_have_no_twin():
    model = tiny_models.build("classification")
    path = "task_specific/mnli/dense"
    for outputs in (8, 9):
        model.tensors[f"{path}/kernel"] = np.ones([16, outputs], np.float32)
        model.tensors[f"{path}/bias"] = np.ones([outputs], np.float32)
        if outputs == 8:
            hugging_face_heads.write_head(model.tensors, model.task)
            continue
        with pytest.raises(portable.FormatError, match="up to 8 labels.*9"):
            hugging_face_heads.write_head(model.tensors, model.task)


@pytest.mark.parametrize("kind", ["hidden_layer", "hidden_regression"])
def test_a_hidden_layer_is_kept_as_it_is(kind):
    model, head = _write(kind)
    states = np.random.default_rng(1).normal(size=[9, 16])
    own = {
        path.removeprefix(f"task_specific/{model.task.name}/"): value
        for path, value in model.tensors.items()
    }
    hidden = _gelu(states @ own["hidden/kernel"] + own["hidden/bias"])
    np.testing.assert_allclose(
        _apply(head, states),
        hidden @ own["dense/kernel"] + own["dense/bias"],
        rtol=1e-9,
    )


def test_tagging_is_one_layer_there_and_here():
    model, head = _write("tagging")
    np.testing.assert_array_equal(
        head["classifier.weight"],
        model.tensors["task_specific/chunking/dense/kernel"].T,
    )
    assert set(head) == {"classifier.weight", "classifier.bias"}


def test_start_and_end_are_the_rows_of_one_layer():
    model, head = _write("answering")
    for row, name in enumerate(("dense", "dense_1")):
        path = f"task_specific/squad1/{name}"
        np.testing.assert_array_equal(
            head["qa_outputs.weight"][row],
            model.tensors[f"{path}/kernel"][:, 0],
        )
        assert head["qa_outputs.bias"][row] == model.tensors[f"{path}/bias"]


def test_an_end_given_the_start_has_no_class_there():
    with pytest.raises(portable.FormatError, match="joint_prediction=false"):
        _write("joint_answering")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (kind, name)
        for kind, name in (
            ("classification", "classifier.out_proj.weight"),
            ("tagging", "classifier.weight"),
            ("answering", "qa_outputs.weight"),
            ("answering", "qa_outputs.bias"),
        )
    ],
)
def test_outputs_and_labels_must_be_as_many(kind, name):
    _, head = _write(kind)
    head[name] = np.concatenate([head[name], head[name][:1]])
    known = {"answering": "qa"}.get(kind, kind)
    with pytest.raises(portable.FormatError, match=r"Received: [34] outputs"):
        _read(head, known)


@pytest.mark.parametrize("kind", ["hidden_layer", "tagging", "answering"])
def test_a_head_is_whole_and_of_the_right_rank(kind):
    model, head = _write(kind)
    architecture = hugging_face_heads.CLASSES[model.task.kind]
    others = {"electra.x": np.zeros(2)}
    rest, found = hugging_face_heads.split_head(head | others, architecture)
    assert rest.keys() == others.keys()
    assert found.keys() == head.keys()
    for name in head:
        partial = {n: v for n, v in head.items() if n != name}
        with pytest.raises(portable.FormatError, match=f"Missing: {name}"):
            hugging_face_heads.split_head(partial, architecture)
        flat = head | {name: np.zeros([1, 2, 3])}
        with pytest.raises(portable.FormatError, match=rf"{name} \(1, 2, 3\)"):
            hugging_face_heads.split_head(flat, architecture)


def test_taggers_exchange_the_segments_there_and_back(tmp_path):
    model = tiny_models.build("tagging")
    table = "electra/embeddings/token_type_embeddings"
    hugging_face.write(model, tmp_path)
    written = tensor_files.read_safetensors(tmp_path / "model.safetensors")
    theirs = written["electra.embeddings.token_type_embeddings.weight"]
    # Words are in segment 1 here and in 0 there; a third stays.
    np.testing.assert_array_equal(theirs, model.tensors[table][[1, 0, 2]])
    found = hugging_face.read(tmp_path)
    np.testing.assert_array_equal(found.tensors[table], model.tensors[table])
    assert any("segments 0 and 1" in note for note in found.notes)
