"""A client of an exported energy model: how likely a text and its words are.

    export = loaded_export.LoadedExport(export_dir)
    scored = likelihood.score(export, ["The cat sat on the banana."])[0]
    print(scored.pseudo_log_likelihood, scored.least_likely())

Log likelihoods are up to a constant per token, which the model does not know:
they compare texts of about equal length, no more.
"""

from collections.abc import Sequence
from typing import NamedTuple

from electra_tf.export import loaded_export
from electra_tf.export import scoring

SIGNATURE = "likelihood_text"


class LikelyWord(NamedTuple):
    """A word and how likely it is.

    Attributes:
        start: byte of the sentence at which it starts.
        end: byte after it.
        log_likelihood: sum over its pieces.
    """

    start: int
    end: int
    log_likelihood: float


class LikelyText(NamedTuple):
    """A sentence and how likely it is.

    Attributes:
        data: the sentence in UTF-8; offsets count its bytes.
        words: in the order of the sentence, as far as it was seen.
        pseudo_log_likelihood: sum over its words.
        num_truncated: pieces at its end that the model did not see.
    """

    data: bytes
    words: tuple[LikelyWord, ...]
    pseudo_log_likelihood: float
    num_truncated: int

    def least_likely(self, count: int = 1) -> tuple[LikelyWord, ...]:
        """The words with the smallest log likelihoods, smallest first."""
        ranked = sorted(self.words, key=lambda word: word.log_likelihood)
        return tuple(ranked[:count])


def score(
    export: loaded_export.LoadedExport, texts: Sequence[str | bytes]
) -> list[LikelyText]:
    """The likelihood of every text and of its words.

    Args:
        export: of a run of the objective `electric`.
        texts: sentences; bytes are taken as UTF-8.

    Returns:
        One result per text, in their order.

    Raises:
        ValueError: if the model does not offer likelihoods.
    """
    scored = []
    for data, row in export.answer_texts(SIGNATURE, texts):
        words = scoring.join_pieces(
            row["word_starts"], row["word_ends"], row["token_log_likelihood"]
        )
        scored.append(
            LikelyText(
                data,
                tuple(LikelyWord(*span, sum(v)) for span, v in words.items()),
                float(row["pseudo_log_likelihood"]),
                int(row["num_truncated"]),
            )
        )
    return scored
