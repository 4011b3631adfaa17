"""Tagging: every word of a sentence has a tag.

Tags that mark spans of words (chunks, names) are learned in the scheme `BIOES`
and scored by F1 of whole spans. Other tags (parts of speech) are scored by
accuracy.
"""

import collections
import dataclasses
import functools
import itertools
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from electra_tf.config import schema
from electra_tf.modeling import task_heads
from electra_tf.tasks import base
from electra_tf.tasks import cells
from electra_tf.tasks import files
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks.tagging import conll
from electra_tf.tasks.tagging import own_sentences
from electra_tf.tasks.tagging import signatures
from electra_tf.tasks.tagging import spans
from electra_tf.tasks.tagging import words as words_lib
from electra_tf.text import terminal
from electra_tf.text import tokenizer as tokenizer_lib

CHUNKING = "chunking"
"""The name of the published task, CoNLL-2000."""

_REMEDY = (
    "Repair the file, or list all tags by own.labels. If tags mark no "
    "spans, set own.metric=accuracy."
)
_NUM_TESTED = 100  # rows of a frame that `recognizes` reads
_NUM_SHOWN = 12  # words of the sentence that `describe_labels` shows

Examples = Sequence[conll.Sentence]
Predictions = list[list[str | None]]
"""A tag for each word of each example; None for a word that was cut off."""


@schema.frozen
class TaggingOptions:
    """Options of a tagger that other formats store: `words.Conventions`."""

    tag_scheme: str | None = None  # None if the model's files do not give it
    splits_punctuation: bool = False
    splits_characters: bool = False


class TaggingTask(base.Task):
    """A tag for every word.

    `labels` are the tags that may occur, in any scheme; by default those of the
    training file. `metric` is `f1` if tags mark spans and `accuracy` if not; by
    default tags mark spans if all look like it. For `cuts_early` see
    `words.WordRowBuilder`.
    """

    kind = "tagging"
    signature = "tag"
    head_class = task_heads.TaggingHead
    outputs_are_labels = True
    hugging_face = "ElectraForTokenClassification"
    options_class = TaggingOptions
    conventions_class = words_lib.Conventions
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
        self._set_labels, self._metric = tuple(labels), metric
        # Whether unknown tags raise; they count as wrong predictions otherwise.
        self._is_strict = name == base.OWN

    @classmethod
    def build_own(cls, settings: base.Settings, labels: Any = ()) -> Any:
        """Builds the task of a user's own files."""
        own = settings.own
        set_labels = tuple(dict.fromkeys(own.label_names))
        if own.metric:
            schema.require_choice("own.metric", own.metric, ("f1", "accuracy"))
        schema.require(
            bool(labels or set_labels or own.train_file),
            "Tagging needs to know its tags. Received: no training file and no "
            "labels. Give own.train_file or own.labels.",
        )
        standard = spans.standardize(set_labels, own.metric == "f1")
        schema.require(
            own.metric == "accuracy" or None not in standard.values(),
            "`own.labels` of spans must be O, or tags that begin with B-, I-, "
            f"E- or S-. Received: {own.labels!r}. Change the tags, or set "
            "own.metric=accuracy.",
        )
        read = functools.partial(own_sentences.read_own, own)
        readers = {s: functools.partial(read, s) for s in own.files}
        return cls(base.OWN, readers, own.metric, set_labels)

    @classmethod
    def recognizes(cls, frame: Any, own: Any) -> str:
        """Returns the reason why a frame's labels are tags, or ""."""
        columns = [own.text_column, own.label_column]
        if own.question_column in frame or not {*columns} <= {*frame}:
            return ""
        head = frame[columns].head(_NUM_TESTED)
        if any(map(cells.open_spans, head[own.label_column])):
            return f"{own.label_column!r} holds spans of texts"
        for row in head.to_numpy().tolist():
            words, tags = map(cells.understand, row)
            if isinstance(words, str):
                # A list of 0 and 1 belongs to multi-label classification.
                are_strings = isinstance(tags, list) and all(
                    isinstance(tag, str) for tag in tags
                )
                words = words.split() if are_strings else None
            are_lists = isinstance(words, list) and isinstance(tags, list)
            if not are_lists or len(words) != len(tags):
                return ""
        return f"{own.label_column!r} has a tag for each word" * bool(len(head))

    @functools.cached_property
    def conventions(self) -> words_lib.Conventions:
        """The conventions of the training file, or else of the set labels."""
        rows = super().read_split("train") if "train" in self.splits else ()
        words = (word for row in rows for word in row.words)
        splits = words_lib.find_splits(words)
        tags = [r.tags or () for r in rows] or [[t] for t in self._set_labels]
        names = self._set_labels or {tag for row in tags for tag in row}
        standard: dict[str, str | None] = {}
        if self._metric != "accuracy":
            standard = spans.standardize(names, self._metric == "f1")
        tags = [[standard.get(t) or spans.OUTSIDE for t in row] for row in tags]
        scheme = spans.find_scheme(tags) if standard else ""
        return words_lib.Conventions(scheme, *splits)

    @property
    def metric(self) -> str:  # type: ignore[override]
        """`f1` if tags mark spans, otherwise `accuracy`."""
        return "f1" if self.conventions.scheme else "accuracy"

    @functools.cached_property
    def labels(self) -> tuple[str, ...]:  # type: ignore[override]
        """The learned tags; output i of the head belongs to tag i."""
        scheme = self.conventions.scheme
        if tags := self._set_labels:
            standard = spans.standardize(tags, True) if scheme else {}
            tags = tuple(standard.get(tag) or tag for tag in tags)
            return spans.classes_of_labels(tags, scheme)
        rows = self.read_split("train")
        return spans.list_classes((row.tags or () for row in rows), scheme)

    def use_labels(self, labels: Sequence[str]) -> None:
        """Replaces the labels; other tags then count as wrong predictions."""
        self.__dict__["labels"] = tuple(labels)
        self._set_labels, self._is_strict = (), False
        is_chunking, scheme = self.name == CHUNKING, ""
        marks_spans = not self._metric and spans.mark_spans(labels)
        if marks_spans or self._metric == "f1":
            scheme = "BIO" if is_chunking else spans.find_scheme(zip(labels))
        self.conventions = words_lib.Conventions(scheme, is_chunking)

    def use_conventions(self, values: Mapping[str, Any]) -> None:
        """Replaces the conventions; a field of old trials is ignored."""
        super().use_conventions({k: values[k] for k in values if k != "style"})

    def read_split(self, split: str) -> Examples:
        """Reads sentences; converts tags of spans to `O` and `B-X`, `I-X`..."""
        original = super().read_split(split)
        counts = collections.Counter(t for s in original for t in s.tags or ())
        standard: dict[str, str | None] = {tag: tag for tag in counts}
        if self.conventions.scheme:
            standard = spans.standardize(counts, True)
        for tag in counts:
            if correction := self._correction(split, standard[tag]):
                row = next(s for s in original if tag in (s.tags or ()))
                index = row.tags.index(tag)
                word = f"word {index + 1} ({row.words[index]!r})"
                where = "of the sentence that begins here"
                expected = f"the tag of {word} {where} to be {correction}"
                raise files.unexpected(row.place, expected, tag, _REMEDY)
        changed = {old: new for old, new in standard.items() if old != new}
        if not changed:
            return original
        sentences = conll.Sentences(
            s._replace(tags=s.tags and tuple(standard[tag] for tag in s.tags))
            for s in original
        )
        pairs = [f"{t} ({counts[t]:,}) as {new}" for t, new in changed.items()]
        note = f"{split}: tags are read and predicted in one style"
        notes = getattr(original, "notes", ())
        sentences.notes = (*notes, f"{note}: {files.list_some(pairs)}.")
        return sentences

    def _correction(self, split: str, tag: str | None) -> str:
        """Returns what is expected instead of a bad tag, "" for a good tag."""
        if tag is None:
            return "O, or the prefix and the kind of a span, such as B-PER"
        if not self._is_strict or (split == "train" and not self._set_labels):
            return ""
        name_of = spans.kind_of if self.conventions.scheme else str
        names = {*map(name_of, self.labels)}
        shown = files.list_some(sorted(names - {""}))
        source = "own.labels" if self._set_labels else "the training file"
        return "" if name_of(tag) in names else f"one of {source} ({shown})"

    def _describe_schemes(self, examples: Mapping[str, Examples]) -> list[str]:
        """Warns if spans of a split begin by another rule than in training."""
        train_scheme = self.conventions.scheme
        schemes = {
            split: spans.find_scheme(s.tags or () for s in sentences)
            for split, sentences in examples.items()
            if self.has_labels(sentences)
        }
        return [
            f"Spans of {split} look like {scheme}, but are read as "
            f"{train_scheme}."
            for split, scheme in schemes.items()
            if spans.IOB1 in {train_scheme, scheme} and train_scheme != scheme
        ]

    def describe_labels(self, examples: Mapping[str, Examples]) -> list[str]:
        """Returns lines about files, tags, the metric and a first sentence."""
        notes = [getattr(split, "notes", ()) for split in examples.values()]
        lines = [*itertools.chain(*notes)]
        sentences = next(filter(self.has_labels, examples.values()), ())
        if not sentences:
            return lines
        rows = [self._encode(sentence.tags or ()) for sentence in sentences]
        names: Iterable[str] = itertools.chain(*rows)
        start, end = "Tags mark no spans", "Accuracy ranks trials"
        if self.conventions.scheme:
            names = (s.kind for row in rows for s in spans.find_spans(row))
            start = f"Tags mark spans, in the scheme {self.conventions.scheme}"
            end = "F1 of whole spans ranks trials"
            lines += self._describe_schemes(examples)
        elif not self._metric:
            end += ": not all tags are O or a prefix and a kind (B-PER)"
        counts = collections.Counter(names).most_common()
        shown = [f"{name} ({count:,})" for name, count in counts]
        pairs = zip(sentences[0].words, sentences[0].tags or (), strict=True)
        tagged = [f"{word}/{tag}" for word, tag in pairs]
        tagged[_NUM_SHOWN:] = ["..."] * bool(tagged[_NUM_SHOWN:])
        return [
            *lines,
            f"{start}: {files.list_some(shown)}. {end}.",
            f"The first sentence: {terminal.printable(' '.join(tagged))}",
        ]

    def build_rows(
        self,
        examples: Examples,
        tokenizer: tokenizer_lib.Tokenizer,
        max_seq_length: int,
        is_training: bool,
    ) -> base.Rows:
        """Builds the rows of sentences (`words.build_rows`) with their tags."""
        sentences = [example.words for example in examples]
        rows = words_lib.build_rows(
            sentences, tokenizer, max_seq_length, self.cuts_early
        )
        words = rows.details
        counts = np.array([*map(len, sentences)], int)
        num_missing = counts.sum() - len(words.values)
        if num_missing and self.cuts_early:
            logging.warning(
                f"{self.name}: {num_missing} of {counts.sum()} words are in no "
                f"row, mostly because rows of {max_seq_length} tokens are too "
                "short. These words are not learned and count as wrong. Raise "
                "task.max_seq_length."
            )
        numbers = {tag: number for number, tag in enumerate(self.labels)}
        flat: list[int] = []
        for example in examples:
            tags = self._encode(example.tags or ()) or [""] * len(example.words)
            flat += [numbers.get(tag, -1) for tag in tags]
        starts = (np.cumsum(counts) - counts)[rows.examples]
        indices = np.repeat(starts, words.lengths) + words.values
        classes = np.array(flat, np.int32)[indices]
        weights = (classes >= 0).astype(np.float32)
        ragged = {
            "tags": rows_lib.Ragged(np.maximum(classes, 0), words.splits),
            "tag_weights": rows_lib.Ragged(weights, words.splits),
        }
        return dataclasses.replace(rows, ragged={**rows.ragged, **ragged})

    def decode(
        self, examples: Examples, rows: base.Rows, outputs: base.Outputs
    ) -> Predictions:
        """Returns the most probable tag of each word."""
        predictions: Predictions = [[None] * len(e.words) for e in examples]
        for row, logits in enumerate(outputs["logits"]):
            tags = predictions[rows.examples[row]]
            best = np.argmax(logits, axis=-1)
            for word, number in zip(rows.details[row], best, strict=True):
                tags[word] = self.labels[number]
        return predictions

    def score(self, examples: Examples, predictions: Predictions) -> dict:
        """Computes the accuracy and, if tags mark spans, scores of spans."""
        gold = [self._encode(example.tags or ()) for example in examples]
        unknown = {tag for row in gold for tag in row} - set(self.labels)
        if unknown:
            logging.warning(
                f"{self.name}: the training data lack the tags "
                f"{', '.join(sorted(unknown))}; words with these tags count as "
                "wrong."
            )
        accuracy = {"accuracy": spans.compute_accuracy(gold, predictions)}
        if not self.conventions.scheme:
            return accuracy
        scores = spans.compute_span_scores(gold, predictions) | accuracy
        return scores | spans.compute_seqeval_scores(gold, predictions)

    def _encode(self, tags: spans.Tags) -> spans.Tags:
        return spans.reencode(tags, spans.LEARNED, self.conventions.scheme)

    def has_labels(self, examples: Examples) -> bool:
        """Returns whether all sentences have tags."""
        return all(example.tags is not None for example in examples)

    def is_degenerate(
        self, examples: Examples, predictions: Predictions
    ) -> bool:
        """Returns whether all predicted tags are the same."""
        return len({tag for tags in predictions for tag in tags} - {None}) < 2

    def list_predictions(self, examples: Examples, predictions: Any) -> Any:
        """Returns the tags of each sentence in the training file's scheme.

        A word that was cut off gets `O`, or `_` if tags mark no spans.
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
        """Writes columns: words, gold tags if there are any, predicted tags.

        The script `conlleval -d '\\t'` reads the file.
        """
        lines = []
        listed = self.list_predictions(examples, predictions)
        for example, tags in zip(examples, listed, strict=True):
            # These characters would end a column or a line.
            words = [
                re.sub(r"[\t\r\n]", " ", word).strip(" ") or "_"
                for word in example.words
            ]
            columns = [words, example.tags, tags]
            rows = zip(*(c for c in columns if c is not None), strict=True)
            lines += [*map("\t".join, rows), ""]
        path = folder / f"{self.name}_{split}.conll"
        return [base.write_file(path, lines)]

    def build_signatures(self, model: Any) -> Any:
        """Builds an object with the functions of an export's signatures."""
        return signatures.TaggingSignatures(self, model)

    def describe_export(self) -> dict[str, Any]:
        """Returns whether long sentences are cut."""
        return {"cuts_early": self.cuts_early}

    @classmethod
    def read_prediction(
        cls, metadata: Any, texts: base.Texts, row: base.Row
    ) -> signatures.TagPrediction:
        """Returns the tagged words of a text, and the spans."""
        return signatures.read_prediction(metadata.labels or (), texts[0], row)

    @classmethod
    def show_prediction(
        cls, prediction: Any, metadata: Any, texts: base.Texts
    ) -> list[str]:
        """Returns a line with the tag and its probability for each word."""
        words = [terminal.printable(word.text) for word in prediction.words]
        width = max(map(len, words), default=0)
        return [
            f"{text:{width}}  {word.tag:8}  {word.probability:.3f}"
            for text, word in zip(words, prediction.words, strict=True)
        ]

    def options(self, conventions: Any = None) -> TaggingOptions:
        """Returns the conventions of the training file as options."""
        values = dict(conventions or {"scheme": None})
        values.pop("style", None)
        return TaggingOptions(values.pop("scheme", ""), **values)

    @classmethod
    def restore_conventions(
        cls, options: TaggingOptions
    ) -> words_lib.Conventions | None:
        """Returns the conventions, or None if the options lack the scheme."""
        if options.tag_scheme is None:
            return None
        return words_lib.Conventions(*dataclasses.astuple(options))


def build_chunking(settings: base.Settings) -> TaggingTask:
    """Builds the task of CoNLL-2000, which cuts rows as the original does."""
    read = functools.partial(conll.read_chunking, settings.task.data_dir)
    readers = {s: functools.partial(read, s) for s in ("train", "dev", "test")}
    return TaggingTask(CHUNKING, readers, "f1", cuts_early=True)
