"""Requests made of texts, for every signature alike.

The self-check of an export asks them, and a server that warms up.
"""

import numpy as np
import tensorflow as tf

from electra_tf.export import signature_module
from electra_tf.export import signatures
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks.sentences import packing

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
    packed = packing.pack_texts(
        module.tokenizer, tf.constant(texts), None, module.max_length
    )
    pad_id = module.tokenizer.vocabulary.pad_id
    ids, mask, _ = rows_lib.pad(
        packed.ids, packed.segment_starts, pad_id=pad_id
    )
    length = ids.shape[1]
    places = np.tile(np.arange(length, dtype=np.int32), (len(texts), 1))
    is_second = (places >= length // 2) & (module.num_segments > 1)
    is_inside = places < mask.numpy().sum(1, keepdims=True) - 1
    return {
        "input_ids": ids.numpy(),
        "input_mask": mask.numpy(),
        "segment_ids": is_second.astype(np.int32),
        # Every other token, as far as the row goes.
        "word_positions": np.where(is_inside, places, 0)[:, 1::2],
    }
