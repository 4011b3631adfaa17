"""Exact match and F1 of answers, by the official scripts' rules.

An answer is compared after lower-casing it and dropping punctuation, articles
and superfluous blanks, with the gold answer that it is most like. The rules
are those of the evaluation scripts of SQuAD 1.1, SQuAD 2.0 and MRQA 2019; they
differ in how they treat empty answers and missing ones. Scores are in percent.
"""

import collections
import functools
import re
import string
from collections.abc import Mapping
from collections.abc import Sequence
from typing import NamedTuple

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_NUM_SHOWN = 5

Golds = Mapping[str, Sequence[str]]
"""Id to the texts of the right answers; none for unanswerable questions."""
Texts = Mapping[str, str]
"""Id to the predicted text."""


class RawScores(NamedTuple):
    """Scores of single questions, 0 to 1, by id, before any threshold."""

    exact: dict[str, float]
    f1: dict[str, float]


@functools.lru_cache(maxsize=65_536)
def normalize_answer(text: str) -> str:
    """Reduces an answer to what is compared.

    >>> normalize_answer("The  cat's.")
    'cats'
    """
    plain = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", plain).split())


def compute_raw_scores(golds: Golds, predictions: Texts) -> RawScores:
    """Scores all questions that have a prediction, by SQuAD 2.0's rules.

    The right answer of an unanswerable question is the empty text.
    """
    raw = RawScores({}, {})
    for identity in golds:
        if identity not in predictions:
            continue
        right = [a for a in golds[identity] if normalize_answer(a)] or [""]
        text = predictions[identity]
        raw.exact[identity] = max(_is_exact(text, answer) for answer in right)
        raw.f1[identity] = max(_f1_or_empty(text, answer) for answer in right)
    return raw


def compute_squad1_scores(golds: Golds, predictions: Texts) -> dict[str, float]:
    """Computes `exact_match` and `f1`; a missing prediction counts 0."""
    return compute_mrqa_scores(golds, predictions, skip_missing=False)


def compute_mrqa_scores(
    golds: Golds, predictions: Texts, skip_missing: bool = True
) -> dict[str, float]:
    """Computes `exact_match` and `f1`.

    Questions without a prediction are left out, as in the original, or count 0.
    `ValueError` for a question without answers, or none that is scored.
    """
    exact, f1 = 0.0, 0.0
    total = 0
    for identity, answers in golds.items():
        if not answers:
            raise ValueError(
                f"Expected answers of question {identity!r} to score with. "
                "Received: none. Unanswerable questions belong to SQuAD 2.0."
            )
        text = predictions.get(identity)
        if text is None:
            total += not skip_missing
            continue
        total += 1
        exact += max(_is_exact(text, answer) for answer in answers)
        f1 += max(_f1(text, answer) for answer in answers)
    if not total:
        raise ValueError(
            f"Expected predictions to score. Received: {len(golds)} questions "
            f"and {len(predictions)} predictions, none of them for one of "
            "these questions."
        )
    return {"exact_match": 100.0 * exact / total, "f1": 100.0 * f1 / total}


def compute_squad2_scores(
    golds: Golds,
    predictions: Texts,
    null_odds: Mapping[str, float],
    threshold: float,
) -> dict[str, float]:
    """Computes all scores of the official script of SQuAD 2.0.

    They are `exact`, `f1` and `total` over all questions, and over those with
    (`HasAns_`) and without (`NoAns_`) answers, if there are any; `best_exact`
    and `best_f1` with the thresholds (`best_exact_thresh`, `best_f1_thresh`) at
    which they are reached. Null odds above `threshold` make an answer empty.
    """
    _require_all(golds, "prediction", predictions)
    _require_all(golds, "null odds", null_odds)
    raw = compute_raw_scores(golds, predictions)
    groups = {
        "": list(golds),
        "HasAns_": [identity for identity in golds if golds[identity]],
        "NoAns_": [identity for identity in golds if not golds[identity]],
    }
    results: dict[str, float] = {}
    for prefix, chosen in groups.items():
        for name, scores in raw._asdict().items() if chosen else ():
            total = sum(
                not golds[i] if null_odds[i] > threshold else scores[i]
                for i in chosen
            )
            results[f"{prefix}{name}"] = 100.0 * total / len(chosen)
            results[f"{prefix}total"] = len(chosen)
    for name, scores in raw._asdict().items():
        best, best_threshold = _find_best_threshold(
            golds, predictions, scores, null_odds
        )
        results[f"best_{name}"] = best
        results[f"best_{name}_thresh"] = best_threshold
    return results


def _find_best_threshold(
    golds: Golds,
    predictions: Texts,
    scores: Mapping[str, float],
    null_odds: Mapping[str, float],
) -> tuple[float, float]:
    """The best mean score that a threshold on the null odds reaches.

    Tried are 0 with all answers empty, then every question's null odds; the
    lowest threshold that reaches the best score counts.
    """
    current = float(sum(not answers for answers in golds.values()))
    best, best_threshold = current, 0.0
    for identity in sorted(null_odds, key=null_odds.__getitem__):
        if identity not in scores:
            continue
        if golds[identity]:
            current += scores[identity]
        elif predictions[identity]:
            current -= 1
        if current > best:
            best, best_threshold = current, null_odds[identity]
    return 100.0 * best / len(scores), best_threshold


def apply_null_threshold(
    predictions: Texts, null_odds: Mapping[str, float], threshold: float
) -> dict[str, str]:
    """Empties the predictions whose null odds exceed the threshold."""
    return {
        identity: "" if null_odds[identity] > threshold else text
        for identity, text in predictions.items()
    }


def _require_all(golds: Golds, name: str, given: Mapping[str, object]) -> None:
    missing = [identity for identity in golds if identity not in given]
    if missing or not golds:
        raise ValueError(
            f"Every question needs a {name}. Received none for "
            f"{len(missing)} of {len(golds)} questions, for example "
            f"{missing[:_NUM_SHOWN]}."
        )


def _is_exact(text: str, answer: str) -> float:
    return float(normalize_answer(text) == normalize_answer(answer))


def _f1(text: str, answer: str) -> float:
    """Harmonic mean of precision and recall of words; 0 without any."""
    ours = normalize_answer(text).split()
    theirs = normalize_answer(answer).split()
    common = collections.Counter(ours) & collections.Counter(theirs)
    num_same = common.total()
    if num_same == 0:
        return 0.0
    precision = num_same / len(ours)
    recall = num_same / len(theirs)
    return 2 * precision * recall / (precision + recall)


def _f1_or_empty(text: str, answer: str) -> float:
    """As `_f1`, but 1 if both are without words."""
    ours, theirs = normalize_answer(text), normalize_answer(answer)
    if not ours or not theirs:
        return float(ours == theirs)
    return _f1(text, answer)
