"""ELECTRA together with ALBERT's sentence-order prediction."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from electra_tf.config import schema
from electra_tf.formulas import losses
from electra_tf.inputs import masking
from electra_tf.inputs import randomness
from electra_tf.modeling import flops
from electra_tf.modeling import layers
from electra_tf.modeling import networks
from electra_tf.objectives import base
from electra_tf.objectives import electra
from electra_tf.training import step as step_lib

_HEAD = "sentence_order_predictions"


@schema.frozen
class Settings(electra.Settings):
    """The section `objective` of sentence order."""

    order_weight: schema.NonNegative = 1.0  # of the sentence-order loss


@layers.register
class SentenceOrder(electra.Electra):
    """ELECTRA, with a head that predicts whether segments were swapped.

    (ALBERT, https://arxiv.org/abs/1909.11942, section 3.1.) Half of the rows
    `[CLS] a [SEP] b [SEP]` become `[CLS] b [SEP] a [SEP]` before masking. The
    label s of a row is 1 if it was swapped, and a head on [CLS] predicts it:

        L_SOP  = mean over rows with two segments of
                 -s log D(h_CLS) - (1 - s) log(1 - D(h_CLS))
        total  = gen_weight * L_MLM + disc_weight * L_Disc
                 + order_weight * L_SOP

    Exports do not contain the head. Where rows are cut at their full length,
    a second segment that ends within a sentence gives the order away.
    """

    Settings = Settings
    heads = {**electra.Electra.heads, _HEAD: networks.TokenHead}
    takes_packed_rows = False
    supports_disentangled = False

    @classmethod
    def trained_parts(cls, convention: flops.Convention) -> flops.Operations:
        """Adds the head to the parts of ELECTRA."""
        return super().trained_parts(convention) + convention.row_head()

    def build_extras(self, dtype: Any) -> None:
        """Creates the head on [CLS]."""
        self.order_head = self.main.add_head(networks.TokenHead, _HEAD)

    @property
    def loss_coefficients(self) -> Mapping[str, float]:
        """ELECTRA's losses and the sentence-order loss, with their factors."""
        weight = self.objective.order_weight
        return {**super().loss_coefficients, "order_loss": weight}

    def prepare(
        self, features: step_lib.Tensors, step: tf.Tensor, is_training: bool
    ) -> base.MaskedBatch:
        """Swaps segments as (seed, step, stream) decide, then masks."""
        kind, segments = randomness.SEGMENT_ORDER, features["segment_ids"]
        streams, count = features["stream_ids"], segments.shape[1]
        seeds = self.masking.seeds(kind, step, streams, is_training)
        numbers = randomness.uniform_by_stream(seeds, (count, 1))
        is_swapped = tf.reshape(numbers < 0.5, [-1, count, 1])
        is_swapped &= tf.reduce_max(segments, -1, keepdims=True) > 0
        features = _swap_segments(features, is_swapped)
        labels = tf.cast(tf.reshape(is_swapped, [-1]), tf.float32)
        prepared = super().prepare(features, step, is_training)
        return prepared._replace(row_labels=labels)

    def loss_normalizers(self, prepared: base.MaskedBatch) -> step_lib.Tensors:
        """Adds the number of rows with two segments."""
        pairs = tf.reduce_sum(_mark_pairs(prepared.masked))
        return super().loss_normalizers(prepared) | {"order_loss": pairs}

    def compute_main_losses(
        self, sampled: electra.SampledBatch, dropout_seed: layers.Seed
    ) -> step_lib.LossSums:
        """Computes the discriminator's and the sentence-order loss."""
        output = self.discriminate(sampled, dropout_seed)
        labels = sampled.fake.is_fake_tokens
        main = self.detection_losses(output.logits, labels, sampled.masked)
        logits = self.order_head(output.encoder_output.sequence_output[:, :1])
        labels, pairs = sampled.prepared.row_labels, _mark_pairs(sampled.masked)
        main.losses["order_loss"] = losses.replaced_token_loss(
            logits[:, 0], labels, pairs
        )
        return main


def _mark_pairs(masked: masking.MaskedInputs) -> tf.Tensor:
    """Returns `[B]` float32, 1 for rows with two segments."""
    return tf.cast(tf.reduce_max(masked.segment_ids, 1), tf.float32)


def _swap_segments(
    features: step_lib.Tensors, is_swapped: tf.Tensor
) -> step_lib.Tensors:
    """Swaps the segments of the chosen rows of `[n, k, S]` features."""
    mask, segments = features["input_mask"], features["segment_ids"]
    is_moved = is_swapped & (tf.range(mask.shape[-1]) > 0)
    # Sorts the second segment behind [CLS], then the first, then padding.
    keys = tf.where(is_moved, 3 - mask - segments, 0)
    order = tf.argsort(keys, stable=True)
    ids = tf.gather(features["input_ids"], order, batch_dims=2)
    first = mask - tf.gather(segments, order, batch_dims=2)
    segments = tf.where(is_moved, first, segments)
    return features | {"input_ids": ids, "segment_ids": segments}
