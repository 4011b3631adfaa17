"""An exported tagger: the words of raw text, each with its tag."""

from typing import Any

import tensorflow as tf

from electra_tf.export.compute import row_groups
from electra_tf.export.finetuned import module
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks.tagging import spans
from electra_tf.tasks.tagging import words as words_lib

# Offsets of what is no word.
_NO_WORD = -1

Tensors = dict[str, tf.Tensor]


class TaggingModule(module.FinetunedModule):
    """A tag for every word.

    Args:
        *args, **kwargs: as of every module.
    """

    kind = "tagging"
    signature_names = ("tag_text", "tag_ids")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._labels = tf.constant(self.task.labels)
        self._builder = words_lib.WordRowBuilder(
            self.tokenizer, self.max_length, self.task.cuts_early
        )

    def answer_text(self, **inputs: tf.Tensor) -> Tensors:
        """Words with tags, for `texts`."""
        with tf.device("/CPU:0"):
            found = rows_lib.split_words(inputs["texts"], rows_lib.ALL_BLANKS)
        rows = self._builder.build(found.words)
        first_of_row = tf.zeros([rows.ids.nrows()], tf.int64)
        padded = rows_lib.pad(
            rows.ids, first_of_row, pad_id=self.tokenizer.vocabulary.pad_id
        )
        read = self._read(rows.positions.to_tensor(0), *padded)
        tags, probabilities = (
            tf.RaggedTensor.from_tensor(
                read[name], rows.positions.row_lengths()
            ).values
            for name in ("tags", "tag_probabilities")
        )
        unseen_tag = spans.OUTSIDE if self.task.has_spans else ""
        tags = tf.where(rows.positions.values > 0, tags, unseen_tag)
        # The words of all rows in order are those of all texts.
        return {
            "words": found.words.to_tensor(""),
            "tags": found.words.with_values(tags).to_tensor(""),
            "tag_probabilities": found.words.with_values(
                probabilities
            ).to_tensor(0.0),
            "tagged_starts": _to_places(found.starts),
            "tagged_ends": _to_places(found.ends),
            "num_words": tf.cast(found.words.row_lengths(), tf.int32),
            "num_tokens": tf.cast(rows.num_tokens, tf.int32),
            "num_truncated": tf.cast(rows.num_truncated, tf.int32),
        }

    def answer_ids(self, **inputs: tf.Tensor) -> Tensors:
        """Tags for rows of ids with the positions of words."""
        positions = inputs.pop("word_positions")
        ids, mask, segments = self.check_ids(**inputs)
        is_token = (positions >= 0) & (positions < tf.shape(ids)[1])
        checks = [
            tf.debugging.assert_equal(
                tf.shape(positions)[0],
                tf.shape(ids)[0],
                "`word_positions` must have as many rows as `input_ids`.",
            ),
            tf.debugging.Assert(
                tf.reduce_all(is_token),
                [
                    "`word_positions` must be tokens of the row, from 0. "
                    "Received values",
                    positions,
                ],
                summarize=8,
            ),
        ]
        with tf.control_dependencies(checks):
            positions = tf.identity(positions)
        return self._read(positions, ids, mask, segments)

    def _read(self, positions: tf.Tensor, *rows: tf.Tensor) -> Tensors:
        """Tags of the words that are looked at."""
        shape = (None, None, *self._labels.shape)
        logits = self.predict_in_groups(
            {"logits": row_groups.Output(tf.float32, shape)},
            *rows,
            word_positions=positions,
        )["logits"]
        is_seen = positions > 0
        best = tf.argmax(logits, axis=2, output_type=tf.int32)
        probabilities = tf.reduce_max(tf.nn.softmax(logits), 2)
        return {
            "tags": tf.where(is_seen, tf.gather(self._labels, best), ""),
            "tag_probabilities": tf.where(is_seen, probabilities, 0.0),
            "tag_logits": tf.where(is_seen[:, :, tf.newaxis], logits, 0.0),
        }


def _to_places(places: tf.RaggedTensor) -> tf.Tensor:
    return tf.cast(places.to_tensor(_NO_WORD), tf.int32)
