"""Checks a checkpoint's index, because TensorFlow crashes at impossible sizes.

The index is a LevelDB table without compression: blocks of sorted keys, each
stored as a difference from the previous key. Values are protocol buffers.
"""

import math
from collections.abc import Iterator

import numpy as np
import tensorflow as tf
from google.protobuf import message
from tensorflow.core.protobuf import tensor_bundle_pb2

from electra_tf import storage
from electra_tf.config import schema

_MAX_NAME_BYTES, _MAX_AXES = 4096, 8
_FOOTER_BYTES, _END = 48, bytes.fromhex("57fb808b247547db")


def check(prefix: str) -> None:
    """Raises `ValueError` unless a checkpoint's index fits its data files."""
    path = storage.path(f"{prefix}.index")
    data = storage.read_bytes(path)
    schema.require(data.endswith(_END), f"{path} lists no tensors")
    sizes, last, num_bytes = list[int](), b"", -1
    try:
        for key, value in _all_entries(data):
            is_next = key > last if sizes else not key
            schema.require(is_next, f"{path} is not in order")
            last = key
            if key:
                num_bytes += _check_tensor(key.decode("utf-8"), value, sizes)
                continue
            header = tensor_bundle_pb2.BundleHeaderProto.FromString(value)
            for number in range(header.num_shards):
                ending = f"{number:05d}-of-{header.num_shards:05d}"
                shard = storage.path(f"{prefix}.data-{ending}")
                sizes.append(shard.stat().st_size)
    except (IndexError, TypeError, message.DecodeError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    schema.require(num_bytes < sum(sizes), f"{path}: tensors share bytes")


def _all_entries(data: bytes) -> Iterator[tuple]:
    """Yields the entries of all blocks, which the last block lists."""
    footer = data[-_FOOTER_BYTES:]
    for _, location in _entries(data, *_numbers(footer, 0, 4)[0][2:]):
        yield from _entries(data, *_numbers(location, 0, 2)[0])


def _check_tensor(name: str, value: bytes, sizes: list[int]) -> int:
    """Returns the number of bytes of a tensor, if a data file has them."""
    entry = tensor_bundle_pb2.BundleEntryProto.FromString(value)
    dtype, shape = tf.dtypes.as_dtype(entry.dtype), entry.shape
    axes = [axis.size for axis in shape.dim]
    is_number = dtype.is_floating or dtype.is_integer or dtype.is_bool
    # TensorFlow would end the process at a reference dtype.
    is_number &= dtype == dtype.base_dtype
    is_whole = is_number and not shape.unknown_rank and not entry.slices
    # An axis of 0 would hide other axes that are too large.
    is_shape = len(axes) <= _MAX_AXES and min(axes, default=1) > 0
    is_there = 0 <= entry.shard_id < len(sizes) and entry.offset >= 0
    room = sizes[entry.shard_id] - entry.offset if is_there else 0
    is_held = math.prod(axes) * dtype.size == entry.size <= room
    schema.require(
        is_whole and is_shape and is_held,
        f"{name} must be a tensor of numbers that a .data file holds. "
        f"Received: {dtype.name} {axes!s:.80}, {entry.size} bytes",
    )
    return entry.size


def _entries(data: bytes, offset: int, size: int) -> Iterator[tuple]:
    block = data[offset : offset + size]
    is_plain = len(block) == size >= 8 and data[offset + size] == 0
    end = size - 4 - 4 * int.from_bytes(block[-4:], "little")
    schema.require(is_plain and end >= 0, "a block is compressed or cut off")
    # Offsets of whole keys, at which TensorFlow's binary search begins.
    starts = {*np.frombuffer(block[end:-4], "<u4").tolist()}
    position, key = 0, b""
    while position < end:
        (shared, num_new, num_bytes), middle = _numbers(block, position, 3)
        if not shared:
            starts.discard(position)
        position = middle + num_new + num_bytes
        key = key[:shared] + block[middle : middle + num_new]
        is_right = len(key) == shared + num_new <= _MAX_NAME_BYTES
        schema.require(is_right and position <= end, "an entry is damaged")
        yield key, block[position - num_bytes : position]
    schema.require(not starts, "a block is damaged")


def _numbers(data: bytes, begin: int, count: int) -> tuple[list[int], int]:
    """Reads variable-length integers; also returns the offset behind them."""
    numbers = []
    for _ in range(count):
        end = begin
        while data[end] > 127 and end < begin + 9:
            end += 1
        digits = enumerate(data[begin : end + 1])
        numbers.append(sum((byte & 127) << 7 * i for i, byte in digits))
        begin = end + 1
    return numbers, begin
