"""Heads of fine-tuned models compute the same here and there."""

import math
import pathlib

import numpy as np
import pytest

from electra_tf import errors
from electra_tf.formats import hugging_face
from electra_tf.formats import parameter_names
from electra_tf.formats import portable
from tests.formats import tiny_models

_TABLE = "electra/embeddings/token_type_embeddings"
_ERF = np.vectorize(math.erf)
_ONE_LABEL = "single_label_classification"
_LABELS = {"0": "a", "1": "b", "2": "c"}


def _write(kind):
    """A model, and the tensors of its head there."""
    model = tiny_models.build(kind)
    tensors = hugging_face.to_class(model.tensors, model.task)
    head = portable.take_part(tensors, portable.TASK_HEADS)
    table = parameter_names.hugging_face(model.task.kind)
    return model, table.split_all(head)


def _read(head, kind, **stated):
    """Our tensors of a head there, and its task."""
    task = hugging_face.read_task(
        {"finetuning_task": "t", "id2label": _LABELS, **stated},
        hugging_face.CLASSES[kind],
        pathlib.Path("config.json"),
    )
    tensors = parameter_names.take(
        head,
        hugging_face.head_shapes(task, 16),
        parameter_names.hugging_face(task.kind),
        "the file",
    )
    tensors[_TABLE] = np.zeros([3, 12], np.float32)
    tensors, task = hugging_face.from_class(tensors, task)
    del tensors[_TABLE]
    return tensors, task


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
    kernel = model.tensors[f"{model.task.head}/dense/kernel"].astype(dtype)
    bias = model.tensors[f"{model.task.head}/dense/bias"].astype(dtype)
    states = np.random.default_rng(1).normal(size=[200, 16]).astype(dtype)
    expected = states @ kernel + bias
    scale = np.abs(states).sum(1, keepdims=True) * np.abs(kernel).max()
    error = np.abs(_apply(head, states) - expected) / scale
    assert error.max() < tolerance
    assert np.abs(expected).max() > 1


@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_a_twin_is_recognized_to_the_bit(kind):
    model, head = _write(kind)
    fields = hugging_face.task_fields(model.task, "model")
    tensors, task = _read(head, kind, **fields)
    assert task == model.task
    ours = portable.take_part(model.tensors, "task_specific")
    tiny_models.require_tensors(tensors, ours)


def test_a_head_that_differs_anywhere_is_no_twin():
    _, head = _write("classification")
    # The bias of the output is the linear layer's own.
    for name in head.keys() - {"classifier.out_proj.bias"}:
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


def test_more_labels_than_half_the_width_have_no_twin():
    model = tiny_models.build("classification")
    path = "task_specific/mnli/dense/kernel"
    tensors = {path: np.ones([16, 8], np.float32)}
    hugging_face.to_class(tensors, model.task)
    tensors = {path: np.ones([16, 9], np.float32)}
    with pytest.raises(errors.ModelError, match="up to 8 labels.*9"):
        hugging_face.to_class(tensors, model.task)


def test_start_and_end_are_the_rows_of_one_layer():
    model, head = _write("answering")
    for row, name in enumerate(("dense", "dense_1")):
        path = f"task_specific/squad1/{name}"
        np.testing.assert_array_equal(
            head["qa_outputs.weight"][row],
            model.tensors[f"{path}/kernel"][:, 0],
        )
        assert head["qa_outputs.bias"][row] == model.tensors[f"{path}/bias"]
    with pytest.raises(errors.ModelError, match="joint_prediction=false"):
        _write("joint_answering")


@pytest.mark.parametrize("kind", ["classification", "tagging", "answering"])
def test_a_head_is_whole_and_has_an_output_for_each_label(kind):
    _, head = _write(kind)
    known = {"answering": "qa"}.get(kind, kind)
    assert _read(head, known)
    for name in head:
        partial = {n: v for n, v in head.items() if n != name}
        with pytest.raises(errors.ModelError, match=f"{name} is missing"):
            _read(partial, known)
        more = head | {name: np.concatenate([head[name], head[name][:1]])}
        with pytest.raises(errors.ModelError, match=rf"{name} \(.*should"):
            _read(more, known)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id2label", {"0": None}),
        ("id2label", {"1": "a", "2": "b"}),
        ("finetuning_task", "a/b"),
        ("problem_type", "other"),
        ("text_pairs", "false"),
        ("regression_value_range", [0, 1, 2]),
        ("regression_value_range", [1, 1]),
        ("regression_value_range", [0, math.inf]),
    ],
)
def test_a_config_that_does_not_say_what_the_outputs_are_is_refused(
    field, value
):
    _, head = _write("classification")
    with pytest.raises(errors.ModelError, match=rf"config\.json: .*{field}"):
        _read(head, "classification", **{field: value})


@pytest.mark.parametrize("label", ["a", "c\nd"])
def test_labels_are_different_texts_of_one_line(label):
    _, head = _write("classification")
    with pytest.raises(errors.ModelError, match=r"json: id2label must.*put 2"):
        _read(head, "classification", id2label=_LABELS | {"2": label})


@pytest.mark.parametrize(
    ("architecture", "stated", "expected"),
    [
        ("classification", {}, ("own", "classification", ("a", "b", "c"))),
        ("classification", {"id2label": {"0": "a"}}, ("own", "regression")),
        (
            "classification",
            {"problem_type": "regression"},
            ("own", "regression"),
        ),
        (
            "classification",
            {"id2label": None, "finetuning_task": "rte"},
            ("rte", "classification", ("LABEL_0", "LABEL_1")),
        ),
        (
            "classification",
            {"id2label": {"0": "a"}, "problem_type": _ONE_LABEL},
            ("own", "classification", ("a",)),
        ),
        ("tagging", {"id2label": {"0": "a"}}, ("own", "tagging", ("a",))),
        ("qa", {"finetuning_task": "squad1"}, ("squad1", "qa")),
    ],
)
def test_a_task_is_what_its_class_and_config_say(
    architecture, stated, expected
):
    fields = {"id2label": _LABELS, "text_pairs": True} | stated
    task = hugging_face.read_task(
        fields, hugging_face.CLASSES[architecture], pathlib.Path("config.json")
    )
    assert task == portable.PortableTask(
        *expected,
        has_hidden_layer=architecture == "classification",
        has_pairs=True,
    )
