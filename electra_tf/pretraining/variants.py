"""The paper's ablations (section 3.5); Electric; a sentence-level loss."""

import math
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from electra_tf import config
from electra_tf.config import schema
from electra_tf.inputs import masking
from electra_tf.inputs import randomness
from electra_tf.modeling import flops
from electra_tf.modeling import layers
from electra_tf.modeling import networks
from electra_tf.pretraining import electra
from electra_tf.pretraining import losses
from electra_tf.pretraining import mlm
from electra_tf.pretraining import model as model_lib
from electra_tf.training import metrics
from electra_tf.training import step as step_lib

_RESTORATION_RATIOS = {
    **electra.GENERATOR_RATIOS,
    # Of chosen slots whose sample is wrong, those that are guessed right.
    "restored_accuracy": ("restored_tokens", "replaced_tokens"),
}


@layers.register
class Electra15(electra.Electra):
    """The discriminator learns from the chosen positions only.

    Asks whether ELECTRA gains from being defined over all tokens. `disc_weight`
    weighs a mean over the 15 % of the tokens that were masked for the
    generator: each counts about seven times as much as in `Electra`.
    """

    def main_weights(self, masked: masking.MaskedInputs) -> tf.Tensor:
        """`[B, S]` float32, 1 at the masked-out positions."""
        _, is_chosen = masking.scatter_update(
            masked.original_ids, masked.masked_ids, masked.masked_positions
        )
        return tf.cast(is_chosen, tf.float32)


@layers.register
class ReplaceMLM(electra.Electra):
    """Predicts masked tokens from generator samples.

    Asks whether ELECTRA gains from never showing [MASK] to the encoder that is
    kept: it is trained as a masked language model, on the positions `m` only,
    but these hold samples of the generator instead of [MASK].

        L_G    = mean over m of -log p_G(x_t | x_masked)
        L_MLM  = mean over m of -log p(x_t | x_corrupt)
        total  = gen_weight * L_G + main_weight * L_MLM

    `restored_accuracy` is counted where the sample that the main network sees
    is wrong, and must be undone.
    """

    ratios = _RESTORATION_RATIOS
    extra_sizes = {"kept_sampled_correct": 1}
    main_part = "masked_lm"
    main_loss = "mlm_loss"
    main_factor = "main_weight"

    @classmethod
    def build_main(cls, settings: config.EncoderConfig, dtype: Any) -> Any:
        """A masked language model."""
        names = "masked_lm_predictions", networks.MAIN_ENCODER
        return networks.MaskedLMGenerator(settings, *names, dtype=dtype)

    def main_weights(self, masked: masking.MaskedInputs) -> tf.Tensor:
        """`[B, P]` float32, 1 in the used slots."""
        return masked.masked_weights

    def compute_main_losses(
        self, sampled: electra.SampledBatch, dropout_seed: layers.Seed
    ) -> step_lib.LossSums:
        """Predicts the originals of the masked tokens from the samples."""
        seen = sampled.masked._replace(input_ids=sampled.fake.input_ids)
        logits = self.main(seen, model_lib.main_seed(dropout_seed)).logits
        loss = losses.masked_lm_loss(
            logits, seen.masked_ids, seen.masked_weights
        )
        return step_lib.LossSums(
            {"mlm_loss": loss}, count_restored(seen, logits)
        )


@layers.register
class AllTokensMLM(electra.Electra):
    """Predicts all tokens, with a copy mechanism.

    The main network sees the text with generator samples and predicts the
    identity of every token. It gives each a probability D of having been left
    alone, from a sigmoid layer, and a softmax over the vocabulary:

        p(x_t | x_corrupt) = D 1[x_t = x_corrupt_t] + (1 - D) softmax(x_t)
        L_All  = mean over tokens of -log p(x_t | x_corrupt)
        total  = gen_weight * L_G + main_weight * L_All

    `1 - D` is scored as a detector. `restored_accuracy` is that of the softmax
    over the vocabulary, where the sample that the main network sees is wrong.
    """

    ratios = _RESTORATION_RATIOS
    main_part = "all_tokens_masked_lm"
    main_loss = "all_loss"
    main_factor = "main_weight"

    @classmethod
    def build_main(cls, settings: config.EncoderConfig, dtype: Any) -> Any:
        """A masked language model with a copy decision."""
        return networks.CopyingMaskedLM(settings, dtype=dtype)

    def read_rows(
        self, rows: layers.EncoderInputs, seed: layers.Seed
    ) -> tf.Tensor:
        """Probability that each token was replaced, `1 - D`."""
        return tf.sigmoid(-self.main(*rows, seed).copy_logits)

    def compute_main_losses(
        self, sampled: electra.SampledBatch, dropout_seed: layers.Seed
    ) -> step_lib.LossSums:
        """Predicts every original from the samples."""
        seen = sampled.masked._replace(input_ids=sampled.fake.input_ids)
        weights = self.main_weights(seen)
        output = self.main(*sampled.rows, model_lib.main_seed(dropout_seed))
        likelihoods = losses.copying_log_likelihoods(
            output.logits, output.copy_logits, seen.input_ids, seen.original_ids
        )
        slots = masking.gather_positions(output.logits, seen.masked_positions)
        detection = metrics.detection_statistics(
            -output.copy_logits, sampled.fake.is_fake_tokens, weights
        )
        return step_lib.LossSums(
            {"all_loss": -tf.reduce_sum(likelihoods * weights)},
            count_restored(seen, slots) | detection,
        )


@layers.register
class Electric(electra.Electra):
    """An energy model, by noise-contrastive estimation (Electric, section 2).

    The main network gives every token an energy `E(x)_t`, such that
    `p(x_t | x without t)` is proportional to `exp(-E(x)_t)`. A two-tower
    cloze model `q` proposes noise for a share k of the positions (the masking
    rate), and the energies learn to tell noise from data:

        P(noise | x, t) = k q(x_t) / (k q(x_t) + (1 - k) exp(-E(x)_t))
        logit(t)        = E(x)_t + log q(x_t | x without t) + log(k / (1 - k))

    so the pseudo-log-likelihood of a text, the sum of `-E(x)_t`, takes one
    pass. A position counts as noise wherever one was sampled, also where the
    sample equals the original. `q` learns by maximum likelihood from all
    tokens; no gradient reaches it through `log q`.
    """

    @classmethod
    def check_settings(cls, settings: config.ExperimentConfig) -> None:
        """Requires the two-tower cloze model, and one share of noise."""
        # Its cloze model sees no masks: what they show is for metrics alone.
        free = {"mask_prob", "replace_prob", "random_prob"}
        changed = schema.find_changed(settings.masking).keys() - free
        config.require(
            not changed,
            "The objective 'electric' has one share of noise, `mask_prob`, "
            "for each token by itself. Received in `masking`: "
            f"{sorted(changed)}. Leave these fields at their defaults.",
        )
        config.require(
            settings.generator.two_tower_generator,
            "The objective 'electric' needs the probability of every token "
            "given all others. Received: generator.two_tower_generator=False. "
            "Set --config.generator.two_tower_generator=true.",
        )

    def compute_main_losses(
        self, sampled: electra.SampledBatch, dropout_seed: layers.Seed
    ) -> step_lib.LossSums:
        """Scores all tokens and contrasts noise with data."""
        energies = self.discriminate(sampled, dropout_seed).logits
        log_q = -tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=sampled.fake.input_ids,
            logits=sampled.generated.prediction_logits,
        )
        share = self.settings.masking.mask_prob
        log_odds = math.log(share / (1.0 - share))
        logits = energies + tf.stop_gradient(log_q) + log_odds
        labels = sampled.fake.is_sampled
        return self.detection_losses(logits, labels, sampled.masked)


@layers.register
class SentenceOrder(electra.Electra):
    """ELECTRA, and whether the segments of a row are in their order.

    (ALBERT, https://arxiv.org/abs/1909.11942, section 3.1.) Half of the rows
    `[CLS] a [SEP] b [SEP]` become `[CLS] b [SEP] a [SEP]`, before they are
    masked; s is 1 there. A head on the state of [CLS] learns it:

        L_SOP  = mean over rows with two segments of
                 -s log D(h_CLS) - (1 - s) log(1 - D(h_CLS))
        total  = gen_weight * L_MLM + disc_weight * L_Disc
                 + order_weight * L_SOP

    The head is no part of exports. A second segment that ends where its row
    does, within a sentence, can be told by that alone.
    """

    @classmethod
    def trained_parts(cls, convention: flops.Convention) -> flops.Operations:
        """Also the head."""
        return super().trained_parts(convention) + convention.row_head()

    def build_extras(self, dtype: Any) -> None:
        """The head."""
        name = "sentence_order_predictions"
        self.order_head = self.main.add_head(networks.TokenHead, name)

    @property
    def loss_coefficients(self) -> Mapping[str, float]:
        """Also that of the order."""
        weight = self.settings.objective.order_weight
        return {**super().loss_coefficients, "order_loss": weight}

    def prepare(
        self, features: step_lib.Tensors, step: tf.Tensor, is_training: bool
    ) -> model_lib.PreparedBatch:
        """Swaps segments, then masks; the bits follow (seed, step, stream)."""
        kind, segments = randomness.SEGMENT_ORDER, features["segment_ids"]
        streams, count = features["stream_ids"], segments.shape[1]
        seeds = self.masking.seeds(kind, step, streams, is_training)
        numbers = randomness.uniform_by_stream(seeds, (count, 1))
        is_swapped = tf.reshape(numbers < 0.5, [-1, count, 1])
        is_swapped &= tf.reduce_max(segments, -1, keepdims=True) > 0
        features = _swap_segments(features, is_swapped)
        labels = tf.cast(tf.reshape(is_swapped, [-1]), tf.float32)
        prepared = super().prepare(features, step, is_training)
        return prepared._replace(is_swapped=labels)

    def loss_normalizers(
        self, prepared: model_lib.PreparedBatch
    ) -> step_lib.Tensors:
        """Also the number of rows with two segments."""
        pairs = tf.reduce_sum(_mark_pairs(prepared.masked))
        return super().loss_normalizers(prepared) | {"order_loss": pairs}

    def compute_main_losses(
        self, sampled: electra.SampledBatch, dropout_seed: layers.Seed
    ) -> step_lib.LossSums:
        """The discriminator's loss, and that of the order."""
        output = self.discriminate(sampled, dropout_seed)
        labels = sampled.fake.is_fake_tokens
        main = self.detection_losses(output.logits, labels, sampled.masked)
        logits = self.order_head(output.encoder_output.sequence_output[:, :1])
        main.losses["order_loss"] = losses.replaced_token_loss(
            logits[:, 0],
            sampled.prepared.is_swapped,
            _mark_pairs(sampled.masked),
        )
        return main


def _mark_pairs(masked: masking.MaskedInputs) -> tf.Tensor:
    """`[B]` float32, 1 for rows with two segments."""
    return tf.cast(tf.reduce_max(masked.segment_ids, 1), tf.float32)


def _swap_segments(
    features: step_lib.Tensors, is_swapped: tf.Tensor
) -> step_lib.Tensors:
    """The rows `[n, k, S]`, with segments swapped in those chosen."""
    mask, segments = features["input_mask"], features["segment_ids"]
    is_moved = is_swapped & (tf.range(mask.shape[-1]) > 0)
    # Behind [CLS] the second segment, the first, padding.
    keys = tf.where(is_moved, 3 - mask - segments, 0)
    order = tf.argsort(keys, stable=True)
    ids = tf.gather(features["input_ids"], order, batch_dims=2)
    first = mask - tf.gather(segments, order, batch_dims=2)
    segments = tf.where(is_moved, first, segments)
    return features | {"input_ids": ids, "segment_ids": segments}


def count_restored(
    seen: masking.MaskedInputs, logits: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Slots `[B, P]` that show a wrong sample, and those guessed right."""
    best = tf.argmax(logits, axis=-1, output_type=tf.int32)
    shown = tf.gather(seen.input_ids, seen.masked_positions, batch_dims=1)
    is_wrong = tf.cast(shown != seen.masked_ids, tf.float32)
    is_wrong *= seen.masked_weights
    return {
        "replaced_tokens": tf.reduce_sum(is_wrong),
        "restored_tokens": mlm.count_correct(best, seen, is_wrong),
    }
