"""An exported tagger: the words of raw text, each with its tag."""

import tensorflow as tf

from electra_tf.export import finetuned_module
from electra_tf.export import finetuned_words
from electra_tf.export import row_groups
from electra_tf.text import tokenizer as tokenizer_lib

_OUTSIDE = "O"
# Offsets of what is no word.
_NO_WORD = -1
_MIN_LENGTH = 5

Tensors = dict[str, tf.Tensor]


class TaggingModule(finetuned_module.FinetunedModule):
    """A tag for every word.

    Args:
        layers: of the task.
        tokenizer: of the vocabulary that it was trained with.
        labels: tags, in the order of the head's outputs.
        has_spans: whether tags mark spans of words.
        max_length: most tokens of a row; 0 for the model's positions.
        cuts_early: see `alignment.align`; as it was trained.
    """

    kind = "tagging"
    signature_names = ("tag_text", "tag_ids")

    def __init__(
        self,
        layers: finetuned_module.FinetunedLayers,
        tokenizer: tokenizer_lib.Tokenizer,
        labels: tuple[str, ...],
        has_spans: bool,
        max_length: int = 0,
        cuts_early: bool = False,
    ) -> None:
        super().__init__(layers, tokenizer, max_length, _MIN_LENGTH)
        self._labels = tf.constant(labels)
        self._unseen_tag = _OUTSIDE if has_spans else ""
        self._builder = finetuned_words.WordRowBuilder(
            tokenizer.vocabulary, self.max_length, cuts_early
        )

    def answer_text(self, **inputs: tf.Tensor) -> Tensors:
        """Words with tags, for `texts`."""
        split = finetuned_words.split_at_blanks(inputs["texts"])
        rows, positions = self._builder.build(split.words)
        outputs = self._read(positions, *rows[:3])
        num_words = tf.cast(split.words.row_lengths(), tf.int32)
        is_unseen = tf.sequence_mask(num_words, tf.shape(positions)[1])
        is_unseen &= positions == 0
        tags = tf.where(is_unseen, self._unseen_tag, outputs["tags"])
        return outputs | {
            "words": split.words.to_tensor(""),
            "tags": tags,
            "tagged_starts": split.starts.to_tensor(_NO_WORD),
            "tagged_ends": split.ends.to_tensor(_NO_WORD),
            "num_words": num_words,
            "num_tokens": rows.num_tokens,
            "num_truncated": rows.num_truncated,
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
