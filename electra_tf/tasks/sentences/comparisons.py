"""Multiple choice and ranking: texts that are compared for a first text.

An example is a question or query with one of its texts. Those of one `eid`
belong together, and labels are their relevance: 1 for the right choice. A score
says nothing by itself; a softmax over those of a group gives probabilities.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.special
import scipy.stats

from electra_tf.modeling import task_heads
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks import task as task_lib
from electra_tf.tasks.sentences import scores
from electra_tf.tasks.sentences import task as sentence_task
from electra_tf.tasks.sentences.task import Example
from electra_tf.tasks.sentences.task import Examples
from electra_tf.text import tokenizer as tokenizer_lib


class ComparedScores(NamedTuple):
    """Scores of examples, `[N]` float64, and which of them are compared."""

    scores: np.ndarray
    groups: list[np.ndarray]  # the places of each question's, `[n]` int


class ComparisonTask(sentence_task.TextTask):
    """Multiple choice or ranking, as `kind` says; one head, one loss.

    To learn from, all groups are filled up to one size, so that shapes are
    static, or cut to `max_choices`: relevant texts stay, then the first ones.
    """

    signature = "compare"
    head_class = task_heads.ComparisonHead
    has_pairs = True

    def __init__(
        self,
        name: str,
        readers: task_lib.Readers,
        kind: str,
        metrics: Sequence[str],
        max_choices: int,
    ) -> None:
        super().__init__(name, readers)
        self.kind = kind
        self.known_metrics = {
            name: functools.partial(_mean_over_groups, function)
            for name, function in scores.COMPARISON_METRICS[kind].items()
        }
        self.use_metrics(metrics)
        self.max_choices = max_choices

    def build_rows(
        self,
        examples: Examples,
        tokenizer: tokenizer_lib.Tokenizer,
        max_seq_length: int,
        is_training: bool,
    ) -> rows_lib.Rows:
        """Makes a row of each example; to learn from, groups of one size."""
        common = tokenizer, max_seq_length, is_training
        if not is_training:
            return super().build_rows(examples, *common)
        groups = []
        for places in _find_groups(examples):
            own: list[Any] = [examples[place] for place in places]
            own.sort(key=lambda example: -example.label)
            groups.append(own[: self.max_choices])
        size = max(map(len, groups), default=1)
        filler = Example("", "", None, -1.0)
        filled = [e for g in groups for e in g + [filler] * (size - len(g))]
        rows = super().build_rows(filled, *common)
        columns = {"relevance": rows.columns["relevance"].reshape(-1, size)}
        return dataclasses.replace(rows, columns=columns, group_size=size)

    def answer(self, outputs: Any) -> dict[str, Any]:
        """Returns the score of each row."""
        return {"choice_score": outputs["prediction"]}

    def decode(
        self, examples: Examples, rows: rows_lib.Rows, outputs: task_lib.Outputs
    ) -> ComparedScores:
        """Returns the scores of the examples, in groups."""
        found = np.asarray(outputs["prediction"], np.float64)
        return ComparedScores(found, _find_groups(examples))

    def is_degenerate(
        self, examples: Examples, predictions: ComparedScores
    ) -> bool:
        """Whether all texts of every group are found alike."""
        found, groups = predictions
        spreads = [np.ptp(scipy.special.softmax(found[g])) for g in groups]
        return max(spreads, default=1.0) < sentence_task.LEAST_SPREAD

    def list_predictions(self, examples: Examples, predictions: Any) -> Any:
        """Lists rank and probability of each text."""
        columns = self._format(predictions)[0]
        pairs = zip(columns["rank"], columns["probability"], strict=True)
        return [{"rank": int(r), "probability": float(p)} for r, p in pairs]

    def _targets(self, examples: Examples) -> np.ndarray:
        return np.array([example.label or 0.0 for example in examples])

    def _to_targets(self, predictions: ComparedScores) -> Any:
        return predictions

    def _format(self, predictions: ComparedScores) -> Any:
        """Places in the group from 0, ranks from 1, scores, probabilities."""
        found, groups = predictions
        table = np.tile(found, (4, 1))
        for group in groups:
            own = found[group]
            table[0, group] = np.arange(len(own))
            table[1, group] = scipy.stats.rankdata(-own, "ordinal")
            table[3, group] = scipy.special.softmax(own)
        names = ("choice", "rank", "score", "probability")
        columns = zip(names, table, strict=True)
        return {name: [f"{v:.7g}" for v in row] for name, row in columns}, []


def _find_groups(examples: Examples) -> list[np.ndarray]:
    """The places of the examples of each name, in their order."""
    found: dict[Any, list[int]] = {}
    for place, example in enumerate(examples):
        found.setdefault(example.eid, []).append(place)
    return [np.array(places) for places in found.values()]


def _mean_over_groups(
    function: Any, relevance: np.ndarray, predictions: ComparedScores
) -> float:
    found, groups = predictions
    return 100 * float(
        np.mean([function(relevance[g], found[g]) for g in groups])
    )
