"""The masks of a run, drawn anew for every batch.

The config chooses one of the rules in `masking.py` and `word_masking.py`; the
random numbers are named by (run seed, purpose, step, stream).
"""

import tensorflow as tf

from electra_tf import config
from electra_tf.inputs import masking
from electra_tf.inputs import randomness
from electra_tf.inputs import word_masking
from electra_tf.text import vocabulary as vocabulary_lib

Tensors = dict[str, tf.Tensor]


class DynamicMasking:
    """Masks batches as a config says; equal places give equal masks."""

    def __init__(
        self,
        settings: config.MaskingConfig,
        vocabulary: vocabulary_lib.Vocabulary,
        run_seed: int,
    ) -> None:
        self.settings = settings
        self.vocabulary = vocabulary
        self.run_seed = run_seed
        self.special_ids = (
            vocabulary.cls_id,
            vocabulary.sep_id,
            vocabulary.mask_id,
        )
        if settings.whole_word:
            self._is_continuation = word_masking.continuation_table(
                vocabulary.tokens
            )

    def seeds(
        self,
        purpose: int,
        step: tf.Tensor,
        stream_ids: tf.Tensor,
        is_training: bool,
    ) -> tf.Tensor:
        """Stateless seeds `[n, 2]` of streams, for masks or samples."""
        if not is_training:
            purpose += randomness.EVALUATION
        return randomness.stream_seeds(self.run_seed, purpose, step, stream_ids)

    def __call__(
        self, features: Tensors, step: tf.Tensor, is_training: bool
    ) -> masking.MaskedInputs:
        """Masks features `[n, k, S]` of streams `[n]` as `[n * k, S]`."""
        _, rows, length = features["input_ids"].shape
        slots = masking.max_predictions_per_seq(self.settings.mask_prob, length)

        def draw(purpose: int, width: int) -> tf.Tensor:
            seeds = self.seeds(
                purpose, step, features["stream_ids"], is_training
            )
            return randomness.uniform_by_stream(seeds, (rows, width))

        inputs = {
            name: tf.reshape(features[name], [-1, length])
            for name in ("input_ids", "input_mask", "segment_ids")
        }
        random_ids = None
        if self.settings.random_prob:
            random_ids = masking.random_tokens(
                draw(randomness.MASK_RANDOM_TOKEN, slots),
                self.vocabulary.size,
                self.vocabulary.special_ids,
            )
        return masking.mask_inputs(
            inputs,
            draw(randomness.MASK_POSITIONS, length),
            draw(randomness.MASK_REPLACEMENT, slots),
            special_ids=self.special_ids,
            mask_id=self.vocabulary.mask_id,
            mask_prob=self.settings.mask_prob,
            replace_prob=self.settings.replace_prob,
            random_prob=self.settings.random_prob,
            random_ids=random_ids,
            draw_fn=self._draw_fn(inputs),
        )

    def _draw_fn(self, inputs: Tensors) -> masking.DrawFn:
        if self.settings.whole_word:
            eligible = masking.eligible_positions(
                inputs["input_ids"], inputs["input_mask"], self.special_ids
            )
            return word_masking.whole_word_draw_fn(
                word_masking.word_starts(
                    inputs["input_ids"], eligible, self._is_continuation
                )
            )
        if self.settings.draw_with_replacement:
            return masking.draw_positions_with_replacement
        return masking.draw_positions
