"""Wrong words and parts of speech, on answers that are known."""

from types import SimpleNamespace as Fake

import numpy as np
import pandas as pd
import pytest
from analyses import analysis
from analyses import error_detection
from analyses import parts_of_speech
from analyses import texts
from etils import epath

from tests import tiny_electra


def test_a_detector_that_knows_is_perfect_and_a_blind_one_is_not():
    generator = np.random.default_rng(0)
    words = pd.DataFrame({"sentence": np.arange(2_000) // 10})
    words["is_wrong"] = generator.random(2_000) < 0.1
    knowing = words["is_wrong"] + generator.random(2_000) * 0.9
    border = error_detection.find_border(words["is_wrong"], knowing)
    found = error_detection.judge(words.assign(suspicion=knowing), border, 1)
    assert found["precision"] == found["recall"] == found["F0.5"] == 1
    assert found["low"] == found["average precision"] == 1
    blind = generator.random(2_000)
    border = error_detection.find_border(words["is_wrong"], blind)
    found = error_detection.judge(words.assign(suspicion=blind), border, 1)
    share = words["is_wrong"].mean()
    assert found["F0.5"] < 0.25
    assert found["average precision"] == pytest.approx(share, abs=0.05)
    assert found["low"] <= found["F0.5"] <= found["high"]


def test_a_file_is_judged_on_its_second_half(tmp_path):
    blocks = ["the\tc\ncat\ti\n.\tc", "a\tc\ndog\tc", "good\ti", "un\tc\ns\ti"]
    path = tmp_path / "words.tsv"
    path.write_text("\n\n".join(blocks) + "\n")
    folder = epath.Path(tmp_path / "out")
    folder.mkdir()
    request = analysis.Request(str(path), seed=2)
    work = analysis.Work(tiny_electra.build(), request, folder)
    found = error_detection.measure(work)
    names = {"everything", "rare in this file", "discriminator"}
    assert names < {*found.table.index}
    assert found.table.loc["everything", "recall"] == 1
    first, second = (
        (tmp_path / "out" / f"{name}.tsv").read_text().strip().split("\n\n")
        for name in ("tuned_on", "judged_on")
    )
    assert len(first) == len(second) == 2
    assert sorted(first + second) == sorted(blocks)


def test_a_tagger_suspects_a_word_by_its_worst_part(monkeypatch):
    # Start, tag and its probability, 0 of what the tagger did not see.
    parts = [(0, "c", 0.9), (5, "c", 0.8), (9, "i", 0.7), (11, "i", 0.0)]
    answers = [
        Fake(words=[Fake(start=a, tag=b, probability=p) for a, b, p in own])
        for own in (parts, [(0, "i", 0.6)])
    ]
    tagger = Fake(labels=["c", "i"], predict=lambda texts: answers)
    monkeypatch.setattr(error_detection.electra_tf, "load", lambda _: tagger)
    plain = "good cats, unable", "mat"
    sentences = [texts.Sentence(tuple(text.split())) for text in plain]
    found = error_detection._ask_tagger("folder", sentences)
    assert found == pytest.approx([0.1, 0.7, 0.0, 0.6])
    tagger.labels = ["B-PER", "O"]
    with pytest.raises(ValueError, match="labels c and i"):
        error_detection._ask_tagger("folder", sentences)


def test_false_alarms_and_misses_by_hand():
    pieces = pd.DataFrame(
        {
            "logit": [3.0, 1.0, -1.0, -2.0, 2.0, -3.0],
            "is_replaced": [True, True, True, False, False, False],
        }
    )
    found = parts_of_speech.judge(pieces, border=1.0)
    assert found["false alarms"] == pytest.approx(1 / 3)
    assert found["misses"] == pytest.approx(1 / 3)
    # Of nine pairs the replaced piece is above in all but two.
    assert found["AUC"] == pytest.approx(7 / 9)
    assert found["misses, low"] < 1 / 3 < found["misses, high"]
    assert found["count"] == 6
