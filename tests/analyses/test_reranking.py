"""Word errors, tuning and choice, on lists whose answer is known."""

import json

import numpy as np
import pytest
from analyses import acceptability
from analyses import analysis
from analyses import reranking

from electra_tf.scoring import blimp
from tests import tiny_electra

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


def test_a_perfect_scorer_wins_all_and_a_useless_one_gets_no_weight(guesses):
    perfect = -guesses["errors"]
    weight = reranking.tune(guesses, perfect)
    # -3 + 0 must beat -1 - weight.
    assert weight == min(w for w in reranking.WEIGHTS if w > 2)
    assert reranking.choose(guesses, perfect, weight).tolist() == [0, 0]
    assert reranking.tune(guesses, guesses["errors"]) == 0
    assert reranking.choose(guesses, perfect, 0).tolist() == [1, 0]


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


def test_shares_by_phenomenon_by_hand():
    pairs = [blimp.Pair("g", "b", name) for name in ("x", "x", "x", "x", "y")]
    right = np.array([2, 1, 2, 1, 2, 1, 1, 2, 1, 2.0])
    table = acceptability.judge(pairs, {"own": right, "ties": np.zeros(10)})
    assert table["own"].to_dict() == {"x": 0.75, "y": 0, "all": 0.6}
    assert table["ties"].to_dict() == {"x": 0.5, "y": 0.5, "all": 0.5}
    assert table["pairs"].to_dict() == {"x": 4, "y": 1, "all": 5}
    assert table.loc["x", "error"] == pytest.approx(0.25)
