"""What a pre-trained export computes: text or ids in, a tower's answers out."""

import tensorflow as tf

from electra_tf.export import signature_module
from electra_tf.export import signatures
from electra_tf.export import tower_answers
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
        outputs = rows | getattr(self._answers, family)(*arguments)
        documented = signatures.SIGNATURES[signature].outputs
        return {name: outputs[name] for name in documented}

    def _tokenize(self, texts: tf.Tensor) -> Tensors:
        ids, starts, ends = self.tokenizer.tokenize_with_offsets(texts)
        vocabulary = self.tokenizer.vocabulary
        num_pieces = tf.cast(ids.row_lengths(), tf.int32)
        num_kept = tf.minimum(num_pieces, self.max_length - _NUM_SPECIAL_TOKENS)
        num_tokens = num_kept + _NUM_SPECIAL_TOKENS
        first, last = vocabulary.cls_id, vocabulary.sep_id
        input_ids = self._frame(ids, first, last, vocabulary.pad_id)
        length = tf.shape(input_ids)[1]
        return {
            "input_ids": input_ids,
            "input_mask": tf.sequence_mask(num_tokens, length, tf.int32),
            "word_starts": self._frame(starts, _NO_WORD, _NO_WORD, _NO_WORD),
            "word_ends": self._frame(ends, _NO_WORD, _NO_WORD, _NO_WORD),
            "num_tokens": num_tokens,
            "num_truncated": num_pieces - num_kept,
        }

    def _frame(
        self, pieces: tf.RaggedTensor, first: int, last: int, padding: int
    ) -> tf.Tensor:
        pieces = pieces[:, : self.max_length - _NUM_SPECIAL_TOKENS]
        ones = tf.ones([pieces.nrows(), 1], tf.int32)
        return tf.concat([ones * first, pieces, ones * last], 1).to_tensor(
            padding
        )
