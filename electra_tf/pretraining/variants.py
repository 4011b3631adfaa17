"""The paper's ablations between BERT and ELECTRA (section 3.5); Electric."""

import math
from typing import Any

import tensorflow as tf

from electra_tf import config
from electra_tf.inputs import masking
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
_RESTORATION_SIZES = {
    **electra.GENERATOR_SIZES,
    **model_lib.sizes_of(_RESTORATION_RATIOS),
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
    extra_sizes = _RESTORATION_SIZES
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
    extra_sizes = {**_RESTORATION_SIZES, **metrics.DETECTION_SIZES}
    main_part = "all_tokens_masked_lm"
    main_loss = "all_loss"
    main_factor = "main_weight"

    @classmethod
    def build_main(cls, settings: config.EncoderConfig, dtype: Any) -> Any:
        """A masked language model with a copy decision."""
        return networks.CopyingMaskedLM(settings, dtype=dtype)

    def read_rows(self, rows: layers.Rows, seed: layers.Seed) -> tf.Tensor:
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
        config.require(
            settings.masking.mask_prob_steps == 0,
            "The objective 'electric' has one share of noise. Received: "
            f"mask_prob_steps={settings.masking.mask_prob_steps}. Set "
            "--config.masking.mask_prob_steps=0.",
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
        energies = self.discriminate(sampled, dropout_seed)
        log_q = -tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=sampled.fake.input_ids,
            logits=sampled.generated.prediction_logits,
        )
        share = self.settings.masking.mask_prob
        log_odds = math.log(share / (1.0 - share))
        logits = energies + tf.stop_gradient(log_q) + log_odds
        labels = sampled.fake.is_sampled
        return self.detection_losses(logits, labels, sampled.masked)


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
