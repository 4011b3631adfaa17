"""Signatures and predictions of an exported tagger."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from electra_tf.tasks import base
from electra_tf.tasks.tagging import spans
from electra_tf.tasks.tagging import words as words_lib

NO_WORD = -1
"""Padding of the offsets of words."""


class TaggedText(NamedTuple):
    """A word or a span of words, `text[start:end]` in characters."""

    text: str
    start: int
    end: int
    tag: str  # of a span: its kind, for example `PER` for `B-PER` and `I-PER`
    # Probability of the tag; of a span, the lowest of its words. A word that
    # was cut off has 0.
    probability: float


@dataclasses.dataclass(frozen=True)
class TagPrediction:
    """The tagged words of a text, and the spans that the tags mark."""

    words: tuple[TaggedText, ...]
    spans: tuple[TaggedText, ...]  # empty if tags do not mark spans
    num_truncated: int  # as in `LabelPrediction`


class TaggingSignatures(tf.Module):
    """The signatures of an exported tagger."""

    def __init__(self, task: Any, model: Any) -> None:
        super().__init__()
        self._model = model
        known = task.conventions
        self._splits = known.splits_punctuation, known.splits_characters
        scheme, labels = task.conventions.scheme, task.labels
        # Label to tag in the training file's scheme. `_next_tags` apply after a
        # word of the same kind. The last two are for words that were cut off,
        # and for padding.
        extra = [spans.OUTSIDE if scheme else "", ""]
        self._tags, self._next_tags = (
            [*(spans.translate(tag, scheme, f) for tag in labels), *extra]
            for f in (False, True)
        )
        kinds = [label.partition("-")[2] for label in labels]
        self._kinds = [*map(kinds.index, kinds), -1, -1]
        self._builder = words_lib.WordRowBuilder(
            model.tokenizer, model.max_length, task.cuts_early
        )

    def answer_text(self, texts: tf.Tensor) -> base.Tensors:
        """Tags the words of `[B]` texts."""
        with tf.device("/CPU:0"):
            split = words_lib.split_text(texts, *self._splits)
        rows = self._builder.build(split.words)
        padded = self._model.pad(
            rows.ids, tf.zeros([rows.ids.nrows()], tf.int64)
        )
        answers = self._answer(rows.positions.to_tensor(0), *padded)
        best, probabilities = (
            tf.RaggedTensor.from_tensor(
                answers[name], rows.positions.row_lengths()
            ).values
            for name in ("best", "tag_probabilities")
        )
        padding = len(self._tags) - 1
        best = tf.where(rows.positions.values > 0, best, padding - 1)
        # The rows hold the words of all texts in order.
        words = split.words
        best = words.with_values(best).to_tensor(padding)
        starts, ends = (
            tf.cast(offsets.to_tensor(NO_WORD), tf.int32)
            for offsets in (split.starts, split.ends)
        )
        return {
            "words": words.to_tensor(""),
            "tags": self._write_tags(best),
            "tag_probabilities": words.with_values(probabilities).to_tensor(),
            "tagged_starts": starts,
            "tagged_ends": ends,
            "num_words": tf.cast(words.row_lengths(), tf.int32),
            "num_tokens": tf.cast(rows.num_tokens, tf.int32),
            "num_truncated": tf.cast(rows.num_truncated, tf.int32),
        }

    def answer_ids(
        self, word_positions: tf.Tensor, **rows: Any
    ) -> base.Tensors:
        """Tags the words at positions of rows of ids."""
        tokens = self._model.check_ids(**rows)
        size = tf.shape(tokens[0])
        is_token = (word_positions >= 0) & (word_positions < size[1])
        check = self._model.require(
            (tf.shape(word_positions)[0] == size[0]) & is_token,
            "`word_positions` must be tokens of the row, from 0, in as many "
            "rows as `input_ids`.",
            word_positions,
        )
        with tf.control_dependencies([check]):
            positions = tf.identity(word_positions)
        answers = self._answer(positions, *tokens)
        return answers | {"tags": self._write_tags(answers["best"])}

    def _answer(self, positions: tf.Tensor, *rows: tf.Tensor) -> base.Tensors:
        """Computes labels of words; a position of 0, `[B, W]`, is no word."""
        logits = self._model.apply_head_in_buckets(
            ["logits"], *rows, word_positions=positions
        )["logits"]
        is_seen = positions > 0
        best = tf.argmax(logits, axis=2, output_type=tf.int32)
        probabilities = tf.reduce_max(tf.nn.softmax(logits), 2)
        return {
            "best": tf.where(is_seen, best, len(self._tags) - 1),
            "tag_probabilities": tf.where(is_seen, probabilities, 0.0),
            "tag_logits": tf.where(tf.expand_dims(is_seen, 2), logits, 0.0),
        }

    def _write_tags(self, best: tf.Tensor) -> tf.Tensor:
        """Converts labels, `[B, W]`, to tags in the training file's scheme."""
        kinds = tf.gather(self._kinds, best)
        before = tf.pad(kinds, [[0, 0], [1, 0]], constant_values=-1)[:, :-1]
        next_tags, tags = (
            tf.gather(tf.constant(tags), best)
            for tags in (self._next_tags, self._tags)
        )
        return tf.where(kinds == before, next_tags, tags)


def read_prediction(
    labels: Sequence[str], text: bytes, row: base.Row
) -> TagPrediction:
    """Returns the words and the spans of one row of `answer_text`."""
    character_of = words_lib.character_places(text)
    columns = (
        [word.decode("utf-8", "replace") for word in row["words"]],
        character_of[row["tagged_starts"]].tolist(),
        character_of[row["tagged_ends"]].tolist(),
        [tag.decode() for tag in row["tags"]],
        row["tag_probabilities"].tolist(),
    )
    words = [TaggedText(*word) for word in zip(*columns, strict=True)]
    words, marked = words[: int(row["num_words"])], []
    if spans.mark_spans(labels):
        characters = text.decode("utf-8", "replace")
        tags = [word.tag for word in words]
        # In every scheme a change of the kind begins a span, as in IOB1.
        for first, last, kind in spans.find_spans(tags, spans.IOB1):
            start, end = words[first].start, words[last].end
            least = min(w.probability for w in words[first : last + 1])
            part = characters[start:end]
            marked.append(TaggedText(part, start, end, kind, least))
    return TagPrediction(tuple(words), tuple(marked), int(row["num_truncated"]))
