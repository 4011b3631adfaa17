"""Turns text into WordPiece ids, in a TensorFlow graph.

The ids are those of the original's `FullTokenizer`: `Normalizer` makes words,
tensorflow-text divides them into tokens ("pieces").
"""

import tensorflow as tf
import tensorflow_text

from electra_tf import errors
from electra_tf.text import normalization
from electra_tf.text.vocabulary import NO_TOKEN
from electra_tf.text.vocabulary import SPECIAL_TOKENS
from electra_tf.text.vocabulary import Vocabulary

_UNKNOWN_TOKEN = "[UNK]"
_CONTINUATION_PREFIX = "##"
_MAX_TOKEN_BYTES = 256
# Strings exist on the CPU only.
_DEVICE = "/CPU:0"
_TEXTS = tf.TensorSpec([None], tf.string, name="texts")


class Tokenizer(tf.Module):
    """Turns texts into ids, in Python, tf.data, tf.function or a SavedModel.

    The process that loads such a SavedModel must `import tensorflow_text`.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(name="tokenizer")
        self.vocabulary = vocabulary
        self._normalizer = normalization.Normalizer(vocabulary.settings)
        self._pieces = _build_pieces(vocabulary)
        sizes = [len(t.removeprefix("##")) for t in vocabulary.tokens]
        self._num_characters = tf.constant(sizes)
        # A decorated method holds no reference to its object, so that
        # `dataset.map(Tokenizer(vocabulary).tokenize)` would fail.
        self._traced_ids, self._traced_offsets = (
            tf.function(function, [_TEXTS], autograph=False)
            for function in (self._compute_ids, self._compute_offsets)
        )

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids of N texts, `[N, (pieces)]` int32.

        Invalid bytes are dropped; special tokens are split like other text.
        """
        return self._traced_ids(texts)

    def tokenize_with_offsets(
        self, texts: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Returns ids and the byte offsets of their words; slower.

        Returns three ragged tensors, `[N, (pieces)]` int32: the ids, the offset
        of their word's first byte, and of the byte after the word.
        """
        return self._traced_offsets(texts)[:3]

    def locate_pieces(
        self, texts: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Returns the byte offsets of each piece; of [UNK], of the word.

        Returns two ragged tensors, `[N, (pieces)]` int32: the offset of the
        piece's first byte, and of the byte after the piece.
        """
        return self._traced_offsets(texts)[3:]

    def tokenize_words(self, words: normalization.Words) -> tf.RaggedTensor:
        """Returns the ids of the words of N texts, `[N, (pieces)]` int32."""
        return _by_text(self._match(words), words.text_splits)

    def _compute_ids(self, texts: tf.Tensor) -> tf.RaggedTensor:
        with tf.device(_DEVICE):
            # Most words of a batch repeat, and no word contains a blank.
            chunks = tf.strings.split(texts, " ")
            distinct, places = tf.unique(chunks.values)
            pieces = self.tokenize_words(self._normalizer.split(distinct))
            return _by_text(tf.gather(pieces, places), chunks.row_splits)

    def _compute_offsets(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, ...]:
        """Returns ids, the offsets of their words, and of the pieces."""
        with tf.device(_DEVICE):
            words = self._normalizer.split(texts)
            pieces = self._match(words)
            ids = _by_text(pieces, words.text_splits)
            word_of_piece = pieces.value_rowids()
            # The pieces of a word cover its characters one after another.
            sizes = tf.where(
                ids.values == self.vocabulary.unk_id,
                tf.gather(words.num_characters, word_of_piece),
                tf.gather(self._num_characters, ids.values),
            )
            after = tf.cumsum(sizes)
            offsets = (
                tf.gather(words.starts, word_of_piece),
                tf.gather(words.ends, word_of_piece),
                tf.gather(words.character_starts, after - sizes),
                tf.gather(words.character_ends, after - 1),
            )
            return ids, *map(ids.with_values, offsets)

    def _match(self, words: normalization.Words) -> tf.RaggedTensor:
        """Returns the pieces of each word, `[W, (pieces)]` int32."""
        limit = self.vocabulary.settings.max_word_length
        is_too_long = words.num_characters > limit
        known = tf.where(is_too_long, _UNKNOWN_TOKEN, words.words)
        return self._pieces.tokenize(known)


def _build_pieces(
    vocabulary: Vocabulary,
) -> tensorflow_text.FastWordpieceTokenizer:
    if vocabulary.size == len(SPECIAL_TOKENS):
        raise errors.DataError(
            "A vocabulary must hold pieces of words. Received: only its "
            f"{vocabulary.size} special tokens. Copy the file again."
        )
    longest, tokens = vocabulary.settings.max_word_length, list[str]()
    for number, token in enumerate(vocabulary.tokens):
        content = token.removeprefix(_CONTINUATION_PREFIX)
        # Tokens that no word can contain: the library refuses some of them.
        can_match = "\0" not in content and 0 < len(content) <= longest
        if can_match and len(content.encode()) > _MAX_TOKEN_BYTES:
            raise errors.DataError(
                f"Token {token[:20]!r}... of line {number + 1} must take at "
                f"most {_MAX_TOKEN_BYTES} bytes. Replace it by an unused name."
            )
        is_kept = can_match or token == _UNKNOWN_TOKEN
        tokens.append(token if is_kept else f"{NO_TOKEN}at_{number}]")
    return tensorflow_text.FastWordpieceTokenizer(
        vocab=tokens,
        suffix_indicator=_CONTINUATION_PREFIX,
        # A character takes up to four bytes in UTF-8.
        max_bytes_per_word=4 * longest,
        token_out_type=tf.int32,
        unknown_token=_UNKNOWN_TOKEN,
        no_pretokenization=True,
    )


def _by_text(
    pieces: tf.RaggedTensor, text_splits: tf.Tensor
) -> tf.RaggedTensor:
    """Joins the pieces of the words of each text."""
    splits = tf.gather(pieces.row_splits, text_splits)
    return tf.RaggedTensor.from_row_splits(
        pieces.values, splits, validate=False
    )
