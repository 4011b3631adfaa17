"""BLiMP: does a model prefer the acceptable one of two sentences?

67 files of 1,000 minimal pairs each: sentences that differ in one point, which
makes one of them unacceptable (Warstadt et al., "BLiMP: The Benchmark of
Linguistic Minimal Pairs for English", 2020). Nothing is trained. A pair is
right if the model finds the good sentence likelier as a whole, the paper's
"full sentence" method; two equal scores are half right, so that chance is 0.5.
`sentence_scores` says what "likelier" is for which model.

    pairs = blimp.read_pairs(pathlib.Path("DIR"))
    scorer = sentence_scores.load_scorer(pathlib.Path("tiny-en"))
    print("\\n".join(blimp.judge(scorer.score, pairs).describe()))
"""

import pathlib
from collections.abc import Callable
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from electra_tf.tasks import files

CHANCE = 0.5
PAIRS_PER_FILE = 30
SEED = 1
_NUM_PAIRS = 67_000
_ANY_FILE = "adjunct_island.jsonl"
_COLUMNS = ("sentence_good", "sentence_bad", "linguistics_term")
_TABLE = "{:<26} {:>6} {:>6} {:>10} {:>7}"


class Pair(NamedTuple):
    """A minimal pair.

    Attributes:
        good: the acceptable sentence.
        bad: the other.
        phenomenon: what they differ in, the file's `linguistics_term`.
    """

    good: str
    bad: str
    phenomenon: str


class Judgements(NamedTuple):
    """Which pairs a model got right.

    Attributes:
        points: phenomenon to 1, 0.5 or 0 for each of its pairs.
    """

    points: dict[str, tuple[float, ...]]

    @property
    def accuracy(self) -> float:
        """Share of all pairs that are right, 0-1."""
        return float(np.mean([p for row in self.points.values() for p in row]))

    @property
    def by_phenomenon(self) -> dict[str, float]:
        """Share of right pairs for each phenomenon."""
        return {name: float(np.mean(row)) for name, row in self.points.items()}

    def describe(self) -> list[str]:
        """The shares beside chance, as the lines of a table."""
        everything = tuple(p for row in self.points.values() for p in row)
        rows = [("all", everything), *sorted(self.points.items())]
        lines = [
            _TABLE.format("BLiMP", "pairs", "right", "std error", "chance")
        ]
        for name, points in rows:
            share = float(np.mean(points))
            error = (share * (1 - share) / len(points)) ** 0.5
            numbers = f"{share:.3f}", f"{error:.3f}", f"{CHANCE:.3f}"
            lines.append(_TABLE.format(name, len(points), *numbers))
        return lines


def read_pairs(
    data_dir: pathlib.Path,
    pairs_per_file: int = PAIRS_PER_FILE,
    seed: int = SEED,
) -> list[Pair]:
    """The same number of pairs of every file.

    Args:
        data_dir: folder of the JSON lines files, or at most three levels
            above it.
        pairs_per_file: drawn by `seed`; 0 for all.
        seed: of the choice.

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

    Args:
        score_fn: takes sentences, returns a number for each, higher for what
            is likelier: `SentenceScorer.score`, or that of any other model.
        pairs: one at least.

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
    points: dict[str, tuple[float, ...]] = {}
    for pair, (good, bad) in zip(pairs, scores, strict=True):
        point = 0.5 if good == bad else float(good > bad)
        points[pair.phenomenon] = (*points.get(pair.phenomenon, ()), point)
    return Judgements(points)
