"""BLiMP: does a model prefer the acceptable one of two sentences?

BLiMP has 67 files of 1,000 minimal pairs (Warstadt et al., "BLiMP: The
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
    """A minimal pair."""

    good: str  # the acceptable sentence
    bad: str
    phenomenon: str  # the file's `linguistics_term`


def read_pairs(
    data_dir: pathlib.Path, pairs_per_file: int = 30, seed: int = 1
) -> list[Pair]:
    """Draws the same number of pairs from every file.

    Args:
        data_dir: folder with the JSON lines files at most three levels below.
        pairs_per_file: number of pairs to draw; 0: all.
        seed: seed of the draw.
    """
    folder = files.find_file(data_dir, (), (_ANY_FILE,), "BLiMP").parent
    generator = np.random.default_rng(seed)
    pairs, count = [], 0
    for path in sorted(folder.glob("*.jsonl")):
        records = files.read_table(path, "jsonl", _COLUMNS)
        count += len(records)
        order = generator.permutation(len(records))
        for index in order[: pairs_per_file or None]:
            record = records[index]
            texts = [record.values[name] for name in _COLUMNS]
            if not all(isinstance(t, str) and t.strip() for t in texts):
                expected = f"texts in {', '.join(_COLUMNS)}"
                raise files.unexpected(record.place, expected, texts)
            pairs.append(Pair(*texts))
    files.warn_of_count(folder, count, _NUM_PAIRS)
    return pairs


def list_sentences(pairs: Sequence[Pair]) -> list[str]:
    """Lists the sentences of N pairs, `[2 N]`, good and bad in turn."""
    return [text for pair in pairs for text in (pair.good, pair.bad)]


def judge(
    sentence_scores: np.ndarray | Sequence[float], pairs: Sequence[Pair]
) -> pd.Series:
    """Compares the two sentences of every pair: 1, 0.5 or 0 points for each.

    A pair is right if the good sentence has the higher score (the paper's "full
    sentence" method), half right if both scores are equal. `sentence_scores`,
    `[2 N]`, has the order of `list_sentences`. Returns the points of each pair,
    indexed by phenomenon. Raises `ValueError` for scores that are not finite.
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
    """Computes the shares of right pairs by phenomenon, for columns of points.

    The column `error` is the largest standard error of a row; chance is 0.5.
    """
    shares = points.groupby(level=0).mean()
    counts = points.groupby(level=0).size()
    shares.loc["all"], counts["all"] = points.mean(), len(points)
    spread = (shares * (1 - shares)).max(axis=1)
    shares.insert(0, "pairs", counts)
    table = shares.assign(error=(spread / counts) ** 0.5)
    return table.rename_axis("phenomenon")
