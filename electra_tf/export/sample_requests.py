"""Requests made of texts, for every signature alike.

The self-check of an export asks them, and a server that warms up.
"""

import numpy as np
import tensorflow as tf

from electra_tf.export import signature_module
from electra_tf.export import signatures

Arrays = dict[str, np.ndarray]


def build_request(
    module: signature_module.SignatureModule,
    signature: str,
    texts: np.ndarray,
) -> Arrays:
    """What a signature takes, name to array, made of some texts.

    Args:
        module: that has the signature.
        signature: its name.
        texts: `[B]` UTF-8 bytes. A second input of raw text gets the same
            texts, last first; ids are those of the texts' pieces.
    """
    names = signatures.SIGNATURES[signature].inputs
    if signature.endswith("_text"):
        return dict(zip(names, (texts, texts[::-1]), strict=False))
    ids = _build_ids(module, texts)
    return {name: ids[name] for name in names}


def _build_ids(
    module: signature_module.SignatureModule, texts: np.ndarray
) -> Arrays:
    """Rows of texts, half of each in segment 1."""
    vocabulary = module.tokenizer.vocabulary
    pieces = module.tokenizer.tokenize(tf.constant(texts)).to_list()
    room = module.max_length - 2
    rows = [
        [vocabulary.cls_id, *row[:room], vocabulary.sep_id] for row in pieces
    ]
    length = max(map(len, rows))
    places = np.arange(length)
    lengths = np.array([len(row) for row in rows])[:, np.newaxis]
    ids = np.full((len(rows), length), vocabulary.pad_id, np.int32)
    for target, row in zip(ids, rows, strict=True):
        target[: len(row)] = row
    is_second = (places >= length // 2) & (module.num_segments > 1)
    return {
        "input_ids": ids,
        "input_mask": (places < lengths).astype(np.int32),
        "segment_ids": np.tile(is_second, (len(rows), 1)).astype(np.int32),
        # Every other token, as far as the row goes.
        "word_positions": np.where(places < lengths - 1, places, 0).astype(
            np.int32
        )[:, 1::2],
    }
