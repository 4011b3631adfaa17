import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config import sections as config_sections
from electra_tf.export.compute import parallel_blocks
from electra_tf.export.compute import stored_weights
from electra_tf.modeling import encoder as encoder_lib

SETTINGS = config_sections.EncoderConfig(
    vocab_size=9,
    embedding_size=8,
    hidden_size=12,
    num_hidden_layers=2,
    num_attention_heads=3,
    intermediate_size=20,
    max_position_embeddings=6,
    initializer_range=0.5,
)
IDS = tf.constant([[2, 5, 4, 7, 3], [2, 6, 3, 0, 0]])
MASK = tf.constant([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])


def build_encoder(dtype=None, direction="both", **changes):
    """One whose vectors are neither zeros nor ones."""
    keras.utils.set_random_seed(1)
    encoder = encoder_lib.build_encoder(
        dataclasses.replace(SETTINGS, **changes),
        "electra",
        dtype=dtype,
        direction=direction,
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
        {"num_attention_heads": 4},
        # No second part of the attention.
        {"num_attention_heads": 1},
        {"intermediate_size": 21},
    ],
    ids=str,
)
def test_hidden_states_stay_the_same(changes):
    encoder = build_encoder(**changes)
    before = encode(encoder)
    parallel_blocks.replace(encoder)
    np.testing.assert_allclose(encode(encoder), before, 1e-5, 1e-5)


@pytest.mark.parametrize("num_parts", [1, 3])
def test_any_number_of_parts_computes_the_block(num_parts):
    encoder = build_encoder()
    before = encode(encoder)
    blocks = [
        parallel_blocks.ParallelBlock(block, num_parts)
        for block in encoder.blocks
    ]
    encoder.blocks.clear()
    encoder.blocks.extend(blocks)
    assert len(blocks[0].layers) == 4 * num_parts
    np.testing.assert_allclose(encode(encoder), before, 1e-5, 1e-5)


def test_one_direction_stays_one():
    encoder = build_encoder(direction="left_to_right")
    before = encode(encoder)
    parallel_blocks.replace(encoder)
    np.testing.assert_allclose(encode(encoder), before, 1e-5, 1e-5)


def test_bfloat16_products_stay_such():
    encoder = build_encoder(dtype="mixed_bfloat16")
    exact = build_encoder()
    before = encode(encoder)
    parallel_blocks.replace(encoder)
    after = encode(encoder)
    assert after.dtype == before.dtype == tf.bfloat16
    expected = encode(exact).numpy()
    error = np.abs(tf.cast(before, tf.float32) - expected).max()
    assert np.abs(tf.cast(after, tf.float32) - expected).max() < 2 * error


@pytest.mark.parametrize(("size", "width"), [(1024, 528), (1000, 500),
                                             (4096, 2064)])  # fmt: skip
def test_widths_that_collide_in_caches_grow_by_zeros_alone(size, width):
    encoder = build_encoder(intermediate_size=size)
    before = encode(encoder)
    variables = parallel_blocks.replace(encoder)
    shapes = {tuple(variable.shape) for variable in variables}
    assert {(12, width), (width, 12)} <= shapes
    np.testing.assert_allclose(encode(encoder), before, 1e-4, 1e-4)


def test_all_that_is_read_is_returned():
    encoder = build_encoder()
    outside = [variable.value for variable in encoder.variables]
    variables = parallel_blocks.replace(encoder)
    kept = {id(variable.value) for variable in encoder.variables}
    outside = [variable for variable in outside if id(variable) in kept]
    for variable in [*variables, *outside]:
        before = encode(encoder).numpy()
        values = variable.numpy()
        variable.assign(2.0 * values)
        assert np.abs(encode(encoder) - before).max() > 1e-4, variable.name
        variable.assign(values)
    count = sum(np.size(variable) for variable in variables)
    kernels = 4 * 12 * 12 + 2 * 12 * 20
    assert count == SETTINGS.num_hidden_layers * kernels


@pytest.mark.parametrize("weights", ["bfloat16", "int8"])
def test_parts_are_stored_in_fewer_bits_too(weights):
    encoder = build_encoder()
    before = encode(encoder).numpy()
    variables = parallel_blocks.replace(encoder)
    replaced = stored_weights.replace([encoder], weights)
    assert {id(variable) for variable in variables} <= set(replaced)
    change = np.abs(encode(encoder) - before).max()
    assert 0 < change < 0.1
