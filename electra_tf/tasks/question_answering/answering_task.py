"""Extractive question answering: answers are spans of a document."""

import functools
import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from electra_tf.config import schema
from electra_tf.modeling import task_heads
from electra_tf.tasks import base
from electra_tf.tasks import files
from electra_tf.tasks.question_answering import answers
from electra_tf.tasks.question_answering import questions
from electra_tf.tasks.question_answering import records
from electra_tf.tasks.question_answering import scores
from electra_tf.tasks.question_answering import signatures
from electra_tf.tasks.question_answering.answers import Predictions
from electra_tf.text import terminal
from electra_tf.text import tokenizer as tokenizer_lib
from electra_tf.text import vocabulary as vocabulary_lib

PLAIN_HEAD = "qa.joint_prediction=false and qa.answerable_classifier=false"
"""Settings of a head that Hugging Face's class can hold."""
_MAX_CONTEXT = 200  # characters shown on either side of an answer
_OWN_METRICS = ("best_f1", "best_exact", "f1", "exact")
_HEAD_OPTIONS = (
    *("joint_prediction", "beam_size", "answerable_classifier"),
    *("answerable_uses_start_logits", "answerable_weight"),
)
_EXPORTED = (
    *("max_query_length", "doc_stride", "max_answer_length"),
    "qa_na_threshold",
)

Examples = Sequence[records.Example]


class QuestionAnsweringTask(base.Task):
    """Questions whose answers are spans of a document.

    `form` names the official scores: `SQUAD1`, `SQUAD2` or `MRQA`. In `SQUAD2`
    questions may be unanswerable. Its `f1` uses the threshold
    `qa.qa_na_threshold`, as the submission does; its `best_f1` uses the best
    threshold for the scored questions, as papers do, and ranks trials.
    """

    kind = "qa"
    export_name = "question_answering"
    signature = "answer"
    head_class = task_heads.QuestionAnsweringHead
    hugging_face = "ElectraForQuestionAnswering"
    num_headings = 1  # the question; `show_prediction` prints the context
    max_seq_length = 512
    num_train_epochs = 2.0

    def __init__(
        self,
        name: str,
        readers: base.Readers,
        settings: questions.Settings,
        form: str,
    ) -> None:
        super().__init__(name, readers)
        self.settings = settings
        self.form = form
        self.has_unanswerable = form == records.SQUAD2
        self.metric = "best_f1" if self.has_unanswerable else "f1"

    @classmethod
    def build_own(cls, settings: base.Settings, labels: Any = ()) -> Any:
        """Builds the task of a user's own questions."""
        own = settings.own
        read = functools.partial(records.read_own, own)
        readers = {s: functools.partial(read, s) for s in own.files}
        task = cls(base.OWN, readers, settings.qa, records.SQUAD2)
        if own.metric:
            schema.require_choice("own.metric", own.metric, _OWN_METRICS)
            task.metric = own.metric
        return task

    @classmethod
    def recognizes(cls, frame: Any, own: Any) -> str:
        """Returns the reason why a frame holds questions, or ""."""
        if own.question_column in frame and own.choices_column not in frame:
            return f"there is a column {own.question_column!r}"
        return ""

    @classmethod
    def describe_frame(cls, frame: Any, own: Mapping[str, Any]) -> dict:
        """Returns no settings; the default columns fit a frame."""
        return {}

    def build_rows(
        self,
        examples: Examples,
        tokenizer: tokenizer_lib.Tokenizer,
        max_seq_length: int,
        is_training: bool,
    ) -> base.Rows:
        """Builds a row for each window of each context."""
        return questions.build_rows(
            examples, tokenizer, max_seq_length, self.settings, is_training
        )

    def describe_labels(self, examples: Mapping[str, Examples]) -> list[str]:
        """Returns lines that count questions, contexts and missing answers."""
        lines = []
        for split, asked in examples.items():
            contexts = {example.context for example in asked}
            bare = sum(example.is_impossible for example in asked)
            unknown = sum(example.golds is None for example in asked)
            lines.append(
                f"Questions of {split}: {len(asked):,}; "
                f"{len(contexts):,} contexts, {bare:,} unanswerable, "
                f"{unknown:,} without answers."
            )
        return lines

    def describe(
        self,
        examples: Mapping[str, Examples],
        rows: Mapping[str, base.Rows],
        vocabulary: vocabulary_lib.Vocabulary,
        num_positions: int,
    ) -> list[str]:
        """Returns lines that describe the data, with a first answer."""
        lines = super().describe(examples, rows, vocabulary, num_positions)
        train = rows.get("train")
        if train is not None and train.num_rows:
            first, last = (train.columns[n][0] for n in questions.COLUMNS[:2])
            ids = train.ids[0][first : last + 1]
            tokens = " ".join(vocabulary.tokens[number] for number in ids)
            lines.append(f"Its answer in tokens: {tokens}")
        counts = (f"{rows[split].num_rows:,} of {split}" for split in rows)
        lines.append(f"Rows, windows of the contexts: {', '.join(counts)}.")
        return lines

    def new_head(self, **kwargs: Any) -> task_heads.TaskHead:
        """Creates the head; it has no weights until `build` is called."""
        options = {n: getattr(self.settings, n) for n in _HEAD_OPTIONS}
        return task_heads.QuestionAnsweringHead(**options, **kwargs)

    @classmethod
    def restore_head(
        cls,
        num_labels: int,
        shapes: Mapping[str, tuple[int, ...]],
        has_hidden_layer: bool,
        **kwargs: Any,
    ) -> task_heads.TaskHead:
        """Creates a head with the layers of stored variables."""
        return task_heads.QuestionAnsweringHead(
            **_find_options({path.split("/")[0] for path in shapes}), **kwargs
        )

    def decode(
        self, examples: Examples, rows: base.Rows, outputs: base.Outputs
    ) -> Predictions:
        """Computes answers, n-best lists and, for `SQUAD2`, null odds."""
        is_published = self.name != base.OWN
        return answers.decode(
            rows, outputs, self.settings, self.has_unanswerable, is_published
        )

    def score(self, examples: Examples, predictions: Predictions) -> dict:
        """Computes the official scores of `form`."""
        golds = {e.id: e.golds for e in examples if e.golds is not None}
        missing = [e.id for e in examples if e.golds is None]
        if missing:
            raise ValueError(
                "Expected gold answers to score with. Received: none for "
                f"{len(missing)} questions, {files.list_some(missing)}. "
                "Predict without scoring, or name a file with answers."
            )
        texts, odds = predictions.texts, predictions.null_odds
        if self.has_unanswerable:
            threshold = self.settings.qa_na_threshold
            return scores.compute_squad2_scores(
                golds, texts, odds, threshold, self.name == base.OWN
            )
        is_mrqa = self.form == records.MRQA
        return scores.compute_squad1_scores(golds, texts, is_mrqa)

    def has_labels(self, examples: Examples) -> bool:
        """Returns whether all answers are known and some question has one."""
        golds = [example.golds for example in examples]
        return None not in golds and any(golds)

    def is_degenerate(
        self, examples: Examples, predictions: Predictions
    ) -> bool:
        """Returns whether all answers are equal or score like empty ones."""
        texts = predictions.texts
        if len(texts) > 1 and len(set(texts.values())) == 1:
            return True
        golds = [example.golds for example in examples]
        if not self.has_unanswerable or not golds or None in golds:
            return False
        best = self.score(examples, predictions)["best_f1"]
        return best <= 100.0 * golds.count(()) / len(golds)

    def list_predictions(self, examples: Examples, predictions: Any) -> Any:
        """Returns the answers; "" to questions that seem unanswerable."""
        texts = self._submit(predictions)
        return [texts.get(example.id) for example in examples]

    def _submit(self, predictions: Predictions) -> scores.Texts:
        """Maps ids to answers, "" if null odds exceed `qa_na_threshold`."""
        texts, odds = predictions.texts, predictions.null_odds
        if not self.has_unanswerable:
            return texts
        limit = self.settings.qa_na_threshold
        return {i: "" if odds[i] > limit else text for i, text in texts.items()}

    def write_predictions(
        self,
        folder: pathlib.Path,
        split: str,
        examples: Examples,
        predictions: Predictions,
    ) -> list[pathlib.Path]:
        """Writes JSON files that map ids to best answers and n-best lists.

        If questions may be unanswerable, writes null odds and the submission
        for SQuAD 2.0, too.
        """
        texts, nbest = predictions.texts, predictions.nbest
        contents: dict[str, Any] = {"predictions": texts, "nbest": nbest}
        if self.has_unanswerable:
            contents["null_odds"] = predictions.null_odds
            contents["submission"] = self._submit(predictions)
        paths = [folder / f"{split}_{name}.json" for name in contents]
        for path, content in zip(paths, contents.values(), strict=True):
            base.write_file(path, [json.dumps(content)])
        return paths

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the inputs of the signature for raw text."""
        return "questions", "contexts"

    def build_signatures(self, model: Any) -> Any:
        """Builds an object with the functions of an export's signatures."""
        return signatures.AnsweringSignatures(model, self.settings)

    def describe_export(self) -> dict[str, Any]:
        """Returns settings of windows and decoding."""
        return {name: getattr(self.settings, name) for name in _EXPORTED}

    @classmethod
    def read_prediction(
        cls, metadata: Any, texts: base.Texts, row: base.Row
    ) -> signatures.AnswerPrediction:
        """Returns the answer to one question."""
        text = bytes(row["answers"]).decode("utf-8", "replace")
        span = int(row["answer_starts"]), int(row["answer_ends"])
        score, odds = float(row["answer_scores"]), float(row["null_odds"])
        dev: Any = next(iter((metadata.scores or {}).values()), {})
        limit = dev.get("best_f1_thresh", metadata.qa_na_threshold or 0.0)
        has_answer = bool(text) and odds <= limit
        return signatures.AnswerPrediction(text, *span, score, odds, has_answer)

    @classmethod
    def show_prediction(
        cls, prediction: Any, metadata: Any, texts: base.Texts
    ) -> list[str]:
        """Returns lines with the answer, its scores and its context."""
        answer, context = prediction, texts[1].decode("utf-8", "replace")
        before = context[max(answer.start - _MAX_CONTEXT, 0) : answer.start]
        marked = answer.text.join(terminal.MARKS) if answer.text else ""
        after = context[answer.end : answer.end + _MAX_CONTEXT]
        doubt = "" if answer.is_answerable else ", so probably unanswerable"
        return [
            terminal.printable(answer.text) or "(none)",
            f"characters {answer.start} to {answer.end}, score "
            f"{answer.score:.3f}, null odds {answer.null_odds:.3f}{doubt}",
            terminal.printable(f"{before}{marked}{after}"),
        ]

    @classmethod
    def restore_settings(cls, options: Any, layers: Iterable[str]) -> dict:
        """Returns the settings of the head with these layers."""
        return {"qa": _find_options(set(layers))}

    @property
    def storage_note(self) -> str:
        """Warns if Hugging Face's format cannot store this head, or is ""."""
        settings = self.settings
        if settings.joint_prediction or settings.answerable_classifier:
            return (
                "A model with this head for questions cannot be saved in "
                "Hugging Face's format; one trained with "
                f"{PLAIN_HEAD} can."
            )
        return ""


def _find_options(layers: set[str]) -> dict[str, bool]:
    """Returns the settings of the head with these layers."""
    return {
        "joint_prediction": "qa_hidden" in layers,
        "answerable_classifier": bool(layers & {"dense_2", "dense_3"}),
        "answerable_uses_start_logits": "dense_3" in layers,
    }


def build_task(name: str, settings: base.Settings) -> QuestionAnsweringTask:
    """Builds a published task, a key of `records.SOURCES`."""
    source = records.SOURCES[name]
    read = functools.partial(source.read_split, settings.task.data_dir)
    readers = {s: functools.partial(read, s) for s in records.SPLITS}
    return QuestionAnsweringTask(name, readers, settings.qa, source.form)
