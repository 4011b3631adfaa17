"""Extractive question answering as a task: SQuAD, MRQA, own data."""

import functools
import json
import pathlib
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras

from electra_tf.config import finetuning as finetuning_config
from electra_tf.modeling import question_answering_head
from electra_tf.records import atomic
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks import task
from electra_tf.tasks.question_answering import answers
from electra_tf.tasks.question_answering import own_records
from electra_tf.tasks.question_answering import questions
from electra_tf.tasks.question_answering import records
from electra_tf.tasks.question_answering import sources
from electra_tf.tasks.question_answering import squad_scores
from electra_tf.text import tokenizer as tokenizer_lib

OWN = "own"

ReadFn = Callable[[str], list[records.Example]]


class QuestionAnsweringTask(task.Task):
    """Questions whose answers are spans of a document.

    What decides is F1. Where questions may be unanswerable it is `best_f1`, at
    the threshold that is best on the questions at hand, as papers report it
    for SQuAD 2.0; `f1` there is the score at `qa.qa_na_threshold`, which the
    submission file uses too.

    Args:
        name: of the catalog.
        read_fn: split to its examples.
        settings: windows, head and decoding.
        form: whose scores are computed, `sources.SQUAD1`, `SQUAD2` or `MRQA`;
            of `SQUAD2` questions may be unanswerable.
        splits: those there are.
    """

    kind = "qa"
    max_seq_length = 512
    num_train_epochs = 2.0

    def __init__(
        self,
        name: str,
        read_fn: ReadFn,
        settings: finetuning_config.QuestionAnsweringConfig,
        form: str,
        splits: Sequence[str] = sources.SPLITS,
    ) -> None:
        self.name = name
        self.settings = settings
        self.form = form
        self.has_unanswerable = form == sources.SQUAD2
        self.metric = "best_f1" if self.has_unanswerable else "f1"
        self.splits = tuple(splits)
        self.dev_splits = tuple(s for s in self.splits if s == "dev")
        self._read_fn = read_fn

    def describe_export(self) -> dict[str, Any]:
        """Windows and decoding, as it was trained."""
        names = (
            "max_query_length", "doc_stride", "max_answer_length",
            "qa_na_threshold",
        )  # fmt: skip
        return {name: getattr(self.settings, name) for name in names}

    def read(self, split: str) -> list[records.Example]:
        """The questions of a split.

        Raises:
            FileNotFoundError: if the file is not there.
            DataError: for a record that is not as expected.
            ValueError: if there is no such split.
        """
        if split not in self.splits:
            raise ValueError(
                f"Task {self.name} has the splits "
                f"{', '.join(self.splits) or '(none)'}. Received: {split!r}. "
                f"For your own data, set --config.own.{split}_file."
            )
        return self._read_fn(split)

    def build_rows(
        self,
        examples: Sequence[records.Example],
        tokenizer: tokenizer_lib.Tokenizer,
        max_seq_length: int,
        is_training: bool,
    ) -> rows_lib.Rows:
        """The windows of questions (`questions.build_rows`)."""
        return questions.build_rows(
            examples,
            tokenizer,
            max_seq_length,
            self.settings.max_query_length,
            self.settings.doc_stride,
            is_training,
        )

    def build_head(
        self, hidden_size: int, seed: int, dtype: Any = None
    ) -> question_answering_head.QuestionAnsweringHead:
        """The head, with weights drawn from `seed`."""
        settings = self.settings
        with keras.name_scope("task_specific"):
            head = question_answering_head.QuestionAnsweringHead(
                seed,
                joint_prediction=settings.joint_prediction,
                beam_size=settings.beam_size,
                answerable_classifier=settings.answerable_classifier,
                answerable_uses_start_logits=(
                    settings.answerable_uses_start_logits
                ),
                answerable_weight=settings.answerable_weight,
                name=self.name,
                dtype=dtype,
            )
            head.build((None, None, hidden_size))
        return head

    def decode(
        self,
        examples: Sequence[records.Example],
        rows: rows_lib.Rows,
        outputs: task.Outputs,
    ) -> answers.Predictions:
        """Answers, n-best lists, and null odds of `SQUAD2`."""
        del examples
        return answers.decode(
            rows, outputs, self.settings, self.has_unanswerable
        )

    def score(
        self,
        examples: Sequence[records.Example],
        predictions: answers.Predictions,
    ) -> dict[str, float]:
        """The official scores (`squad_scores`).

        Raises:
            ValueError: if an example has no gold answers.
        """
        golds = _require_golds(examples)
        if self.has_unanswerable:
            return squad_scores.compute_squad2_scores(
                golds,
                predictions.texts,
                predictions.null_odds,
                self.settings.qa_na_threshold,
            )
        if self.form == sources.MRQA:
            return squad_scores.compute_mrqa_scores(golds, predictions.texts)
        return squad_scores.compute_squad1_scores(golds, predictions.texts)

    def has_labels(self, examples: Sequence[records.Example]) -> bool:
        """Whether all questions tell their answers, and some have one.

        A column of answers that is empty throughout tells nothing.
        """
        return all(e.golds is not None for e in examples) and any(
            example.golds for example in examples
        )

    def is_degenerate(
        self,
        examples: Sequence[records.Example],
        predictions: answers.Predictions,
    ) -> bool:
        """Whether all answers are one text, or no better than none at all.

        The latter where some questions are unanswerable: if no threshold does
        better than leaving every answer empty.
        """
        texts = set(predictions.texts.values())
        if len(texts) == 1 and len(predictions.texts) > 1:
            return True
        is_known = all(example.golds is not None for example in examples)
        if not (self.has_unanswerable and is_known and examples):
            return False
        num_unanswerable = sum(not example.golds for example in examples)
        best = self.score(examples, predictions)["best_f1"]
        return best <= 100.0 * num_unanswerable / len(examples)

    def write_predictions(
        self,
        folder: pathlib.Path,
        split: str,
        examples: Sequence[records.Example],
        predictions: answers.Predictions,
    ) -> list[pathlib.Path]:
        """Writes JSON objects by question id.

        `<split>_predictions.json` with the best answers and
        `<split>_nbest.json`; where questions may be unanswerable also
        `<split>_null_odds.json`, and `<split>_submission.json`, the form in
        which SQuAD 2.0 takes predictions: empty where the null odds exceed
        `qa.qa_na_threshold`.
        """
        del examples
        contents: dict[str, dict] = {
            "predictions": predictions.texts,
            "nbest": predictions.nbest,
        }
        if self.has_unanswerable:
            contents["null_odds"] = predictions.null_odds
            contents["submission"] = squad_scores.apply_null_threshold(
                predictions.texts,
                predictions.null_odds,
                self.settings.qa_na_threshold,
            )
        paths = []
        for name, content in contents.items():
            path = folder / f"{split}_{name}.json"
            with atomic.replacing_file(path) as partial:
                partial.write_text(json.dumps(content) + "\n", "utf-8")
            paths.append(path)
        return paths


def build_task(
    name: str, settings: finetuning_config.FinetuningConfig
) -> QuestionAnsweringTask:
    """A published task.

    Args:
        name: a key of `sources.SOURCES`.
        settings: `task.data_dir` and `qa` are read.

    Raises:
        ValueError: for another name.
    """
    if name not in sources.SOURCES:
        raise ValueError(
            f"Question answering has the tasks {', '.join(sources.SOURCES)}. "
            f"Received: {name!r}."
        )
    source = sources.SOURCES[name]
    return QuestionAnsweringTask(
        name,
        functools.partial(source.read, settings.task.data_dir),
        settings.qa,
        source.form,
    )


def build_own_task(
    settings: finetuning_config.FinetuningConfig,
) -> QuestionAnsweringTask:
    """The user's own questions; some may be unanswerable.

    Args:
        settings: `own` and `qa` are read.

    Raises:
        ValueError: for a metric of another kind of task.
    """
    own = settings.own
    named = own.files

    def read(split: str) -> list[records.Example]:
        return own_records.read_own(pathlib.Path(named[split]), own, split)

    own_task = QuestionAnsweringTask(
        OWN, read, settings.qa, sources.SQUAD2, tuple(named)
    )
    metrics = ("best_f1", "best_exact", "f1", "exact")
    if own.metric and own.metric not in metrics:
        raise ValueError(
            "`own.metric` of question answering must be one of "
            f"{', '.join(metrics)}. Received: {own.metric!r}."
        )
    own_task.metric = own.metric or own_task.metric
    return own_task


def _require_golds(
    examples: Sequence[records.Example],
) -> dict[str, Sequence[str]]:
    missing = [e.id for e in examples if e.golds is None]
    if missing:
        raise ValueError(
            f"Expected gold answers to score with. Received none for "
            f"{len(missing)} of {len(examples)} questions, for example "
            f"{missing[0]!r}. Predict without scoring, or name a file with "
            "answers."
        )
    return {e.id: e.golds for e in examples if e.golds is not None}
