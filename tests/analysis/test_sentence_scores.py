"""Sums over tokens, against loops that take each token by itself."""

import types

import numpy as np
import pytest
import tensorflow as tf

import electra_tf
from electra_tf.analysis import sentence_scores
from electra_tf.formats import hugging_face
from electra_tf.formats import own_run
from tests import tiny_electra

TEXTS = ["the cat sat on a mat.", "un", "a dog was unable , bad films !", ""]
MASK = tiny_electra.VOCABULARY.mask_id


_VOCABULARY_OBJECTIVES = ["mlm", "replace_mlm", "all_tokens_mlm"]
_BINARY_OBJECTIVES = ["electra", "electra_15", "electric"]


@pytest.fixture(params=_VOCABULARY_OBJECTIVES + _BINARY_OBJECTIVES)
def run(request, tmp_path):
    """An objective, and the folder and main tower of a run of it."""
    model = tiny_electra.write_run(tmp_path / "model", request.param)
    return request.param, tmp_path / "model", model.main


def _rows(texts):
    tokenizer = tiny_electra.build().tokenizer
    vocabulary = tiny_electra.VOCABULARY
    for text in texts:
        pieces = tokenizer.tokenize(tf.constant([text])).to_list()[0]
        yield [vocabulary.cls_id, *pieces, vocabulary.sep_id]


def _inputs(ids):
    return tf.constant([ids]), tf.ones([1, len(ids)], tf.int32)


def _vocabulary_logits(tower, ids):
    row, mask = _inputs(ids)
    hidden = tower.encoder(row, mask, tf.zeros_like(row)).sequence_output
    table = tower.encoder.embeddings.word_embeddings
    return tower.head(hidden, table)[0].numpy().astype(np.float64)


def _softmax(logits):
    shares = np.exp(logits - logits.max())
    return shares / shares.sum()


def _sigmoid(logit):
    return 1 / (1 + np.exp(-logit))


def _by_hand(objective, tower, ids):
    """One token after the other, as the module's table says."""
    row, mask = _inputs(ids)
    total = 0.0
    for place in range(1, len(ids) - 1):
        token = ids[place]
        if objective in ("mlm", "replace_mlm"):
            shown = list(ids)
            if objective == "mlm":
                shown[place] = MASK
            logits = _vocabulary_logits(tower, shown)[place]
            total += np.log(_softmax(logits)[token])
            continue
        output = tower(row, mask, tf.zeros_like(row))
        if objective == "all_tokens_mlm":
            kept = _sigmoid(float(output.copy_logits[0, place]))
            share = _softmax(output.logits[0, place].numpy())[token]
            total += np.log(kept + (1 - kept) * share)
        elif objective == "electric":
            total -= float(output.logits[0, place])
        else:
            total += np.log(1 - _sigmoid(float(output.logits[0, place])))
    return total


def test_a_score_is_the_sum_that_its_objective_defines(run):
    objective, folder, tower = run
    expected = [_by_hand(objective, tower, ids) for ids in _rows(TEXTS)]
    scores = sentence_scores.load_scorer(folder).score(TEXTS)
    np.testing.assert_allclose(scores, expected, rtol=2e-5, atol=1e-5)
    assert scores[-1] == 0.0
    assert len({round(score, 3) for score in scores}) == len(TEXTS)


def test_neighbours_in_a_batch_change_nothing(run, monkeypatch):
    _, folder, _ = run
    scorer = sentence_scores.load_scorer(folder)
    together = scorer.score(TEXTS * 20)
    monkeypatch.setattr(sentence_scores, "_MAX_ROWS", 3)
    alone = [scorer.score([text])[0] for text in TEXTS]
    np.testing.assert_allclose(together, alone * 20, rtol=1e-5, atol=1e-5)


def test_a_discriminator_of_another_format_is_scored(tmp_path):
    tiny_electra.write_run(tmp_path / "run")
    (tmp_path / "there").mkdir()
    hugging_face.write(own_run.read(tmp_path / "run"), tmp_path / "there")
    one, other = (
        sentence_scores.load_scorer(tmp_path / name).score(TEXTS)
        for name in ("run", "there")
    )
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_frequencies_alone_make_the_baseline():
    vocabulary = tiny_electra.VOCABULARY
    counts = np.zeros(vocabulary.size)
    counts[vocabulary.tokens.index("the")] = 6
    counts[vocabulary.tokens.index("cat")] = 2
    scores = sentence_scores.FrequencyScorer(vocabulary, counts).score(
        ["the cat", "The the cat", "cat sat", ""]
    )
    common, rare, absent = np.log(6 / 8), np.log(2 / 8), np.log(0.5 / 8)
    np.testing.assert_allclose(
        scores, [common + rare, 2 * common + rare, rare + absent, 0.0]
    )


def test_an_encoder_alone_is_refused(tmp_path):
    tiny_electra.write_run(tmp_path)
    tower = types.SimpleNamespace(
        encoder=electra_tf.load(tmp_path).encoder.layer
    )
    with pytest.raises(ValueError, match="Received: an encoder alone"):
        sentence_scores.SentenceScorer(tower, tiny_electra.VOCABULARY)
