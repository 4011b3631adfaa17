"""Parts of the networks with hand-written gradients and layouts.

Gains are those of a whole step: of Small, 16 x 128, on two CPU cores, or the
bytes that Base, 256 x 128, moves on a GPU.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf import fusion
from electra_tf.acceleration import random_bits

LAYER_NORM_EPSILON = 1e-12
_COLLIDING_WIDTH, _NUM_SPARE_UNITS, _THIN_WIDTH = 512, 16, 256
_GROUP = 128  # rows of a lookup's gradient that one product sums


@tf.custom_gradient
def gelu(inputs: tf.Tensor) -> Any:
    """Gaussian error linear unit with the exact error function, in float32.

    The tanh approximation differs by up to 5e-4, more than a converted
    checkpoint may. The gradient is written out: both take 0.6 of the time.
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
    """The function of each entry; of bfloat16, XLA's loops look it up.

    There are only 65,536 numbers: a step in bfloat16 takes 0.93 of the time.
    """
    if inputs.dtype != tf.bfloat16 or not fusion.compiles(fusion.Scope.LOOPS):
        return function(inputs)
    bits = tf.bitcast(inputs, tf.uint16)
    values = tf.gather(_tabulate(function), tf.cast(bits, tf.int32))
    return tf.cast(values, inputs.dtype)


@functools.cache
def _tabulate(function: Callable[[tf.Tensor], tf.Tensor]) -> np.ndarray:
    """Results for all bfloat16 numbers, in the order of their 16 bits."""
    with tf.init_scope():
        bits = tf.cast(tf.range(2**16), tf.uint16)
        values = function(tf.bitcast(bits, tf.bfloat16))
        # So that what reads them needs no cast; they are rounded already.
        return tf.cast(values, tf.float32).numpy()


@fusion.fused
def drop(inputs: tf.Tensor, *choice: Any) -> tf.Tensor:
    """Zeroes what dropout does not keep, and scales up the rest.

    The choice is the entries kept (`random_bits.draw_kept`) and the scale;
    without it the inputs are left as they are.
    """
    if not choice:
        return inputs
    kept, scale = choice
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
    """Layer normalization of `[N, width]` over the last axis, in float32.

    An `update` of that shape is added first, after dropout (`choice`; see
    `drop`). It keeps for its gradient what it normalized, in the precision
    that it has, and not the result in float32: Base moves a tenth fewer bytes.
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
    """Outputs; for the gradient the sum, and factors and shifts `[N, 1]`."""
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
    """Gradients of inputs, `gamma`, `beta` and update.

    TensorFlow's own make three times as many passes over the activations.
    """
    exact = tf.cast(upstream, tf.float32)
    # Not from `centered`: for a GPU, XLA would compute it together with the sum
    # over rows, and write it in float32 for the sum over columns.
    normalized = tf.cast(total, tf.float32) * inverse + shift
    scaled = exact * gamma
    mean_scaled = tf.reduce_mean(scaled, -1, keepdims=True)
    mean_projected = tf.reduce_mean(scaled * normalized, -1, keepdims=True)
    slope = inverse * (scaled - mean_scaled - normalized * mean_projected)
    slope = tf.cast(slope, upstream.dtype)
    of_gamma = tf.reduce_sum(exact * normalized, 0)
    return slope, of_gamma, tf.reduce_sum(exact, 0), drop(slope, *choice)


def split_heads(fused: tf.Tensor, shape: Sequence[Any]) -> list[tf.Tensor]:
    """Three tensors `[B, H, S, D / H]` of `[B * S, 3 * D]`.

    For a GPU, XLA moves a number at a time where the three are slices of one
    transposed tensor, and four where each is transposed by itself. `shape` is
    B, S, H and D / H.
    """
    if fusion.compiles(fusion.Scope.STEP):
        parts = [tf.reshape(t, shape) for t in tf.split(fused, 3, axis=1)]
        return [tf.transpose(part, [0, 2, 1, 3]) for part in parts]
    joint = tf.reshape(fused, [*shape[:2], 3, *shape[2:]])
    return tf.unstack(tf.transpose(joint, [2, 0, 3, 1, 4]))


def attention_gradient(
    forward: Sequence[tf.Tensor], choice: Sequence[Any], upstream: tf.Tensor
) -> tf.Tensor:
    """The gradient of attention by its fused queries, keys and values.

    Softmax needs the sum over each row of weights times their slopes. It is
    that of outputs times theirs (Dao et al., 2022, appendix B.4), which are
    fewer numbers: Base moves 6 % fewer bytes.

    Args:
        forward: query, key and value `[B, H, S, D / H]`, the weights
            `[B, H, S, S]` before and after dropout, and the outputs.
        choice: which weights dropout keeps; see `drop`.
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
    parts = [
        tf.matmul(of_scores, key),
        tf.matmul(of_scores, query, transpose_a=True),
        tf.matmul(dropped, upstream, transpose_a=True),
    ]
    ordered = tf.transpose(tf.stack(parts), [1, 3, 0, 2, 4])
    return tf.reshape(ordered, [-1, 3 * heads * size])


@fusion.fused
def _score_gradient(
    upstream: tf.Tensor,
    outputs: tf.Tensor,
    of_probs: tf.Tensor,
    probs: tf.Tensor,
    *choice: Any,
) -> tf.Tensor:
    """The gradient of the products of queries and keys."""
    upstream, outputs = (tf.cast(t, tf.float32) for t in (upstream, outputs))
    mean = tf.reduce_sum(upstream * outputs, -1, keepdims=True)
    exact = tf.cast(drop(of_probs, *choice), tf.float32) - mean
    exact *= tf.cast(probs, tf.float32) * outputs.shape[-1] ** -0.5
    return tf.cast(exact, probs.dtype)


def feed_forward(
    hidden: tf.Tensor, first: Sequence[tf.Tensor], second: Sequence[tf.Tensor]
) -> tf.Tensor:
    """Two linear layers, each a kernel and a bias, with gelu between them.

    Thin layers get some more units where their number is a multiple of 512 and
    XLA compiles loops. A step of Small takes 0.86 to 0.92 of the time on
    processors with AVX2, 0.99 on those with AVX-512. Wider layers gain nothing.
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
    """Units to add between two layers, with zeros for weights.

    Rows of a multiple of 2,048 bytes (512 floats) begin in the same few lines
    of a cache, and products of that width take up to twice as long on a CPU as
    those a little wider. gelu keeps zeros.
    """
    return 0 if num_units % _COLLIDING_WIDTH else _NUM_SPARE_UNITS


def trace_once(layer: Any) -> Callable[..., tf.Tensor]:
    """A function of a layer of these sizes, its inputs and options.

    It is traced once. Tracing is most of what comes before a first step: Small
    takes 17 to 20 s there with one function for twelve blocks, else 21 to 22.
    """

    @tf.function(autograph=False, experimental_attributes={"_noinline": True})
    def call(weights: Any, inputs: tf.Tensor, options: Any) -> tf.Tensor:
        return layer.stateless_call(weights, [], inputs, **options)[0]

    def call_as(like: Any, inputs: tf.Tensor, **options: Any) -> tf.Tensor:
        weights = [*map(tf.convert_to_tensor, like.trainable_variables)]
        return call(weights, inputs, options)

    return call_as


def look_up(table: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """Rows of a table `[V, E]`, for int32 ids of any shape.

    On a GPU the order of the sums in the gradient of `tf.gather` varies from
    run to run. With deterministic operations XLA sorts every number first: 25
    million for 32,768 tokens and 768 columns, 8 % of the bytes that Base moves.
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
    """The entries at `[B, P]` positions of `[B, S, ...]`: `[B, P, ...]`."""
    if sequence.shape.rank < 3 or not fusion.compiles(fusion.Scope.STEP):
        return tf.gather(sequence, positions, batch_dims=1)
    batch, length, width = sequence.shape
    starts = length * tf.range(batch)[:, tf.newaxis]
    table = tf.reshape(sequence, [batch * length, width])
    return look_up(table, starts + positions)


def sum_rows(rows: tf.Tensor, ids: tf.Tensor, num_ids: int) -> tf.Tensor:
    """Sums the `[N, E]` rows of each id: `[num_ids, E]` float32.

    Rows are put in the order of their `[N]` ids and cut into groups; a product
    sums those of each id in a group.
    """
    spare = -rows.shape[0] % _GROUP
    ids = tf.pad(ids, [[0, spare]], constant_values=num_ids)
    order = tf.argsort(ids, stable=True)
    ids = tf.gather(ids, order)
    rows = tf.gather(tf.pad(rows, [[0, spare], [0, 0]]), order)
    groups = tf.reshape(ids, [-1, _GROUP])
    is_new = tf.cast(groups[:, 1:] != groups[:, :-1], tf.int32)
    # Of ids in their group, from 0.
    places = tf.pad(tf.cumsum(is_new, axis=1), [[0, 0], [1, 0]])
    rows = tf.reshape(rows, [*groups.shape, rows.shape[1]])
    sums = tf.matmul(
        tf.one_hot(places, _GROUP), tf.cast(rows, tf.float32), transpose_a=True
    )
    # Where each id begins; a minimum of integers depends on no order.
    numbers = tf.range(ids.shape[0])
    first = tf.math.unsorted_segment_min(numbers, ids, num_ids + 1)
    # The last id of a group may go on as the first one of those behind it.
    group = tf.range(groups.shape[0])
    begun = tf.gather(first, groups[:, 0]) // _GROUP
    shares = tf.one_hot(tf.where(begun < group, begun, -1), group.shape[0])
    rest = tf.matmul(shares, sums[:, 0], transpose_a=True)
    sums += tf.one_hot(places[:, -1:], _GROUP, axis=1) * rest[:, tf.newaxis]
    # The sum of an id stands in the group in which it begins.
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
) -> list[tf.Tensor]:
    """Applies layers of one kind one after another, as a loop.

    XLA compiles one body for all. For a TPU v4 a step of Small, 128 x 128,
    becomes a program of 61 in place of 271 MiB.

    Args:
        call: a function of a layer's weights, number and inputs, and of
            `shared`.
        weights: of each layer, in one order.
        inputs: of the first layer; every output has their shape.
        shared: the same tensors for all layers.

    Returns:
        The output of each layer.
    """
    columns = [
        tf.stack([*map(tf.convert_to_tensor, column)])
        for column in zip(*reversed(weights), strict=True)
    ]
    # The gradient of taking from the end of a list adds at its end; that of
    # taking by number would add up whole lists in every turn.
    lists = [
        tf.raw_ops.TensorListFromTensor(
            tensor=column, element_shape=column.shape[1:]
        )
        for column in columns
    ]
    count = len(weights)

    def body(
        number: tf.Tensor, hidden: tf.Tensor, states: Any, rest: Any, *same: Any
    ) -> Any:
        taken = [
            tf.raw_ops.TensorListPopBack(
                input_handle=handle,
                element_shape=column.shape[1:],
                element_dtype=column.dtype,
            )
            for handle, column in zip(rest, columns, strict=True)
        ]
        hidden = call([item.tensor for item in taken], number, hidden, *same)
        states = states.write(number, hidden)
        rest = [item.output_handle for item in taken]
        return number + 1, hidden, states, rest, *same

    states = tf.TensorArray(inputs.dtype, count, element_shape=inputs.shape)
    _, _, states, *_ = tf.while_loop(
        lambda number, *_: number < count,
        body,
        (tf.constant(0), inputs, states, lists, *shared),
        maximum_iterations=count,
    )
    return tf.unstack(states.stack(), count)
