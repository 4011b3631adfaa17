"""Pairs from files, and what a scorer with known preferences makes of them."""

import json
import pathlib

import pytest

from electra_tf import errors
from electra_tf.scoring import blimp

# The first file is how the folder is found.
FILES = {"adjunct_island": "island_effects", "passive_1": "argument_structure"}
PAIRS = [
    blimp.Pair("a", "bb", "length"),
    blimp.Pair("aaa", "bb", "length"),
    blimp.Pair("aa", "bb", "length"),
    blimp.Pair("a", "bbbb", "number"),
]


def write_files(folder: pathlib.Path, count: int = 8) -> None:
    """Pairs of words that name their file and number."""
    for name, phenomenon in FILES.items():
        pair = {f"sentence_{x}": f"{name} {x} %d" for x in ("good", "bad")}
        line = json.dumps(pair | {"linguistics_term": phenomenon})
        text = "\n".join(line % (n, n) for n in range(count))
        (folder / f"{name}.jsonl").write_text(text)


def test_shares_are_those_of_a_scorer_that_likes_short_sentences():
    scores = [-len(text) for text in blimp.list_sentences(PAIRS)]
    found = blimp.judge(scores, PAIRS)
    # Right, wrong, a tie; right.
    assert found.tolist() == [1.0, 0.0, 0.5, 1.0]
    table = blimp.tabulate(found.to_frame("right")).round(3)
    assert table.to_csv().splitlines() == [
        "phenomenon,pairs,right,error",
        "length,3,0.5,0.289",
        "number,1,1.0,0.0",
        "all,4,0.625,0.242",
    ]


def test_every_file_gives_the_same_number_of_pairs(tmp_path):
    (tmp_path / "blimp" / "data").mkdir(parents=True)
    write_files(tmp_path / "blimp" / "data")
    pairs = blimp.read_pairs(tmp_path, 3)
    assert [pair.phenomenon for pair in pairs] == (
        ["island_effects"] * 3 + ["argument_structure"] * 3
    )
    for pair in pairs:
        assert pair.bad == pair.good.replace("good", "bad")
    assert len(set(pairs)) == 6
    assert pairs != blimp.read_pairs(tmp_path, 3, seed=2)
    everything = blimp.read_pairs(tmp_path, 0)
    assert len(everything) == 16
    assert set(pairs) < set(everything)


def test_what_is_not_blimp_or_no_score_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="BLiMP.*adjunct_island.jsonl"):
        blimp.read_pairs(tmp_path)
    write_files(tmp_path)
    (tmp_path / "passive_1.jsonl").write_text('{"sentence_good": "a"}\n')
    with pytest.raises(errors.DataError, match="line 1.*'sentence_bad'"):
        blimp.read_pairs(tmp_path)
    (tmp_path / "passive_1.jsonl").write_text(
        '{"sentence_good": 5, "sentence_bad": "a", "linguistics_term": "b"}'
    )
    with pytest.raises(errors.DataError, match="line 1.*texts in .*5, 'a'"):
        blimp.read_pairs(tmp_path)
    with pytest.raises(ValueError, match="finite numbers"):
        blimp.judge([float("nan")] * 2 * len(PAIRS), PAIRS)
