"""BLiMP: does a model prefer the acceptable one of two sentences?

67 files of 1,000 pairs, which differ in one point (Warstadt et al., "BLiMP: The
Benchmark of Linguistic Minimal Pairs for English", 2020). Nothing is trained.
"""

import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from electra_tf.config import schema
from electra_tf.tasks import files

_NUM_PAIRS = 67_000
_ANY_FILE = "adjunct_island.jsonl"
_COLUMNS = ("sentence_good", "sentence_bad", "linguistics_term")


class Pair(NamedTuple):
    """The acceptable sentence, the other, and the file's linguistic term."""

    good: str
    bad: str
    phenomenon: str


def read_pairs(
    data_dir: pathlib.Path, pairs_per_file: int = 30, seed: int = 1
) -> list[Pair]:
    """Reads the same number of pairs of every file, drawn by the seed.

    The JSON lines files are in `data_dir` or at most three levels below it; 0
    `pairs_per_file` takes all.
    """
    folder = files.find_file(data_dir, (), (_ANY_FILE,), "BLiMP").parent
    generator = np.random.default_rng(seed)
    pairs, count = [], 0
    for path in sorted(folder.glob("*.jsonl")):
        records = files.read_table(path, "jsonl", _COLUMNS)
        count += len(records)
        order = generator.permutation(len(records))
        for place in order[: pairs_per_file or None]:
            record = records[place]
            texts = [record.values[name] for name in _COLUMNS]
            if not all(isinstance(t, str) and t.strip() for t in texts):
                expected = f"texts in {', '.join(_COLUMNS)}"
                raise files.unexpected(record.place, expected, texts)
            pairs.append(Pair(*texts))
    files.warn_of_count(folder, count, _NUM_PAIRS)
    return pairs


def list_sentences(pairs: Sequence[Pair]) -> list[str]:
    """The sentences of N pairs, `[2 N]`, good and bad in turn."""
    return [text for pair in pairs for text in (pair.good, pair.bad)]


def judge(
    sentence_scores: np.ndarray | Sequence[float], pairs: Sequence[Pair]
) -> pd.Series:
    """Compares the two sentences of every pair: 1, 0.5 or 0 points for each.

    A pair is right if the good sentence as a whole has the higher score, the
    paper's "full sentence" method; two equal scores are half right.
    `sentence_scores`, `[2 N]`, belong to `list_sentences`. The index of the
    points is the pair's phenomenon.
    """
    scores = np.asarray(sentence_scores, np.float64).reshape(-1, 2)
    schema.require(
        bool(np.isfinite(scores).all()),
        "Scores of sentences must be finite numbers. Received: NaN or "
        "infinity. The model's weights are damaged.",
    )
    points = (np.sign(scores[:, 0] - scores[:, 1]) + 1) / 2
    return pd.Series(points, [pair.phenomenon for pair in pairs])


def tabulate(points: pd.DataFrame) -> pd.DataFrame:
    """The shares of right pairs by phenomenon, of each column of points.

    `error` is the largest standard error of a row; chance is 0.5.
    """
    shares = points.groupby(level=0).mean()
    counts = points.groupby(level=0).size()
    shares.loc["all"], counts["all"] = points.mean(), len(points)
    spread = (shares * (1 - shares)).max(axis=1)
    shares.insert(0, "pairs", counts)
    table = shares.assign(error=(spread / counts) ** 0.5)
    return table.rename_axis("phenomenon")
