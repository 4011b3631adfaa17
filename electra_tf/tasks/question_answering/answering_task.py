"""Extractive question answering: answers are spans of a document."""

import functools
import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from electra_tf.config import finetuning as finetuning_config
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

PLAIN_HEAD_FLAGS = (
    "--config.qa.joint_prediction=false --config.qa.answerable_classifier=false"
)
"""Flags of a head that Hugging Face's class can hold."""
# What is shown of a context on either side of its answer, in characters.
_MAX_CONTEXT = 200
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
Settings = finetuning_config.FinetuningConfig


class QuestionAnsweringTask(base.Task):
    """Questions whose answers are spans of a document.

    F1 decides; where questions may be unanswerable (`form` is `SQUAD2`) it is
    `best_f1`, at the threshold that is best on the questions at hand, as in
    papers; `f1` there is at `qa.qa_na_threshold`, as the submission is.
    """

    kind = "qa"
    export_name = "question_answering"
    signature = "answer"
    head_class = task_heads.QuestionAnsweringHead
    hugging_face = "ElectraForQuestionAnswering"
    num_headings = 1  # the question; the context is shown with the answer
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
        """Builds the task of a user's own questions, some unanswerable."""
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
        """Why rows are questions without choices, or an empty string."""
        if own.question_column in frame and own.choices_column not in frame:
            return f"there is a column {own.question_column!r}"
        return ""

    @classmethod
    def describe_frame(cls, frame: Any, own: Mapping[str, Any]) -> dict:
        """Returns nothing: a file's form tells where answers begin."""
        return {}

    def build_rows(
        self,
        examples: Examples,
        tokenizer: tokenizer_lib.Tokenizer,
        max_seq_length: int,
        is_training: bool,
    ) -> base.Rows:
        """Makes the windows of questions (`questions.build_rows`)."""
        return questions.build_rows(
            examples, tokenizer, max_seq_length, self.settings, is_training
        )

    def describe_labels(self, examples: Mapping[str, Examples]) -> list[str]:
        """Counts questions, contexts, and questions without an answer."""
        lines = []
        for split, own in examples.items():
            contexts = {example.context for example in own}
            none = sum(example.is_impossible for example in own)
            unknown = sum(example.golds is None for example in own)
            lines.append(
                f"Questions of {split}: {len(own):,}; {len(contexts):,} "
                f"contexts, {none:,} unanswerable, {unknown:,} without answers."
            )
        return lines

    def describe(
        self,
        examples: Mapping[str, Examples],
        rows: Mapping[str, base.Rows],
        vocabulary: vocabulary_lib.Vocabulary,
        num_positions: int,
    ) -> list[str]:
        """Says in lines what was understood, as all kinds, and of windows."""
        lines = super().describe(examples, rows, vocabulary, num_positions)
        learned = rows.get("train")
        if learned is not None and learned.num_rows:
            first, last = (learned.columns[n][0] for n in questions.COLUMNS[:2])
            ids = learned.ids[0][first : last + 1]
            tokens = " ".join(vocabulary.tokens[number] for number in ids)
            lines.append(f"What is learned as its answer: {tokens}")
        windows = (f"{own.num_rows:,} of {s}" for s, own in rows.items())
        lines.append(f"Rows, windows of the contexts: {', '.join(windows)}.")
        return lines

    def new_head(self, **kwargs: Any) -> task_heads.TaskHead:
        """Creates the head, without weights."""
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
        """Creates the head; names tell which optional layers it has."""
        return task_heads.QuestionAnsweringHead(
            **_find_options({path.split("/")[0] for path in shapes}), **kwargs
        )

    def decode(
        self, examples: Examples, rows: base.Rows, outputs: base.Outputs
    ) -> Predictions:
        """Reads answers, n-best lists, and null odds of `SQUAD2`."""
        is_published = self.name != base.OWN
        return answers.decode(
            rows, outputs, self.settings, self.has_unanswerable, is_published
        )

    def score(self, examples: Examples, predictions: Predictions) -> dict:
        """Computes the official scores of the task's form."""
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
        """Whether all questions tell their answers, and some have one."""
        golds = [example.golds for example in examples]
        return None not in golds and any(golds)

    def is_degenerate(
        self, examples: Examples, predictions: Predictions
    ) -> bool:
        """Whether all answers are one text, or no better than none at all."""
        texts = predictions.texts
        if len(texts) > 1 and len(set(texts.values())) == 1:
            return True
        golds = [example.golds for example in examples]
        if not self.has_unanswerable or not golds or None in golds:
            return False
        best = self.score(examples, predictions)["best_f1"]
        return best <= 100.0 * golds.count(()) / len(golds)

    def list_predictions(self, examples: Examples, predictions: Any) -> Any:
        """Lists answers, empty where the question seems to have none."""
        texts = self._submit(predictions)
        return [texts.get(example.id) for example in examples]

    def _submit(self, predictions: Predictions) -> scores.Texts:
        """Answers by id, empty where null odds exceed `qa.qa_na_threshold`."""
        texts, odds = predictions.texts, predictions.null_odds
        if not self.has_unanswerable:
            return texts
        most = self.settings.qa_na_threshold
        return {i: "" if odds[i] > most else text for i, text in texts.items()}

    def write_predictions(
        self,
        folder: pathlib.Path,
        split: str,
        examples: Examples,
        predictions: Predictions,
    ) -> list[pathlib.Path]:
        """Writes JSON objects by question id: best answers and n-best lists.

        Where questions may be unanswerable, null odds too, and a submission in
        SQuAD 2.0's form: empty where the odds exceed `qa.qa_na_threshold`.
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
        """The inputs of the signature of raw text."""
        return "questions", "contexts"

    def build_signatures(self, model: Any) -> Any:
        """Builds what computes the answers of an export."""
        return signatures.AnsweringSignatures(model, self.settings)

    def describe_export(self) -> dict[str, Any]:
        """Returns the windows and the decoding, as it was trained."""
        return {name: getattr(self.settings, name) for name in _EXPORTED}

    @classmethod
    def read_prediction(
        cls, metadata: Any, texts: base.Texts, row: base.Row
    ) -> signatures.AnswerPrediction:
        """Reads the answer, and whether there seems to be one."""
        text = bytes(row["answers"]).decode("utf-8", "replace")
        places = int(row["answer_starts"]), int(row["answer_ends"])
        score, odds = float(row["answer_scores"]), float(row["null_odds"])
        dev: Any = next(iter((metadata.scores or {}).values()), {})
        most = dev.get("best_f1_thresh", metadata.qa_na_threshold or 0.0)
        is_known = bool(text) and odds <= most
        return signatures.AnswerPrediction(text, *places, score, odds, is_known)

    @classmethod
    def show_prediction(
        cls, prediction: Any, metadata: Any, texts: base.Texts
    ) -> list[str]:
        """Shows the answer, its numbers, and its place in the context."""
        answer, context = prediction, texts[1].decode("utf-8", "replace")
        before = context[max(answer.start - _MAX_CONTEXT, 0) : answer.start]
        marked = answer.text.join(terminal.MARKS) if answer.text else ""
        after = context[answer.end : answer.end + _MAX_CONTEXT]
        doubt = "" if answer.is_answerable else ", taken for no answer"
        return [
            terminal.printable(answer.text) or "(none)",
            f"characters {answer.start} to {answer.end}, score "
            f"{answer.score:.3f}, null odds {answer.null_odds:.3f}{doubt}",
            terminal.printable(f"{before}{marked}{after}"),
        ]

    @classmethod
    def restore_settings(cls, options: Any, layers: Iterable[str]) -> dict:
        """Returns which optional layers the head has."""
        return {"qa": _find_options(set(layers))}

    @property
    def storage_note(self) -> str:
        """A warning if this head cannot be stored in Hugging Face's format."""
        settings = self.settings
        if settings.joint_prediction or settings.answerable_classifier:
            return (
                "A model with this head for questions cannot be saved in "
                "Hugging Face's format; one trained with "
                f"{PLAIN_HEAD_FLAGS} can."
            )
        return ""


def _find_options(layers: set[str]) -> dict[str, bool]:
    """Tells the options of a head by the names of its layers."""
    return {
        "joint_prediction": "qa_hidden" in layers,
        "answerable_classifier": bool(layers & {"dense_2", "dense_3"}),
        "answerable_uses_start_logits": "dense_3" in layers,
    }


def build_task(name: str, settings: Settings) -> QuestionAnsweringTask:
    """Builds a published task, a key of `records.SOURCES`."""
    source = records.SOURCES[name]
    read = functools.partial(source.read_split, settings.task.data_dir)
    readers = {s: functools.partial(read, s) for s in records.SPLITS}
    return QuestionAnsweringTask(name, readers, settings.qa, source.form)
