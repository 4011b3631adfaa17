"""Packed rows: a text is what it is in a row of its own, in both towers."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import errors
from electra_tf.inputs import dataset as dataset_lib
from electra_tf.pretraining import run
from electra_tf.training import reporting
from electra_tf.training import step as step_lib
from tests import tiny
from tests import tiny_run
from tests.pretraining import tiny_objectives

CLS, SEP = tiny.VOCABULARY.cls_id, tiny.VOCABULARY.sep_id
NAMES = "input_ids", "input_mask", "segment_ids"
# First segment, second segment; the last row has no padding.
TEXTS = [(4, 3), (2, 0), (3, 0), (1, 2), (7, 3)]
PLACES = [(0, 0), (0, 10), (1, 0), (1, 5), (2, 0)]  # row and column of each


def _build_texts(seed=0):
    rng = np.random.default_rng(seed)
    for first, second in TEXTS:
        ids = [CLS, *rng.integers(5, tiny.VOCABULARY.size, first), SEP]
        segments = [0] * len(ids)
        if second:
            ids += [*rng.integers(5, tiny.VOCABULARY.size, second), SEP]
            segments += [1] * (second + 1)
        yield np.array(ids), np.array(segments)


def _lay_out(texts, places):
    """Ids, mask and segments of texts at their places, `[rows, 16]`."""
    shape = [max(row for row, _ in places) + 1, tiny.LENGTH]
    ids, mask, segments = (np.zeros(shape, np.int32) for _ in range(3))
    for text, (row, column) in zip(texts, places, strict=True):
        part = row, slice(column, column + len(text[0]))
        ids[part], segments[part] = text
        mask[part] = 1
    return [tf.constant(values) for values in (ids, mask, segments)]


@pytest.fixture(scope="module")
def model():
    return tiny_objectives.build_model(
        "electra", is_packed=True, encoder={"num_hidden_layers": 2}
    )


def _pack(model, texts):
    """The rows as the towers get them, through the model's masking."""
    features = dict(zip(NAMES, _lay_out(texts, PLACES), strict=True))
    prepared = model.prepare(step_lib.as_one_stream(features), 0, True)
    segments = prepared.masked.segment_ids
    return features["input_ids"], features["input_mask"], segments


@pytest.mark.parametrize("uses_xla", [False, True])
def test_states_are_those_that_a_text_has_alone(model, uses_xla, monkeypatch):
    texts = list(_build_texts())
    packed = _pack(model, texts)
    alone = _lay_out(texts, [(row, 0) for row in range(len(texts))])
    # A generator can sample a [CLS], which begins no text.
    spoilt = packed[0].numpy(), alone[0].numpy()
    spoilt[0][0, 12] = spoilt[1][1, 2] = CLS
    for network in (model.generator, model.main):

        def encode(*rows, encoder=network.encoder):
            return tf.function(encoder.__call__, jit_compile=uses_xla)(*rows)

        found = encode(tf.constant(spoilt[0]), *packed[1:])
        monkeypatch.setattr(network.encoder, "is_packed", False)
        expected = encode(tf.constant(spoilt[1]), *alone[1:])
        monkeypatch.undo()
        for name in ("embedding_output", "sequence_output"):
            states = getattr(found, name), getattr(expected, name)
            for number, (row, column) in enumerate(PLACES):
                length = len(texts[number][0])
                np.testing.assert_allclose(
                    states[0][row, column : column + length],
                    states[1][number, :length],
                    rtol=0,
                    atol=1e-5,
                    err_msg=f"{network.name} {name} {number}",
                )


def test_gradients_of_a_text_do_not_depend_on_its_neighbours(model):
    kept, *others = [list(_build_texts(seed)) for seed in (0, 1, 2)]
    for neighbours in others:
        neighbours[1] = kept[1]

    def differentiate(texts, number):
        row, column = PLACES[number]
        part = slice(column, column + len(texts[number][0]))
        with tf.GradientTape() as tape:
            logits = model.main(*_pack(model, texts)).logits
            loss = tf.reduce_sum(tf.sin(logits[row, part]))
        gradient = tape.gradient(loss, model.main.trainable_variables)
        return [tf.convert_to_tensor(each).numpy() for each in gradient]

    pairs = [
        [differentiate(texts, number) for texts in others] for number in (1, 0)
    ]
    for found, expected in zip(*pairs[0], strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    # The text before it did change.
    assert not np.allclose(pairs[1][0][-1], pairs[1][1][-1], atol=1e-3)


def test_two_replicas_are_one(two_devices):
    settings = tiny_run.replace(
        tiny.with_dropout(tiny.build_settings()),
        encoder={"num_hidden_layers": 1},
        # Without warm-up the first step moves the weights.
        optimizer={"num_warmup_steps": 0, "warmup_proportion": 0.0},
    )
    rows = _lay_out(list(_build_texts()), PLACES)
    rows = [tf.concat([each, each, each[:2]], 0) for each in rows]
    features = dict(zip(NAMES, rows, strict=True))
    one, two = (
        tiny_objectives.take_a_step(strategy, settings, features=features)
        for strategy in (None, two_devices)
    )
    for name, value in one.items():
        np.testing.assert_allclose(
            value, two[name], rtol=1e-5, atol=1e-5, err_msg=name
        )


def test_a_run_reads_from_the_manifest_that_rows_are_packed(tmp_path):
    data = tiny_run.write_dataset(tmp_path / "data", length=32, packed=True)
    settings = tiny_run.replace(
        tiny_run.build_settings(data, num_train_steps=2, eval_steps=2),
        encoder={"max_position_embeddings": 32},
        data={"max_seq_length": 32},
    )
    train = dataset_lib.open_dataset(data, 32).train
    assert train.num_examples < 0.7 * tiny_run.NUM_TRAIN
    task = run._Run(settings, tmp_path / "run", tf.distribute.get_strategy())
    encoders = task.model.generator.encoder, task.model.main.encoder
    assert all(encoder.is_packed for encoder in encoders)
    # Padding is no text.
    assert task.units_per_step == 8 * train.num_tokens / train.num_examples
    assert run.pretrain(settings, tmp_path / "run")
    lines = reporting.read_lines(tmp_path / "run" / "metrics.jsonl")
    assert {line["split"] for line in lines} == {"train", "validation"}


def test_two_towers_cannot_read_packed_rows():
    with pytest.raises(errors.ConfigError, match="built with --packed"):
        tiny_objectives.build_model("electric", is_packed=True)
