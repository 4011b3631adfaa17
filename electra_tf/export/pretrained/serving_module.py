"""What a pre-trained export computes: text or ids in, a tower's answers out."""

from typing import Any

import tensorflow as tf

from electra_tf.export import signature_module
from electra_tf.export import signatures
from electra_tf.export.compute import row_groups
from electra_tf.export.pretrained import tower_answers
from electra_tf.text import tokenizer as tokenizer_lib

# [CLS] and [SEP] around every text.
_NUM_SPECIAL_TOKENS = 2
# Offsets of tokens that come from no word.
_NO_WORD = -1

Tensors = dict[str, tf.Tensor]


class ServingModule(signature_module.SignatureModule):
    """A main tower and its tokenizer behind the signatures of an export.

    Args:
        answers: of a tower with its weights.
        tokenizer: of the vocabulary that it was trained with.
        max_length: tokens, [CLS] and [SEP] among them, at which texts are
            cut: 3 to the rows of the position table, or 0 for all of them.

    Raises:
        ValueError: if `max_length` is not in that range.
    """

    def __init__(
        self,
        answers: tower_answers.TowerAnswers,
        tokenizer: tokenizer_lib.Tokenizer,
        max_length: int = 0,
    ) -> None:
        tower = answers.tower
        super().__init__(tower.encoder, tower.variables, tokenizer, max_length)
        # A plain object is not tracked, a layer would be saved whole.
        self._answers = answers

    @property
    def signature_names(self) -> tuple[str, ...]:
        """What it offers; the first is what a client gets that names none."""
        return self._answers.signature_names

    @property
    def layers(self) -> tuple[Any, ...]:
        """The tower, which may be no layer itself, and its encoder."""
        return self._answers.tower, self._answers.tower.encoder

    def answer(self, signature: str, **inputs: tf.Tensor) -> Tensors:
        """What a signature answers.

        Args:
            signature: one of `signature_names`.
            **inputs: as `signatures.SIGNATURES` documents it: `texts`, `[B]`
                string, or `[B, S]` int32 ids, S at most the model's positions.

        Returns:
            Name to tensor, all that the signature documents.
        """
        family = signature.rpartition("_")[0]
        rows: Tensors = {}
        if "texts" in inputs:
            rows = self._tokenize(inputs["texts"])
            ids = rows["input_ids"]
            arguments = ids, rows["input_mask"], tf.zeros_like(ids)
        else:
            arguments = self.check_ids(**inputs)
        outputs = rows | self._read(family, arguments)
        documented = signatures.SIGNATURES[signature].outputs
        return {name: outputs[name] for name in documented}

    def _read(self, family: str, rows: tuple[tf.Tensor, ...]) -> Tensors:
        """The tower's answers of one family."""

        def read_group(group: row_groups.Rows) -> Tensors:
            return getattr(self._answers, family)(*map(group.cut, rows))

        return self.read_in_groups(
            read_group,
            row_groups.count_columns(rows[1]),
            tf.shape(rows[0])[1],
            self._answers.describe_outputs(family),
        )

    def _tokenize(self, texts: tf.Tensor) -> Tensors:
        ids, starts, ends = self.tokenizer.tokenize_with_offsets(texts)
        vocabulary = self.tokenizer.vocabulary
        num_pieces = tf.cast(ids.row_lengths(), tf.int32)
        num_kept = tf.minimum(num_pieces, self.max_length - _NUM_SPECIAL_TOKENS)
        num_tokens = num_kept + _NUM_SPECIAL_TOKENS
        # Laid out by hand: ragged operations would be most of the graph.
        columns = tf.range(tf.reduce_max(tf.pad(num_tokens, [[0, 1]])))
        num_kept_column = num_kept[:, tf.newaxis]
        is_piece = (columns > 0) & (columns <= num_kept_column)
        first = tf.cast(ids.row_starts(), tf.int32)[:, tf.newaxis]
        source = tf.where(is_piece, first + columns - 1, 0)

        def lay_out(pieces: tf.RaggedTensor, others: Any) -> tf.Tensor:
            # A place to read where there is no piece at all.
            values = tf.pad(pieces.values, [[0, 1]])
            return tf.where(is_piece, tf.gather(values, source), others)

        is_last = columns == num_kept_column + 1
        others = tf.where(is_last, vocabulary.sep_id, vocabulary.pad_id)
        others = tf.where(columns == 0, vocabulary.cls_id, others)
        is_token = columns < num_tokens[:, tf.newaxis]
        return {
            "input_ids": lay_out(ids, others),
            "input_mask": tf.cast(is_token, tf.int32),
            "word_starts": lay_out(starts, _NO_WORD),
            "word_ends": lay_out(ends, _NO_WORD),
            "num_tokens": num_tokens,
            "num_truncated": num_pieces - num_kept,
        }
