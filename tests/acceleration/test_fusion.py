"""Parts that XLA compiles give the numbers of the single operations."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import fusion
from electra_tf.acceleration import operations
from electra_tf.formulas import losses
from electra_tf.formulas import sampling
from electra_tf.modeling import encoder
from electra_tf.modeling import layers
from electra_tf.pretraining import run
from tests import tiny
from tests import tiny_run
from tests.objectives import tiny_objectives

_SCOPES = fusion.Scope.NOTHING, fusion.Scope.LOOPS
_WIDTH = 10
_SEED = tf.constant([1, 2, 0], tf.int64)


def _random(*shape):
    values = np.random.default_rng(sum(shape)).normal(size=shape)
    return tf.constant(values, tf.float32)


def _normalize(inputs, update):
    gamma = tf.linspace(0.5, 1.5, _WIDTH)
    choice = layers.draw_choice(inputs.shape, 0.3, _SEED)
    return operations.normalize(
        inputs, gamma, tf.zeros_like(gamma), update, choice
    )


def _loss(logits):
    ids, weights = tf.constant([[3, 1]]), tf.constant([[1.0, 0.5]])
    return losses.masked_lm_loss(logits, ids, weights)


def _sample(logits):
    uniform = tf.random.stateless_uniform(logits.shape, [1, 2])
    return tf.cast(sampling.sample_from_softmax(logits, uniform), tf.float32)


_PARTS = {
    "gelu": (operations.gelu, [_random(6, _WIDTH)]),
    "normalize": (_normalize, [_random(6, _WIDTH), _random(6, _WIDTH)]),
    "loss": (_loss, [_random(1, 2, 5)]),
    "sample": (_sample, [_random(3, 50)]),
}


def _trace(part, arguments, scope):
    def compute(*given):
        with fusion.switched(scope), tf.GradientTape() as tape:
            tape.watch(given)
            outputs = part(*given)
            slopes = tape.gradient(outputs, given, unconnected_gradients="zero")
        return outputs, *slopes

    specs = [tf.TensorSpec.from_tensor(a) for a in arguments]
    return tf.function(compute, autograph=False).get_concrete_function(*specs)


def _calls(traced):
    operations = traced.graph.get_operations()
    return sum(op.type == "PartitionedCall" for op in operations)


@pytest.mark.parametrize("name", _PARTS)
def test_values_and_gradients_are_those_of_plain_operations(name):
    part, arguments = _PARTS[name]
    plain, compiled = (_trace(part, arguments, s) for s in _SCOPES)
    assert _calls(compiled) > _calls(plain) == 0
    for one, other in zip(plain(*arguments), compiled(*arguments), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)


def test_looking_up_gelu_gives_what_its_formula_gives_for_all_of_bfloat16():
    numbers = tf.cast(tf.range(2**16), tf.uint16)
    given = [tf.bitcast(numbers, tf.bfloat16)]
    plain, compiled = (_trace(operations.gelu, given, s) for s in _SCOPES)
    inner = compiled.graph.as_graph_def().library.function
    kinds = [[node.op for node in f.node_def] for f in inner]
    assert sum("GatherV2" in kind for kind in kinds) == 2
    for one, other in zip(plain(*given), compiled(*given), strict=True):
        found, expected = (np.asarray(v, np.float32) for v in (other, one))
        # A graph may flush what is smaller than normal numbers.
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-37)


def _differentiate_both_ways(function, layer):
    """Products off and on; outputs and weights' gradients must be equal."""
    weights = [v.value for v in layer.trainable_variables]

    def compute():
        with tf.GradientTape() as tape:
            outputs = function()
            cubes = outputs**3
        slopes = tape.gradient(cubes, weights)
        return outputs, *map(tf.convert_to_tensor, slopes)

    found, products = [], []
    for scope in _SCOPES:
        with fusion.switched(scope):
            traced = tf.function(compute, autograph=False)
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


def test_blocks_that_share_a_trace_compute_as_alone():
    sizes = tiny.with_dropout(tiny.build_settings()).encoder
    sizes = dataclasses.replace(sizes, vocab_size=50, num_hidden_layers=3)
    tower = encoder.build_encoder(sizes, "electra")
    tower.blocks[0].trainable = False
    rows = tiny.build_features(4).values()
    alone, shared = _differentiate_both_ways(
        lambda: tower(*rows, _SEED).sequence_output, tower
    )
    # Two of three blocks are one function; the frozen one has no dropout.
    assert len(alone) - len(shared) == 2 * 4 * 3


def test_shapes_that_vary_are_not_compiled():
    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None, 4])])
    def compute(inputs):
        with fusion.switched(fusion.Scope.LOOPS):
            return operations.gelu(inputs)

    assert _calls(compute.get_concrete_function()) == 0


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
        is_whole = scope is fusion.Scope.STEP
        step = tf.function(
            model.training_step, autograph=False, jit_compile=is_whole or None
        )
        sums = step(features)
        found.append((sums, [v.numpy() for v in model.trainable_variables]))
    (sums, plain), *compiled = found
    for others, weights in compiled:
        for name, value in sums.items():
            np.testing.assert_allclose(others[name], value, 1e-4, err_msg=name)
        for one, other in zip(plain, weights, strict=True):
            np.testing.assert_allclose(other, one, atol=2e-5)
