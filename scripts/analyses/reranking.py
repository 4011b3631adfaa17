"""Can the model choose among a recognizer's guesses?

The model's score of a sentence is added to the recognizer's with a weight,
which is tuned on one part; the word error rate of the best guesses is counted
on the other part (Clark et al., 2020, section 5.3).
"""

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from analyses import analysis
from analyses import texts
from electra_tf import errors
from electra_tf import installed
from electra_tf import storage
from electra_tf.scoring import sentence_scores
from electra_tf.tasks import files

DATA = "a folder with dev_NAME.jsonl and test_NAME.jsonl of n-best lists"
PICTURE = "Bars: the word error rate of each row of the table."

WEIGHTS = np.concatenate([[0.0], np.geomspace(0.001, 1000.0, 61)])
"""The weights of the model's score among which one is chosen."""

# By name: a score of each guess, and forward passes for a guess.
_Scores = Mapping[str, tuple[np.ndarray, float]]


class Utterance(NamedTuple):
    """A reference, and the guesses of a recognizer."""

    reference: str
    guesses: tuple[str, ...]
    scores: tuple[float, ...]  # of the recognizer; larger is better


def read_utterances(
    path: pathlib.Path, limit: int, seed: int
) -> list[Utterance]:
    """Reads JSON lines `{"ref": "", "hyps": [{"text": "", "score": 0.5}]}`."""
    utterances = []
    for number, line in files.read_filled_lines(path):
        try:
            row = json.loads(line)
            reference = row["ref"]
            if not isinstance(reference, str) or not reference.strip():
                raise ValueError("`ref` must be a text that is not empty")
            guesses = [(str(g["text"]), float(g["score"])) for g in row["hyps"]]
            if not np.isfinite([score for _, score in guesses]).all():
                raise ValueError("a score is not finite")
            utterances.append(Utterance(reference, *zip(*guesses, strict=True)))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise errors.DataError(
                f"{path}, line {number}: expected an object with `ref` and a "
                "list `hyps` of objects with `text` and `score`. Received: "
                f"{line[:60]!r} ({error!r})."
            ) from error
    if not utterances:
        raise files.unexpected(path, "an utterance on every line")
    return texts.draw(utterances, limit, seed)


def list_guesses(utterances: Sequence[Utterance]) -> pd.DataFrame:
    """Builds a table with a row for each guess, and its word `errors`."""
    jiwer = installed.import_extra("jiwer", "analysis")
    rows = []
    for number, (reference, guesses, scores) in enumerate(utterances):
        for text, score in zip(guesses, scores, strict=True):
            counts = jiwer.process_words(reference, text)
            wrong = counts.substitutions + counts.deletions + counts.insertions
            row = number, len(reference.split()), text, score, wrong
            rows.append(row)
    columns = ["utterance", "words", "text", "recognizer", "errors"]
    return pd.DataFrame(rows, columns=columns)


def choose(guesses: pd.DataFrame, scores: Any, weight: float) -> np.ndarray:
    """Returns the errors `[N]` of the best guesses, with weighted scores."""
    totals = guesses["recognizer"] + weight * scores
    best = totals.groupby(guesses["utterance"]).idxmax()
    return guesses["errors"].to_numpy()[best]


def tune(guesses: pd.DataFrame, scores: Any) -> float:
    """Returns the smallest weight with the fewest errors."""
    totals = [choose(guesses, scores, weight).sum() for weight in WEIGHTS]
    return float(WEIGHTS[int(np.argmin(totals))])


def measure(work: analysis.Work) -> analysis.Findings:
    """Tunes on `dev_NAME.jsonl`, judges on `test_NAME.jsonl`, for each NAME."""
    request = work.request
    folder, rows = storage.path(request.data), dict[str, dict[str, float]]()
    dev, test = (
        {p.stem.removeprefix(part): p for p in folder.glob(f"{part}*.jsonl")}
        for part in ("dev_", "test_")
    )
    for name in sorted(dev.keys() & test.keys()):
        parts = []
        for path in (dev[name], test[name]):
            utterances = read_utterances(path, request.limit, request.seed)
            guesses = list_guesses(utterances)
            title = path.stem.replace("_", " ", 1)
            parts.append((guesses, _score(work, guesses, title)))
        judged = _judge(parts[0], parts[1], request.seed)
        rows |= {f"{name}: {by}": row for by, row in judged.items()}
    if not rows:
        raise FileNotFoundError(
            "--data must be a folder with pairs of files dev_NAME.jsonl and "
            f"test_NAME.jsonl. Received: {folder}, without any pair."
        )
    table = pd.DataFrame.from_dict(rows, "index")
    notes = (
        f"WER: word errors in 100 words of the references; {analysis.BOUNDS} "
        "of utterances, for the difference to the recognizer's first guess. "
        "`won`: share of the best choice's gain. `length`: a baseline, which "
        "scores a guess by its negative number of pieces. `passes`: forward "
        f"passes for a guess. Seed {request.seed}.",
    )
    return analysis.Findings(table.rename_axis("part: chosen by"), notes)


def _score(work: analysis.Work, guesses: pd.DataFrame, title: str) -> _Scores:
    # Recognizers write capitals only, which are rare in pre-training text.
    plain = guesses["text"].str.lower().to_list()
    sizes = np.maximum(work.electra.count_pieces(plain), 1).astype(float)
    scores = {"length": (-sizes, 0.0)}
    for name, scorer in sentence_scores.build_scorers(work.electra).items():
        values = work.in_parts(f"{title}, {name}", plain, scorer.score)
        passes = float(sizes.mean()) if name == "masked LM" else 1.0
        scores[f"{name}, sum"] = values, passes
        scores[f"{name}, mean"] = values / sizes, passes
    return scores


def _judge(
    dev: tuple[pd.DataFrame, _Scores],
    test: tuple[pd.DataFrame, _Scores],
    seed: int,
) -> dict[str, dict[str, float]]:
    guesses, scores = test
    lists = guesses.groupby("utterance")
    words, oracle = lists["words"].first(), lists["errors"].min().to_numpy()
    first = choose(guesses, 0.0, 0.0)

    def describe(
        wrong: np.ndarray, weight: float = 0.0, passes: float = 0.0
    ) -> dict[str, float]:
        sums = np.stack([wrong - first, words], -1)
        room = first.sum() - oracle.sum()
        return {
            "utterances": len(words),
            "WER": float(100 * wrong.sum() / words.sum()),
            **analysis.bounds(lambda x: 100 * x[:, 0] / x[:, 1], sums, seed),
            "won": float((first.sum() - wrong.sum()) / max(room, 1)),
            "weight": weight,
            "passes": passes,
        }

    rows = {"first guess": describe(first)}
    for name, (values, passes) in scores.items():
        weight = tune(dev[0], dev[1][name][0])
        rows[name] = describe(choose(guesses, values, weight), weight, passes)
    return rows | {"best choice": describe(oracle)}


def draw(findings: analysis.Findings, axes: Sequence[Any]) -> None:
    """Draws the picture that `PICTURE` describes."""
    rates = findings.table["WER"][::-1]
    axes[0].barh(rates.index, rates)
    for row, rate in enumerate(rates):
        axes[0].annotate(f"{rate:.2f}", (rate, row), va="center")
    axes[0].margins(x=0.15)
    axes[0].set_xlabel("word error rate, %")
