"""From predicted word pieces back to the document's own text.

A model answers in normalised pieces: `steve smith` in `Steve Smith's`. The
answer is the part of the original text that they stand for, `Steve Smith`,
found by counting characters without blanks in both. Where normalising changed
their number, the words stay whole. (`get_final_text` of the original, and of
BERT before.)
"""

from collections.abc import Sequence

import tensorflow as tf

from electra_tf.text import normalization
from electra_tf.text import vocabulary as vocabulary_lib


def join_pieces(tokens: Sequence[str]) -> str:
    """The text of word pieces, words apart.

    >>> join_pieces(["smith", "##son", "'", "s"])
    "smithson ' s"
    """
    text = " ".join(tokens).replace(" ##", "").replace("##", "")
    return " ".join(text.split())


def project(
    predicted: str, normalized: str, original: str
) -> tuple[int, int] | None:
    """Where in the original text a prediction stands.

    Args:
        predicted: normalised words with single blanks.
        normalized: the original text, normalised likewise.
        original: words with blanks between them.

    Returns:
        Its first character and the one after its last; None if the texts do
        not line up.

    >>> project("steve smith", "steve smith ' s", "Steve Smith's")
    (0, 11)
    """
    first = normalized.find(predicted)
    last = first + len(predicted) - 1
    if first < 0 or not predicted or " " in (normalized[first],
                                             normalized[last]):  # fmt: skip
        return None
    places = [i for i, char in enumerate(original) if char != " "]
    if len(places) != len(normalized) - normalized.count(" "):
        return None
    start = places[first - normalized.count(" ", 0, first)]
    return start, places[last - normalized.count(" ", 0, last)] + 1


def normalize(
    texts: Sequence[str], settings: vocabulary_lib.TokenizerSettings
) -> list[str]:
    """Texts as the tokenizer sees them: normalised words, single blanks.

    Args:
        texts: any number of them.
        settings: casing and accents.
    """
    data = [text.encode(errors="surrogatepass") for text in texts]
    words = normalization.Normalizer(settings).split(
        tf.constant(data, tf.string)
    )
    decoded = [word.decode() for word in words.words.numpy()]
    splits = words.text_splits.numpy()
    return [
        " ".join(decoded[start:end])
        for start, end in zip(splits, splits[1:], strict=False)
    ]
