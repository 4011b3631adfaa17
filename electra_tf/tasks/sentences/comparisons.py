"""Multiple choice and ranking: texts that are compared for a first text.

An example is a question or query with one of its texts. Those of one `eid`
belong together, and labels are their relevance: 1 for the right choice. A score
says nothing by itself; a softmax over those of a group gives probabilities.
"""

import collections
import dataclasses
import functools
import itertools
import math
import pathlib
import string
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.special
import scipy.stats
from sklearn import metrics as sklearn_metrics

from electra_tf.config import schema
from electra_tf.modeling import task_heads
from electra_tf.tasks import base
from electra_tf.tasks import cells
from electra_tf.tasks import files
from electra_tf.tasks.sentences import text_task
from electra_tf.tasks.sentences.text_task import Example
from electra_tf.tasks.sentences.text_task import Examples
from electra_tf.tasks.sentences.text_task import OwnSettings
from electra_tf.text import terminal
from electra_tf.text import tokenizer as tokenizer_lib


class ComparedScores(NamedTuple):
    """Scores of examples, `[N]` float64, and which of them are compared."""

    scores: np.ndarray
    groups: list[np.ndarray]  # the places of each question's, `[n]` int


@dataclasses.dataclass(frozen=True)
class ComparisonPrediction:
    """How well a second text goes with a first one, a question or query."""

    score: float  # a logit, to be compared with those of other second texts
    num_truncated: int  # as in `LabelPrediction`


class ComparisonTask(text_task.TextTask):
    """Texts with a score each: one head, one loss.

    To learn from, all groups are filled up to one size, so that shapes are
    static, or cut to `max_choices`: relevant texts stay, then the first ones.
    """

    signature = "compare"
    head_class = task_heads.ComparisonHead
    has_pairs = True
    is_trained_alone = True
    # Of the relevance and the scores of one group
    group_metrics: Mapping[str, Callable[[np.ndarray, np.ndarray], float]]

    def __init__(
        self, name: str, readers: base.Readers, max_choices: int
    ) -> None:
        super().__init__(name, readers)
        self.max_choices = max_choices
        self.known_metrics = {
            name: functools.partial(_mean_over_groups, function)
            for name, function in self.group_metrics.items()
        }
        self.use_metrics(list(self.known_metrics))

    @classmethod
    def build_own(cls, settings: base.Settings, labels: Any = ()) -> Any:
        """Builds the task of a user's own files."""
        own = settings.own
        cls.check_settings(own)
        task = cls(base.OWN, {}, own.max_choices)
        task.use_own(own)
        task.use_metrics(text_task.order_metrics(own, list(task.known_metrics)))
        return task

    @classmethod
    def check_settings(cls, own: OwnSettings) -> None:
        """Raises `ConfigError` for columns that do not fit."""

    def describe_labels(self, examples: Mapping[str, Examples]) -> list[str]:
        """Says how many texts are compared, and what is told of them."""
        lines = []
        for split, own in examples.items():
            groups = _find_groups(own)
            sizes = [len(group) for group in groups]
            line = f"{split}: {len(groups):,} groups of {min(sizes)} to "
            line += f"{max(sizes)} texts"
            if self.has_labels(own):
                told, what = self.targets(own).tolist(), "relevance"
                if not self.texts_are_names:
                    what = "the right choice, from 0"
                    told = [np.argmax([told[i] for i in g]) for g in groups]
                pairs = sorted(collections.Counter(told).items())
                shown = [f"{value:g} {count:,}" for value, count in pairs]
                line += f"; {what}: {files.list_some(shown)}"
                if self.texts_are_names and all(
                    sorted(told[i] for i in group) == [*range(1, size + 1)]
                    for group, size in zip(groups, sizes, strict=True)
                ):
                    line += " (these look like ranks, but the highest is best)"
            lines.append(f"{line}.")
        return lines

    def build_rows(
        self,
        examples: Examples,
        tokenizer: tokenizer_lib.Tokenizer,
        max_seq_length: int,
        is_training: bool,
    ) -> base.Rows:
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
        self, examples: Examples, rows: base.Rows, outputs: base.Outputs
    ) -> ComparedScores:
        """Returns the scores of the examples, in groups."""
        scores = np.asarray(outputs["prediction"], np.float64)
        return ComparedScores(scores, _find_groups(examples))

    def is_degenerate(
        self, examples: Examples, predictions: ComparedScores
    ) -> bool:
        """Whether all texts of every group have one score."""
        scores, groups = predictions
        spreads = [np.ptp(scipy.special.softmax(scores[g])) for g in groups]
        return max(spreads, default=1.0) < text_task.LEAST_SPREAD

    def list_predictions(self, examples: Examples, predictions: Any) -> Any:
        """Lists rank and probability of each text."""
        columns = self.format_predictions(predictions).columns
        pairs = zip(columns["rank"], columns["probability"], strict=True)
        return [{"rank": int(r), "probability": float(p)} for r, p in pairs]

    def targets(self, examples: Examples) -> np.ndarray:
        """Returns the relevance, `[N]`."""
        return np.array([example.label or 0.0 for example in examples])

    def to_targets(self, predictions: ComparedScores) -> Any:
        """Returns the scores with their groups."""
        return predictions

    def format_predictions(
        self, predictions: ComparedScores
    ) -> text_task.WrittenPredictions:
        """Formats places from 0, ranks from 1, scores, probabilities."""
        scores, groups = predictions
        table = np.tile(scores, (4, 1))
        for group in groups:
            own = scores[group]
            table[0, group] = np.arange(len(own))
            table[1, group] = scipy.stats.rankdata(-own, "ordinal")
            table[3, group] = scipy.special.softmax(own)
        names = ("choice", "rank", "score", "probability")
        columns = {
            name: [f"{value:.7g}" for value in row]
            for name, row in zip(names, table, strict=True)
        }
        return text_task.WrittenPredictions(columns, [])

    @classmethod
    def read_prediction(
        cls, metadata: Any, texts: base.Texts, row: base.Row
    ) -> ComparisonPrediction:
        """Reads the score."""
        score = float(row["choice_score"])
        return ComparisonPrediction(score, int(row["num_truncated"]))

    @classmethod
    def show_all(
        cls, metadata: Any, rows: Iterable[tuple[base.Texts, Any]]
    ) -> Iterator[str]:
        """Groups successive pairs by their first text, best score first."""
        for query, own in itertools.groupby(rows, key=lambda item: item[0][0]):
            pairs, predictions = zip(*own, strict=True)
            scores = np.array([prediction.score for prediction in predictions])
            shares = scipy.special.softmax(scores)
            lines = [
                f"  {shares[place]:.3f}  {scores[place]:8.3f}  "
                f"{terminal.printable(pairs[place][1])}"
                for place in np.argsort(-scores, kind="stable")
            ]
            yield "\n".join([terminal.printable(query), *lines])


class MultipleChoiceTask(ComparisonTask):
    """A question with choices, of which one is right."""

    kind = "multiple_choice"
    hugging_face = "ElectraForMultipleChoice"
    group_metrics = {"accuracy": lambda right, scores: right[scores.argmax()]}

    @classmethod
    def check_settings(cls, own: OwnSettings) -> None:
        """Raises `ConfigError` for a column of second texts."""
        schema.require(
            not own.text_pair_column,
            "Multiple choice has `own.choices_column` instead of "
            f"`own.text_pair_column`. Received: {own.text_pair_column!r}.",
        )

    @classmethod
    def recognizes(cls, frame: Any, own: OwnSettings) -> str:
        """Why there are questions with choices, or an empty string."""
        names = own.question_column, own.choices_column
        has_all = {*names} <= {*frame}
        return f"there are columns {' and '.join(names)}" if has_all else ""

    def text_columns(self, own: OwnSettings) -> list[str]:
        """Lists the column of the question and those of the choices."""
        return [own.text_column, *_choice_columns(own)]

    def parse_label(self, record: files.Record, own: OwnSettings) -> int:
        """Reads which choice is right: from 0, from A, or its own text."""
        name = cells.label_name(record.values.get(own.label_column)) or ""
        named = cells.read_choices(record, _choice_columns(own))
        names, choices = list(named), list(named.values())
        letters, count = string.ascii_uppercase, len(choices)
        place = letters.find(name) if len(name) == 1 else -1
        place = int(name) if name.isdecimal() else place
        if name in names:
            place = names.index(name)
        elif not 0 <= place < count and choices.count(name) == 1:
            place = choices.index(name)
        if not 0 <= place < count:
            expected = (
                f"the right one of {count} choices in {own.label_column!r}, "
                f"as 0 to {count - 1} or A to {letters[:count][-1]}"
            )
            remedy = "Count from 0, or repair the row."
            raise files.unexpected(record.place, expected, name, remedy)
        return place

    def expand(
        self, record: files.Record, example: Example, own: OwnSettings
    ) -> list[Example]:
        """Makes an example of each choice; the right one has the label 1."""
        choices = cells.read_choices(record, _choice_columns(own))
        expanded = [example._replace(pair=c) for c in choices.values()]
        if example.label is None:
            return expanded
        numbered = enumerate(expanded)
        return [e._replace(label=i == example.label) for i, e in numbered]


def reciprocal_rank(relevance: np.ndarray, scores: np.ndarray) -> float:
    """One over the rank of the best relevant of `[n]`, 0 if none is relevant.

    Ties count against it: scores that are all equal must not look good.
    """
    relevant, others = scores[relevance > 0], scores[relevance <= 0]
    best = relevant.max(initial=-np.inf)
    return float(len(relevant) > 0) / (1 + np.count_nonzero(others >= best))


def ndcg_at_10(relevance: np.ndarray, scores: np.ndarray) -> float:
    """Discounted gain of the best ten of `[n]`, a share of the highest.

    Gains are the relevance itself; ties have the mean of their places.
    """
    # scikit-learn wants two: one more at the end, irrelevant, changes nothing.
    gains, last = np.append(relevance, 0.0), scores.min() - 1.0
    padded = [np.append(scores, last)]
    return float(sklearn_metrics.ndcg_score([gains], padded, k=10))


class RankingTask(ComparisonTask):
    """A query with texts that are more or less relevant; a cross-encoder."""

    kind = "ranking"
    texts_are_names = True
    group_metrics = {"mrr": reciprocal_rank, "ndcg_at_10": ndcg_at_10}

    @classmethod
    def check_settings(cls, own: OwnSettings) -> None:
        """Raises `ConfigError` without a column of second texts."""
        schema.require(
            bool(own.text_pair_column) and own.min_value >= 0,
            "Ranking needs `own.text_pair_column`, the text that is ranked, "
            "and `own.min_value` of 0 or more. Received: "
            f"{own.text_pair_column!r} and {own.min_value}.",
        )

    def parse_label(self, record: files.Record, own: OwnSettings) -> float:
        """Reads the relevance."""
        bounds = own.min_value, own.max_value if own.has_range else math.inf
        name = cells.label_name(record.values.get(own.label_column))
        if name in ("false", "true"):
            return float(name == "true")
        return cells.read_number(record, own.label_column, *bounds)

    def check_examples(self, path: pathlib.Path, examples: Examples) -> None:
        """Raises `DataError` if nothing is relevant."""
        if not any(example.label for example in examples):
            label = self.own.label_column if self.own else "label"
            raise files.unexpected(path, f"more than 0 in a row's {label!r}")

    @classmethod
    def restore_settings(cls, options: Any, layers: Any) -> dict:
        """Returns the column of the texts that are ranked."""
        return {"own": {"text_pair_column": "text_pair"}}


def _choice_columns(own: OwnSettings) -> list[str]:
    return [name.strip() for name in own.choices_column.split(",")]


def _find_groups(examples: Examples) -> list[np.ndarray]:
    """Returns the places of the examples of each name, in their order."""
    groups: dict[Any, list[int]] = {}
    for place, example in enumerate(examples):
        groups.setdefault(example.eid, []).append(place)
    return [np.array(places) for places in groups.values()]


def _mean_over_groups(
    function: Any, relevance: np.ndarray, predictions: ComparedScores
) -> float:
    scores, groups = predictions
    values = [function(relevance[g], scores[g]) for g in groups]
    return 100 * float(np.mean(values))
