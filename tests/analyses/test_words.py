"""Wrong words and parts of speech, on answers that are known."""

import numpy as np
import pandas as pd
import pytest
from analyses import error_detection
from analyses import parts_of_speech
from analyses import study
from analyses import texts
from etils import epath

from electra_tf import errors
from tests import tiny_electra


def test_f_half_by_hand():
    # 1.25 * 0.5 * 0.25 / (0.25 * 0.5 + 0.25)
    assert error_detection.f_half(0.5, 0.25) == pytest.approx(0.15625 / 0.375)
    assert error_detection.f_half(0.0, 0.0) == 0
    precise = error_detection.f_half(0.9, 0.3)
    assert precise > error_detection.f_half(0.3, 0.9)


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


def test_the_border_weighs_precision():
    # The first is certain, the second costs three false alarms.
    is_wrong = [True, False, False, False, True]
    suspicion = [5.0, 4.0, 3.0, 2.0, 2.0]
    assert error_detection.find_border(is_wrong, suspicion) == 5.0


def test_a_file_is_judged_on_its_second_half(tmp_path):
    blocks = ["the\tc\ncat\ti\n.\tc", "a\tc\ndog\tc", "good\ti", "un\tc\ns\ti"]
    path = tmp_path / "words.tsv"
    path.write_text("\n\n".join(blocks) + "\n")
    (tmp_path / "out").mkdir()
    work = study.Work(epath.Path(tmp_path / "out"), "key")
    electra = tiny_electra.build()
    request = study.Request(str(path), seed=2)
    found = error_detection.measure(electra, request, work)
    names = {"everything", "rare words", "discriminator"}
    assert names < {*found.table.index}
    assert found.table.loc["everything", "recall"] == 1
    first, second = (
        (tmp_path / "out" / f"{name}.tsv").read_text().strip().split("\n\n")
        for name in ("tuned_on", "judged_on")
    )
    assert len(first) == len(second) == 2
    assert sorted(first + second) == sorted(blocks)
    path.write_text("a\tc\n")
    with pytest.raises(errors.DataError, match="label 'i'"):
        error_detection.measure(electra, request, work)


def test_the_worst_piece_of_a_word_counts():
    pieces = pd.DataFrame({"flat_word": [0, 0, 2, 2, 2]})
    values = np.array([1.0, 3.0, 2.0, -5.0, 0.0])
    found = texts.worst_pieces(pieces, values, 4)
    assert found.tolist() == [3.0, -5.0, 2.0, -5.0]


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
