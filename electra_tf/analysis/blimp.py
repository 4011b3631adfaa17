"""BLiMP: does a model prefer the acceptable one of two sentences?

67 files of 1,000 minimal pairs each: sentences that differ in one point, which
makes one of them unacceptable (Warstadt et al., "BLiMP: The Benchmark of
Linguistic Minimal Pairs for English", 2020). Nothing is trained.

    pairs = blimp.read_pairs(pathlib.Path("DIR"))
    scorer = sentence_scores.load_scorer(pathlib.Path("tiny-en"))
    print("\\n".join(blimp.judge(scorer.score, pairs).describe()))
"""

import pathlib
from collections.abc import Callable
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from electra_tf.tasks import files

CHANCE = 0.5
PAIRS_PER_FILE = 30
SEED = 1
_NUM_PAIRS = 67_000
_ANY_FILE = "adjunct_island.jsonl"
_COLUMNS = ("sentence_good", "sentence_bad", "linguistics_term")
_TABLE = "{:<26} {:>6} {:>6} {:>10} {:>7}"


class Pair(NamedTuple):
    """The acceptable sentence, the other, and the file's linguistic term."""

    good: str
    bad: str
    phenomenon: str


class Judgements(NamedTuple):
    """Which pairs a model got right.

    Attributes:
        points: 1, 0.5 or 0 for each pair; the index is its phenomenon.
    """

    points: pd.Series

    @property
    def accuracy(self) -> float:
        """Share of all pairs that are right, 0-1."""
        return float(self.points.mean())

    @property
    def by_phenomenon(self) -> dict[str, float]:
        """Share of right pairs for each phenomenon."""
        return self.points.groupby(level=0).mean().to_dict()

    def describe(self) -> list[str]:
        """The shares beside chance, as the lines of a table."""
        header = ("BLiMP", "pairs", "right", "std error", "chance")
        lines = [_TABLE.format(*header)]
        groups = [("all", self.points), *self.points.groupby(level=0)]
        for name, points in groups:
            share, count = points.mean(), len(points)
            error = (share * (1 - share) / count) ** 0.5
            numbers = f"{share:.3f}", f"{error:.3f}", f"{CHANCE:.3f}"
            lines.append(_TABLE.format(name, count, *numbers))
        return lines


def read_pairs(
    data_dir: pathlib.Path,
    pairs_per_file: int = PAIRS_PER_FILE,
    seed: int = SEED,
) -> list[Pair]:
    """Reads the same number of pairs of every file, drawn by the seed.

    The JSON lines files are in `data_dir` or at most three levels below it; 0
    `pairs_per_file` takes all.

    Raises:
        FileNotFoundError: if the files are not there.
        DataError: for the first line that is not as expected.
    """
    if pairs_per_file < 0:
        raise ValueError(
            "`pairs_per_file` must be at least 0, which takes all. Received: "
            f"{pairs_per_file}."
        )
    folder = files.find_file(data_dir, (), (_ANY_FILE,), "BLiMP").parent
    generator = np.random.default_rng(seed)
    pairs, count = [], 0
    for path in sorted(folder.glob("*.jsonl")):
        records = files.read_table(path, "jsonl", _COLUMNS)
        count += len(records)
        order = generator.permutation(len(records))
        for place in order[: pairs_per_file or None]:
            values = records[place].values
            pairs.append(Pair(*(values[name] for name in _COLUMNS)))
    files.warn_of_count(folder, count, _NUM_PAIRS)
    return pairs


def judge(
    score_fn: Callable[[Sequence[str]], np.ndarray | Sequence[float]],
    pairs: Sequence[Pair],
) -> Judgements:
    """Compares the two sentences of every pair.

    A pair is right if the model finds the good sentence likelier as a whole,
    the paper's "full sentence" method; two equal scores are half right, so
    that chance is 0.5.

    `score_fn` takes sentences and returns a number for each, higher for what is
    likelier: `SentenceScorer.score`, or that of any other model.

    Raises:
        ValueError: if there is no pair, or a score is not a number.
    """
    if not pairs:
        raise ValueError("Pairs must be given to be judged. Received: none.")
    sentences = [s for pair in pairs for s in (pair.good, pair.bad)]
    scores = np.asarray(score_fn(sentences), np.float64).reshape(-1, 2)
    if not np.isfinite(scores).all():
        raise ValueError(
            "Scores of sentences must be finite numbers. Received: "
            f"{np.sum(~np.isfinite(scores))} others for {len(sentences)} "
            "sentences. The model's weights are damaged."
        )
    points = (np.sign(scores[:, 0] - scores[:, 1]) + 1) / 2
    return Judgements(pd.Series(points, [pair.phenomenon for pair in pairs]))
