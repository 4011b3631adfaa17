"""What an exported model computes, one method per signature.

The methods produce the names that `signatures.SIGNATURES` documents. Batch and
length are free. Nothing here keeps Keras objects in the exported graph: the
module holds plain TensorFlow variables, so TensorFlow and TensorFlow Text
suffice to load it.
"""

from typing import Any

import tensorflow as tf

from electra_tf.export import signatures
from electra_tf.modeling import discriminator as discriminator_lib
from electra_tf.text import tokenizer as tokenizer_lib

# [CLS] and [SEP] around every text.
_NUM_SPECIAL_TOKENS = 2
# Offsets of tokens that come from no word.
_NO_WORD = -1

Tensors = dict[str, tf.Tensor]


class ServingModule(tf.Module):
    """A discriminator and its tokenizer behind the signatures of an export.

    Dropout is off. Called directly the methods run operation by operation;
    `trace_signatures` turns them into the graphs that are exported.

    Args:
        discriminator: with its weights.
        tokenizer: of the vocabulary that it was trained with.
        max_length: tokens, [CLS] and [SEP] among them, at which texts are
            cut: 3 to the rows of the position table, or 0 for all of them.

    Raises:
        ValueError: if `max_length` is not in that range.
    """

    def __init__(
        self,
        discriminator: discriminator_lib.Discriminator,
        tokenizer: tokenizer_lib.Tokenizer,
        max_length: int = 0,
    ) -> None:
        super().__init__(name="electra")
        embeddings = discriminator.encoder.embeddings
        self.num_positions: int = embeddings.max_position_embeddings
        self.vocab_size: int = embeddings.vocab_size
        self.num_segments: int = embeddings.type_vocab_size
        if max_length and not 3 <= max_length <= self.num_positions:
            raise ValueError(
                f"`max_length` must be 3 to {self.num_positions}, the model's "
                f"positions, or 0 for all of them. Received: {max_length}."
            )
        self.max_length = max_length or self.num_positions
        self.tokenizer = tokenizer
        self.model_variables = [
            variable.value for variable in discriminator.variables
        ]
        # A bound method is not tracked, a layer would be saved whole.
        self._discriminate = discriminator.__call__

    def score_text(self, texts: tf.Tensor) -> Tensors:
        """Which words of raw text look replaced.

        Args:
            texts: `[B]` string, UTF-8.

        Returns:
            Name to tensor, see `signatures`.
        """
        rows = self._tokenize(texts)
        scores = self._score(*_as_one_segment(rows))
        return rows | {"replaced_probability": scores["replaced_probability"]}

    def score_ids(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        segment_ids: tf.Tensor,
    ) -> Tensors:
        """Which tokens look replaced.

        Args:
            input_ids: `[B, S]` int32, S at most the model's positions.
            input_mask: `[B, S]` int32, 1 for tokens and 0 for padding.
            segment_ids: `[B, S]` int32.

        Returns:
            Name to tensor, see `signatures`.
        """
        checked = self._check_ids(input_ids, input_mask, segment_ids)
        return self._score(checked, input_mask, segment_ids)

    def features_text(self, texts: tf.Tensor) -> Tensors:
        """Sentence and token features of raw text, as `score_text`."""
        rows = self._tokenize(texts)
        return rows | self._features(*_as_one_segment(rows))

    def features_ids(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        segment_ids: tf.Tensor,
    ) -> Tensors:
        """Sentence and token features, as `score_ids`."""
        checked = self._check_ids(input_ids, input_mask, segment_ids)
        return self._features(checked, input_mask, segment_ids)

    def trace_signatures(self) -> dict[str, Any]:
        """Signature name to traced function, what `tf.saved_model.save` takes.

        Every function takes and returns exactly the documented names.
        """
        functions = {}
        for name, documented in signatures.SIGNATURES.items():
            inputs = [_tensor_spec(tensor) for tensor in documented.inputs]
            function = tf.function(
                getattr(self, name), input_signature=inputs, autograph=False
            )
            functions[name] = function.get_concrete_function()
        default = functions[signatures.DEFAULT_SIGNATURE]
        return {"serving_default": default} | functions

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

    def _score(
        self, input_ids: tf.Tensor, input_mask: tf.Tensor, segments: tf.Tensor
    ) -> Tensors:
        logits = self._discriminate(input_ids, input_mask, segments).logits
        # What stands at padding would depend on how much of it there is.
        logits = tf.where(input_mask > 0, logits, signatures.PADDING_LOGIT)
        return {
            "replaced_probability": tf.sigmoid(logits),
            "replaced_logits": logits,
        }

    def _features(
        self, input_ids: tf.Tensor, input_mask: tf.Tensor, segments: tf.Tensor
    ) -> Tensors:
        output = self._discriminate(input_ids, input_mask, segments)
        hidden = tf.cast(output.encoder_output.sequence_output, tf.float32)
        is_token = (input_mask > 0)[:, :, tf.newaxis]
        return {
            # Not `hidden[:, 0]`, which a batch without rows does not have.
            "sentence_features": tf.reshape(
                hidden[:, :1], [tf.shape(hidden)[0], hidden.shape[-1]]
            ),
            "token_features": tf.where(is_token, hidden, 0.0),
        }

    def _check_ids(
        self, input_ids: tf.Tensor, input_mask: tf.Tensor, segments: tf.Tensor
    ) -> tf.Tensor:
        """The ids, after checks that only the running graph can make."""
        length = tf.shape(input_ids)[1]
        # An accelerator would look up zeros for ids that do not exist.
        checks = [
            _require_equal_shapes("input_mask", input_mask, input_ids),
            _require_equal_shapes("segment_ids", segments, input_ids),
            tf.debugging.assert_less_equal(
                length,
                self.num_positions,
                "Rows must not be longer than the model's "
                f"{self.num_positions} positions. Cut them.",
            ),
            _require_range("input_ids", input_ids, self.vocab_size),
            _require_range("segment_ids", segments, self.num_segments),
            _require_range("input_mask", input_mask, 2),
        ]
        with tf.control_dependencies(checks):
            return tf.identity(input_ids)


def _as_one_segment(
    rows: Tensors,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    input_ids = rows["input_ids"]
    return input_ids, rows["input_mask"], tf.zeros_like(input_ids)


def _require_equal_shapes(
    name: str, tensor: tf.Tensor, reference: tf.Tensor
) -> Any:
    return tf.debugging.assert_equal(
        tf.shape(tensor),
        tf.shape(reference),
        f"`{name}` must have the shape of `input_ids`.",
    )


def _require_range(name: str, tensor: tf.Tensor, size: int) -> Any:
    return tf.debugging.Assert(
        tf.reduce_all((tensor >= 0) & (tensor < size)),
        [f"`{name}` must be 0 to {size - 1}. Received values", tensor],
        summarize=8,
    )


def _tensor_spec(name: str) -> tf.TensorSpec:
    meaning = signatures.TENSORS[name]
    rank = meaning.shape.count(",") + 1
    return tf.TensorSpec([None] * rank, tf.as_dtype(meaning.dtype), name)
