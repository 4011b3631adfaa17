"""Can a model choose among the transcriptions of a speech recognizer?

For every utterance a recognizer gives its n best guesses with a score each. A
weight, tuned on one part, adds the model's score of the sentence (`analysis.
sentence_scores`), as a sum over pieces or as their mean; the word error rate of
what then comes first is counted on the other part. Electric's authors (Clark et
al., 2020, section 5.3) did so with its pseudo-log-likelihood.
"""

import json
import pathlib
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import numpy as np
import pandas as pd

from electra_tf import electra as electra_lib
from electra_tf import errors
from electra_tf import installed
from electra_tf import storage
from electra_tf.analysis import sentence_scores
from electra_tf.knowledge import study

WEIGHTS = np.concatenate([[0.0], np.geomspace(0.001, 1000.0, 61)])
"""The factors of the model's score among which one is chosen."""
_NUM_RESAMPLES = 1_000


class Utterance(NamedTuple):
    """What was said, and what a recognizer heard."""

    reference: str
    guesses: tuple[str, ...]
    scores: tuple[float, ...]  # of the recognizer, the larger the better


class Lists(NamedTuple):
    """N utterances of at most K guesses; a missing guess has score -inf."""

    recognizer: np.ndarray  # [N, K] float64
    errors: np.ndarray  # [N, K] word errors
    words: np.ndarray  # [N] of the references


def read(path: pathlib.Path, limit: int, seed: int) -> list[Utterance]:
    """Reads JSON lines `{"ref": ..., "hyps": [{"text": ..., "score": ...}]}`.

    Raises `DataError` with the line that is not such an object.
    """
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            row = json.loads(line)
            guesses = [(str(g["text"]), float(g["score"])) for g in row["hyps"]]
            texts, scores = zip(*guesses, strict=True)
            found.append(Utterance(str(row["ref"]), texts, scores))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise errors.DataError(
                f"{path}, line {number}: expected an object with `ref` and a "
                "list `hyps` of objects with `text` and `score`. Received: "
                f"{line[:60]!r} ({error!r})."
            ) from error
    order = np.random.default_rng(seed).permutation(len(found))
    return [found[i] for i in order[: limit or None]]


def count_errors(utterances: Sequence[Utterance]) -> Lists:
    """Counts the word errors of every guess."""
    jiwer = installed.import_extra("jiwer", "analysis")
    most = max(len(utterance.guesses) for utterance in utterances)
    shape = len(utterances), most
    recognizer, wrong = np.full(shape, -np.inf), np.zeros(shape)
    for row, utterance in enumerate(utterances):
        for place, guess in enumerate(utterance.guesses):
            found = jiwer.process_words(utterance.reference, guess)
            wrong[row, place] = (
                found.substitutions + found.deletions + found.insertions
            )
        recognizer[row, : len(utterance.scores)] = utterance.scores
    words = np.array([len(u.reference.split()) for u in utterances])
    return Lists(recognizer, wrong, words)


def choose(lists: Lists, scores: np.ndarray, weight: float) -> np.ndarray:
    """The errors `[N]` of what comes first with a weight of `[N, K]` scores."""
    best = np.argmax(lists.recognizer + weight * scores, axis=1)
    return np.take_along_axis(lists.errors, best[:, np.newaxis], 1)[:, 0]


def tune(lists: Lists, scores: np.ndarray) -> float:
    """The weight with the fewest errors; the smallest of equals."""
    totals = [choose(lists, scores, weight).sum() for weight in WEIGHTS]
    return float(WEIGHTS[int(np.argmin(totals))])


def measure(
    electra: electra_lib.Electra, request: study.Request, work: study.Work
) -> study.Findings:
    """Tunes on `dev_NAME.jsonl`, judges on `test_NAME.jsonl`, for every NAME.

    A folder without such pairs is refused.
    """
    folder, rows = storage.path(request.data), dict[str, dict[str, float]]()
    names = sorted(
        path.stem.removeprefix("dev_")
        for path in folder.glob("dev_*.jsonl")
        if (folder / path.name.replace("dev_", "test_", 1)).exists()
    )
    if not names:
        raise FileNotFoundError(
            "Lists to choose from must be pairs of files dev_NAME.jsonl and "
            f"test_NAME.jsonl in one folder. Received: {folder}, without any."
        )
    for name in names:
        parts = {}
        for part in ("dev", "test"):
            path = folder / f"{part}_{name}.jsonl"
            utterances = read(path, request.limit, request.seed)
            title = f"{part} {name}"
            scores = _score(electra, utterances, title, work)
            parts[part] = count_errors(utterances), scores
        rows |= _judge(name, parts["dev"], parts["test"], request.seed)
    table = pd.DataFrame.from_dict(rows, "index")
    notes = (
        "WER: word errors in 100 words of the references; low and high: 95 % "
        f"of {_NUM_RESAMPLES:,} bootstrap samples of utterances, of the "
        "difference to the recognizer's first guess. `won` is the share of "
        "what the best choice could win. `length` scores a guess by minus its "
        "number of pieces: what a weight alone can win. `passes`: rows that "
        f"the model reads for a guess. Seed {request.seed}.",
    )
    return study.Findings(table.rename_axis("part: chosen by"), notes)


def _score(
    electra: electra_lib.Electra,
    utterances: Sequence[Utterance],
    title: str,
    work: study.Work,
) -> dict[str, tuple[np.ndarray, float]]:
    """Scorer to `[N, K]` scores, and rows that the model read for a guess."""
    # Recognizers give capitals alone; models have seldom read such text.
    texts = [guess.lower() for own in utterances for guess in own.guesses]
    places = np.repeat(
        np.arange(len(utterances)), [len(own.guesses) for own in utterances]
    )
    columns = np.concatenate([np.arange(len(u.guesses)) for u in utterances])
    sizes = np.maximum(electra.count_pieces(texts), 1).astype(float)

    def spread(values: np.ndarray) -> np.ndarray:
        table = np.zeros([len(utterances), columns.max() + 1])
        table[places, columns] = values
        return table

    found = {"length": (spread(-sizes), 0.0)}
    for name, scorer in sentence_scores.build_scorers(electra).items():
        values = work.in_parts(f"{title}, {name}", texts, scorer.score)
        passes = float(sizes.mean()) if name == "masked LM" else 1.0
        found[f"{name}, sum"] = spread(values), passes
        found[f"{name}, mean"] = spread(values / sizes), passes
    return found


def _judge(
    name: str,
    dev: tuple[Lists, Mapping[str, tuple[np.ndarray, float]]],
    test: tuple[Lists, Mapping[str, tuple[np.ndarray, float]]],
    seed: int,
) -> dict[str, dict[str, float]]:
    lists, scores = test
    first, oracle = choose(lists, np.zeros(1), 0.0), _least_errors(lists)
    generator = np.random.default_rng(seed)
    draws = generator.integers(
        0, len(lists.words), [_NUM_RESAMPLES, len(lists.words)]
    )

    def describe(
        errors_found: np.ndarray, weight: float, passes: float
    ) -> dict[str, float]:
        change = (errors_found - first)[draws].sum(1)
        low, high = np.quantile(
            100 * change / lists.words[draws].sum(1), [0.025, 0.975]
        )
        room = first.sum() - oracle.sum()
        return {
            "utterances": len(lists.words),
            "WER": float(100 * errors_found.sum() / lists.words.sum()),
            "low": float(low),
            "high": float(high),
            "won": float((first.sum() - errors_found.sum()) / max(room, 1)),
            "weight": weight,
            "passes": passes,
        }

    rows = {f"{name}: first guess": describe(first, 0.0, 0.0)}
    for scorer, (values, passes) in scores.items():
        weight = tune(dev[0], dev[1][scorer][0])
        chosen = choose(lists, values, weight)
        rows[f"{name}: {scorer}"] = describe(chosen, weight, passes)
    rows[f"{name}: best choice"] = describe(oracle, 0.0, 0.0)
    return rows


def _least_errors(lists: Lists) -> np.ndarray:
    is_guess = np.isfinite(lists.recognizer)
    return np.where(is_guess, lists.errors, np.inf).min(axis=1)


def _draw(findings: study.Findings, axes: Sequence[Any]) -> None:
    rates = findings.table["WER"][::-1]
    axes[0].barh(rates.index, rates)
    for place, rate in enumerate(rates):
        axes[0].annotate(f"{rate:.2f}", (rate, place), va="center")
    axes[0].margins(x=0.15)
    axes[0].set_xlabel("word error rate, %")


STUDY = study.Study(
    question="Can the model choose among a recognizer's guesses?",
    data="a folder with dev_NAME.jsonl and test_NAME.jsonl of n-best lists",
    measure=measure,
    draw=_draw,
)
