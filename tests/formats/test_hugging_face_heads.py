"""Heads of fine-tuned models compute the same here and there."""

import dataclasses
import math

import ml_dtypes
import numpy as np
import pytest

from electra_tf import errors
from electra_tf.formats import foreign
from electra_tf.formats import hugging_face
from electra_tf.formats import hugging_face_heads
from electra_tf.formats import parameter_names
from electra_tf.formats import portable
from electra_tf.formats import tensor_files
from tests.formats import tiny_models

_TABLE = "electra/embeddings/token_type_embeddings"
_ERF = np.vectorize(math.erf)


def _write(kind, **task):
    """A model, and the tensors of its head there."""
    model = tiny_models.build(kind)
    task = dataclasses.replace(model.task, **task)
    tensors = hugging_face_heads.to_hugging_face(model.tensors, task)
    rules = hugging_face_heads.name_rules(task.kind)
    head = portable.take_part(tensors, portable.TASK_HEADS)
    return model, parameter_names.split_all(head, rules)


def _read(head, kind, **stated):
    """Our tensors of a head there, and its task."""
    labels = {"0": "a", "1": "b", "2": "c"}
    task = hugging_face_heads.read_task(
        {"finetuning_task": "t", "id2label": labels, **stated},
        hugging_face_heads.CLASSES[kind],
        "config.json",
    )
    rules = hugging_face_heads.name_rules(task.kind)
    encoder = {_TABLE: np.zeros([3, 12], np.float32)}
    taken = foreign.ForeignTensors(head, rules, "the file").take(
        hugging_face_heads.head_shapes(task, 16)
    )
    tensors, task = hugging_face_heads.from_hugging_face(encoder | taken, task)
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
    labels = {str(n): label for n, label in enumerate(model.task.labels)}
    tensors, task = _read(
        head,
        kind,
        finetuning_task=model.task.name,
        id2label=labels or {"0": "LABEL_0"},
        regression_value_range=[0, 5],
    )
    value_range = (0.0, 5.0) if kind == "regression" else (0.0, 1.0)
    assert task == dataclasses.replace(model.task, value_range=value_range)
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


def test_more_labels_than_half_the_width_have_no_twin():
    model = tiny_models.build("classification")
    path = "task_specific/mnli/dense"
    for outputs in (8, 9):
        model.tensors[f"{path}/kernel"] = np.ones([16, outputs], np.float32)
        model.tensors[f"{path}/bias"] = np.ones([outputs], np.float32)
        if outputs == 8:
            hugging_face_heads.to_hugging_face(model.tensors, model.task)
            continue
        with pytest.raises(errors.ModelError, match="up to 8 labels.*9"):
            hugging_face_heads.to_hugging_face(model.tensors, model.task)


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
    with pytest.raises(errors.ModelError, match="joint_prediction=false"):
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
    with pytest.raises(errors.ModelError, match=rf"{name} \([34].*should"):
        _read(head, known)


@pytest.mark.parametrize("kind", ["classification", "tagging", "qa"])
def test_a_head_is_whole_and_of_the_right_rank(kind):
    _, head = _write({"qa": "answering"}.get(kind, kind))
    assert _read(head, kind)
    for name in head:
        partial = {n: v for n, v in head.items() if n != name}
        with pytest.raises(
            errors.ModelError, match=f"the file .*{name} is missing"
        ):
            _read(partial, kind)
        flat = head | {name: np.zeros([1, 2, 3])}
        with pytest.raises(
            errors.ModelError, match=rf"the file .*{name} \(1, 2, 3\)"
        ):
            _read(flat, kind)


@pytest.mark.parametrize("kind", ["classification", "tagging", "qa"])
@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int64])
def test_a_head_of_other_numbers_than_floating_point_is_refused(kind, dtype):
    _, head = _write({"qa": "answering"}.get(kind, kind))
    for name in head:
        changed = head | {name: head[name].astype(dtype)}
        with pytest.raises(
            errors.ModelError,
            match=f"the file .*{name} holds {np.dtype(dtype)}",
        ):
            _read(changed, kind)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_a_head_of_another_precision_becomes_float32(dtype):
    _, head = _write("tagging")
    changed = {name: value.astype(dtype) for name, value in head.items()}
    found, _ = _read(changed, "tagging")
    kernel = found["task_specific/t/dense/kernel"]
    assert kernel.dtype == np.float32
    expected = changed["classifier.weight"].astype(np.float32).T
    np.testing.assert_array_equal(kernel, expected)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("id2label", v) for v in (5, 0, True, False, 1.5, [], "ab")),
        *(
            ("id2label", {"0": "a", "1": "b", "2": label})
            for label in (
                None,
                [],
                5,
                True,
                "",
                " ",
                "a",
                "c\nd",
                "c\r",
                "\u2028",
            )
        ),
        *(("finetuning_task", v) for v in (5, True, ["a"], {}, "a/b", "a\n")),
        *(("problem_type", v) for v in (5, ["regression"], "other", True)),
        *(("text_pairs", v) for v in (1, "false", None, [])),
    ],
)
def test_a_config_that_does_not_say_what_the_outputs_are_is_refused(
    field, value
):
    _, head = _write("classification")
    with pytest.raises(errors.ModelError, match=rf"config\.json: {field} must"):
        _read(head, "classification", **{field: value})


@pytest.mark.parametrize(
    "value", [None, 5, "01", [], [1], [0, 1, 2], ["0", "1"], [0, None],
              [False, True], [1, 1], [5, 0], {"0": 0, "1": 1},
              [0, math.inf], [math.nan, 1]],
)  # fmt: skip
def test_a_range_is_two_numbers_in_their_order(value):
    _, head = _write("regression")
    labels = {"0": "LABEL_0"}
    with pytest.raises(
        errors.ModelError, match=r"config\.json: regression_value_range must"
    ):
        _read(head, "regression", id2label=labels, regression_value_range=value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": (["a"], ["b"], ["c"])}, "tiny.*every output a name"),
        ({"labels": ("a", "a", "b")}, "no two the same"),
    ],
)
def test_a_task_that_has_no_class_is_not_written(tmp_path, change, message):
    """Other formats' files may describe any."""
    model = tiny_models.build("classification")
    task = dataclasses.replace(model.task, **change)
    with pytest.raises(errors.ModelError, match=message):
        hugging_face.write(dataclasses.replace(model, task=task), tmp_path)


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
