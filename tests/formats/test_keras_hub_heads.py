"""The two files of ours in a KerasHub preset, field by field."""

import numpy as np
import pytest
import safetensors.numpy

from electra_tf.formats import keras_hub_preset
from tests.formats import presets
from tests.formats import tiny_models


def test_heads_must_be_whole(preset):
    heads = safetensors.numpy.load_file(preset / "heads.safetensors")
    for name in heads:
        rest = {n: heads[n] for n in heads if n != name}
        safetensors.numpy.save_file(rest, preset / "heads.safetensors")
        presets.refuses(preset, "must hold the tensors that heads.json names")
    more = heads | {"x/kernel": np.zeros([2], np.float32)}
    safetensors.numpy.save_file(more, preset / "heads.safetensors")
    presets.refuses(preset, "must hold the tensors that heads.json names")
    (preset / "heads.safetensors").write_bytes(b"\5")
    presets.refuses(preset, "must be a safetensors file")
    (preset / "heads.safetensors").unlink()
    presets.refuses(preset, "must hold the tensors that heads.json names")


_TASK = {
    "name": "own",
    "kind": "classification",
    "labels": ["good", "bad"],
    "has_hidden_layer": False,
    "value_range": [0, 1],
    "has_pairs": False,
}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"task": None}, "`task` must be an object"),
        ({"task": 5}, "`task` must be an object"),
        ({"task": {"name": "own"}}, "`task` must be an object"),
        ({"task": {**_TASK, "more": 1}}, "`task` must be an object"),
        *(
            ({"task": _TASK | {name: value}}, f"`task.{name}` must be")
            for name, values in {
                "name": ("", 5, "a/b"),
                "kind": (None, "x", -1, ["qa"]),
                "labels": (3, "good", ["a", "a"], [""], [1, 2], None),
                "has_pairs": (1, None, "no"),
                "has_hidden_layer": (0, "yes"),
                "value_range": ([0], [1, 0], [0, "1"], [0, True], [0, 5], 3),
            }.items()
            for value in values
        ),
        ({"task": _TASK | {"kind": "qa"}}, "labels` must be empty for qa"),
        (
            {"task": _TASK | {"kind": "tagging", "has_pairs": True}},
            "has_pairs` must be false for tagging",
        ),
        *(
            ({"step": value}, "`step` must be a whole number")
            for value in ("x", None, -1, 1.5, True, 2**63)
        ),
        *(
            ({"attention_probs_dropout_prob": value}, "a number from 0 to 1")
            for value in (None, "x", -0.1, 1.1, True)
        ),
        ({"attention_probs_dropout_prob": 1}, "must be 0 to 0.99"),
        ({"initializer_range": "x"}, "a number from 0 to 1"),
        ({"tokenizer": {"lower": True}}, "`tokenizer`: Unknown"),
        ({"tokenizer": {"do_lower_case": 1}}, "`tokenizer`: `do_lower_case`"),
        ({"tokenizer": 5}, "`tokenizer` must be an object"),
        ({"tokenizer": None}, "`tokenizer` must be an object"),
        ({"heads": None}, "`heads` must be a list"),
        ({"heads": [1]}, "`heads` must be a list"),
        ({"more": 1}, "Received: more"),
    ],
)
def test_facts_that_cannot_be_meant_are_refused(preset, fields, message):
    presets.change(preset, "heads.json", **fields)
    presets.refuses(preset, f"heads.json.*{message}")


def test_facts_that_are_a_link_to_nothing_are_refused(preset):
    (preset / "heads.json").rename(preset / "gone")
    (preset / "heads.json").symlink_to(preset / "absent")
    presets.refuses(preset, "heads.json must be a file")


@pytest.mark.parametrize(
    "kind", ["classification", "hidden_regression", "tagging", "answering"]
)
def test_a_task_is_read_as_it_was_written(tmp_path, kind):
    model = tiny_models.build(kind, step=2**63 - 1)
    keras_hub_preset.write(model, tmp_path)
    found = keras_hub_preset.read(tmp_path)
    tiny_models.require_same(found, model)
    assert found.step == model.step


@pytest.mark.parametrize("kind", ["int32", "bool", "uint8"])
def test_heads_that_are_no_floating_numbers_are_refused(preset, kind):
    path = preset / "heads.safetensors"
    heads = safetensors.numpy.load_file(path)
    name = "discriminator_predictions/dense/bias"
    heads[name] = heads[name].astype(kind)
    safetensors.numpy.save_file(heads, path)
    presets.refuses(
        preset, f"heads.safetensors must hold floating.*{name} holds {kind}"
    )


def test_heads_of_another_precision_become_ours(preset):
    path = preset / "heads.safetensors"
    heads = safetensors.numpy.load_file(path)
    halves = {n: heads[n].astype(np.float16) for n in heads}
    safetensors.numpy.save_file(halves, path)
    found = keras_hub_preset.read(preset)
    for name, value in halves.items():
        assert found.tensors[name].dtype == np.float32
        np.testing.assert_array_equal(found.tensors[name], value)
    assert found.notes[1:] == ("float16 weights became float32",)


@pytest.mark.parametrize("content", ["{", "[1]", "5"])
def test_facts_that_are_no_json_are_refused(preset, content):
    (preset / "heads.json").write_text(content)
    presets.refuses(preset, "heads.json must hold a JSON object")
