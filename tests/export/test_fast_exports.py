"""Buckets, parallel blocks and compact weights give the same answers."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.export import saved_model
from electra_tf.export.models import parallel_blocks
from electra_tf.export.models import stored_weights
from electra_tf.formats import own_run
from electra_tf.formats import reading
from electra_tf.modeling import encoder as encoder_lib
from tests import tiny
from tests.export import conftest

TEXTS = [
    "the cat sat on the mat , the dog sat on the table .",
    "",
    "cat", "unaffable dogs , items in a café !", "the number of items", "dog",
]  # fmt: skip


def assert_buckets_are_invisible(module, signature, **inputs):
    module.tokens_per_bucket = 0
    expected = module.run(signature, **inputs)
    module.tokens_per_bucket = 20
    received = tf.function(module.run, autograph=False)(signature, **inputs)
    conftest.assert_close(received, expected, 2e-5)


@pytest.mark.parametrize("signature", ["score_text", "features_ids"])
def test_buckets_are_invisible_in_answers_of_a_detector(tiny_run, signature):
    module = conftest.build_module(tiny_run)
    inputs = {"texts": tf.constant(TEXTS)}
    if signature == "features_ids":
        rows = module.run("score_text", **inputs)
        inputs = {k: rows[k] for k in ("input_ids", "input_mask")}
        inputs["segment_ids"] = rows["input_mask"]
    assert_buckets_are_invisible(module, signature, **inputs)


def test_buckets_are_invisible_in_answers_of_tasks(tiny_trial):
    texts = tf.constant(TEXTS)
    tagger = saved_model.load_task(tiny_trial.folder, "chunking").module
    rows = conftest.as_ids([[2, 5, 6, 3], [2, 5, 6, 7, 8, 3]])
    # One of them is padding.
    rows["word_positions"] = [[1, 4], [1, 2]]
    inputs = {name: tf.constant(value) for name, value in rows.items()}
    assert_buckets_are_invisible(tagger, "tag_ids", **inputs)
    reader = saved_model.load_task(tiny_trial.folder, "squad2").module
    assert_buckets_are_invisible(
        reader, "answer_text", questions=texts[::-1], contexts=texts
    )


SETTINGS = dataclasses.replace(
    tiny.ENCODER, embedding_size=8, hidden_size=12, num_attention_heads=3,
    intermediate_size=20, initializer_range=0.5,
)  # fmt: skip
IDS = tf.constant([[2, 5, 4, 7, 3], [2, 6, 3, 0, 0]])
MASK = tf.constant([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])


def build_encoder(direction="both", **changes):
    """One whose vectors are neither zeros nor ones."""
    keras.utils.set_random_seed(1)
    encoder = encoder_lib.build_encoder(
        dataclasses.replace(SETTINGS, **changes), "electra", direction=direction
    )
    for number, variable in enumerate(encoder.variables):
        if len(variable.shape) == 1:
            noise = tf.random.stateless_normal(variable.shape, [number, 3])
            variable.assign_add(0.3 * noise)
    return encoder


def encode(encoder):
    rows = IDS, MASK, tf.zeros_like(IDS)
    return encoder(*rows).sequence_output


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"num_attention_heads": 1},  # no second part of the attention
        {"intermediate_size": 1024},  # a width that grows by zeros
        {"direction": "left_to_right"},
    ],
    ids=str,
)
def test_hidden_states_stay_the_same(changes):
    encoder = build_encoder(**changes)
    before = encode(encoder)
    parallel_blocks.replace(encoder)
    np.testing.assert_allclose(encode(encoder), before, 1e-5, 1e-5)


@pytest.mark.parametrize("axis", [0, 1])
def test_int8_is_off_by_half_a_scale_at_most(axis):
    generator = np.random.default_rng(0)
    scales = 10.0 ** generator.uniform(-3, 3, (40, 1))
    values = (scales * generator.normal(size=(40, 12))).astype(np.float32)
    multiples, scales = stored_weights.quantize(values, axis)
    assert multiples.dtype == np.int8
    assert scales.shape == ((40, 1) if axis == 0 else (1, 12))
    errors = np.abs(multiples * scales - values)
    assert np.all(errors <= 0.5001 * scales)
    # Every scale is as small as it can be.
    assert np.all(np.abs(multiples).max(axis=1 - axis) == 127)


@pytest.mark.parametrize("weights", ["bfloat16", "int8"])
def test_answers_are_those_of_rounded_float32_weights(tiny_run, weights):
    model = own_run.read_model(tiny_run.model_dir)
    trained, rounded = (reading.build_networks(model).main for _ in range(2))
    compact = conftest.build_module(tiny_run, trained)
    compact.prepare(weights, "any")
    for variable in rounded.variables:
        if len(variable.shape) == 2:
            values = variable.value.numpy()
            if weights == "bfloat16":
                values = tf.cast(tf.cast(values, tf.bfloat16), tf.float32)
            else:
                axis = 1 if variable.name == "kernel" else 0
                values = np.multiply(*stored_weights.quantize(values, axis))
            variable.assign(values)
    expected = conftest.build_module(tiny_run, rounded)
    for signature in ("score_text", "features_text"):
        conftest.assert_close(
            compact.run(signature, texts=tf.constant(TEXTS)),
            expected.run(signature, texts=tf.constant(TEXTS)),
        )


@pytest.mark.parametrize(
    ("weights", "share"), [("bfloat16", 0.62), ("int8", 0.5)]
)
def test_a_compact_export_is_small(
    tiny_run, exported, tmp_path, without_graphs, weights, share
):
    folder = tmp_path / "export"
    conftest.export_unchecked(
        tiny_run.model_dir, folder, saved_model.ExportOptions(weights=weights)
    )
    reader = tf.train.load_checkpoint(str(folder / "variables" / "variables"))
    dtypes = reader.get_variable_to_dtype_map()
    shapes = reader.get_variable_to_shape_map().items()
    matrices = {dtypes[n] for n, s in shapes if len(s) == 2 and 1 not in s}
    assert matrices == {tf.as_dtype(weights)}
    size, whole = (
        sum(f.stat().st_size for f in (export / "variables").iterdir())
        for export in (folder, exported)
    )
    assert size < share * whole
    readme = (folder / "README.md").read_text().split()
    assert f"stored as {weights}" in " ".join(readme)
