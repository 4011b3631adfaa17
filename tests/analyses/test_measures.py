"""Measures of analyses, on answers that are known."""

import functools
import json

import numpy as np
import pandas as pd
import pytest
from analyses import analysis
from analyses import calibration
from analyses import dynamics
from analyses import parts_of_speech
from analyses import representations
from analyses import reranking
from analyses import texts
from etils import epath
from scipy import special

from electra_tf import errors
from electra_tf.training import checkpoints
from tests import tiny_electra


def _pieces(logits):
    """Pieces that are replaced as often as sigmoid of `logits` says."""
    draws = np.random.default_rng(0).random(len(logits))
    return pd.DataFrame(
        {
            "sentence": np.arange(len(logits)) // 20,
            "logit": logits,
            "is_replaced": draws < special.expit(logits),
        }
    )


LOGITS = np.random.default_rng(1).normal(-1.5, 1.5, 40_000)


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0])
def test_the_factor_of_overconfident_logits_is_found(factor):
    pieces = _pieces(LOGITS).assign(logit=LOGITS * factor)
    found = calibration.fit_temperature(pieces)
    assert found == pytest.approx(factor, rel=0.05)


def test_the_error_of_two_bins_by_hand():
    pieces = pd.DataFrame({"sentence": [0, 0, 1, 1]})
    pieces["is_replaced"] = [True, False, True, True]
    # Probability 0.25 in a bin with a share of 0.5, 0.9 in one with 1.
    found = calibration.judge(pieces, np.array([0.25, 0.25, 0.9, 0.9]), seed=1)
    assert found["ECE"] == pytest.approx((2 * 0.25 + 2 * 0.1) / 4)
    assert found["Brier"] == pytest.approx((0.75**2 + 0.25**2 + 2 * 0.1**2) / 4)
    assert found["replaced"] == 0.75


TEXT = "The cat sat on a good mat and was a bad dog , good film .\n"


def test_every_checkpoint_has_a_row(tmp_path, monkeypatch):
    run, text = tmp_path / "run", tmp_path / "text.txt"
    text.write_text(TEXT + TEXT.replace("bad", "good"))
    model = tiny_electra.write_run(run)
    request = analysis.Request(str(text), model=str(run), mask_prob=0.4)
    electra, folder = tiny_electra.build(), epath.Path(tmp_path)
    work = analysis.Work(electra, request, folder, "key")
    with pytest.raises(errors.ModelError, match="keep_checkpoints"):
        dynamics.measure(work)
    # At the next checkpoint the generator knows nothing: all is as likely.
    head = model.generator.head
    for variable in (head.layer_norm.gamma, head.layer_norm.beta):
        variable.assign(np.zeros(variable.shape))
    weights = {f"model/{v.path}": v for v in model.trainable_variables}
    checkpoints.save(run, 9, weights, {"best_step": None}, keep=5)
    table = dynamics.measure(work).table
    assert table.index.tolist() == [7, 9]
    vocab_size = tiny_electra.VOCABULARY.size
    assert table["entropy"][9] == pytest.approx(np.log(vocab_size))
    assert table["entropy"][7] < table["entropy"][9]
    assert table["rows, softmax"][7] == 1
    assert (table["rows, discriminator's input"] < 1).all()
    pulls = table.filter(regex="^pull").sum(axis=1)
    np.testing.assert_allclose(pulls, 1)
    # What was measured of a checkpoint is read back.
    monkeypatch.delattr(dynamics.corruption, "detect")
    again = dynamics.measure(work).table
    pd.testing.assert_frame_equal(table, again)


STATES = np.random.default_rng(0).normal(size=[2_000, 8])
WORDS = pd.DataFrame({"sentence": np.arange(2_000) // 10})


def _cka(first, second):
    sums = representations.sum_products(first, second, WORDS)
    alike = functools.partial(representations.cka, width=8)
    return alike(sums.sum(0)[np.newaxis])[0], sums, alike


def test_cka_sees_rotations_and_not_independence():
    rotation, _ = np.linalg.qr(np.random.default_rng(1).normal(size=[8, 8]))
    assert _cka(STATES, STATES)[0] == pytest.approx(1)
    turned = 3 * STATES @ rotation + 5
    assert _cka(STATES, turned)[0] == pytest.approx(1)
    other = np.random.default_rng(2).normal(size=[2_000, 9])
    value, sums, alike = _cka(STATES, other)
    assert value < 0.02
    # By its equation 3, and between bounds that are near.
    left, right = STATES - STATES.mean(0), other - other.mean(0)
    between = np.linalg.norm(left.T @ right) ** 2
    within = np.linalg.norm(left.T @ left) * np.linalg.norm(right.T @ right)
    assert value == pytest.approx(between / within)
    assert len(sums) == 50
    assert 0 < analysis.half_width(alike, sums, seed=1) < 0.01


def test_states_and_attention_are_those_of_the_words():
    electra = tiny_electra.build()
    plain = ["the cats sat", "good film"]
    sentences = [texts.Sentence(tuple(text.split())) for text in plain]
    found = representations.read_layers(electra, sentences, "")
    encoder = electra.networks.main.encoder
    rows = electra.tokenize(plain)
    last = encoder(*rows.values()).sequence_output.numpy()
    # Second piece, ##s, is not the first of its word.
    expected = [last[0, 1], last[0, 2], last[0, 4], last[1, 1], last[1, 2]]
    np.testing.assert_allclose(found.states[-1], expected, atol=1e-5)
    assert found.states.shape[0] == len(encoder.blocks) + 1


UTTERANCES = [
    reranking.Utterance(
        "the cat sat", ("the cat sat on", "a mat", "the cat sat"), (-1, -2, -3)
    ),
    reranking.Utterance("a dog", ("a dog", "a good dog"), (-1, -1.5)),
]


@pytest.fixture
def guesses():
    return reranking.list_guesses(UTTERANCES)


def test_word_errors_by_hand(guesses):
    assert guesses["errors"].tolist() == [1, 3, 0, 0, 1]
    assert guesses["utterance"].tolist() == [0, 0, 0, 1, 1]
    assert guesses["words"].tolist() == [3, 3, 3, 2, 2]


def test_rows_lie_between_first_guess_and_best_choice(tmp_path):
    lines = []
    for one in UTTERANCES:
        guesses = zip(one.guesses, one.scores, strict=True)
        hyps = [{"text": t.upper(), "score": score} for t, score in guesses]
        lines.append(json.dumps({"ref": one.reference.upper(), "hyps": hyps}))
    for part in ("dev", "test"):
        (tmp_path / f"{part}_x.jsonl").write_text("\n".join(lines))
    request = analysis.Request(str(tmp_path))
    work = analysis.Work(tiny_electra.build(), request)
    found = reranking.measure(work)
    rates = found.table["WER"]
    assert rates["x: first guess"] == pytest.approx(20)
    assert rates["x: best choice"] == 0
    assert found.table.loc["x: masked LM, sum", "passes"] > 1
    assert found.table.loc["x: discriminator, sum", "passes"] == 1


def test_false_alarms_and_misses_by_hand():
    pieces = pd.DataFrame(
        {
            "logit": [3.0, 1.0, -1.0, -2.0, 2.0, -3.0],
            "is_replaced": [True, True, True, False, False, False],
        }
    )
    found = parts_of_speech.judge(pieces, threshold=1.0)
    assert found["false alarms"] == pytest.approx(1 / 3)
    assert found["misses"] == pytest.approx(1 / 3)
    # Of nine pairs the replaced piece is above in all but two.
    assert found["AUC"] == pytest.approx(7 / 9)
    assert found["misses, low"] < 1 / 3 < found["misses, high"]
    assert found["count"] == 6
