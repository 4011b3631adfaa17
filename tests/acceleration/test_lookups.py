"""Lookups and their gradients against TensorFlow's own."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import fusion
from electra_tf.acceleration import operations
from electra_tf.inputs import masking

_RNG = np.random.default_rng(0)


# Ids that fill groups of 128 and go on in others; one that all rows have; many
# that none has; rows that fill their groups exactly, or one row alone.
@pytest.mark.parametrize(
    ("num_rows", "num_used", "num_ids"),
    [(1000, 3, 50), (300, 1, 2), (4096, 900, 2000), (128, 5, 5), (1, 1, 1)],
)
def test_rows_are_summed_by_their_ids(num_rows, num_used, num_ids):
    ids = _RNG.integers(num_used, size=num_rows)
    rows = _RNG.normal(size=(num_rows, 6)).astype("float32")
    expected = np.zeros([num_ids, 6])
    np.add.at(expected, ids, rows)
    for jit_compile in (False, True):
        compute = tf.function(
            operations.sum_rows, jit_compile=jit_compile, autograph=False
        )
        found = compute(tf.constant(rows), tf.constant(ids, tf.int32), num_ids)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=2e-5)


def test_no_id_is_compared_with_every_row():
    @tf.function(jit_compile=True, autograph=False)
    def compute(rows, ids):
        return operations.sum_rows(rows, ids, 3000)

    arguments = tf.zeros([1280, 6]), tf.zeros([1280], tf.int32)
    program = compute.experimental_get_compiler_ir(*arguments)(stage="hlo")
    assert "s32[3000]" in program
    assert "3000,1280" not in program


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
@pytest.mark.parametrize(
    ("function", "shape", "limit"),
    [(operations.look_up, (9, 4), 9), (masking.gather_positions, (2, 7, 4), 7)],
)
def test_a_step_that_is_compiled_whole_has_equal_gradients_without_scatters(
    function, shape, limit, dtype
):
    table = tf.cast(_RNG.normal(size=shape), dtype)
    ids = tf.constant(_RNG.integers(limit, size=(2, 5)), tf.int32)
    # Whole numbers, so that sums are exact in bfloat16, too.
    upstream = tf.cast(_RNG.integers(4, size=(2, 5, 4)), dtype)
    found, kinds = [], []

    def compute():
        with tf.GradientTape() as tape:
            tape.watch(table)
            outputs = function(table, ids)
        slopes = tape.gradient(outputs, table, upstream)
        return outputs, tf.convert_to_tensor(slopes)

    for scope in (fusion.Scope.NOTHING, fusion.Scope.STEP):
        with fusion.switched(scope):
            traced = tf.function(compute, autograph=False)
            graph = traced.get_concrete_function().graph
        found.append([tf.cast(t, tf.float32).numpy() for t in traced()])
        kinds.append({op.type for op in graph.get_operations()})
    np.testing.assert_array_equal(found[1][0], found[0][0])
    np.testing.assert_array_equal(found[1][1], found[0][1])
    assert "UnsortedSegmentSum" in kinds[0]
    assert "UnsortedSegmentSum" not in kinds[1]
