"""The pieces of single words, by the rules of the original's tagging code.

They are those of the tokenizer, word by word, with two exceptions. Ideographs
are not set apart: a word of them is matched as a whole. And the words `[CLS]`
and `[SEP]` stand for the special tokens.
"""

from collections.abc import Mapping
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.tasks import rows as rows_lib
from electra_tf.text import character_table
from electra_tf.text import normalization
from electra_tf.text import tokenizer as tokenizer_lib
from electra_tf.text import vocabulary as vocabulary_lib

_PREFIX = "##"
_SPECIAL_WORDS = ("[CLS]", "[SEP]")


class WordPieces(NamedTuple):
    """The pieces of N words.

    Attributes:
        pieces: `[N, (pieces)]` int32. A word of nothing but control
            characters has none.
        is_special: `[N]` bool, whether the word is `[CLS]` or `[SEP]`; its
            piece says nothing of it, so it is not tagged.
    """

    pieces: rows_lib.Ragged
    is_special: np.ndarray


def split_words(
    words: Sequence[str], tokenizer: tokenizer_lib.Tokenizer
) -> WordPieces:
    """The pieces of words; for many words at once, since calls are slow.

    Args:
        words: each on its own.
        tokenizer: its settings decide about case and accents. (The original
            lower-cases and strips accents here whatever they say.)
    """
    ragged = tokenizer.tokenize(tf.constant(_encode(words), tf.string))
    pieces = rows_lib.Ragged(
        ragged.values.numpy(), ragged.row_splits.numpy().astype(np.int64)
    )
    vocabulary = tokenizer.vocabulary
    replaced: dict[int, list[int]] = {}
    chosen = np.flatnonzero(_hold_ideographs(words)).tolist()
    if chosen:
        split = _split_unbroken([words[i] for i in chosen], vocabulary)
        replaced.update(zip(chosen, split, strict=True))
    is_special = np.zeros(len(words), bool)
    for index, word in enumerate(words):
        if "[" in word and "]" in word and _visible(word) in _SPECIAL_WORDS:
            is_special[index] = True
            replaced[index] = [vocabulary.id_of(_visible(word))]
    return WordPieces(_replace(pieces, replaced), is_special)


def _encode(words: Sequence[str]) -> list[bytes]:
    # JSON can hold lone surrogates; the tokenizer drops what they become.
    return [word.encode("utf-8", "surrogatepass") for word in words]


def _flags_of(text: str) -> np.ndarray:
    """How the tokenizer treats each character, `[len(text)]` int32."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    return character_table.compute_flags()[codes]


def _visible(word: str) -> str:
    """The word without the characters that vanish."""
    is_dropped = _flags_of(word) & character_table.DROPPED != 0
    return "".join(
        character
        for character, is_gone in zip(word, is_dropped, strict=True)
        if not is_gone
    )


def _hold_ideographs(words: Sequence[str]) -> np.ndarray:
    """Which words hold one, `[N]` bool."""
    is_ideograph = _flags_of("".join(words)) & character_table.IDEOGRAPH != 0
    counts = np.concatenate([[0], np.cumsum(is_ideograph)])
    ends = np.cumsum([len(word) for word in words], dtype=np.int64)
    return np.diff(counts[ends], prepend=0) > 0


def _replace(
    pieces: rows_lib.Ragged, replaced: Mapping[int, Sequence[int]]
) -> rows_lib.Ragged:
    if not replaced:
        return pieces
    lists = [replaced.get(index, pieces[index]) for index in range(len(pieces))]
    return rows_lib.Ragged.of(lists)


def _split_unbroken(
    words: Sequence[str], vocabulary: vocabulary_lib.Vocabulary
) -> list[list[int]]:
    """Pieces of words whose ideographs are letters like any other."""
    settings = vocabulary.settings
    normalizer = normalization.Normalizer(settings)
    texts = _encode(words)
    found = normalizer.split(tf.constant(texts, tf.string))
    parts = [part.decode() for part in found.words.numpy()]
    starts, ends = found.starts.numpy(), found.ends.numpy()
    splits = found.text_splits.numpy()
    ids = {token: index for index, token in enumerate(vocabulary.tokens)}
    pieces = []
    for text, first, last in zip(texts, splits, splits[1:], strict=False):
        row: list[int] = []
        for part in _join(
            parts[first:last],
            [
                text[end:start].decode("utf-8", "replace")
                for end, start in zip(
                    ends[first:last], starts[first + 1 : last], strict=False
                )
            ],
        ):
            row += _match(part, ids, vocabulary)
        pieces.append(row)
    return pieces


def _join(parts: Sequence[str], gaps: Sequence[str]) -> list[str]:
    """Parts with what was split at ideographs put together again.

    Args:
        parts: words after splitting at blanks, punctuation and ideographs.
        gaps: what stands between each of them and the next in the text.
    """
    joined = list(parts[:1])
    for before, gap, part in zip(parts, gaps, parts[1:], strict=False):
        is_break = (
            _is_punctuation(before)
            or _is_punctuation(part)
            or bool(np.any(_flags_of(gap) & character_table.BLANK))
        )
        if is_break:
            joined.append(part)
        else:
            joined[-1] += part
    return joined


def _is_punctuation(part: str) -> bool:
    return bool(_flags_of(part[0])[0] & character_table.PUNCTUATION)


def _match(
    word: str, ids: Mapping[str, int], vocabulary: vocabulary_lib.Vocabulary
) -> list[int]:
    """The longest piece that fits, again and again; or [UNK] alone."""
    if len(word) > vocabulary.settings.max_word_length:
        return [vocabulary.unk_id]
    pieces, start = [], 0
    while start < len(word):
        prefix = _PREFIX if start else ""
        for end in range(len(word), start, -1):
            if prefix + word[start:end] in ids:
                break
        else:
            return [vocabulary.unk_id]
        pieces.append(ids[prefix + word[start:end]])
        start = end
    return pieces
