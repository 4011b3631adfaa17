"""What an exported model computes: raw text or ids in, a tower's answers out.

Inputs and outputs have the names that `signatures.SIGNATURES` documents. Batch
and length are free. Nothing here keeps Keras objects in the exported graph:
the module holds plain TensorFlow variables, so TensorFlow and TensorFlow Text
suffice to load it.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from electra_tf.export import signatures
from electra_tf.export import tower_answers
from electra_tf.text import tokenizer as tokenizer_lib

# [CLS] and [SEP] around every text.
_NUM_SPECIAL_TOKENS = 2
# Offsets of tokens that come from no word.
_NO_WORD = -1

Tensors = dict[str, tf.Tensor]


class ServingModule(tf.Module):
    """A main tower and its tokenizer behind the signatures of an export.

    `answer` runs operation by operation when called directly;
    `trace_signatures` makes the graphs that are exported.

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
        super().__init__(name="electra")
        tower = answers.tower
        embeddings = tower.encoder.embeddings
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
        self.model_variables = [variable.value for variable in tower.variables]
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
            arguments = self._check_ids(**inputs)
        outputs = rows | getattr(self._answers, family)(*arguments)
        documented = signatures.SIGNATURES[signature].outputs
        return {name: outputs[name] for name in documented}

    def trace_signatures(self) -> dict[str, Any]:
        """Signature name to traced function, what `tf.saved_model.save` takes.

        Every function takes and returns exactly the documented names. A
        client that names none gets the tower's first.
        """
        functions = {}
        for name in self.signature_names:
            inputs = signatures.SIGNATURES[name].inputs
            function = tf.function(
                self._as_function(name),
                input_signature=[_tensor_spec(tensor) for tensor in inputs],
                autograph=False,
            )
            functions[name] = function.get_concrete_function()
        default = functions[self.signature_names[0]]
        return {"serving_default": default} | functions

    def _as_function(self, signature: str) -> Callable[..., Tensors]:
        def answer_text(texts: tf.Tensor) -> Tensors:
            return self.answer(signature, texts=texts)

        def answer_ids(
            input_ids: tf.Tensor,
            input_mask: tf.Tensor,
            segment_ids: tf.Tensor,
        ) -> Tensors:
            return self.answer(
                signature,
                input_ids=input_ids,
                input_mask=input_mask,
                segment_ids=segment_ids,
            )

        return answer_text if signature.endswith("_text") else answer_ids

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

    def _check_ids(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        segment_ids: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """The same, after checks that only the running graph can make."""
        length = tf.shape(input_ids)[1]
        # An accelerator would look up zeros for ids that do not exist.
        checks = [
            _require_equal_shapes("input_mask", input_mask, input_ids),
            _require_equal_shapes("segment_ids", segment_ids, input_ids),
            tf.debugging.assert_less_equal(
                length,
                self.num_positions,
                "Rows must not be longer than the model's "
                f"{self.num_positions} positions. Cut them.",
            ),
            _require_range("input_ids", input_ids, self.vocab_size),
            _require_range("segment_ids", segment_ids, self.num_segments),
            _require_range("input_mask", input_mask, 2),
        ]
        with tf.control_dependencies(checks):
            return tf.identity(input_ids), input_mask, segment_ids


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
