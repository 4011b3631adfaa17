"""Multiple choice and ranking: compares texts for a question or a query.

An example is a question or query with one of its texts. Examples with the same
`eid` form a group. A label is the relevance of the text: 1 for the right
choice. The softmax over the scores of a group gives probabilities.
"""

import collections
import dataclasses
import functools
import itertools
import math
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from electra_tf.text import terminal
from electra_tf.text import tokenizer as tokenizer_lib


class ComparedScores(NamedTuple):
    """Scores of N examples in groups."""

    scores: np.ndarray  # `[N]` float64
    groups: list[np.ndarray]  # indices of the examples of each group, `[n]` int


@dataclasses.dataclass(frozen=True)
class ComparisonPrediction:
    """How well a second text goes with a first one, a question or query."""

    score: float  # a logit, comparable within the same first text
    num_truncated: int  # as in `LabelPrediction`


class ComparisonTask(text_task.TextTask):
    """A score for each text of a group.

    For training, all groups get one size, so that shapes are static: empty
    texts fill a small group; a group of more than `max_choices` keeps its most
    relevant texts, and of equally relevant texts the first.
    """

    signature = "compare"
    head_class = task_heads.ComparisonHead
    has_pairs = True
    is_trained_alone = True
    # Functions of the relevance and the scores of one group
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
        task.use_metrics(task.metrics)
        return task

    @classmethod
    def check_settings(cls, own: base.OwnSettings) -> None:
        """Raises `ConfigError` if the columns do not suit the kind."""

    def describe_labels(self, examples: Mapping[str, Examples]) -> list[str]:
        """Returns lines about the groups and the relevance of their texts."""
        lines = []
        for split, split_examples in examples.items():
            groups = _find_groups(split_examples)
            sizes = [len(group) for group in groups]
            line = f"{split}: {len(groups):,} groups of {min(sizes)} to "
            line += f"{max(sizes)} texts"
            if self.has_labels(split_examples):
                labels = self.targets(split_examples).tolist()
                by_group = [sorted(labels[i] for i in g) for g in groups]
                heading = "relevance"
                hint = "these look like ranks, but the highest is best"
                is_odd = all(v == [*range(1, len(v) + 1)] for v in by_group)
                if not self.texts_are_names:
                    heading = "the right choice, from 0"
                    hint = "never the first: if you count from 1, count from 0"
                    labels = [np.argmax([labels[i] for i in g]) for g in groups]
                    is_odd = 0 not in labels
                pairs = sorted(collections.Counter(labels).items())
                shown = [f"{value:g} {count:,}" for value, count in pairs]
                line += f"; {heading}: {files.list_some(shown)}"
                line += f" ({hint})" * is_odd
            lines.append(f"{line}.")
        return lines

    def build_rows(
        self,
        examples: Examples,
        tokenizer: tokenizer_lib.Tokenizer,
        max_seq_length: int,
        is_training: bool,
    ) -> base.Rows:
        """Builds a row of each example; for training, groups of one size."""
        common = tokenizer, max_seq_length, is_training
        if not is_training:
            return super().build_rows(examples, *common)
        groups = []
        for indices in _find_groups(examples):
            group: list[Any] = [examples[index] for index in indices]
            group.sort(key=lambda example: -example.label)
            groups.append(group[: self.max_choices])
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
        """Returns the scores and the groups of the examples."""
        scores = np.asarray(outputs["prediction"], np.float64)
        return ComparedScores(scores, _find_groups(examples))

    def is_degenerate(
        self, examples: Examples, predictions: ComparedScores
    ) -> bool:
        """Returns whether the scores within each group are equal."""
        scores, groups = predictions
        spreads = [np.ptp(scipy.special.softmax(scores[g])) for g in groups]
        return max(spreads, default=1.0) < text_task.LEAST_SPREAD

    def list_predictions(self, examples: Examples, predictions: Any) -> Any:
        """Returns the rank and the probability of each text."""
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
        """Formats choices from 0, ranks from 1, scores and probabilities."""
        scores, groups = predictions
        table = np.tile(scores, (4, 1))
        for group in groups:
            table[0, group] = np.arange(len(group))
            table[1, group] = scipy.stats.rankdata(-scores[group], "ordinal")
            table[3, group] = scipy.special.softmax(scores[group])
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
        """Returns the score of a text."""
        score = float(row["choice_score"])
        return ComparisonPrediction(score, int(row["num_truncated"]))

    @classmethod
    def show_all(
        cls, metadata: Any, rows: Iterable[tuple[base.Texts, Any]]
    ) -> Iterator[str]:
        """Yields a block for successive rows of one first text, best first."""
        groups = itertools.groupby(rows, key=lambda item: item[0][0])
        for query, group in groups:
            pairs, predictions = zip(*group, strict=True)
            scores = np.array([prediction.score for prediction in predictions])
            shares = scipy.special.softmax(scores)
            lines = [
                f"  {shares[index]:.3f}  {scores[index]:8.3f}  "
                f"{terminal.printable(pairs[index][1])}"
                for index in np.argsort(-scores, kind="stable")
            ]
            yield "\n".join([terminal.printable(query), *lines])


class MultipleChoiceTask(ComparisonTask):
    """A question with choices; one choice is right."""

    kind = "multiple_choice"
    hugging_face = "ElectraForMultipleChoice"
    group_metrics = {"accuracy": lambda right, scores: right[scores.argmax()]}

    @classmethod
    def check_settings(cls, own: base.OwnSettings) -> None:
        """Raises `ConfigError` if `own.text_pair_column` is set."""
        schema.require(
            not own.text_pair_column,
            "Multiple choice has `own.choices_column` instead of "
            f"`own.text_pair_column`. Received: {own.text_pair_column!r}.",
        )

    @classmethod
    def recognizes(cls, frame: Any, own: base.OwnSettings) -> str:
        """Returns the reason why a frame holds multiple choice, or ""."""
        names = own.question_column, own.choices_column
        has_all = {*names} <= {*frame}
        return f"there are columns {' and '.join(names)}" if has_all else ""

    def text_columns(self, own: base.OwnSettings) -> list[str]:
        """Lists the columns of the question and of the choices."""
        return [own.text_column, *_choice_columns(own)]

    def parse_label(self, record: files.Record, own: base.OwnSettings) -> int:
        """Returns the index of the right choice, from number, name or text."""
        label = cells.label_name(record.values.get(own.label_column)) or ""
        choices = cells.read_choices(record, _choice_columns(own))
        texts, last = [*choices.values()], len(choices) - 1
        spellings = [t if texts.count(t) == 1 else None for t in texts]
        letters = string.ascii_uppercase
        numbers = map(str, range(last + 1))
        for names in (choices, numbers, letters, spellings, letters.lower()):
            places = dict(zip(names, range(last + 1), strict=False))
            if label in places:
                return places[label]
        expected = (
            f"the right one of {last + 1} choices in {own.label_column!r}, "
            f"as 0 to {last} or A to {letters[: last + 1][-1]}"
        )
        remedy = "Count from 0, or repair the row."
        raise files.unexpected(record.place, expected, label, remedy)

    def expand(
        self, record: files.Record, example: Example, own: base.OwnSettings
    ) -> list[Example]:
        """Returns an example of each choice; the right one has the label 1."""
        choices = cells.read_choices(record, _choice_columns(own))
        expanded = [example._replace(pair=c) for c in choices.values()]
        if example.label is None:
            return expanded
        numbered = enumerate(expanded)
        return [e._replace(label=i == example.label) for i, e in numbered]


def reciprocal_rank(relevance: np.ndarray, scores: np.ndarray) -> float:
    """Returns 1 / rank of the best relevant text, 0 if no text is relevant.

    Of texts with equal scores, irrelevant ones rank first: a model that gives
    all texts one score must not look good.
    """
    relevant, others = scores[relevance > 0], scores[relevance <= 0]
    best = relevant.max(initial=-np.inf)
    return float(len(relevant) > 0) / (1 + np.count_nonzero(others >= best))


def ndcg_at_10(relevance: np.ndarray, scores: np.ndarray) -> float:
    """Returns NDCG of the ten best texts; the gain is the relevance."""
    # scikit-learn needs two texts. An irrelevant last one changes no score.
    gains, last = np.append(relevance, 0.0), scores.min() - 1.0
    padded = [np.append(scores, last)]
    return float(sklearn_metrics.ndcg_score([gains], padded, k=10))


class RankingTask(ComparisonTask):
    """Ranks texts by their relevance for a query, as a cross-encoder."""

    kind = "ranking"
    texts_are_names = True
    group_metrics = {"mrr": reciprocal_rank, "ndcg_at_10": ndcg_at_10}

    @classmethod
    def check_settings(cls, own: base.OwnSettings) -> None:
        """Raises `ConfigError` unless `own.text_pair_column` is set."""
        schema.require(
            bool(own.text_pair_column) and own.min_value >= 0,
            "Ranking needs `own.text_pair_column`, the text that is ranked, "
            "and `own.min_value` of 0 or more. Received: "
            f"{own.text_pair_column!r} and {own.min_value}.",
        )

    def parse_label(self, record: files.Record, own: base.OwnSettings) -> float:
        """Reads the relevance of a text."""
        bounds = own.min_value, own.max_value if own.has_range else math.inf
        name = cells.label_name(record.values.get(own.label_column))
        if name in ("false", "true"):
            return float(name == "true")
        return cells.read_number(record, own.label_column, *bounds)

    def parse_labels(
        self, records: Sequence[files.Record], own: base.OwnSettings
    ) -> list[float]:
        """Reads the relevance of all texts; one must be relevant."""
        labels = super().parse_labels(records, own)
        if not any(labels):
            expected = f"a number above 0 in {own.label_column!r}"
            path = records[0].place.rpartition(",")[0]
            raise files.unexpected(path, expected)
        return labels

    @classmethod
    def restore_settings(cls, options: Any, layers: Any) -> dict:
        """Returns the setting of the column of ranked texts."""
        return {"own": {"text_pair_column": "text_pair"}}


def _choice_columns(own: base.OwnSettings) -> list[str]:
    return [name.strip() for name in own.choices_column.split(",")]


def _find_groups(examples: Examples) -> list[np.ndarray]:
    groups: dict[Any, list[int]] = {}
    for index, example in enumerate(examples):
        groups.setdefault(example.eid, []).append(index)
    return [np.array(indices) for indices in groups.values()]


def _mean_over_groups(
    function: Any, relevance: np.ndarray, predictions: ComparedScores
) -> float:
    scores, groups = predictions
    values = [function(relevance[g], scores[g]) for g in groups]
    return 100 * float(np.mean(values))
