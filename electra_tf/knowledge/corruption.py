"""What the discriminator says of text that the generator has changed.

As in pre-training (paper, section 2), but of text that was held out: a share of
the pieces becomes [MASK], the generator samples one for each, and the
discriminator says for every piece whether it is the original.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import tensorflow as tf

from electra_tf import config
from electra_tf import electra as electra_lib
from electra_tf.inputs import masking
from electra_tf.inputs import randomness
from electra_tf.knowledge import texts
from electra_tf.modeling import keras_models
from electra_tf.pretraining import sampling

_ROWS = 64


def detect(
    electra: electra_lib.Electra,
    sentences: Sequence[texts.Sentence],
    seed: int,
    mask_prob: float,
) -> pd.DataFrame:
    """Changes sentences once, and asks which pieces were replaced.

    Returns `texts.locate_pieces` and the columns
    `is_masked` and `is_replaced`, bool, and `logit` float32, high where a
    piece looks replaced. A sample that equals the original is not a
    replacement. Raises `ValueError` for a model without a discriminator or
    without a generator.
    """
    if not (electra.can_score and electra.generator is not None):
        raise ValueError(
            "A discriminator of replaced tokens and a generator are needed. "
            f"Received: {electra!r}. Load a folder that holds both, such as "
            "that of a pre-training run."
        )
    pieces = texts.locate_pieces(electra, sentences)
    rows = electra.tokenize([sentence.text for sentence in sentences])
    answers = _answer(electra, rows, seed, mask_prob)
    place = pieces["sentence"].to_numpy(), pieces["position"].to_numpy()
    found = {name: array[place] for name, array in answers.items()}
    return pieces.assign(**found)


def _answer(
    electra: electra_lib.Electra, rows: Any, seed: int, mask_prob: float
) -> dict[str, np.ndarray]:
    """Name to `[N, S]` arrays."""
    names = keras_models.FEATURES
    length = rows[names[0]].shape[1]
    masks = masking.DynamicMasking(
        config.MaskingConfig(mask_prob=mask_prob), electra.vocabulary, seed
    )

    @tf.function(autograph=False)
    def corrupt(step: tf.Tensor, *features: tf.Tensor) -> tuple[tf.Tensor, ...]:
        batch = dict(zip(names, features, strict=True))
        batch["stream_ids"] = tf.constant([0], tf.int64)
        masked = masks(batch, step, is_training=False)
        generator, main = electra.networks
        logits = generator(masked).logits
        kind = randomness.GENERATOR_SAMPLE
        seeds = masks.seeds(kind, step, batch["stream_ids"], is_training=False)
        uniform = randomness.uniform_by_stream(seeds, tuple(logits.shape))
        sampled = sampling.sample_from_softmax(logits, uniform)
        shown, is_masked = masking.scatter_update(
            masked.original_ids,
            sampled,
            masked.masked_positions,
            masked.masked_weights,
        )
        is_replaced = shown != masked.original_ids
        answer = main(shown, masked.input_mask, masked.segment_ids)
        return is_masked > 0, is_replaced, answer.logits

    parts = []
    for step, first in enumerate(range(0, len(rows[names[0]]), _ROWS)):
        own = [rows[name][first : first + _ROWS] for name in names]
        count = len(own[0])
        full = [tf.pad(ids, [[0, _ROWS - count], [0, 0]]) for ids in own]
        shaped = [tf.reshape(ids, [1, _ROWS, length]) for ids in full]
        found = corrupt(tf.constant(step), *shaped)
        parts.append([array.numpy()[:count] for array in found])
    columns = ("is_masked", "is_replaced", "logit")
    joined = map(np.concatenate, zip(*parts, strict=True))
    return dict(zip(columns, joined, strict=True))
