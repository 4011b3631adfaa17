"""What the main tower of an objective can say about rows of ids.

One class per kind of tower, with one method per family of signatures: the
family `score` answers `score_text` and `score_ids`. A tower offers what it was
trained for and nothing else; features every one has, so a tower of your own
objective that is none of these exports those.
"""

from typing import Any

import tensorflow as tf

from electra_tf.export import signatures
from electra_tf.export.compute import row_groups
from electra_tf.inputs import masking
from electra_tf.modeling import discriminator as discriminator_lib
from electra_tf.modeling import generators
from electra_tf.pretraining import electric
from electra_tf.pretraining import model as model_lib
from electra_tf.text import vocabulary as vocabulary_lib

_FEATURES = ("features_text", "features_ids")
_SCORES = ("score_text", "score_ids")

Tensors = dict[str, tf.Tensor]


class TowerAnswers:
    """Features, the answer of every tower.

    All methods take `input_ids`, `input_mask` and `segment_ids`, `[B, S]`
    int32, and return name to tensor as `signatures.TENSORS` says. Dropout is
    off. Answers at padding are constants: whatever a tower computes there
    depends on how much of it there is.

    Args:
        tower: with its weights; has an `encoder`.
    """

    kind = "encoder"
    signature_names: tuple[str, ...] = _FEATURES
    """What it offers; the first is what a client gets that names none."""

    def __init__(self, tower: Any) -> None:
        self.tower = tower

    def describe_outputs(self, family: str) -> dict[str, row_groups.Output]:
        """What is known of the outputs of a family before they are computed.

        Args:
            family: name of one of the methods.
        """
        sizes = {"D": self.tower.encoder.hidden_size}
        outputs = {}
        for name in signatures.SIGNATURES[f"{family}_ids"].outputs:
            meaning = signatures.TENSORS[name]
            axes = meaning.shape.strip("[]").split(", ")
            outputs[name] = row_groups.Output(
                tf.as_dtype(meaning.dtype),
                tuple(sizes.get(axis) for axis in axes),
                axes[1:2] == ["S"],
                signatures.PADDING.get(name, 0),
            )
        return outputs

    def features(
        self, input_ids: tf.Tensor, input_mask: tf.Tensor, segments: tf.Tensor
    ) -> Tensors:
        """The encoder's last layer."""
        output = self.tower.encoder(input_ids, input_mask, segments)
        hidden = tf.cast(output.sequence_output, tf.float32)
        is_token = (input_mask > 0)[:, :, tf.newaxis]
        return {
            # Not `hidden[:, 0]`, which a batch without rows does not have.
            "sentence_features": tf.reshape(
                hidden[:, :1], [tf.shape(hidden)[0], hidden.shape[-1]]
            ),
            "token_features": tf.where(is_token, hidden, 0.0),
        }


class Detector(TowerAnswers):
    """A discriminator: which tokens were replaced."""

    kind = "detector"
    signature_names = _SCORES + _FEATURES

    def score(
        self, input_ids: tf.Tensor, input_mask: tf.Tensor, segments: tf.Tensor
    ) -> Tensors:
        """Logit and probability that each token was replaced."""
        logits = self._logits(input_ids, input_mask, segments)
        logits = tf.where(input_mask > 0, logits, signatures.PADDING_LOGIT)
        return {
            "replaced_probability": tf.sigmoid(logits),
            "replaced_logits": logits,
        }

    def _logits(self, *rows: tf.Tensor) -> tf.Tensor:
        return self.tower(*rows).logits


class CopyingDetector(Detector):
    """All-Tokens MLM: what is not to be copied was replaced.

    The copy mechanism gives every token a probability D of being the
    original (paper, section 3.5), so `1 - D` is a discriminator's answer.
    """

    kind = "copying"

    def _logits(self, *rows: tf.Tensor) -> tf.Tensor:
        return -self.tower(*rows).copy_logits


class EnergyModel(TowerAnswers):
    """Electric: how likely each token is, given all others.

    `log p(x_t | x without t) = -E(x)_t - log Z`, where Z is not known, so
    likelihoods are up to a constant (Electric, sections 2 and 3).

    Args:
        tower: a discriminator whose logits are the energies E.
        special_ids: tokens that noise was never contrasted with: those of
            [CLS], [SEP] and [MASK].
    """

    kind = "energy"
    signature_names = ("likelihood_text", "likelihood_ids", *_FEATURES)

    def __init__(self, tower: Any, special_ids: tuple[int, ...]) -> None:
        super().__init__(tower)
        self.special_ids = special_ids

    def likelihood(
        self, input_ids: tf.Tensor, input_mask: tf.Tensor, segments: tf.Tensor
    ) -> Tensors:
        """Minus the energies, and their sum over the text."""
        energies = self.tower(input_ids, input_mask, segments).logits
        counts = masking.eligible_positions(
            input_ids, input_mask, self.special_ids
        )
        likelihoods = tf.where(counts, -energies, 0.0)
        return {
            "token_log_likelihood": likelihoods,
            "pseudo_log_likelihood": tf.reduce_sum(likelihoods, axis=1),
        }


class MaskedLanguageModel(TowerAnswers):
    """A masked language model: which tokens belong at a position."""

    kind = "masked_lm"
    signature_names = (*_FEATURES, "predict_ids")

    def predict(
        self, input_ids: tf.Tensor, input_mask: tf.Tensor, segments: tf.Tensor
    ) -> Tensors:
        """The most probable tokens at every position."""
        encoder, head = self.tower.encoder, self.tower.head
        output = encoder(input_ids, input_mask, segments)
        table = tf.convert_to_tensor(encoder.embeddings.word_embeddings)
        logits = head(output.sequence_output, table)
        count = min(signatures.NUM_PREDICTIONS, self.tower.vocab_size)
        best = tf.math.top_k(tf.nn.softmax(logits), count)
        is_token = (input_mask > 0)[:, :, tf.newaxis]
        return {
            "top_ids": tf.where(is_token, best.indices, 0),
            "top_probabilities": tf.where(is_token, best.values, 0.0),
        }


def build_answers(
    objective: type[model_lib.PretrainingModel],
    tower: Any,
    vocabulary: vocabulary_lib.Vocabulary,
) -> TowerAnswers:
    """The answers that a tower was trained to give.

    Args:
        objective: that it was trained with; the same discriminator gives
            logits to one and energies to another.
        tower: its main tower.
        vocabulary: gives the special ids.
    """
    if isinstance(tower, discriminator_lib.Discriminator):
        if issubclass(objective, electric.Electric):
            never_noise = (
                vocabulary.cls_id,
                vocabulary.sep_id,
                vocabulary.mask_id,
            )
            return EnergyModel(tower, never_noise)
        return Detector(tower)
    if isinstance(tower, discriminator_lib.CopyingMaskedLM):
        return CopyingDetector(tower)
    if isinstance(tower, generators.MaskedLMGenerator):
        return MaskedLanguageModel(tower)
    return TowerAnswers(tower)
