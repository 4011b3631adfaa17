"""What makes a step fast gives the numbers of TensorFlow's own operations."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import fusion
from electra_tf.acceleration import operations
from electra_tf.acceleration import random_bits
from electra_tf.inputs import masking
from electra_tf.modeling import encoder
from electra_tf.pretraining import run
from tests import tiny
from tests import tiny_run
from tests.objectives import tiny_objectives

_SCOPES = fusion.Scope.NOTHING, fusion.Scope.LOOPS
_SEED = tf.constant([1, 2, 0], tf.int64)
_RNG = np.random.default_rng(0)


def _random(*shape):
    values = np.random.default_rng(sum(shape)).normal(size=shape)
    return tf.constant(values, tf.float32)


def test_looking_up_gelu_gives_what_its_formula_gives_for_all_of_bfloat16():
    numbers = tf.bitcast(tf.cast(tf.range(2**16), tf.uint16), tf.bfloat16)

    def compute():
        with tf.GradientTape() as tape:
            tape.watch(numbers)
            outputs = operations.gelu(numbers)
        return outputs, tape.gradient(outputs, numbers)

    graphs, found = [], []
    for scope in _SCOPES:
        with fusion.switched(scope):
            traced = tf.function(compute, autograph=False)
            graphs.append(traced.get_concrete_function().graph)
        found.append([np.asarray(v, np.float32) for v in traced()])
    assert _calls(graphs[1]) > _calls(graphs[0]) == 0
    inner = graphs[1].as_graph_def().library.function
    kinds = [[node.op for node in f.node_def] for f in inner]
    assert sum("GatherV2" in kind for kind in kinds) == 2
    # A graph may flush what is smaller than normal numbers.
    np.testing.assert_allclose(found[1], found[0], rtol=0, atol=1e-37)


def _calls(graph):
    kinds = [operation.type for operation in graph.get_operations()]
    return kinds.count("PartitionedCall")


def _differentiate_both_ways(function, layer, scopes=_SCOPES):
    """Products of each scope; outputs and weights' gradients must be equal."""
    weights = [v.value for v in layer.trainable_variables]

    def compute():
        with tf.GradientTape() as tape:
            outputs = function()
            cubes = outputs**3
        slopes = tape.gradient(cubes, weights)
        return outputs, *map(tf.convert_to_tensor, slopes)

    found, products = [], []
    for scope in scopes:
        with fusion.switched(scope):
            is_whole = scope is fusion.Scope.STEP
            traced = tf.function(
                compute, autograph=False, jit_compile=is_whole or None
            )
            graph = traced.get_concrete_function().graph
        found.append(traced())
        operations = graph.get_operations()
        products.append([o for o in operations if o.type == "MatMul"])
    for one, other in zip(*found, strict=True):
        scale = np.abs(one).max()
        np.testing.assert_allclose(other, one, atol=1e-6 * scale, rtol=1e-5)
    assert min(np.abs(one).max() for one in found[0]) > 1e-4
    return products


@pytest.mark.parametrize(("width", "widest"), [(16, 528), (264, 512)])
def test_spare_units_change_neither_outputs_nor_gradients(width, widest):
    sizes = dataclasses.replace(
        tiny.build_settings().encoder, hidden_size=width, intermediate_size=512
    )
    block = encoder.TransformerBlock(sizes)
    block.build()
    hidden = _random(6, width)
    plain, spared = _differentiate_both_ways(
        lambda: block(hidden, tf.zeros([2, 1, 1, 3])), block
    )
    # The third product is that of the feed-forward layer's first kernel.
    assert plain[2].inputs[1].shape[1] == 512
    assert spared[2].inputs[1].shape[1] == widest


@pytest.fixture
def tower():
    sizes = tiny.with_dropout(tiny.build_settings()).encoder
    sizes = dataclasses.replace(sizes, vocab_size=50, num_hidden_layers=3)
    return encoder.build_encoder(sizes, "electra")


def test_blocks_that_share_a_trace_compute_as_alone(tower):
    tower.blocks[0].trainable = False
    rows = tiny.build_features(4).values()
    alone, shared = _differentiate_both_ways(
        lambda: tower(*rows, _SEED).sequence_output, tower
    )
    # Two of three blocks are one function; the frozen one has no dropout.
    assert len(alone) - len(shared) == 2 * 4 * 3


@pytest.mark.parametrize(
    ("accelerator", "recomputes"), [("TPU", False), ("TPU", True), ("GPU", 0)]
)
def test_blocks_in_a_loop_compute_as_alone(
    accelerator, recomputes, tower, monkeypatch
):
    """A GPU's compiler gets each block by itself."""
    monkeypatch.setattr(fusion, "accelerator", lambda: accelerator)
    # All draw the same bits.
    monkeypatch.setattr(random_bits, "_threefry", random_bits._philox)
    tower.recomputes = recomputes
    rows = tiny.build_features(4).values()
    alone, whole = _differentiate_both_ways(
        lambda: tower(*rows, _SEED).sequence_output,
        tower,
        (fusion.Scope.NOTHING, fusion.Scope.STEP),
    )
    # Of the blocks and of their gradients; those of the embeddings are left.
    assert len(alone) >= 3 * 4 * 3
    assert (len(whole) <= 6) == (accelerator == "TPU")


def test_a_step_is_the_same_whatever_xla_compiles_of_it():
    settings = tiny.build_settings(num_micro_batches=2)
    settings = tiny_run.replace(
        tiny.with_dropout(settings),
        encoder={"num_hidden_layers": 1},
        # Without warm-up the first step moves the weights.
        optimizer=tiny_objectives.NO_WARMUP,
    )
    features, found = tiny.deal(tiny.build_features()), []
    for scope in fusion.Scope:
        tf.keras.utils.set_random_seed(3)
        model = run.build_model_and_optimizer(settings, tiny.VOCABULARY)
        assert model.xla_scope is fusion.Scope.LOOPS
        model.xla_scope = scope
        step = model.training_step
        if scope is not fusion.Scope.NOTHING:
            is_whole = scope is fusion.Scope.STEP
            step = tf.function(
                step, autograph=False, jit_compile=is_whole or None
            )
        sums = step(features)
        found.append((sums, [v.numpy() for v in model.trainable_variables]))
    (sums, plain), *compiled = found
    for others, weights in compiled:
        for name, value in sums.items():
            np.testing.assert_allclose(others[name], value, 1e-4, err_msg=name)
        for one, other in zip(plain, weights, strict=True):
            np.testing.assert_allclose(other, one, atol=2e-5)


# Ids that fill groups of 128 and go on in others; one that all rows have; many
# that none has; rows that fill their groups exactly, or one row alone.
@pytest.mark.parametrize(
    ("num_rows", "num_used", "num_ids"),
    [(1000, 3, 50), (300, 1, 2), (4096, 900, 2000), (128, 5, 5), (1, 1, 1)]
    + [(2000, 9, 2**21)],  # 64 bits hold an id and a row's number
)
def test_rows_are_summed_by_their_ids(num_rows, num_used, num_ids):
    ids = _RNG.integers(num_used, size=num_rows)
    rows = _RNG.normal(size=(num_rows, 6)).astype("float32")
    expected = np.zeros([num_ids, 6])
    np.add.at(expected, ids, rows)
    compute = tf.function(operations.sum_rows, jit_compile=True)
    found = compute(tf.constant(rows), tf.constant(ids, tf.int32), num_ids)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=2e-5)


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
            is_whole = scope is fusion.Scope.STEP
            traced = tf.function(compute, jit_compile=is_whole or None)
            graph = traced.get_concrete_function().graph
        found.append([tf.cast(t, tf.float32).numpy() for t in traced()])
        kinds.append({op.type for op in graph.get_operations()})
    np.testing.assert_array_equal(found[1][0], found[0][0])
    np.testing.assert_array_equal(found[1][1], found[0][1])
    assert "UnsortedSegmentSum" in kinds[0]
    assert "UnsortedSegmentSum" not in kinds[1]
