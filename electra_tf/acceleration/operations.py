"""Parts of the networks with hand-written gradients and layouts.

Docstrings give gains for a whole step: time of Small with 16 rows of 128 tokens
on two CPU cores, or bytes that Base moves with 256 rows of 128 on a GPU.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla

from electra_tf import fusion
from electra_tf.acceleration import random_bits

LAYER_NORM_EPSILON = 1e-12
_COLLIDING_WIDTH, _NUM_SPARE_UNITS, _THIN_WIDTH = 512, 16, 256
_GROUP = 128  # rows that `sum_rows` sums by one product


@tf.custom_gradient
def gelu(inputs: tf.Tensor) -> Any:
    """Computes gelu with the exact error function, in float32.

    The tanh approximation would change a converted model's outputs by up to
    5e-4. Function and gradient take 0.6 of the time of TensorFlow's.
    """
    outputs = _map(_compute_gelu, inputs)
    return outputs, lambda upstream: _gelu_gradient(inputs, upstream)


@fusion.fused
def _gelu_gradient(inputs: tf.Tensor, upstream: tf.Tensor) -> tf.Tensor:
    return upstream * _map(_compute_gelu_slope, inputs)


def _compute_gelu(inputs: tf.Tensor) -> tf.Tensor:
    exact = tf.cast(inputs, tf.float32)
    probability = 0.5 + 0.5 * tf.math.erf(exact * math.sqrt(0.5))
    return tf.cast(exact * probability, inputs.dtype)


def _compute_gelu_slope(inputs: tf.Tensor) -> tf.Tensor:
    # d/dx x P(x) = P(x) + x exp(-x^2 / 2) / sqrt(2 pi)
    scaled = tf.cast(inputs, tf.float32) * math.sqrt(0.5)
    bell = scaled * tf.exp(-tf.square(scaled))
    probability = 0.5 + 0.5 * tf.math.erf(scaled)
    slope = probability + bell * (1.0 / math.sqrt(math.pi))
    return tf.cast(slope, inputs.dtype)


@fusion.fused
def _map(
    function: Callable[[tf.Tensor], tf.Tensor], inputs: tf.Tensor
) -> tf.Tensor:
    """Applies a function to each entry; looks bfloat16 up in a table.

    A table of the 65,536 numbers makes CPU steps in bfloat16 7 % shorter.
    """
    if inputs.dtype != tf.bfloat16 or not fusion.compiles(fusion.Scope.LOOPS):
        return function(inputs)
    bits = tf.bitcast(inputs, tf.uint16)
    values = tf.gather(_tabulate(function), tf.cast(bits, tf.int32))
    return tf.cast(values, inputs.dtype)


@functools.cache
def _tabulate(function: Callable[[tf.Tensor], tf.Tensor]) -> np.ndarray:
    """Computes a function of all bfloat16 numbers, ordered by their bits."""
    with tf.init_scope():
        bits = tf.cast(tf.range(2**16), tf.uint16)
        values = function(tf.bitcast(bits, tf.bfloat16))
        # As float32, so that readers need no cast.
        return tf.cast(values, tf.float32).numpy()


@fusion.fused
def drop(
    inputs: tf.Tensor, kept: tf.Tensor | None = None, rate: float = 0.0
) -> tf.Tensor:
    """Applies dropout: zeroes some entries and scales up the others.

    `kept` is the result of `layers.draw_kept` at this rate; None keeps all.
    """
    if kept is None:
        return inputs
    scale = 65536 / (65536 - round(rate * 65536))
    kept = random_bits.unpack_kept(kept, inputs.shape[-1])
    factors = scale * tf.cast(kept, tf.float32)
    return tf.cast(tf.cast(inputs, tf.float32) * factors, inputs.dtype)


def normalize(
    inputs: tf.Tensor,
    gamma: tf.Tensor,
    beta: tf.Tensor,
    update: tf.Tensor | None = None,
    choice: Sequence[Any] = (),
) -> tf.Tensor:
    """Normalizes the rows of `[N, width]` in float32 (LayerNorm).

    An `update` of the same shape is added first, after dropout by `choice` (see
    `drop`). For the gradient the sum of both is kept, in its own dtype, instead
    of the float32 result: Base moves a tenth fewer bytes.
    """
    added = [] if update is None else [update]

    @tf.custom_gradient
    def compute(*weighted: tf.Tensor) -> Any:
        outputs, *kept = _normalize(*weighted, *choice)

        def gradient(upstream: tf.Tensor) -> Any:
            slopes = _normalize_gradient(upstream, weighted[1], *kept, *choice)
            return slopes[: len(weighted)]

        return outputs, gradient

    return compute(inputs, gamma, beta, *added)


@fusion.fused
def _normalize(
    inputs: tf.Tensor,
    gamma: tf.Tensor,
    beta: tf.Tensor,
    update: tf.Tensor | None = None,
    *choice: Any,
) -> tuple[tf.Tensor, ...]:
    """Returns outputs, the sum, and `[N, 1]` factors and shifts."""
    total = inputs if update is None else inputs + drop(update, *choice)
    exact = tf.cast(total, tf.float32)
    mean = tf.reduce_mean(exact, -1, keepdims=True)
    centered = exact - mean
    variance = tf.reduce_mean(tf.square(centered), -1, keepdims=True)
    inverse = tf.math.rsqrt(variance + LAYER_NORM_EPSILON)
    outputs = centered * inverse * gamma + beta
    return tf.cast(outputs, inputs.dtype), total, inverse, -mean * inverse


@fusion.fused
def _normalize_gradient(
    upstream: tf.Tensor,
    gamma: tf.Tensor,
    total: tf.Tensor,
    inverse: tf.Tensor,
    shift: tf.Tensor,
    *choice: Any,
) -> tuple[tf.Tensor, ...]:
    """Computes the gradients of inputs, `gamma`, `beta` and update.

    TensorFlow's gradients pass three times as often over the activations.
    """
    exact = tf.cast(upstream, tf.float32)
    # XLA fuses this form into both sums below. For a GPU it would write
    # `centered` in float32.
    normalized = tf.cast(total, tf.float32) * inverse + shift
    scaled = exact * gamma
    mean_scaled = tf.reduce_mean(scaled, -1, keepdims=True)
    mean_projected = tf.reduce_mean(scaled * normalized, -1, keepdims=True)
    slope = inverse * (scaled - mean_scaled - normalized * mean_projected)
    slope = fusion.keep(tf.cast(slope, upstream.dtype))
    of_gamma = tf.reduce_sum(exact * normalized, 0)
    return slope, of_gamma, tf.reduce_sum(exact, 0), drop(slope, *choice)


def split_heads(fused: tf.Tensor, shape: Sequence[Any]) -> list[tf.Tensor]:
    """Splits `[B * S, 3 * D]` into three tensors `[B, H, S, D / H]`.

    `shape` is B, S, H and D / H. If XLA compiles whole steps, each tensor is
    transposed by itself, so that a GPU moves four numbers at a time.
    """
    if fusion.compiles(fusion.Scope.STEP):
        parts = [tf.reshape(t, shape) for t in tf.split(fused, 3, axis=1)]
        return [tf.transpose(part, [0, 2, 1, 3]) for part in parts]
    joint = tf.reshape(fused, [*shape[:2], 3, *shape[2:]])
    return tf.unstack(tf.transpose(joint, [2, 0, 3, 1, 4]))


def attention_gradient(
    forward: Sequence[tf.Tensor], choice: Sequence[Any], upstream: tf.Tensor
) -> tf.Tensor:
    """Computes the gradient of attention, `[B * S, 3 * D]`.

    The gradient of a softmax contains a sum over weights times their gradients.
    It equals a sum over outputs times their gradients (Dao et al., 2022,
    appendix B.4), which has fewer terms: Base moves 6 % fewer bytes.

    Args:
        forward: query, key and value `[B, H, S, D / H]`, the attention weights
            `[B, H, S, S]` before and after dropout, and the outputs.
        choice: the dropout of the attention weights; see `drop`.
        upstream: `[B * S, D]`, the gradient of the outputs, heads side by side.
    """
    query, key, value, probs, dropped, outputs = forward
    _, heads, length, size = outputs.shape
    if length is None:
        length = tf.shape(outputs)[2]
    upstream = tf.reshape(upstream, [-1, length, heads, size])
    upstream = tf.transpose(upstream, [0, 2, 1, 3])
    of_probs = tf.matmul(upstream, value, transpose_b=True)
    of_scores = _score_gradient(upstream, outputs, of_probs, probs, *choice)
    gradients = [
        tf.matmul(of_scores, key),
        tf.matmul(of_scores, query, transpose_a=True),
        tf.matmul(dropped, upstream, transpose_a=True),
    ]
    ordered = tf.transpose(tf.stack(gradients), [1, 3, 0, 2, 4])
    return tf.reshape(ordered, [-1, 3 * heads * size])


@fusion.fused
def _score_gradient(
    upstream: tf.Tensor,
    outputs: tf.Tensor,
    of_probs: tf.Tensor,
    probs: tf.Tensor,
    *choice: Any,
) -> tf.Tensor:
    upstream, outputs = (tf.cast(t, tf.float32) for t in (upstream, outputs))
    mean = tf.reduce_sum(upstream * outputs, -1, keepdims=True)
    exact = tf.cast(drop(of_probs, *choice), tf.float32) - mean
    exact *= tf.cast(probs, tf.float32) * outputs.shape[-1] ** -0.5
    return tf.cast(exact, probs.dtype)


def feed_forward(
    hidden: tf.Tensor, first: Sequence[tf.Tensor], second: Sequence[tf.Tensor]
) -> tf.Tensor:
    """Applies two linear layers, each a kernel and a bias, with gelu between.

    On CPUs 16 spare units are added to a multiple of 512 units if `width` is at
    most 256. A step of Small takes 0.86 to 0.92 of the time on processors with
    AVX2, 0.99 with AVX-512. Wider layers gain nothing.
    """
    (kernel, bias), (second_kernel, second_bias) = first, second
    width, num_units = kernel.shape
    spare = count_spare_units(num_units)
    if spare and fusion.compiles(fusion.Scope.LOOPS) and width <= _THIN_WIDTH:
        kernel = tf.pad(kernel, [[0, 0], [0, spare]])
        bias = tf.pad(bias, [[0, spare]])
        second_kernel = tf.pad(second_kernel, [[0, spare], [0, 0]])
    inner = gelu(tf.nn.bias_add(tf.matmul(hidden, kernel), bias))
    return tf.nn.bias_add(tf.matmul(inner, second_kernel), second_bias)


def count_spare_units(num_units: int) -> int:
    """Returns the number of units with zero weights to add between layers.

    Rows of a multiple of 2,048 bytes (512 floats) compete for the same cache
    lines: products of that width take up to twice as long on a CPU as slightly
    wider ones. Since gelu(0) is 0, the result does not change.
    """
    return 0 if num_units % _COLLIDING_WIDTH else _NUM_SPARE_UNITS


def trace_once(layer: Any) -> Callable[..., tf.Tensor]:
    """Returns a function that calls layers of equal sizes and is traced once.

    With one traced function for the twelve blocks of Small the first step
    begins after 17 to 20 s, otherwise after 21 to 22 s.
    """

    @tf.function(autograph=False, experimental_attributes={"_noinline": True})
    def call(weights: Any, inputs: tf.Tensor, options: Any) -> tf.Tensor:
        return layer.stateless_call(weights, [], inputs, **options)[0]

    def call_as(like: Any, inputs: tf.Tensor, **options: Any) -> tf.Tensor:
        weights = [*map(tf.convert_to_tensor, like.trainable_variables)]
        return call(weights, inputs, options)

    return call_as


def look_up(table: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """Looks up rows of a table `[V, E]`, for int32 ids of any shape.

    On a GPU the gradient of `tf.gather` adds rows in an order that varies from
    run to run. With deterministic operations XLA sorts all numbers first, 25
    million for 32,768 tokens and 768 columns: 8 % of the bytes that Base moves.
    """
    is_static = ids.shape.is_fully_defined()
    if not (is_static and fusion.compiles(fusion.Scope.STEP)):
        return tf.gather(table, ids)

    @tf.custom_gradient
    def compute(table: tf.Tensor) -> Any:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            rows = tf.reshape(upstream, [-1, table.shape[1]])
            sums = sum_rows(rows, tf.reshape(ids, [-1]), table.shape[0])
            return tf.cast(sums, table.dtype)

        return tf.gather(table, ids), gradient

    return compute(table)


def look_up_in_rows(sequence: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """Looks up `[B, P, ...]` entries of `[B, S, ...]` at `[B, P]` positions."""
    if sequence.shape.rank < 3 or not fusion.compiles(fusion.Scope.STEP):
        return tf.gather(sequence, positions, batch_dims=1)

    @tf.custom_gradient
    def compute(sequence: tf.Tensor) -> Any:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            length, dtype = sequence.shape[1], upstream.dtype
            one_hot = tf.one_hot(positions, length, dtype=dtype)
            return tf.matmul(one_hot, upstream, transpose_a=True)

        return tf.gather(sequence, positions, batch_dims=1), gradient

    return compute(sequence)


def sum_rows(rows: tf.Tensor, ids: tf.Tensor, num_ids: int) -> tf.Tensor:
    """Sums the `[N, E]` rows of each id: `[num_ids, E]` float32.

    Rows are sorted by their `[N]` ids and cut into groups. In each group one
    product with one-hots sums the rows of every id.
    """
    spare = -rows.shape[0] % _GROUP
    ids = tf.pad(ids, [[0, spare]], constant_values=num_ids)
    # A number holds an id and its row. To sort two arrays by one of them would
    # take three times as much of a TPU's program.
    numbers = tf.range(ids.shape[0])
    bits = (ids.shape[0] - 1).bit_length()
    dtype = tf.int32 if num_ids < 2 ** (31 - bits) else tf.int64
    shifted = tf.bitwise.left_shift(tf.cast(ids, dtype), bits)
    joined = xla.sort(shifted | tf.cast(numbers, dtype))
    order = tf.cast(joined & (2**bits - 1), tf.int32)
    ids = tf.cast(tf.bitwise.right_shift(joined, bits), tf.int32)
    rows = tf.gather(tf.pad(rows, [[0, spare], [0, 0]]), order)
    groups = tf.reshape(ids, [-1, _GROUP])
    is_new = tf.cast(groups[:, 1:] != groups[:, :-1], tf.int32)
    # The ids of a group are numbered from 0.
    places = tf.pad(tf.cumsum(is_new, axis=1), [[0, 0], [1, 0]])
    rows = tf.reshape(rows, [*groups.shape, rows.shape[1]])
    sums = tf.matmul(
        tf.one_hot(places, _GROUP), tf.cast(rows, tf.float32), transpose_a=True
    )
    # The row at which each id begins.
    first = tf.math.unsorted_segment_min(numbers, ids, num_ids + 1)
    # An id that began in an earlier group is the first of its group. Its sum
    # is added to the sum in the group where it began.
    group = tf.range(groups.shape[0])
    begun = tf.gather(first, groups[:, 0]) // _GROUP
    shares = tf.one_hot(tf.where(begun < group, begun, -1), group.shape[0])
    later = tf.matmul(shares, sums[:, 0], transpose_a=True)
    sums += tf.one_hot(places[:, -1:], _GROUP, axis=1) * later[:, tf.newaxis]
    is_used = first[:num_ids] < ids.shape[0]
    first = tf.where(is_used, first[:num_ids], 0)
    place = tf.gather(tf.reshape(places, [-1]), first)
    sums = tf.reshape(sums, [-1, rows.shape[2]])
    sums = tf.gather(sums, first // _GROUP * _GROUP + place)
    return tf.where(is_used[:, tf.newaxis], sums, 0.0)


def loop_over_layers(
    call: Callable[..., tf.Tensor],
    weights: Sequence[Sequence[Any]],
    inputs: tf.Tensor,
    shared: Sequence[tf.Tensor],
) -> tf.Tensor:
    """Applies equal layers one after another, in a loop.

    XLA compiles one body for all layers. For a TPU v4 this cut the program of
    an earlier step of Small, 128 x 128, from 271 to 61 MiB.

    Args:
        call: takes a layer's weights, number and inputs, and `shared`.
        weights: the weights of each layer, in the same order.
        inputs: the inputs of the first layer, of the shape of all outputs.
        shared: tensors that all layers get.

    Returns:
        The output of the last layer.
    """
    columns = [
        tf.stack([*map(tf.convert_to_tensor, column)])
        for column in zip(*reversed(weights), strict=True)
    ]
    # The gradient of a pop is a push. The gradient of an indexed read would
    # add whole lists in every iteration.
    lists = [
        tf.raw_ops.TensorListFromTensor(
            tensor=column, element_shape=column.shape[1:]
        )
        for column in columns
    ]
    count = len(weights)

    def body(
        index: tf.Tensor, hidden: tf.Tensor, lists: Any, *same: Any
    ) -> Any:
        popped = [
            tf.raw_ops.TensorListPopBack(
                input_handle=handle,
                element_shape=column.shape[1:],
                element_dtype=column.dtype,
            )
            for handle, column in zip(lists, columns, strict=True)
        ]
        hidden = call([item.tensor for item in popped], index, hidden, *same)
        lists = [item.output_handle for item in popped]
        return index + 1, hidden, lists, *same

    _, hidden, *_ = tf.while_loop(
        lambda index, *_: index < count,
        body,
        (tf.constant(0), inputs, lists, *shared),
        maximum_iterations=count,
    )
    return hidden
