"""Writes and parses records: serialized `tf.train.Example`s.

Their bytes are made here for many examples at once and equal those of
`SerializeToString(deterministic=True)`. A row of 128 tokens takes 2 us, with
messages of Python 13 us, and the rest of a build 70 us.
"""

import functools
import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import tensorflow as tf

    from electra_tf.text.vocabulary import Vocabulary

# As `examples.build_features` lays them out; sorted by name for serialization.
FEATURE_NAMES = ("input_ids", "input_mask", "segment_ids")
# Part of the message about a row of another form.
FORM = "texts, each [CLS] ids [SEP] of segment 0, then 1; then padding"


def serialize_examples(features: Mapping[str, np.ndarray]) -> list[bytes]:
    """Serializes ids, masks and segments `[n, S]` as n `tf.train.Example`s."""
    flat_ids, ends = _pack_ids(features["input_ids"])
    num_rows, num_columns = features["input_ids"].shape
    # Masks and segments take one byte per value, so the second part of all
    # records has one length and is laid out as a matrix.
    columns = []
    for name in FEATURE_NAMES[1:]:
        header = np.frombuffer(_feature_header(name, num_columns), np.uint8)
        columns.append(np.tile(header, [num_rows, 1]))
        columns.append(features[name].astype(np.uint8))
    tails = np.concatenate(columns, axis=1)
    size, flat_tails = tails.shape[1], tails.tobytes()
    return [
        _record_header(end - begin, size)
        + flat_ids[begin:end]
        + flat_tails[index * size : (index + 1) * size]
        for index, (begin, end) in enumerate(itertools.pairwise([0, *ends]))
    ]


def parse_examples(
    serialized: "tf.Tensor",
    max_seq_length: int,
    vocabulary: "Vocabulary | None" = None,
) -> dict[str, "tf.Tensor"]:
    """Parses `[n]` records into `[n, max_seq_length]` int32, in a graph.

    With a vocabulary, `InvalidArgumentError` is raised for a row that has not
    the builder's `FORM` or other ids.
    """
    import tensorflow as tf

    specification = {
        name: tf.io.FixedLenFeature([max_seq_length], tf.int64)
        for name in FEATURE_NAMES
    }
    features = tf.io.parse_example(serialized, specification)
    if vocabulary is not None:
        # Before the cast, which would make small ids of large ones.
        _require_form(features, vocabulary)
    return {name: tf.cast(features[name], tf.int32) for name in FEATURE_NAMES}


def _require_form(
    features: Mapping[str, "tf.Tensor"], vocabulary: "Vocabulary"
) -> None:
    import tensorflow as tf

    ids, mask, segments = (features[name] for name in FEATURE_NAMES)
    # 2 in the first segment, 1 in the second, 0 in the padding.
    parts = mask + mask - segments
    begins = ids == vocabulary.cls_id
    falls = parts - tf.pad(parts[:, 1:], [[0, 0], [0, 1]])
    is_last = tf.pad(begins[:, 1:], [[0, 0], [0, 1]])
    ends = is_last | (mask != tf.pad(mask[:, 1:], [[0, 0], [0, 1]]))
    is_example = (
        tf.reduce_all((ids >= 0) & (ids < vocabulary.size))
        & tf.reduce_all((mask | segments) & -2 == 0)
        & tf.reduce_all(is_last | (falls >= 0))
        & tf.reduce_all((mask > 0) | (ids == vocabulary.pad_id))
        & tf.reduce_all(begins[:, 0])
        & tf.reduce_all((parts == 2) | ~begins)
        & tf.reduce_all((ids == vocabulary.sep_id) | ~ends)
    )
    tf.debugging.Assert(is_example, [f"Rows must be {FORM}."])


def _pack_ids(values: np.ndarray) -> tuple[bytes, list[int]]:
    """The varints of all rows, concatenated, and where each row ends."""
    if not values.size:
        return b"", [0] * len(values)
    width = max(1, -(-int(values.max()).bit_length() // 7))
    encoded = np.empty([*values.shape, width], np.uint8)
    is_used = np.ones([*values.shape, width], bool)
    for index in range(width - 1):
        has_more = values > 0x7F
        is_used[..., index + 1] = has_more
        encoded[..., index] = values & 0x7F | has_more.view(np.uint8) << 7
        values = values >> 7
    encoded[..., -1] = values
    ends = np.cumsum(is_used.reshape([len(values), -1]).sum(axis=1))
    return encoded[is_used].tobytes(), ends.tolist()


@functools.lru_cache(maxsize=65536)
def _record_header(ids_size: int, tail_size: int) -> bytes:
    header = _feature_header(FEATURE_NAMES[0], ids_size)
    return b"\x0a" + _varint(len(header) + ids_size + tail_size) + header


def _feature_header(name: str, packed_size: int) -> bytes:
    """The bytes before a feature's values: tag and size of each level."""
    header = b""
    for tag in (b"\x0a", b"\x1a", b"\x12"):
        header = tag + _varint(len(header) + packed_size) + header
    key = name.encode()
    header = b"\x0a" + _varint(len(key)) + key + header
    return b"\x0a" + _varint(len(header) + packed_size) + header


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
