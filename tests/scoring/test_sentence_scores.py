"""Sums over tokens, against loops that take each token by itself."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import special

import electra_tf
from electra_tf.scoring import sentence_scores
from electra_tf.text import tokenizer as tokenizer_lib
from tests import tiny_electra

TOKENIZER = tokenizer_lib.Tokenizer(tiny_electra.VOCABULARY)
TEXTS = ["the cat sat on a mat.", "un", "a dog was unable , bad films !", ""]
OBJECTIVES = "mlm replace_mlm all_tokens_mlm electra electric"


def _logits(tower, ids):
    """The logits of the masked LM head, `[S, V]` float64."""
    row = tf.constant([ids])
    encoded = tower.encoder(row, tf.ones_like(row), tf.zeros_like(row))
    table = tower.encoder.embeddings.word_embeddings
    return tower.head(encoded.sequence_output, table)[0].numpy().astype(float)


def _by_hand(objective, tower, text):
    """One token after the other, as the module's table says."""
    vocabulary = tiny_electra.VOCABULARY
    pieces = TOKENIZER.tokenize(tf.constant([text])).to_list()[0]
    ids = [vocabulary.cls_id, *pieces, vocabulary.sep_id]
    total = 0.0
    if objective not in ("mlm", "replace_mlm"):
        row = tf.constant([ids])
        output = tower(row, tf.ones_like(row), tf.zeros_like(row))
    for place, token in enumerate(pieces, 1):
        if objective in ("mlm", "replace_mlm"):
            shown = list(ids)
            if objective == "mlm":
                shown[place] = vocabulary.mask_id
            logits = _logits(tower, shown)[place]
            total += special.log_softmax(logits)[token]
        elif objective == "all_tokens_mlm":
            kept = special.expit(float(output.copy_logits[0, place]))
            share = special.softmax(output.logits[0, place].numpy())[token]
            total += np.log(kept + (1 - kept) * share)
        elif objective == "electric":
            total -= float(output.logits[0, place])
        else:
            total += special.log_expit(-float(output.logits[0, place]))
    return total


@pytest.mark.parametrize("objective", OBJECTIVES.split())
def test_a_score_is_the_sum_that_its_objective_defines(
    objective, tmp_path, monkeypatch
):
    tower = tiny_electra.write_run(tmp_path / "model", objective).main
    expected = [_by_hand(objective, tower, text) for text in TEXTS]
    scorer = sentence_scores.load_scorer(tmp_path / "model")
    # More than a batch, in which neighbours change nothing.
    scores = scorer.score(TEXTS * 9)
    np.testing.assert_allclose(scores, expected * 9, rtol=2e-5, atol=1e-5)
    assert scores[-1] == 0.0
    monkeypatch.setattr(sentence_scores, "_MAX_ROWS", 3)
    alone = scorer.score(TEXTS[:1])
    np.testing.assert_allclose(alone, expected[:1], rtol=2e-5, atol=1e-5)


def test_two_towers_give_each_piece_its_likelihood_in_one_pass(tmp_path):
    tiny_electra.write_run(tmp_path, "two_tower")
    loaded = electra_tf.load(tmp_path)
    scorer = sentence_scores.build_scorers(loaded)["two-tower LM"]
    (found,) = scorer.score_pieces(TEXTS[:1])
    pieces = loaded.tokenizer.tokenize(tf.constant(TEXTS[:1])).to_list()[0]
    ids = [loaded.vocabulary.cls_id, *pieces, loaded.vocabulary.sep_id]
    # A piece's own place may show anything: its likelihood is of the others.
    for place, token in enumerate(pieces, 1):
        shown = tf.constant([[*ids[:place], 7, *ids[place + 1 :]]])
        rows = shown, tf.ones_like(shown), tf.zeros_like(shown)
        logits = loaded.networks.generator.score_tokens(rows)[0, place]
        expected = special.log_softmax(logits.numpy().astype(float))[token]
        assert found[place - 1] == pytest.approx(expected, abs=1e-5)


def test_frequencies_alone_make_the_baseline():
    vocabulary = tiny_electra.VOCABULARY
    counts = np.zeros(vocabulary.size)
    counts[vocabulary.tokens.index("the")] = 6
    counts[vocabulary.tokens.index("cat")] = 2
    texts = ["the cat", "The the cat", "cat sat", ""]
    scores = sentence_scores.score_frequencies(vocabulary, counts, texts)
    common, rare, absent = np.log(6 / 8), np.log(2 / 8), np.log(0.5 / 8)
    np.testing.assert_allclose(
        scores, [common + rare, 2 * common + rare, rare + absent, 0.0]
    )
