"""Computes discriminator logits for text that the generator has changed.

As in pre-training, but all chosen tokens show [MASK] (`masking.replace_prob`
1), as the generator would copy a token that it sees.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import tensorflow as tf

from analyses import texts
from analyses.analysis import Work
from electra_tf import config
from electra_tf.formulas import sampling
from electra_tf.inputs import masking
from electra_tf.inputs import randomness
from electra_tf.loaded_models import pretrained
from electra_tf.modeling import keras_models

_ROWS = 64
# Two bool columns, then float32.
_COLUMNS = ("is_masked", "is_replaced", "logit", "entropy", "is_guessed")


def detect(work: Work, sentences: Sequence[texts.Sentence]) -> pd.DataFrame:
    """Corrupts sentences, and computes the discriminator's logits.

    Returns the table of `texts.locate_pieces` with more columns: `is_masked`
    and `is_replaced`, bool; `logit`, high for pieces that look replaced; and of
    the generator, at masked pieces, `entropy`, in nats, and `is_guessed`, 1 if
    its most probable token is right. A sample that equals the original is not a
    replacement. Raises `ValueError` for a model without a discriminator or a
    generator, and if nothing was replaced.
    """
    electra = work.electra
    if not (electra.can_score and electra.generator is not None):
        raise ValueError(
            "A discriminator of replaced tokens and a generator are needed. "
            f"Received: {electra!r}. Load a model with both, such as a run."
        )
    pieces = texts.locate_pieces(electra, sentences)
    rows = electra.tokenize([sentence.text for sentence in sentences])
    answers = _answer(work, rows)
    at_pieces = answers[pieces["sentence"], pieces["position"]]
    columns = pd.DataFrame(at_pieces, columns=_COLUMNS)
    detected = pieces.join(columns.astype(dict.fromkeys(_COLUMNS[:2], bool)))
    if not 0 < detected["is_replaced"].sum() < len(detected):
        raise ValueError(
            "Some pieces must be replaced, and some must not. Received: "
            f"{detected['is_replaced'].sum()} of {len(detected)} replaced. "
            "Give more text, a larger --limit or another --mask_prob."
        )
    return detected


class Corrupted(NamedTuple):
    """A batch that the generator has changed, with both networks' logits."""

    masked: masking.MaskedInputs
    generator_logits: tf.Tensor  # [B, P, V] float32
    shown_ids: tf.Tensor  # [B, S] int32, the discriminator's input
    is_masked: tf.Tensor  # [B, S] int32, 1 at samples
    logits: tf.Tensor  # [B, S] float32, of the discriminator


def corrupt(
    electra: pretrained.PretrainedModel,
    rows: Sequence[tf.Tensor],
    step: tf.Tensor | int,
    seed: int,
    mask_prob: float,
) -> Corrupted:
    """Changes one batch, `[B, S]` ids, mask and segments of static shape."""
    settings = config.MaskingConfig(mask_prob=mask_prob, replace_prob=1.0)
    masks = masking.DynamicMasking(settings, electra.vocabulary, seed)
    stream = tf.constant([0], tf.int64)
    names = [*keras_models.FEATURES, "stream_ids"]
    values = [*(row[tf.newaxis] for row in rows), stream]
    batch = dict(zip(names, values, strict=True))
    masked = masks(batch, step, is_training=False)
    generator, main = electra.networks
    logits = generator(masked).logits
    kind = randomness.GENERATOR_SAMPLE
    seeds = masks.seeds(kind, step, stream, is_training=False)
    uniform = randomness.uniform_by_stream(seeds, tuple(logits.shape))
    shown, is_masked = masking.scatter_update(
        masked.original_ids, sampling.sample_from_softmax(logits, uniform),
        masked.masked_positions, masked.masked_weights,
    )  # fmt: skip
    answer = main(shown, masked.input_mask, masked.segment_ids)
    return Corrupted(masked, logits, shown, is_masked, answer.logits)


def _answer(work: Work, rows: Any) -> np.ndarray:
    """Computes all `_COLUMNS`, `[N, S, 5]` float32."""
    request = work.request

    @tf.function(autograph=False)
    def answer(step: tf.Tensor, *batch: tf.Tensor) -> tf.Tensor:
        masked, logits, shown, is_masked, replaced_logits = corrupt(
            work.electra, batch, step, request.seed, request.mask_prob
        )
        log_probs = tf.nn.log_softmax(logits)
        entropy = -tf.reduce_sum(tf.exp(log_probs) * log_probs, -1)
        guesses = tf.argmax(logits, -1, tf.int32) == masked.masked_ids
        at_slots = [
            masking.sum_by_position(
                values * masked.masked_weights, masked.masked_positions, shown
            )
            for values in (entropy, tf.cast(guesses, tf.float32))
        ]
        is_replaced = shown != masked.original_ids
        everywhere = (is_masked, is_replaced, replaced_logits, *at_slots)
        return tf.stack([tf.cast(x, tf.float32) for x in everywhere], -1)

    columns = [rows[name] for name in keras_models.FEATURES]

    def measure(numbers: Sequence[int]) -> np.ndarray:
        first, count = numbers[0], len(numbers)
        full = [
            tf.pad(ids[first : first + count], [[0, _ROWS - count], [0, 0]])
            for ids in columns
        ]
        answers = answer(tf.constant(first // _ROWS), *full)
        return np.asarray(answers)[:count]

    numbers = range(len(columns[0]))
    return work.in_parts("sentences", numbers, measure, _ROWS)
