"""Tagging as a task: every word of a sentence gets a tag.

Tags either mark spans of words (chunks, names), which are scored whole, or
say something of each word by itself (parts of speech), scored by accuracy.
Spans are learned in the encoding `BIOES`, whatever the file's is.
"""

import functools
import pathlib
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from absl import logging

from electra_tf import errors
from electra_tf.config import finetuning as finetuning_config
from electra_tf.modeling import task_heads
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks.tagging import conll
from electra_tf.tasks.tagging import scores
from electra_tf.tasks.tagging import sources
from electra_tf.tasks.tagging import spans
from electra_tf.tasks.tagging import words as words_lib
from electra_tf.tasks.task import Outputs
from electra_tf.tasks.task import Task
from electra_tf.text import tokenizer as tokenizer_lib

NO_PREDICTION = "_"
"""Written where a word was cut off, if its tag is none of spans."""

Predictions = list[list[str | None]]
"""A tag for each word of each example; None for words without a position."""


class TaggingTask(Task):
    """A tag for every word.

    Args:
        name: of the catalog.
        readers: split to what reads its file; called once at most.
        has_spans: whether tags mark spans.
        labels: tags that may occur, in any encoding; empty for those of the
            training file. In the second case tags that only other files have
            are never predicted, and count as errors.
        cuts_early: see `words.WordRowBuilder`.

    Attributes:
        has_spans: as given.
    """

    kind = "tagging"
    max_seq_length = 256
    num_train_epochs = 3.0

    def __init__(
        self,
        name: str,
        readers: Mapping[str, sources.Reader],
        has_spans: bool,
        labels: Sequence[str] = (),
        cuts_early: bool = False,
    ) -> None:
        self.name = name
        self.has_spans = has_spans
        self.metric = "f1" if has_spans else "accuracy"
        self.splits = tuple(readers)
        self.dev_splits = tuple(s for s in readers if s == "dev")
        self._readers = {
            split: functools.cache(read) for split, read in readers.items()
        }
        self._labels = tuple(labels)
        self.cuts_early = cuts_early

    @functools.cached_property
    def classes(self) -> tuple[str, ...]:
        """Tags as they are learned and predicted, by their index.

        Raises:
            ValueError: if there are neither labels nor training data.
        """
        if self._labels:
            return spans.classes_of_labels(self._labels, self.has_spans)
        tags = (row.tags or () for row in self.read("train"))
        return spans.list_classes(tags, self.has_spans)

    @property
    def labels(self) -> tuple[str, ...]:  # type: ignore[override]
        """The classes."""
        return self.classes

    def use_labels(self, labels: Sequence[str]) -> None:
        """See `Task.use_labels`; tags beyond them count as errors."""
        self.__dict__["classes"] = tuple(labels)
        self._labels = ()

    def describe_export(self) -> dict[str, bool]:
        """How long sentences are treated."""
        return {"cuts_early": self.cuts_early}

    def read(self, split: str) -> list[conll.Sentence]:
        """As `Task.read`; tags are as in the file."""
        if split not in self._readers:
            raise ValueError(
                f"Expected one of {self.name}'s splits "
                f"{', '.join(self.splits)}. Received: {split!r}. Name its "
                "file."
            )
        path, sentences = self._readers[split]()
        found = {tag for row in sentences for tag in row.tags or ()}
        wrong = {
            tag: expected for tag in found if (expected := self._reject(tag))
        }
        for sentence in sentences if wrong else ():
            for index, tag in enumerate(sentence.tags or ()):
                if tag in wrong:
                    raise errors.DataError(
                        f"{path}, sentence of line {sentence.line}, word "
                        f"{index + 1} ({sentence.words[index]!r}): expected "
                        f"{wrong[tag]}. Received: {tag!r}. Repair the file."
                    )
        return sentences

    def _reject(self, tag: str) -> str:
        """What a tag should be, or nothing if it is that."""
        if self.has_spans and not spans.is_span_tag(tag):
            return "O, or a tag that begins with B-, I-, E- or S-"
        if not self._labels:
            return ""
        learned = spans.encode_tags([tag], self.has_spans)[0]
        if learned in self.classes:
            return ""
        return f"one of the labels {', '.join(self._labels)}"

    def build_rows(
        self,
        examples: Sequence[conll.Sentence],
        tokenizer: tokenizer_lib.Tokenizer,
        max_seq_length: int,
        is_training: bool,
    ) -> rows_lib.Rows:
        """The rows of sentences; see `Task.build_rows` and `words`."""
        del is_training
        aligned = words_lib.align(
            [example.words for example in examples],
            tokenizer,
            max_seq_length,
            self.cuts_early,
        )
        num_words = sum(len(example.words) for example in examples)
        num_missing = num_words - len(aligned.words.values)
        if num_missing and self.cuts_early:
            logging.warning(
                "%s: %d of %d words are not looked at, most of them because "
                "rows of %d tokens end before them. They are not learned from "
                "and count as wrong. --config.task.max_seq_length changes it.",
                self.name, num_missing, num_words, max_seq_length,
            )  # fmt: skip
        tags = self._number_tags(examples, aligned)
        splits = aligned.words.splits
        return rows_lib.Rows(
            ids=aligned.ids,
            # As in the original, all of a sentence is segment 1.
            segment_starts=np.zeros(len(aligned.ids), np.int32),
            examples=aligned.sentences,
            ragged={
                "word_positions": aligned.positions,
                "tags": rows_lib.Ragged(np.maximum(tags, 0), splits),
                "tag_weights": rows_lib.Ragged(
                    (tags >= 0).astype(np.float32), splits
                ),
            },
            details=aligned.words,
        )

    def _number_tags(
        self, examples: Sequence[conll.Sentence], aligned: words_lib.Alignment
    ) -> np.ndarray:
        """The class of each word that is looked at, or -1; `[total]` int32."""
        numbers = {tag: number for number, tag in enumerate(self.classes)}
        flat: list[int] = []
        for example in examples:
            if example.tags is None:
                flat += [-1] * len(example.words)
            else:
                tags = spans.encode_tags(example.tags, self.has_spans)
                flat += [numbers.get(tag, -1) for tag in tags]
        counts = np.array([len(example.words) for example in examples], int)
        starts = (np.cumsum(counts) - counts)[aligned.sentences]
        words = aligned.words
        places = np.repeat(starts, words.lengths) + words.values
        return np.array(flat, np.int32)[places]

    def build_head(
        self, hidden_size: int, seed: int, dtype: Any = None
    ) -> task_heads.TaggingHead:
        """See `Task.build_head`."""
        head = task_heads.TaggingHead(
            len(self.classes), seed, name=self.name, dtype=dtype
        )
        with keras.name_scope("task_specific"):
            head.build((None, None, hidden_size))
        return head

    def decode(
        self,
        examples: Sequence[conll.Sentence],
        rows: rows_lib.Rows,
        outputs: Outputs,
    ) -> Predictions:
        """The likeliest tag of each word; see `Task.decode`."""
        predictions: Predictions = [
            [None] * len(example.words) for example in examples
        ]
        for row, logits in enumerate(outputs["logits"]):
            tags = predictions[rows.examples[row]]
            best = np.argmax(logits, axis=-1).tolist()
            for word, number in zip(
                rows.details[row].tolist(), best, strict=True
            ):
                tags[word] = self.classes[number]
        return predictions

    def score(
        self, examples: Sequence[conll.Sentence], predictions: Predictions
    ) -> dict[str, float]:
        """Of spans, `f1` and its relatives; and `accuracy` over words."""
        tags = []
        for example in examples:
            if example.tags is None:
                raise ValueError(
                    f"{self.name}: scores need sentences with tags. Received: "
                    f"one without, of line {example.line}. Name a file with "
                    "tags, or predict only."
                )
            tags.append(example.tags)
        gold = [spans.encode_tags(row, self.has_spans) for row in tags]
        unknown = sorted({tag for row in gold for tag in row}.difference(
            self.classes
        ))  # fmt: skip
        if unknown:
            logging.warning(
                "%s: the training data lack the tags %s; words that have them "
                "count as wrong.", self.name, ", ".join(unknown),
            )  # fmt: skip
        accuracy = {"accuracy": scores.compute_accuracy(gold, predictions)}
        if not self.has_spans:
            return accuracy
        return (
            scores.compute_span_scores(gold, predictions)
            | accuracy
            | scores.compute_seqeval_scores(tags, predictions)
        )

    def has_labels(self, examples: Sequence[conll.Sentence]) -> bool:
        """Whether all sentences have tags."""
        return all(example.tags is not None for example in examples)

    def is_degenerate(
        self, examples: Sequence[conll.Sentence], predictions: Predictions
    ) -> bool:
        """Whether all words have the same tag."""
        del examples
        found = {tag for tags in predictions for tag in tags if tag is not None}
        return len(found) < 2

    def write_predictions(
        self,
        folder: pathlib.Path,
        split: str,
        examples: Sequence[conll.Sentence],
        predictions: Predictions,
    ) -> list[pathlib.Path]:
        """`<name>_<split>.conll`: word, right tag if known, predicted tag.

        Columns are parted by tabs, sentences by blank lines, which is what the
        script `conlleval -d '\\t'` reads. Spans are in the file's encoding,
        `BIO` or `BIOES`.
        """
        path = folder / f"{self.name}_{split}.conll"
        conll.write_columns(
            path,
            (
                self._columns(example, tags)
                for example, tags in zip(examples, predictions, strict=True)
            ),
        )
        return [path]

    def _columns(
        self, example: conll.Sentence, predicted: Sequence[str | None]
    ) -> list[Sequence[str]]:
        """Words, right tags if known, predicted tags in the file's encoding."""
        known = [] if example.tags is None else [example.tags]
        return [example.words, *known, self._for_file(predicted)]

    def _for_file(self, tags: Sequence[str | None]) -> Sequence[str]:
        if not self.has_spans:
            return [NO_PREDICTION if tag is None else tag for tag in tags]
        filled = [spans.OUTSIDE if tag is None else tag for tag in tags]
        return spans.reencode(filled, self._file_encoding)

    @functools.cached_property
    def _file_encoding(self) -> str:
        tags: Iterable[str] = self._labels
        if "train" in self._readers:
            tags = (t for row in self.read("train") for t in row.tags or ())
        return spans.find_encoding(tags)


def build_task(
    name: str, settings: finetuning_config.FinetuningConfig
) -> TaggingTask:
    """The task of this name.

    Rows are those of the original, whose way of cutting long sentences early
    they share; at 256 tokens no sentence of CoNLL-2000 is cut.

    Args:
        name: of the catalog; `chunking`, CoNLL-2000, is the only one here.
        settings: of the run.

    Raises:
        ValueError: for another name.
        DataError: if no folder is named.
    """
    if name != "chunking":
        raise ValueError(
            f"The only named tagging task is chunking. Received: {name!r}. "
            "Any other file is a task called own of the kind tagging."
        )
    readers = sources.chunking_readers(settings.task.data_dir)
    return TaggingTask(name, readers, has_spans=True, cuts_early=True)


def build_own_task(
    settings: finetuning_config.FinetuningConfig,
) -> TaggingTask:
    """The user's own tagging data, as section `own` describes them.

    Tags mark spans if all are `O` or begin with `B-`, `I-`, `E-` or `S-`, and
    not all are `O`; `own.metric` overrules that: `f1` for spans, `accuracy`
    for words.

    Raises:
        ValueError: for settings that mean nothing here.
        FileNotFoundError: if the training file is looked at and not there.
        DataError: if it is looked at and damaged.
    """
    own = settings.own
    if own.id_column:
        raise ValueError(
            "`own.id_column` must be empty for tagging: predictions are in "
            f"the order of the file. Received: {own.id_column!r}."
        )
    if own.metric not in ("", "f1", "accuracy"):
        raise ValueError(
            "`own.metric` must be f1, of spans, or accuracy, of words, or "
            f"empty. Received: {own.metric!r}."
        )
    readers = {
        split: functools.cache(read)
        for split, read in sources.own_readers(own).items()
    }
    names = (name.strip() for name in own.labels.split(","))
    labels = tuple(dict.fromkeys(name for name in names if name))
    tags = set(labels)
    if not labels and not own.metric and "train" in readers:
        sentences = readers["train"]().sentences
        tags = {tag for row in sentences for tag in row.tags or ()}
    elif not labels and "train" not in readers:
        raise ValueError(
            "Tagging needs to know its tags. Received: no training file and "
            "no labels. Give --config.own.train_file or --config.own.labels."
        )
    has_spans = own.metric == "f1" or (
        not own.metric and spans.mark_spans(tags)
    )
    if has_spans and not all(map(spans.is_span_tag, labels)):
        raise ValueError(
            "`own.labels` of spans must be O, or tags that begin with B-, I-, "
            f"E- or S-. Received: {own.labels!r}."
        )
    return TaggingTask("own", readers, has_spans, labels)
