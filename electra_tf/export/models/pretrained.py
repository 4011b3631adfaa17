"""The modules of pre-trained models, a class for each kind of main network.

A class has a method for each family of signatures: `score` computes
`score_text` and `score_ids`.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from electra_tf.export import export_metadata
from electra_tf.export.models import exported_module
from electra_tf.inputs import masking
from electra_tf.modeling import networks
from electra_tf.text import tokenizer as tokenizer_lib

_FEATURES = ("features_text", "features_ids")
_NUM_SPECIAL_TOKENS = 2  # [CLS] and [SEP]

Tensors = dict[str, tf.Tensor]


class PretrainedModule(exported_module.ExportedModule):
    """An encoder, which computes features.

    The method of a family takes ids, mask and segments, `[B, S]` int32, and
    returns the outputs that `signatures.toml` documents. Outputs at padding are
    constants, as a network's depend on the amount of padding.
    """

    kind = "encoder"
    signature_names: tuple[str, ...] = _FEATURES

    def __init__(
        self,
        network: Any,
        tokenizer: tokenizer_lib.Tokenizer,
        max_length: int = 0,
    ) -> None:
        super().__init__(network.encoder, [network], tokenizer, max_length)
        self._network.main = network

    def compute_answers(self, signature: str, **inputs: tf.Tensor) -> Tensors:
        """Answers a signature of `texts`, `[B]` string, or of rows of ids."""
        family = signature.rpartition("_")[0]
        texts: Tensors = {}
        if "texts" in inputs:
            texts = self._tokenize(inputs["texts"])
            ids = texts["input_ids"]
            rows: Any = ids, texts["input_mask"], tf.zeros_like(ids)
        else:
            rows = self.check_ids(**inputs)
        documented = export_metadata.SIGNATURES[f"{family}_ids"].outputs
        return texts | self.compute_in_buckets(
            lambda chosen: getattr(self, family)(*map(chosen.trim, rows)),
            rows[1],
            paddings={
                name: export_metadata.PADDING.get(name, 0)
                for name in documented
                if export_metadata.TENSORS[name].axes[1:2] == ["S"]
            },
        )

    def features(self, *rows: tf.Tensor) -> Tensors:
        """Returns the outputs of the encoder's last layer."""
        output = self._network.encoder(*rows)
        hidden = tf.cast(output.sequence_output, tf.float32)
        is_token = tf.expand_dims(rows[1] > 0, 2)
        return {
            # `hidden[:, 0]` fails for a batch without rows.
            "sentence_features": tf.reshape(
                hidden[:, :1], [tf.shape(hidden)[0], hidden.shape[-1]]
            ),
            "token_features": tf.where(is_token, hidden, 0.0),
        }

    def _tokenize(self, texts: tf.Tensor) -> Tensors:
        ids, starts, ends = self.tokenizer.tokenize_with_offsets(texts)
        vocabulary = self.tokenizer.vocabulary
        num_pieces = tf.cast(ids.row_lengths(), tf.int32)
        num_kept = tf.minimum(num_pieces, self.max_length - _NUM_SPECIAL_TOKENS)
        num_tokens = num_kept + _NUM_SPECIAL_TOKENS
        # Without ragged operations, which would be most of the graph.
        columns = tf.range(tf.reduce_max(tf.pad(num_tokens, [[0, 1]])))
        num_kept_column = num_kept[:, tf.newaxis]
        is_piece = (columns > 0) & (columns <= num_kept_column)
        first = tf.cast(ids.row_starts(), tf.int32)[:, tf.newaxis]
        source = tf.where(is_piece, first + columns - 1, 0)

        def lay_out(pieces: tf.RaggedTensor, others: Any) -> tf.Tensor:
            # Padded, so that index 0 exists even if all texts are empty.
            values = tf.pad(pieces.values, [[0, 1]])
            return tf.where(is_piece, tf.gather(values, source), others)

        is_last = columns == num_kept_column + 1
        others = tf.where(is_last, vocabulary.sep_id, vocabulary.pad_id)
        others = tf.where(columns == 0, vocabulary.cls_id, others)
        is_token = columns < num_tokens[:, tf.newaxis]
        return {
            "input_ids": lay_out(ids, others),
            "input_mask": tf.cast(is_token, tf.int32),
            "word_starts": lay_out(starts, export_metadata.NO_WORD),
            "word_ends": lay_out(ends, export_metadata.NO_WORD),
            "num_tokens": num_tokens,
            "num_truncated": num_pieces - num_kept,
        }


class DetectorModule(PretrainedModule):
    """A discriminator, which finds replaced tokens."""

    kind = "detector"
    signature_names = ("score_text", "score_ids", *_FEATURES)

    def score(self, *rows: tf.Tensor) -> Tensors:
        """Returns each token's probability, and logit, of being replaced."""
        logits = self._compute_logits(*rows)
        logits = tf.where(rows[1] > 0, logits, export_metadata.PADDING_LOGIT)
        probability = tf.sigmoid(logits)
        return {"replaced_probability": probability, "replaced_logits": logits}

    def _compute_logits(self, *rows: tf.Tensor) -> tf.Tensor:
        return self._network.main(*rows).logits


class CopyingModule(DetectorModule):
    """All-Tokens MLM, whose copy mechanism finds replaced tokens.

    The copy mechanism gives every token a probability D of being the original
    (paper, section 3.5), so the token was replaced with probability `1 - D`.
    """

    kind = "copying"

    def _compute_logits(self, *rows: tf.Tensor) -> tf.Tensor:
        return -self._network.main(*rows).copy_logits


class EnergyModule(PretrainedModule):
    """Electric, which computes each token's likelihood, given all others.

    `log p(x_t | x without t) = -E(x)_t - log Z`, where Z is not known, so
    likelihoods lack a constant (Electric, sections 2 and 3). The logits of the
    discriminator are the energies E.
    """

    kind = "energy"
    signature_names = ("likelihood_text", "likelihood_ids", *_FEATURES)

    def likelihood(self, *rows: tf.Tensor) -> Tensors:
        """Returns the negative energies, and their sum over the text."""
        (ids, mask, _), energies = rows, self._network.main(*rows).logits
        vocabulary = self.tokenizer.vocabulary
        # Training never contrasted these tokens with noise.
        special_ids = vocabulary.cls_id, vocabulary.sep_id, vocabulary.mask_id
        counts = masking.eligible_positions(ids, mask, special_ids)
        likelihoods = tf.where(counts, -energies, 0.0)
        return {
            "token_log_likelihood": likelihoods,
            "pseudo_log_likelihood": tf.reduce_sum(likelihoods, axis=1),
        }


class MaskedLanguageModule(PretrainedModule):
    """A masked language model, which predicts the token of each position."""

    kind = "masked_lm"
    signature_names = (*_FEATURES, "predict_ids")

    def predict(self, *rows: tf.Tensor) -> Tensors:
        """Returns the most probable tokens at every position."""
        logits = self._network.main.score_tokens(rows)
        count = min(export_metadata.NUM_PREDICTIONS, self.vocab_size)
        best = tf.math.top_k(tf.nn.softmax(logits), count)
        is_token = tf.expand_dims(rows[1] > 0, 2)
        return {
            "top_ids": tf.where(is_token, best.indices, 0),
            "top_probabilities": tf.where(is_token, best.values, 0.0),
        }


_MODULES: Mapping[networks.Answer, type[PretrainedModule]] = {
    networks.Answer.REPLACED: DetectorModule,
    networks.Answer.COPYING: CopyingModule,
    networks.Answer.ENERGY: EnergyModule,
    networks.Answer.MASKED_LM: MaskedLanguageModule,
    networks.Answer.CORRECTION: MaskedLanguageModule,
}


def build_module(
    answer: networks.Answer,
    network: Any,
    tokenizer: tokenizer_lib.Tokenizer,
    max_length: int = 0,
) -> PretrainedModule:
    """Builds the module of a main network, which may lack its head.

    Args:
        answer: what the network answers if it has a head.
        network: the main network.
        tokenizer: its tokenizer.
        max_length: tokens at which texts are cut; 0: the model's positions.
    """
    has_head = hasattr(network, "head")
    module_class = _MODULES[answer] if has_head else PretrainedModule
    return module_class(network, tokenizer, max_length)
