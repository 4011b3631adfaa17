"""Extractive question answering as a task, and its official scores.

An answer is compared with the gold answer that it is most like, by the rules of
the scripts of SQuAD 1.1, SQuAD 2.0 and MRQA 2019: without case, punctuation,
articles and superfluous blanks. Scores are in percent.
"""

import collections
import functools
import json
import pathlib
import re
import string
from collections.abc import Mapping, Sequence
from typing import Any

from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import schema
from electra_tf.modeling import task_heads
from electra_tf.tasks import files
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks import task as task_lib
from electra_tf.tasks.question_answering import answers
from electra_tf.tasks.question_answering import questions
from electra_tf.tasks.question_answering import records
from electra_tf.tasks.question_answering.answers import Predictions
from electra_tf.text import tokenizer as tokenizer_lib

_OWN_METRICS = ("best_f1", "best_exact", "f1", "exact")
_HEAD_OPTIONS = (
    "joint_prediction",
    "beam_size",
    "answerable_classifier",
    "answerable_uses_start_logits",
    "answerable_weight",
)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)

Examples = Sequence[records.Example]
Settings = finetuning_config.FinetuningConfig
Golds = Mapping[str, Sequence[str]]
"""Id to the texts of the right answers; none for unanswerable questions."""
Texts = Mapping[str, str]
"""Id to the predicted text."""


class QuestionAnsweringTask(task_lib.Task):
    """Questions whose answers are spans of a document.

    F1 decides; where questions may be unanswerable (`form` is `SQUAD2`) it is
    `best_f1`, at the threshold that is best on the questions at hand, as in
    papers; `f1` there is at `qa.qa_na_threshold`, as the submission is.
    """

    kind = "qa"
    max_seq_length = 512
    num_train_epochs = 2.0

    def __init__(
        self,
        name: str,
        readers: task_lib.Readers,
        settings: questions.Settings,
        form: str,
    ) -> None:
        super().__init__(name, readers)
        self.settings = settings
        self.form = form
        self.has_unanswerable = form == records.SQUAD2
        self.metric = "best_f1" if self.has_unanswerable else "f1"

    def describe_export(self) -> dict[str, Any]:
        """Returns the windows and the decoding, as it was trained."""
        windows = ("max_query_length", "doc_stride")
        decoding = ("max_answer_length", "qa_na_threshold")
        return {n: getattr(self.settings, n) for n in windows + decoding}

    def build_rows(
        self,
        examples: Examples,
        tokenizer: tokenizer_lib.Tokenizer,
        max_seq_length: int,
        is_training: bool,
    ) -> rows_lib.Rows:
        """Makes the windows of questions (`questions.build_rows`)."""
        return questions.build_rows(
            examples, tokenizer, max_seq_length, self.settings, is_training
        )

    def new_head(self, **kwargs: Any) -> task_heads.TaskHead:
        """Creates the head, without weights."""
        options = {n: getattr(self.settings, n) for n in _HEAD_OPTIONS}
        return task_heads.QuestionAnsweringHead(**options, **kwargs)

    def decode(
        self, examples: Examples, rows: rows_lib.Rows, outputs: task_lib.Outputs
    ) -> Predictions:
        """Reads answers, n-best lists, and null odds of `SQUAD2`."""
        return answers.decode(
            rows, outputs, self.settings, self.has_unanswerable
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
        texts = predictions.texts
        if self.has_unanswerable:
            threshold = self.settings.qa_na_threshold
            return compute_squad2_scores(
                golds, texts, predictions.null_odds, threshold
            )
        return compute_squad1_scores(golds, texts, self.form == records.MRQA)

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
        found = self._submit(predictions)
        return [found.get(example.id) for example in examples]

    def _submit(self, predictions: Predictions) -> Texts:
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
        contents: dict[str, Any] = {
            "predictions": predictions.texts,
            "nbest": predictions.nbest,
        }
        if self.has_unanswerable:
            contents["null_odds"] = predictions.null_odds
            contents["submission"] = self._submit(predictions)
        return [
            task_lib.write_file(
                folder / f"{split}_{name}.json", [json.dumps(content)]
            )
            for name, content in contents.items()
        ]


def build_task(name: str, settings: Settings) -> QuestionAnsweringTask:
    """Builds a published task, a key of `records.SOURCES`."""
    source = records.SOURCES[name]
    readers = {
        split: functools.partial(source.read, settings.task.data_dir, split)
        for split in records.SPLITS
    }
    return QuestionAnsweringTask(name, readers, settings.qa, source.form)


def build_own_task(settings: Settings) -> QuestionAnsweringTask:
    """Builds the task of a user's own questions, some unanswerable."""
    own = settings.own
    readers = {
        split: functools.partial(records.read_own, own, split)
        for split in own.files
    }
    task = QuestionAnsweringTask("own", readers, settings.qa, records.SQUAD2)
    if own.metric:
        schema.require_choice("own.metric", own.metric, _OWN_METRICS)
        task.metric = own.metric
    return task


@functools.lru_cache(maxsize=65_536)
def normalize_answer(text: str) -> str:
    """Reduces an answer to what is compared.

    >>> normalize_answer("The  cat's.")
    'cats'
    """
    plain = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", plain).split())


def compute_raw_scores(
    golds: Golds, predictions: Texts
) -> dict[str, dict[str, float]]:
    """Scores all questions that have a prediction, by SQuAD 2.0's rules.

    The right answer of an unanswerable question is the empty text. Returns
    `exact` and `f1`, 0 to 1, by id.
    """
    exact, f1 = {}, {}
    for identity in golds:
        if identity in predictions:
            right = [a for a in golds[identity] if normalize_answer(a)] or [""]
            text = predictions[identity]
            exact[identity] = max(_is_exact(text, answer) for answer in right)
            # Without words the F1 is 1 if both sides are.
            scores = [_f1(text, answer) for answer in right]
            f1[identity] = max(exact[identity], *scores)
    return {"exact": exact, "f1": f1}


def compute_squad1_scores(
    golds: Golds, predictions: Texts, skip_missing: bool = False
) -> dict[str, float]:
    """Computes `exact_match` and `f1` of SQuAD 1.1 and of MRQA.

    A missing prediction counts 0, or not at all as in the original's MRQA.
    `ValueError` for a question without answers.
    """
    exact, f1 = 0.0, 0.0
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
            exact += max(_is_exact(text, answer) for answer in right)
            f1 += max(_f1(text, answer) for answer in right)
    return {"exact_match": 100.0 * exact / total, "f1": 100.0 * f1 / total}


def compute_squad2_scores(
    golds: Golds,
    predictions: Texts,
    null_odds: Mapping[str, float],
    threshold: float,
) -> dict[str, float]:
    """Computes all scores of the official script of SQuAD 2.0.

    They are `exact`, `f1`, `total`, the same over questions with (`HasAns_`)
    and without (`NoAns_`) answers, and the best ones with their thresholds.
    Null odds above `threshold` make an answer empty.
    """
    raw = compute_raw_scores(golds, predictions)
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
    golds: Golds,
    predictions: Texts,
    scores: Mapping[str, float],
    null_odds: Mapping[str, float],
) -> tuple[float, float]:
    """The best mean score that a threshold on the null odds reaches.

    Tried are 0 with all answers empty, then every question's null odds; the
    lowest threshold that reaches the best score counts.
    """
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


def _is_exact(text: str, answer: str) -> float:
    return float(normalize_answer(text) == normalize_answer(answer))


def _f1(text: str, answer: str) -> float:
    """Harmonic mean of precision and recall of words; 0 without any."""
    ours = normalize_answer(text).split()
    theirs = normalize_answer(answer).split()
    num_same = (collections.Counter(ours) & collections.Counter(theirs)).total()
    if num_same == 0:
        return 0.0
    precision = num_same / len(ours)
    recall = num_same / len(theirs)
    return 2 * precision * recall / (precision + recall)
