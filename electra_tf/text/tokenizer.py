"""Turns text into WordPiece ids, in a TensorFlow graph.

The ids are those of the original's `FullTokenizer`. Most texts take a fast
path through tensorflow-text. Texts with characters for which its result depends
on a Unicode version, a locale or neighbours go through `Normalizer`.
"""

import tensorflow as tf
import tensorflow_text

from electra_tf import errors
from electra_tf.text import character_table
from electra_tf.text import normalization
from electra_tf.text.vocabulary import Vocabulary

_UNKNOWN_TOKEN = "[UNK]"
_CONTINUATION_PREFIX = "##"
_MAX_TOKEN_BYTES = 256
# Strings are there; a GPU would only add copies.
_DEVICE = "/CPU:0"
_TEXTS = tf.TensorSpec([None], tf.string, name="texts")


class Tokenizer(tf.Module):
    """Turns texts into ids, in Python, tf.data, tf.function or a SavedModel.

    The process that loads such a SavedModel must `import tensorflow_text`.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(name="tokenizer")
        self.vocabulary = vocabulary
        settings = vocabulary.settings
        self._is_folding = settings.do_lower_case
        self._is_stripping = settings.is_stripping
        self._simple_pattern = character_table.simple_text_pattern(settings)
        self._long_run_pattern = character_table.long_run_pattern(settings)
        self._normalizer = normalization.Normalizer(settings)
        self._sentence_pieces = _build_pieces(
            _matchable_tokens(vocabulary, character_table.IDEOGRAPH),
            max_bytes=settings.max_word_length,
            is_split=False,
        )
        self._word_pieces = _build_pieces(
            _matchable_tokens(vocabulary),
            max_bytes=settings.max_word_length * character_table.MAX_UTF8_BYTES,
            is_split=True,
        )
        sizes = [len(t.removeprefix("##")) for t in vocabulary.tokens]
        self._num_characters = tf.constant(sizes)
        # Not by decorators, whose functions hold no reference to the object:
        # `dataset.map(Tokenizer(vocabulary).tokenize)` must work.
        self._traced_ids, self._traced_offsets = (
            tf.function(function, [_TEXTS], autograph=False)
            for function in (self._compute_ids, self._compute_offsets)
        )

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids of N texts, `[N, (pieces)]` int32.

        Invalid bytes are dropped; `[CLS]` and the like are ordinary text.
        """
        return self._traced_ids(texts)

    def tokenize_with_offsets(
        self, texts: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Returns ids, and the place of their word in the text.

        Returns three ragged tensors, `[N, (pieces)]` int32: the ids, the byte
        offset of their word's first byte, and of the byte after its last one.
        Several times slower than `tokenize`.
        """
        return self._traced_offsets(texts)[:3]

    def locate_pieces(
        self, texts: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Returns where in the text each piece begins and ends.

        Returns two ragged tensors, `[N, (pieces)]` int32, byte offsets as in
        `tokenize_with_offsets`, but of the characters that each piece stands
        for: of a whole word if it is unknown.
        """
        return self._traced_offsets(texts)[3:]

    def tokenize_words(self, words: normalization.Words) -> tf.RaggedTensor:
        """Returns the ids of the words of N texts, `[N, (pieces)]` int32."""
        return _by_text(self._match(words), words)

    def _compute_ids(self, texts: tf.Tensor) -> tf.RaggedTensor:
        with tf.device(_DEVICE):
            is_simple = tf.strings.regex_full_match(texts, self._simple_pattern)
            simple = self._normalize_simple(tf.where(is_simple, texts, ""))
            fast = self._sentence_pieces.tokenize(simple)
            is_left = ~is_simple | self._may_hold_long_words(simple, fast)
            return tf.cond(
                tf.reduce_any(is_left),
                lambda: self._replace_rows(fast, texts, is_left),
                lambda: fast,
            )

    def _compute_offsets(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, ...]:
        """Returns ids, the places of their words, and their own."""
        with tf.device(_DEVICE):
            words = self._normalizer.split(texts)
            pieces = self._match(words)
            ids, word_of_piece = _by_text(pieces, words), pieces.value_rowids()
            # Pieces share out all characters, one after another.
            sizes = tf.where(
                ids.values == self.vocabulary.unk_id,
                tf.gather(words.num_characters, word_of_piece),
                tf.gather(self._num_characters, ids.values),
            )
            after = tf.cumsum(sizes)
            places = (
                tf.gather(words.starts, word_of_piece),
                tf.gather(words.ends, word_of_piece),
                tf.gather(words.character_starts, after - sizes),
                tf.gather(words.character_ends, after - 1),
            )
            return ids, *map(ids.with_values, places)

    def _replace_rows(
        self, fast: tf.RaggedTensor, texts: tf.Tensor, is_left: tf.Tensor
    ) -> tf.RaggedTensor:
        words = self._normalizer.split(tf.boolean_mask(texts, is_left))
        exact = self.tokenize_words(words)
        place = tf.cumsum(tf.cast(is_left, tf.int64), exclusive=True)
        order = tf.where(is_left, fast.nrows() + place, tf.range(fast.nrows()))
        return tf.gather(tf.concat([fast, exact], axis=0), order)

    def _normalize_simple(self, texts: tf.Tensor) -> tf.Tensor:
        if self._is_stripping:
            texts = tensorflow_text.normalize_utf8(texts, "NFD")
            texts = tf.strings.regex_replace(texts, r"\p{Mn}+", "")
        if self._is_folding:
            texts = tf.strings.lower(texts)
        return texts

    def _may_hold_long_words(
        self, texts: tf.Tensor, pieces: tf.RaggedTensor
    ) -> tf.Tensor:
        """Returns whether each text may hold a word that is too long."""
        unknown = tf.where(pieces.values == self.vocabulary.unk_id)[:, 0]
        rows = tf.searchsorted(pieces.row_splits, unknown, side="right") - 1
        has_unknown = normalization.mark_positions(rows, tf.size(texts))
        return tf.strings.regex_full_match(
            tf.where(has_unknown, texts, ""), self._long_run_pattern
        )

    def _match(self, words: normalization.Words) -> tf.RaggedTensor:
        """The pieces of each word, `[W, (pieces)]` int32."""
        limit = self.vocabulary.settings.max_word_length
        is_too_long = words.num_characters > limit
        known = tf.where(is_too_long, _UNKNOWN_TOKEN, words.words)
        return self._word_pieces.tokenize(known)


def _matchable_tokens(vocabulary: Vocabulary, breaks: int = 0) -> list[str]:
    """Replaces tokens that never match by other names.

    With some of them tensorflow-text is wrong: if `a b` is a token, the word
    `aa` is unknown.
    """
    max_length = vocabulary.settings.max_word_length
    tokens = []
    for number, token in enumerate(vocabulary.tokens):
        content = token.removeprefix(_CONTINUATION_PREFIX)
        is_matchable = token == _UNKNOWN_TOKEN or (
            len(content) <= max_length
            and _occurs_in_words(token, content, breaks)
        )
        tokens.append(token if is_matchable else f"[{number}]")
        if is_matchable and len(content.encode()) > _MAX_TOKEN_BYTES:
            raise errors.DataError(
                f"Token {token[:20]!r}... of line {number + 1} must take at "
                f"most {_MAX_TOKEN_BYTES} bytes. Replace it by an unused name."
            )
    return tokens


def _occurs_in_words(token: str, content: str, breaks: int) -> bool:
    if content.isascii() and content.isalnum():
        return True
    unfit = character_table.DROPPED | character_table.BLANK
    if len(token) > 1:
        unfit |= character_table.PUNCTUATION | breaks
    flags = character_table.compute_flags()
    return bool(content) and not any(flags[ord(c)] & unfit for c in content)


def _build_pieces(
    tokens: list[str], max_bytes: int, is_split: bool
) -> tensorflow_text.FastWordpieceTokenizer:
    try:
        return tensorflow_text.FastWordpieceTokenizer(
            vocab=tokens,
            suffix_indicator=_CONTINUATION_PREFIX,
            max_bytes_per_word=max_bytes,
            token_out_type=tf.int32,
            unknown_token=_UNKNOWN_TOKEN,
            no_pretokenization=is_split,
        )
    except RuntimeError as error:
        raise errors.DataError(
            f"A vocabulary must hold pieces of words. Received: {len(tokens)} "
            f"tokens ({error}) Is the file cut off? Take it again."
        ) from error


def _by_text(
    pieces: tf.RaggedTensor, words: normalization.Words
) -> tf.RaggedTensor:
    """Joins the pieces of the words of each text."""
    splits = tf.gather(pieces.row_splits, words.text_splits)
    return tf.RaggedTensor.from_row_splits(
        pieces.values, splits, validate=False
    )
