"""Extractive question answering as a task: SQuAD, MRQA, own data."""

import functools
import json
import pathlib
from collections.abc import Sequence
from typing import Any

from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import schema
from electra_tf.modeling import task_heads
from electra_tf.processes import atomic
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks import task as task_lib
from electra_tf.tasks.question_answering import answers
from electra_tf.tasks.question_answering import questions
from electra_tf.tasks.question_answering import records
from electra_tf.tasks.question_answering import sources
from electra_tf.tasks.question_answering import squad_scores
from electra_tf.text import tokenizer as tokenizer_lib

_OWN_METRICS = ("best_f1", "best_exact", "f1", "exact")


class QuestionAnsweringTask(task_lib.FileTask):
    """Questions whose answers are spans of a document.

    What decides is F1. Where questions may be unanswerable (`form` is
    `sources.SQUAD2`) it is `best_f1`, at the threshold that is best on the
    questions at hand, as papers report it; `f1` there is the score at
    `qa.qa_na_threshold`, which the submission file uses too.
    """

    kind = "qa"
    max_seq_length = 512
    num_train_epochs = 2.0

    def __init__(
        self,
        name: str,
        readers: task_lib.Readers,
        settings: finetuning_config.QuestionAnsweringConfig,
        form: str,
    ) -> None:
        super().__init__(name, readers)
        self.settings = settings
        self.form = form
        self.has_unanswerable = form == sources.SQUAD2
        self.metric = "best_f1" if self.has_unanswerable else "f1"

    def describe_export(self) -> dict[str, Any]:
        """Returns the windows and the decoding, as it was trained."""
        return {
            "max_query_length": self.settings.max_query_length,
            "doc_stride": self.settings.doc_stride,
            "max_answer_length": self.settings.max_answer_length,
            "qa_na_threshold": self.settings.qa_na_threshold,
        }

    def build_rows(
        self,
        examples: Sequence[records.Example],
        tokenizer: tokenizer_lib.Tokenizer,
        max_seq_length: int,
        is_training: bool,
    ) -> rows_lib.Rows:
        """Makes the windows of questions (`questions.build_rows`)."""
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
    ) -> task_heads.TaskHead:
        """Builds the head, with weights drawn from `seed`."""
        names = (
            "joint_prediction",
            "beam_size",
            "answerable_classifier",
            "answerable_uses_start_logits",
            "answerable_weight",
        )
        head = task_heads.QuestionAnsweringHead(
            seed,
            **{name: getattr(self.settings, name) for name in names},
            name=self.name,
            dtype=dtype,
        )
        return task_lib.build_in_scope(head, hidden_size)

    def decode(
        self,
        examples: Sequence[records.Example],
        rows: rows_lib.Rows,
        outputs: task_lib.Outputs,
    ) -> answers.Predictions:
        """Reads answers, n-best lists, and null odds of `SQUAD2`."""
        del examples
        return answers.decode(
            rows, outputs, self.settings, self.has_unanswerable
        )

    def score(
        self,
        examples: Sequence[records.Example],
        predictions: answers.Predictions,
    ) -> dict[str, float]:
        """Computes the official scores (`squad_scores`)."""
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
        """Whether all questions tell their answers, and some have one."""
        return all(e.golds is not None for e in examples) and any(
            example.golds for example in examples
        )

    def is_degenerate(
        self,
        examples: Sequence[records.Example],
        predictions: answers.Predictions,
    ) -> bool:
        """Whether all answers are one text, or no better than none at all."""
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

        They are best answers, n-best lists and, where questions may be
        unanswerable, null odds and `<split>_submission.json`, in SQuAD 2.0's
        form: empty where the null odds exceed `qa.qa_na_threshold`.
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
    """Builds a published task, a key of `sources.SOURCES`."""
    source = sources.SOURCES[name]
    readers = {
        split: functools.partial(source.read, settings.task.data_dir, split)
        for split in sources.SPLITS
    }
    return QuestionAnsweringTask(name, readers, settings.qa, source.form)


def build_own_task(
    settings: finetuning_config.FinetuningConfig,
) -> QuestionAnsweringTask:
    """Builds the task of a user's own questions, some unanswerable."""
    own = settings.own
    readers = {
        split: functools.partial(sources.read_own, own, split)
        for split in own.files
    }
    task = QuestionAnsweringTask("own", readers, settings.qa, sources.SQUAD2)
    if own.metric:
        schema.require_choice("own.metric", own.metric, _OWN_METRICS)
    task.metric = own.metric or task.metric
    return task


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
