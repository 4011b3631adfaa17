"""Scores how likely a model finds a sentence.

The score is a sum over the sentence's tokens x_t, without [CLS] and [SEP], of
a value that depends on the network:

    discriminator     log(1 - p(x_t was replaced | x))
    Electric          -E(x)_t, the log likelihood up to a constant
    All-Tokens MLM    log p(x_t | x), copying included
    Replace-MLM       log p(x_t | x)
    two-tower LM      log p(x_t | all of x but x_t)
    masked LM         log p(x_t | x with [MASK] at t)

The last is the pseudo-log-likelihood of Salazar et al., "Masked Language Model
Scoring" (2020), a pass for every piece. The other networks never saw [MASK] and
read the sentence as it stands, once.
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

# Rows with one [MASK] each that the model sees together.
_MAX_ROWS = 512
_ROWS = tf.TensorSpec([None, None], tf.int32)
_PLACES = tf.TensorSpec([None], tf.int32)
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

    `tower` is what an objective's `build_main` makes, or a generator with an
    encoder, with its weights; `answer` is what it says of a token.
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
                "model. Received: an encoder alone. Load a pre-trained model "
                "with its head."
            )
        self._vocabulary = vocabulary
        self._num_positions = tower.settings.max_position_embeddings
        self._tokenizer = tokenizer_lib.Tokenizer(vocabulary)
        self._masks_in_turn = (
            isinstance(tower, networks.MaskedLMGenerator)
            and answer is networks.Answer.MASKED_LM
        )
        read = functools.partial(_read_as_it_stands, tower, answer)
        inputs = [_ROWS, _ROWS]
        if self._masks_in_turn:
            read = functools.partial(_read_masked, tower)
            inputs += [_PLACES, _PLACES]
        self._read = tf.function(read, input_signature=inputs, autograph=False)

    def score(self, texts: Sequence[str]) -> np.ndarray:
        """Scores every text, `[N]` float64."""
        scores = [pieces.sum() for pieces in self.score_pieces(texts)]
        return np.array(scores, np.float64)

    def score_pieces(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Scores the pieces of every text that the model sees, float64."""
        checked = text_models.check_texts("texts", texts)
        rows = [(text.encode(),) for text in checked]
        answers = text_models.predict_in_batches(rows, self._score_batch)
        return [row["scores"][row["is_piece"]] for row in answers]

    def score_all_pieces(self, texts: Sequence[str]) -> np.ndarray:
        """The same, those of one text after the other."""
        return np.concatenate(self.score_pieces(texts))

    def _score_batch(
        self, rows: Sequence[tuple[bytes, ...]]
    ) -> dict[str, np.ndarray]:
        texts = tf.constant([text for (text,) in rows], tf.string)
        most = self._num_positions
        packed = rows_lib.pack_texts(self._tokenizer, texts, None, most)
        ids, mask, _ = rows_lib.pad(packed.ids, packed.segment_starts)
        special_ids = (self._vocabulary.cls_id, self._vocabulary.sep_id)
        is_piece = masking.eligible_positions(ids, mask, special_ids).numpy()
        if self._masks_in_turn:
            scores = self._mask_each(ids.numpy(), mask.numpy(), is_piece)
        else:
            scores = self._read(ids, mask).numpy()
        return {"scores": scores.astype(np.float64), "is_piece": is_piece}

    def _mask_each(
        self, ids: np.ndarray, mask: np.ndarray, is_piece: np.ndarray
    ) -> np.ndarray:
        scores = np.zeros(ids.shape, np.float32)
        rows, places = np.nonzero(is_piece)
        for first in range(0, len(rows), _MAX_ROWS):
            part = slice(first, first + _MAX_ROWS)
            row, place = rows[part], places[part]
            shown = ids[row]
            shown[np.arange(len(row)), place] = self._vocabulary.mask_id
            scores[row, place] = self._read(
                shown, mask[row], place.astype(np.int32), ids[row, place]
            )
        return scores


def load_scorer(path: pathlib.Path) -> SentenceScorer:
    """Loads a trained model of any format, which `electra_tf.load` takes."""
    model = reading.read_model(path)
    tower = reading.build_networks(model).main
    vocabulary = model.require_vocabulary()
    return SentenceScorer(tower, vocabulary, model.trained_by.answer)


def build_scorers(
    electra: pretrained.PretrainedModel,
) -> dict[str, SentenceScorer]:
    """Builds a scorer for each network that has a head, by name."""
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
    """Sums log frequencies of tokens, `[N]`; one that never occurs has half."""
    log_probs = networks.FixedGenerator(vocabulary.size, token_counts).log_probs
    tokenizer = tokenizer_lib.Tokenizer(vocabulary)
    rows = tokenizer.tokenize(tf.constant(texts, tf.string)).to_list()
    return np.array([log_probs[row].sum() for row in rows])


def _read_as_it_stands(
    tower: Any, answer: networks.Answer, ids: tf.Tensor, input_mask: tf.Tensor
) -> tf.Tensor:
    """Computes each token's value, `[B, S]`, by the table of this module."""
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


def _read_masked(
    tower: Any,
    shown_ids: tf.Tensor,
    input_mask: tf.Tensor,
    places: tf.Tensor,
    true_ids: tf.Tensor,
) -> tf.Tensor:
    """Computes the log probability `[B]` of the id at a place of each row."""
    encoded = tower.encoder(shown_ids, input_mask, tf.zeros_like(shown_ids))
    states, columns = encoded.sequence_output, places[:, tf.newaxis]
    hidden = masking.gather_positions(states, columns)
    logits = tower.head(hidden, tower.encoder.embeddings.word_embeddings)
    return _log_probabilities(logits[:, 0], true_ids)


def _log_probabilities(logits: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    return -tf.nn.sparse_softmax_cross_entropy_with_logits(ids, logits)
