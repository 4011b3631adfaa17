"""Tagging as a task: every word of a sentence gets a tag.

Tags mark spans of words (chunks, names), which are scored whole and learned as
`BIOES`, or say something of each word (parts of speech), scored by accuracy.
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

from electra_tf.config import finetuning as finetuning_config
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

Settings = finetuning_config.FinetuningConfig
CHUNKING = "chunking"
"""The name of the published task, CoNLL-2000."""

_REMEDY = (
    "Repair the file, list all tags by --config.own.labels, or, if they are "
    "names for single words, set --config.own.metric=accuracy."
)
_LOOKED_AT = 100  # rows of a frame that tell whether it is of this kind
_SHOWN = 12  # words of the sentence that is shown before a training

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
        # Whether tags that are not to be learned are errors of the file.
        self._is_strict = name == base.OWN

    @classmethod
    def build_own(cls, settings: base.Settings, labels: Any = ()) -> Any:
        """Builds the task of a user's own files.

        Its scores are of spans or of words, as `metric` says.
        """
        own = settings.own
        listed = tuple(dict.fromkeys(own.label_names))
        if own.metric:
            schema.require_choice("own.metric", own.metric, ("f1", "accuracy"))
        schema.require(
            bool(labels or listed or own.train_file),
            "Tagging needs to know its tags. Received: no training file and no "
            "labels. Give --config.own.train_file or --config.own.labels.",
        )
        plain = spans.standardize(listed, own.metric == "f1")
        schema.require(
            own.metric == "accuracy" or None not in plain.values(),
            "`own.labels` of spans must be O, or tags that begin with B-, I-, "
            f"E- or S-. Received: {own.labels!r}. Write all so, or set "
            "--config.own.metric=accuracy.",
        )
        read = functools.partial(own_sentences.read_own, own)
        readers = _reading_once(read, own.files)
        return cls(base.OWN, readers, own.metric, listed)

    @classmethod
    def recognizes(cls, frame: Any, own: Any) -> str:
        """Why labels are tags of words, or an empty string."""
        columns = [own.text_column, own.label_column]
        if own.question_column in frame or not {*columns} <= {*frame}:
            return ""
        head = frame[columns].head(_LOOKED_AT)
        for row in head.to_numpy().tolist():
            words, tags = map(cells.understand, row)
            if isinstance(words, str):
                if cells.open_spans(tags):
                    return f"{own.label_column!r} has places in texts"
                # Zeros and ones say which of several labels a text has.
                are_names = isinstance(tags, list) and all(
                    isinstance(tag, str) for tag in tags
                )
                words = words.split() if are_names else None
            are_lists = isinstance(words, list) and isinstance(tags, list)
            if not are_lists or len(words) != len(tags):
                return ""
        return f"{own.label_column!r} has a tag for each word" * bool(len(head))

    @functools.cached_property
    def conventions(self) -> words_lib.Conventions:
        """How the training file writes words and tags, or what labels tell."""
        rows = super().read_split("train") if "train" in self.splits else ()
        is_apart = words_lib.are_apart(word for r in rows for word in r.words)
        tags = [r.tags or () for r in rows] or [[tag] for tag in self._listed]
        known = self._listed or {tag for row in tags for tag in row}
        plain: dict[str, str | None] = {}
        if self._metric != "accuracy":
            plain = spans.standardize(known, self._metric == "f1")
        encoded = [[plain.get(t) or spans.OUTSIDE for t in row] for row in tags]
        scheme = spans.find_scheme(encoded) if plain else ""
        return words_lib.Conventions(scheme, is_apart)

    @property
    def metric(self) -> str:  # type: ignore[override]
        """`f1` of spans, or else `accuracy` of words."""
        return "f1" if self.conventions.scheme else "accuracy"

    @functools.cached_property
    def labels(self) -> tuple[str, ...]:  # type: ignore[override]
        """Tags as they are learned and predicted, by their index."""
        scheme = self.conventions.scheme
        if self._listed:
            plain = spans.standardize(self._listed, True) if scheme else {}
            listed = [plain.get(tag) or tag for tag in self._listed]
            return spans.classes_of_labels(listed, scheme)
        tags = (row.tags or () for row in self.read_split("train"))
        return spans.list_classes(tags, scheme)

    def use_labels(self, labels: Sequence[str]) -> None:
        """Takes the labels of a model; tags beyond them count as errors."""
        self.__dict__["labels"] = tuple(labels)
        self._listed, self._is_strict = (), False
        # Models from elsewhere have no other conventions.
        is_chunking, scheme = self.name == CHUNKING, ""
        marks_spans = not self._metric and spans.mark_spans(labels)
        if marks_spans or self._metric == "f1":
            scheme = "BIO" if is_chunking else spans.find_scheme(zip(labels))
        self.conventions = words_lib.Conventions(scheme, is_chunking)

    def use_conventions(self, values: Mapping[str, Any]) -> None:
        """Takes the conventions of a trained model."""
        # Tags were once given back in the training file's own style.
        known = {k: v for k, v in values.items() if k != "style"}
        self.conventions = schema.build(words_lib.Conventions, known)

    def read_split(self, split: str) -> Examples:
        """Reads sentences; tags of spans are made `O` and others like `B-X`."""
        read = super().read_split(split)
        counts = collections.Counter(t for row in read for t in row.tags or ())
        plain: dict[str, str | None] = {tag: tag for tag in counts}
        if self.conventions.scheme:
            plain = spans.standardize(counts, True)
        faults = {t: self._find_fault(split, plain[t]) for t in counts}
        for words, tags, place in read if any(faults.values()) else ():
            for number, tag in enumerate(tags or (), 1):
                if faults[tag]:
                    word = f"word {number} ({words[number - 1]!r})"
                    begins = "of the sentence that begins here"
                    expected = f"the tag of {word} {begins} to be {faults[tag]}"
                    raise files.unexpected(place, expected, tag, _REMEDY)
        changed = {old: new for old, new in plain.items() if old != new}
        if not changed:
            return read
        sentences = conll.Sentences(
            row._replace(tags=row.tags and tuple(plain[t] for t in row.tags))
            for row in read
        )
        told = [f"{old} ({counts[old]:,}) as {changed[old]}" for old in changed]
        note = f"{split}: tags are read, and given back, in one style"
        notes = getattr(read, "notes", ())
        sentences.notes = (*notes, f"{note}: {files.list_some(told)}.")
        return sentences

    def _find_fault(self, split: str, tag: str | None) -> str:
        """What should stand in the place of a tag; empty for a right one."""
        if tag is None:
            return "O, or the place and the kind of a span, as B-PER"
        if not self._is_strict or (split == "train" and not self._listed):
            return ""
        name_of = spans.kind_of if self.conventions.scheme else str
        known = {*map(name_of, self.labels)}
        listed = files.list_some(sorted(known - {""}))
        source = "own.labels" if self._listed else "the training file"
        return "" if name_of(tag) in known else f"one of {source} ({listed})"

    def _describe_schemes(self, examples: Mapping[str, Examples]) -> list[str]:
        """Says where spans begin by another rule than in the training file."""
        own = self.conventions.scheme
        schemes = {
            split: spans.find_scheme(s.tags or () for s in sentences)
            for split, sentences in examples.items()
            if self.has_labels(sentences)
        }
        return [
            f"Spans of {split} look like {scheme}, but are read as {own}."
            for split, scheme in schemes.items()
            if spans.IOB1 in {own, scheme} and own != scheme
        ]

    def describe_labels(self, examples: Mapping[str, Examples]) -> list[str]:
        """Says how files and tags were understood, and what decides."""
        notes = [getattr(own, "notes", ()) for own in examples.values()]
        lines = [*itertools.chain(*notes)]
        sentences = next(filter(self.has_labels, examples.values()), ())
        if not sentences:
            return lines
        rows = [self._encode(sentence.tags or ()) for sentence in sentences]
        named: Iterable[str] = itertools.chain(*rows)
        start, end = "Tags are names for single words", "Accuracy decides"
        if self.conventions.scheme:
            named = (s.kind for row in rows for s in spans.find_spans(row))
            start = f"Tags mark spans, in the scheme {self.conventions.scheme}"
            end = "F1 of whole spans decides"
            lines += self._describe_schemes(examples)
        elif not self._metric:
            end += ": not all are O, or place and kind of a span, as B-PER"
        counts = collections.Counter(named).most_common()
        told = [f"{name} ({count:,})" for name, count in counts]
        pairs = zip(sentences[0].words, sentences[0].tags or (), strict=True)
        shown = [f"{word}/{tag}" for word, tag in pairs]
        shown[_SHOWN:] = ["..."] * bool(shown[_SHOWN:])
        return [
            *lines,
            f"{start}: {files.list_some(told)}. {end}.",
            f"The first sentence: {terminal.printable(' '.join(shown))}",
        ]

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

    def _encode(self, tags: spans.Tags) -> spans.Tags:
        return spans.encode_tags(tags, self.conventions.scheme)

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
            # Blanks of other kinds end no column.
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
        """Builds what computes the answers of an export."""
        return signatures.TaggingSignatures(self, model)

    def describe_export(self) -> dict[str, Any]:
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
        known = conventions or {"scheme": None}
        is_apart = known.get("splits_punctuation", False)
        return TaggingOptions(known.get("scheme", ""), is_apart)

    @classmethod
    def restore_conventions(
        cls, options: TaggingOptions
    ) -> words_lib.Conventions | None:
        """Returns them if the files say."""
        if options.tag_scheme is None:
            return None
        return words_lib.Conventions(*dataclasses.astuple(options))


def _reading_once(read: Any, splits: Iterable[str]) -> base.Readers:
    return {s: functools.cache(functools.partial(read, s)) for s in splits}


def build_chunking(settings: Settings) -> TaggingTask:
    """Builds the task of CoNLL-2000; rows are cut as in the original."""
    read = functools.partial(conll.read_chunking, settings.task.data_dir)
    readers = _reading_once(read, ("train", "dev", "test"))
    return TaggingTask(CHUNKING, readers, "f1", cuts_early=True)
