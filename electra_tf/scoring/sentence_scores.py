"""Scores sentences by a model's likelihoods.

The score is a sum over the sentence's tokens x_t, without [CLS] and [SEP], of
a value that depends on the network:

    discriminator     log(1 - p(x_t was replaced | x))
    Electric          -E(x)_t, the log likelihood up to a constant
    All-Tokens MLM    log p(x_t | x), copying included
    Replace-MLM       log p(x_t | x)
    two-tower LM      log p(x_t | all of x but x_t)
    masked LM         log p(x_t | x with [MASK] at t)

The last is the pseudo-log-likelihood of Salazar et al., "Masked Language Model
Scoring" (2020), with a forward pass for every token. The other networks were
not trained with [MASK]; they need one pass over the unchanged sentence.
"""

import functools
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf.export.clients import text_models
from electra_tf.formats import reading
from electra_tf.formulas import losses
from electra_tf.inputs import masking
from electra_tf.loaded_models import pretrained
from electra_tf.modeling import networks
from electra_tf.tasks import rows as rows_lib
from electra_tf.text import tokenizer as tokenizer_lib
from electra_tf.text import vocabulary as vocabulary_lib

_MAX_ROWS = 512  # of a batch, with one [MASK] in each row
_ROWS = tf.TensorSpec([None, None], tf.int32)
_POSITIONS = tf.TensorSpec([None], tf.int32)
_SCORED_TOWERS = (
    networks.Discriminator,
    networks.MaskedLMGenerator,
    networks.CopyingMaskedLM,
    networks.TwoTowerGenerator,
)
_NAMES = {
    networks.Answer.REPLACED: "discriminator",
    networks.Answer.ENERGY: "energies",
}


class SentenceScorer:
    """Scores sentences by a network.

    Args:
        tower: the main network of an objective, or a generator with an encoder.
        vocabulary: the network's vocabulary.
        answer: what the network answers for a token.

    Raises:
        ValueError: if `tower` has no head.
    """

    def __init__(
        self,
        tower: Any,
        vocabulary: vocabulary_lib.Vocabulary,
        answer: networks.Answer,
    ) -> None:
        if not isinstance(tower, _SCORED_TOWERS):
            raise ValueError(
                "Sentences are scored by a discriminator or a masked language "
                "model. Received: an encoder without a head."
            )
        self._vocabulary = vocabulary
        self._num_positions = tower.settings.max_position_embeddings
        self._tokenizer = tokenizer_lib.Tokenizer(vocabulary)
        self._masks_in_turn = (
            isinstance(tower, networks.MaskedLMGenerator)
            and answer is networks.Answer.MASKED_LM
        )
        score = functools.partial(_score_unmasked, tower, answer)
        inputs = [_ROWS, _ROWS]
        if self._masks_in_turn:
            score = functools.partial(_score_masked, tower)
            inputs += [_POSITIONS, _POSITIONS]
        self._score = tf.function(
            score, input_signature=inputs, autograph=False
        )

    def score(self, texts: Sequence[str]) -> np.ndarray:
        """Returns the score of every text, `[N]` float64."""
        scores = [pieces.sum() for pieces in self.score_pieces(texts)]
        return np.array(scores, np.float64)

    def score_pieces(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Returns the scores of each text's tokens before the cut, float64."""
        checked = text_models.check_texts("texts", texts)
        rows = [(text.encode(),) for text in checked]
        answers = text_models.predict_in_batches(rows, self._score_batch)
        return [row["scores"][row["is_piece"]] for row in answers]

    def score_all_pieces(self, texts: Sequence[str]) -> np.ndarray:
        """Concatenates the `score_pieces` of all texts."""
        return np.concatenate(self.score_pieces(texts))

    def _score_batch(
        self, rows: Sequence[tuple[bytes, ...]]
    ) -> dict[str, np.ndarray]:
        texts = tf.constant([text for (text,) in rows], tf.string)
        limit = self._num_positions
        packed = rows_lib.pack_texts(self._tokenizer, texts, None, limit)
        ids, mask, _ = rows_lib.pad(packed.ids, packed.segment_starts)
        special_ids = (self._vocabulary.cls_id, self._vocabulary.sep_id)
        is_piece = masking.eligible_positions(ids, mask, special_ids).numpy()
        if self._masks_in_turn:
            scores = self._mask_each(ids.numpy(), mask.numpy(), is_piece)
        else:
            scores = self._score(ids, mask).numpy()
        return {"scores": scores.astype(np.float64), "is_piece": is_piece}

    def _mask_each(
        self, ids: np.ndarray, mask: np.ndarray, is_piece: np.ndarray
    ) -> np.ndarray:
        scores = np.zeros(ids.shape, np.float32)
        rows, positions = np.nonzero(is_piece)
        for first in range(0, len(rows), _MAX_ROWS):
            part = slice(first, first + _MAX_ROWS)
            row, position = rows[part], positions[part]
            shown = ids[row]
            shown[np.arange(len(row)), position] = self._vocabulary.mask_id
            scores[row, position] = self._score(
                shown, mask[row], position.astype(np.int32), ids[row, position]
            )
        return scores


def load_scorer(path: pathlib.Path) -> SentenceScorer:
    """Builds the scorer of a model that `electra_tf.load` can load."""
    model = reading.read_model(path)
    tower = reading.build_networks(model).main
    vocabulary = model.require_vocabulary()
    return SentenceScorer(tower, vocabulary, model.trained_by.answer)


def build_scorers(
    electra: pretrained.PretrainedModel,
) -> dict[str, SentenceScorer]:
    """Builds a scorer for each network with a head, by name."""
    generator, main = electra.networks
    towers: dict[str, tuple[Any, networks.Answer]] = {}
    if main is not generator and electra.answer is not None:
        name = _NAMES.get(electra.answer, "main network")
        towers[name] = main, electra.answer
    if isinstance(generator, _SCORED_TOWERS):
        is_cloze = isinstance(generator, networks.TwoTowerGenerator)
        name = "two-tower LM" if is_cloze else "masked LM"
        towers[name] = generator, networks.Answer.MASKED_LM
    return {
        name: SentenceScorer(tower, electra.vocabulary, answer)
        for name, (tower, answer) in towers.items()
    }


def score_frequencies(
    vocabulary: vocabulary_lib.Vocabulary,
    token_counts: np.ndarray,
    texts: Sequence[str],
) -> np.ndarray:
    """Sums tokens' log frequencies, `[N]`; an absent token counts as 0.5."""
    log_probs = networks.FixedGenerator(vocabulary.size, token_counts).log_probs
    tokenizer = tokenizer_lib.Tokenizer(vocabulary)
    rows = tokenizer.tokenize(tf.constant(texts, tf.string)).to_list()
    return np.array([log_probs[row].sum() for row in rows])


def _score_unmasked(
    tower: Any, answer: networks.Answer, ids: tf.Tensor, input_mask: tf.Tensor
) -> tf.Tensor:
    """Computes each token's value, `[B, S]`, as this module's docstring."""
    rows = ids, input_mask, tf.zeros_like(ids)
    if not isinstance(tower, networks.Discriminator | networks.CopyingMaskedLM):
        return _log_probabilities(tower.score_tokens(rows), ids)
    output = tower(*rows)
    if isinstance(tower, networks.CopyingMaskedLM):
        logits, copy_logits = output
        return losses.copying_log_likelihoods(logits, copy_logits, ids, ids)
    if answer is networks.Answer.ENERGY:
        return -output.logits
    return -losses.replaced_token_losses(output.logits, tf.zeros_like(ids))


def _score_masked(
    tower: Any,
    shown_ids: tf.Tensor,
    input_mask: tf.Tensor,
    positions: tf.Tensor,
    true_ids: tf.Tensor,
) -> tf.Tensor:
    """Computes each row's log probability of the masked token, `[B]`."""
    encoded = tower.encoder(shown_ids, input_mask, tf.zeros_like(shown_ids))
    states, columns = encoded.sequence_output, positions[:, tf.newaxis]
    hidden = masking.gather_positions(states, columns)
    logits = tower.head(hidden, tower.encoder.embeddings.word_embeddings)
    return _log_probabilities(logits[:, 0], true_ids)


def _log_probabilities(logits: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    return -tf.nn.sparse_softmax_cross_entropy_with_logits(ids, logits)
