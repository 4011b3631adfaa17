"""Tagging as a task: every word of a sentence gets a tag.

Tags mark spans of words (chunks, names), which are scored whole and learned as
`BIOES`, or say something of each word (parts of speech), scored by accuracy.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import schema
from electra_tf.modeling import task_heads
from electra_tf.tasks import base
from electra_tf.tasks import files
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks.tagging import conll
from electra_tf.tasks.tagging import signatures
from electra_tf.tasks.tagging import spans
from electra_tf.tasks.tagging import words as words_lib
from electra_tf.text import terminal
from electra_tf.text import tokenizer as tokenizer_lib

Settings = finetuning_config.FinetuningConfig
CHUNKING = "chunking"
"""The name of the published task, CoNLL-2000."""

Examples = Sequence[conll.Sentence]
Predictions = list[list[str | None]]
"""A tag for each word of each example; None for words without a position."""


@schema.frozen
class TaggingOptions:
    """Options of a tagger that other formats keep: `words.Conventions`."""

    tag_scheme: str | None = None  # None if files do not say
    splits_punctuation: bool = False


class TaggingTask(base.Task):
    """A tag for every word.

    `labels` are tags that may occur, in any scheme; empty for those of the
    training file: tags that only other files have count as errors. `metric`
    says whether tags mark spans: `f1` if so, `accuracy` if not, and empty if
    all look like it. `cuts_early` is that of `words.WordRowBuilder`.
    """

    kind = "tagging"
    signature = "tag"
    head_class = task_heads.TaggingHead
    outputs_are_labels = True
    hugging_face = "ElectraForTokenClassification"
    options_class = TaggingOptions
    max_seq_length = 256

    def __init__(
        self,
        name: str,
        readers: base.Readers,
        metric: str = "",
        labels: Sequence[str] = (),
        cuts_early: bool = False,
    ) -> None:
        super().__init__(name, readers)
        self.cuts_early = cuts_early
        self._listed, self._metric = tuple(labels), metric

    @classmethod
    def build_own(cls, settings: base.Settings, labels: Any = ()) -> Any:
        """Builds the task of a user's own files.

        Its scores are of spans or of words, as `metric` says.
        """
        own = settings.own
        listed = tuple(dict.fromkeys(own.label_names))
        schema.require(
            not own.id_column,
            "`own.id_column` must be empty for tagging: predictions are in the "
            f"order of the file. Received: {own.id_column!r}.",
        )
        if own.metric:
            schema.require_choice("own.metric", own.metric, ("f1", "accuracy"))
        schema.require(
            bool(labels or listed or own.train_file),
            "Tagging needs to know its tags. Received: no training file and no "
            "labels. Give --config.own.train_file or --config.own.labels.",
        )
        schema.require(
            own.metric != "f1" or all(map(spans.is_span_tag, listed)),
            "`own.labels` of spans must be O, or tags that begin with B-, I-, "
            f"E- or S-. Received: {own.labels!r}.",
        )
        read = functools.partial(conll.read_own, own)
        readers = _reading_once(read, own.files)
        return cls(base.OWN, readers, own.metric, listed)

    @classmethod
    def recognizes(cls, frame: Any, own: Any) -> str:
        """Why labels are tags of words, or an empty string."""
        labels = frame.get(own.label_column, ())
        if not len(labels) or own.question_column in frame:
            return ""
        is_list = isinstance(labels.iloc[0], list | tuple)
        return f"{own.label_column!r} has a tag for each word" * is_list

    @functools.cached_property
    def conventions(self) -> words_lib.Conventions:
        """How the training file writes words and tags, or what labels tell."""
        rows = super().read_split("train") if "train" in self.splits else ()
        tags = [row.tags or () for row in rows] or list(zip(self._listed))
        is_apart = words_lib.are_apart(word for r in rows for word in r.words)
        return words_lib.Conventions(self._find_scheme(tags), is_apart)

    def _find_scheme(self, tags: Sequence[spans.Tags]) -> str:
        known = self._listed or {tag for row in tags for tag in row}
        marks_spans = not self._metric and spans.mark_spans(known)
        is_scheme = marks_spans or self._metric == "f1"
        return spans.find_scheme(tags) if is_scheme else ""

    @property
    def metric(self) -> str:  # type: ignore[override]
        """`f1` of spans, or else `accuracy` of words."""
        return "f1" if self.conventions.scheme else "accuracy"

    @functools.cached_property
    def labels(self) -> tuple[str, ...]:  # type: ignore[override]
        """Tags as they are learned and predicted, by their index."""
        scheme = self.conventions.scheme
        if self._listed:
            return spans.classes_of_labels(self._listed, scheme)
        tags = (row.tags or () for row in self.read_split("train"))
        return spans.list_classes(tags, scheme)

    def use_labels(self, labels: Sequence[str]) -> None:
        """Takes the labels of a model; tags beyond them count as errors."""
        self.__dict__["labels"] = tuple(labels)
        self._listed = ()
        # Models from elsewhere have no other conventions.
        is_chunking = self.name == CHUNKING
        scheme = "BIO" if is_chunking else self._find_scheme(list(zip(labels)))
        self.conventions = words_lib.Conventions(scheme, is_chunking)

    def use_conventions(self, values: Mapping[str, Any]) -> None:
        """Takes the conventions of a trained model."""
        self.conventions = schema.build(words_lib.Conventions, values)

    def read_split(self, split: str) -> Examples:
        """Reads sentences, as `Task.read_split`; tags are as in the file."""
        sentences = super().read_split(split)
        reject = functools.cache(self._reject)
        for words, tags, place in sentences:
            for number, tag in enumerate(tags or (), 1):
                if reject(tag):
                    word = f"word {number} ({words[number - 1]!r})"
                    expected = f"the tag of {word} to be {reject(tag)}"
                    raise files.unexpected(place, expected, tag)
        return sentences

    def _encode(self, tags: spans.Tags) -> spans.Tags:
        return spans.encode_tags(tags, self.conventions.scheme)

    def _reject(self, tag: str) -> str:
        """Describes what a wrong tag should be; empty for a right one."""
        if self.conventions.scheme and not spans.is_span_tag(tag):
            return "O, or a tag of a span, as B-, I-, E- or S- with its kind"
        (learned,) = self._encode([tag])
        if not self._listed or learned in self.labels:
            return ""
        return f"one of the labels {', '.join(self._listed)}"

    def build_rows(
        self,
        examples: Examples,
        tokenizer: tokenizer_lib.Tokenizer,
        max_seq_length: int,
        is_training: bool,
    ) -> base.Rows:
        """Makes the rows of sentences (`words.build_rows`), with their tags."""
        sentences = [example.words for example in examples]
        rows = words_lib.build_rows(
            sentences, tokenizer, max_seq_length, self.cuts_early
        )
        words = rows.details
        counts = np.array([*map(len, sentences)], int)
        num_missing = counts.sum() - len(words.values)
        if num_missing and self.cuts_early:
            logging.warning(
                f"{self.name}: {num_missing} of {counts.sum()} words are not "
                f"looked at, most of them because rows of {max_seq_length} "
                "tokens end before them. They are not learned from and count "
                "as wrong. --config.task.max_seq_length changes it."
            )
        numbers = {tag: number for number, tag in enumerate(self.labels)}
        flat: list[int] = []
        for example in examples:
            tags = self._encode(example.tags or ()) or [""] * len(example.words)
            flat += [numbers.get(tag, -1) for tag in tags]
        starts = (np.cumsum(counts) - counts)[rows.examples]
        places = np.repeat(starts, words.lengths) + words.values
        classes = np.array(flat, np.int32)[places]
        weights = (classes >= 0).astype(np.float32)
        ragged = {
            "tags": rows_lib.Ragged(np.maximum(classes, 0), words.splits),
            "tag_weights": rows_lib.Ragged(weights, words.splits),
        }
        return dataclasses.replace(rows, ragged={**rows.ragged, **ragged})

    def decode(
        self, examples: Examples, rows: base.Rows, outputs: base.Outputs
    ) -> Predictions:
        """Returns the likeliest tag of each word."""
        predictions: Predictions = [[None] * len(e.words) for e in examples]
        for row, logits in enumerate(outputs["logits"]):
            tags = predictions[rows.examples[row]]
            best = np.argmax(logits, axis=-1)
            for word, number in zip(rows.details[row], best, strict=True):
                tags[word] = self.labels[number]
        return predictions

    def score(self, examples: Examples, predictions: Predictions) -> dict:
        """Computes scores of spans, if tags mark them, and of words."""
        gold = [self._encode(example.tags or ()) for example in examples]
        unknown = {tag for row in gold for tag in row} - set(self.labels)
        if unknown:
            logging.warning(
                f"{self.name}: the training data lack the tags "
                f"{', '.join(sorted(unknown))}; words that have them count as "
                "wrong."
            )
        accuracy = {"accuracy": spans.compute_accuracy(gold, predictions)}
        if not self.conventions.scheme:
            return accuracy
        scores = spans.compute_span_scores(gold, predictions) | accuracy
        return scores | spans.compute_seqeval_scores(gold, predictions)

    def has_labels(self, examples: Examples) -> bool:
        """Whether all sentences have tags."""
        return all(example.tags is not None for example in examples)

    def is_degenerate(
        self, examples: Examples, predictions: Predictions
    ) -> bool:
        """Whether all words have the same tag."""
        return len({tag for tags in predictions for tag in tags} - {None}) < 2

    def list_predictions(self, examples: Examples, predictions: Any) -> Any:
        """Lists the tags of each sentence, in the training file's scheme.

        A word that was cut off has `O`, or `_` if tags mark no spans.
        """
        scheme = self.conventions.scheme
        if not scheme:
            return [[tag or "_" for tag in tags] for tags in predictions]
        filled = ([tag or "O" for tag in tags] for tags in predictions)
        return [spans.reencode(tags, scheme) for tags in filled]

    def write_predictions(
        self,
        folder: pathlib.Path,
        split: str,
        examples: Examples,
        predictions: Predictions,
    ) -> list[pathlib.Path]:
        """Writes words, right tags if known and predicted tags as columns.

        The script `conlleval -d '\\t'` reads them.
        """
        lines = []
        listed = self.list_predictions(examples, predictions)
        for example, tags in zip(examples, listed, strict=True):
            columns = [example.words, example.tags, tags]
            rows = zip(*(c for c in columns if c is not None), strict=True)
            lines += [*map("\t".join, rows), ""]
        path = folder / f"{self.name}_{split}.conll"
        return [base.write_file(path, lines)]

    def build_signatures(self, model: Any) -> Any:
        """Builds what computes the answers of an export."""
        return signatures.TaggingSignatures(self, model)

    def describe_export(self) -> dict[str, bool]:
        """Says how long sentences are treated."""
        return {"cuts_early": self.cuts_early}

    @classmethod
    def read_prediction(
        cls, metadata: Any, texts: base.Texts, row: base.Row
    ) -> signatures.TagPrediction:
        """Reads words with tags, and the spans that these mark."""
        return signatures.read_prediction(metadata.labels or (), texts[0], row)

    @classmethod
    def show_prediction(
        cls, prediction: Any, metadata: Any, texts: base.Texts
    ) -> list[str]:
        """Shows a word with its tag on each line."""
        words = [terminal.printable(word.text) for word in prediction.words]
        width = max(map(len, words), default=0)
        return [
            f"{text:{width}}  {word.tag:8}  {word.probability:.3f}"
            for text, word in zip(words, prediction.words, strict=True)
        ]

    def options(self, conventions: Any = None) -> TaggingOptions:
        """Returns how the training file writes words and tags, if known."""
        known = dict(conventions or {"scheme": None})
        return TaggingOptions(known.pop("scheme", ""), **known)

    @classmethod
    def restore_conventions(
        cls, options: TaggingOptions
    ) -> words_lib.Conventions | None:
        """Returns them if the files say."""
        scheme, is_apart = options.tag_scheme, options.splits_punctuation
        known = words_lib.Conventions(scheme or "", is_apart)
        return None if scheme is None else known


def _reading_once(read: Any, splits: Iterable[str]) -> base.Readers:
    return {s: functools.cache(functools.partial(read, s)) for s in splits}


def build_chunking(settings: Settings) -> TaggingTask:
    """Builds the task of CoNLL-2000; rows are cut as in the original."""
    read = functools.partial(conll.read_chunking, settings.task.data_dir)
    readers = _reading_once(read, ("train", "dev", "test"))
    return TaggingTask(CHUNKING, readers, "f1", cuts_early=True)
