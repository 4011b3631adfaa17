import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.export.models import parallel_blocks
from electra_tf.modeling import encoder as encoder_lib
from tests import tiny

SETTINGS = dataclasses.replace(
    tiny.ENCODER, embedding_size=8, hidden_size=12, num_attention_heads=3,
    intermediate_size=20, initializer_range=0.5,
)  # fmt: skip
IDS = tf.constant([[2, 5, 4, 7, 3], [2, 6, 3, 0, 0]])
MASK = tf.constant([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])


def build_encoder(dtype=None, direction="both", **changes):
    """One whose vectors are neither zeros nor ones."""
    keras.utils.set_random_seed(1)
    encoder = encoder_lib.build_encoder(
        dataclasses.replace(SETTINGS, **changes), "electra", dtype=dtype,
        direction=direction,
    )  # fmt: skip
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
        {"num_attention_heads": 1},  # no second part of the attention
        {"intermediate_size": 21},
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
