"""Computes the official scores of answers to questions, in percent.

The scripts of SQuAD 1.1, SQuAD 2.0 and MRQA 2019 ignore case, punctuation,
articles and extra blanks. The score of an answer is the best score that it has
with any of the gold answers.

The scripts split words at blanks, so a Chinese answer is one word. With
`by_character`, as in the script of MLQA, each character of a script without
blanks is a word; this is for tasks without published scores.
"""

import collections
import functools
import re
import string
from collections.abc import Mapping, Sequence

from electra_tf.text import vocabulary as vocabulary_lib

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)

Golds = Mapping[str, Sequence[str]]
"""Maps an id to the right answers; () for an unanswerable question."""
Texts = Mapping[str, str]
"""Maps an id to the predicted text."""
_Numbers = Mapping[str, float]


@functools.lru_cache(maxsize=65_536)
def normalize_answer(text: str) -> str:
    """Removes case, punctuation, articles and extra blanks.

    >>> normalize_answer("The  cat's.")
    'cats'
    """
    plain = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", plain).split())


def compute_raw_scores(
    golds: Golds, predictions: Texts, by_character: bool = False
) -> dict[str, dict[str, float]]:
    """Scores all questions that have a prediction by SQuAD 2.0's rules.

    The right answer of an unanswerable question is "". Returns a dict from
    `exact` and `f1` to a dict from id to score, 0 to 1.
    """
    exact, f1 = {}, {}
    for name in (name for name in golds if name in predictions):
        right = [a for a in golds[name] if normalize_answer(a)] or [""]
        exact[name], f1[name] = _compare(predictions[name], right, by_character)
        # F1 of two texts without words is 1.
        f1[name] = max(exact[name], f1[name])
    return {"exact": exact, "f1": f1}


def compute_squad1_scores(
    golds: Golds, predictions: Texts, skip_missing: bool = False
) -> dict[str, float]:
    """Computes `exact_match` and `f1` of SQuAD 1.1 and of MRQA.

    A missing prediction scores 0. With `skip_missing`, the original's rule for
    MRQA, its question does not count. Raises `ValueError` for a question
    without answers.
    """
    exact = f1 = 0.0
    total = 0
    for identity, right in golds.items():
        if not right:
            raise ValueError(
                f"Expected answers of question {identity!r} to score with. "
                "Received: none. Unanswerable questions belong to SQuAD 2.0."
            )
        text = predictions.get(identity)
        total += text is not None or not skip_missing
        if text is not None:
            scores = _compare(text, right)
            exact, f1 = exact + scores[0], f1 + scores[1]
    return {"exact_match": 100.0 * exact / total, "f1": 100.0 * f1 / total}


def compute_squad2_scores(
    golds: Golds,
    predictions: Texts,
    null_odds: _Numbers,
    threshold: float,
    by_character: bool = False,
) -> dict[str, float]:
    """Computes all scores of the official script of SQuAD 2.0.

    Returns `exact`, `f1` and `total` for all, for answerable (`HasAns_`) and
    for unanswerable (`NoAns_`) questions, and the best `exact` and `f1` with
    their thresholds. An answer is empty if its null odds exceed `threshold`.
    """
    raw = compute_raw_scores(golds, predictions, by_character)
    groups = {
        "": list(golds),
        "HasAns_": [identity for identity in golds if golds[identity]],
        "NoAns_": [identity for identity in golds if not golds[identity]],
    }
    results: dict[str, float] = {}
    for prefix, chosen in groups.items():
        for name, scores in raw.items() if chosen else ():
            total = sum(
                not golds[i] if null_odds[i] > threshold else scores[i]
                for i in chosen
            )
            results[f"{prefix}{name}"] = 100.0 * total / len(chosen)
            results[f"{prefix}total"] = len(chosen)
    for name, scores in raw.items():
        best = f"best_{name}"
        results[best], results[f"{best}_thresh"] = _find_best_threshold(
            golds, predictions, scores, null_odds
        )
    return results


def _find_best_threshold(
    golds: Golds, predictions: Texts, scores: _Numbers, null_odds: _Numbers
) -> tuple[float, float]:
    # Starts with all answers empty, then admits the answers one by one in the
    # order of their null odds. Of equal scores the lowest threshold counts.
    current = float(sum(not right for right in golds.values()))
    best, best_threshold = current, 0.0
    for identity in sorted(null_odds, key=null_odds.__getitem__):
        if identity in scores:
            if golds[identity]:
                current += scores[identity]
            elif predictions[identity]:
                current -= 1
            if current > best:
                best, best_threshold = current, null_odds[identity]
    return 100.0 * best / len(scores), best_threshold


def _compare(
    text: str, right: Sequence[str], by_character: bool = False
) -> tuple[float, float]:
    """Returns the best exact match and F1 with any right answer, 0 to 1."""
    plain, *others = map(normalize_answer, (text, *right))
    split = vocabulary_lib.WORD.findall if by_character else str.split
    f1 = max(_f1(split(plain), split(other)) for other in others)
    return float(plain in others), f1


def _f1(ours: Sequence[str], theirs: Sequence[str]) -> float:
    num_same = (collections.Counter(ours) & collections.Counter(theirs)).total()
    if num_same == 0:
        return 0.0
    precision = num_same / len(ours)
    recall = num_same / len(theirs)
    return 2 * precision * recall / (precision + recall)
