"""Shows which words of a text are suspicious or unlikely.

Words are split at blanks, punctuation and CJK characters, as in the tokenizer.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from rich import console as rich_console
from rich import table as rich_table
from rich import text as rich_text

from electra_tf.text import terminal

_MARK_STYLE = "bold red"


class ScoredWord(NamedTuple):
    """A word and how suspicious it is."""

    text: str
    start: int  # its first byte in the sentence
    end: int  # the byte after it
    replaced_probability: float  # maximum over its tokens


class LikelyWord(NamedTuple):
    """A word and how likely it is; other fields as in `ScoredWord`."""

    text: str
    start: int
    end: int
    log_likelihood: float  # sum over its tokens


class ScoredText(NamedTuple):
    """A sentence and its words."""

    data: bytes  # UTF-8; offsets count its bytes
    words: tuple[Any, ...]  # `ScoredWord`s or `LikelyWord`s before the cut
    num_truncated: int  # tokens at the end that the model did not see
    # Sum over the `LikelyWord`s; None for `ScoredWord`s.
    pseudo_log_likelihood: float | None = None

    @property
    def is_likelihood(self) -> bool:
        """Whether words have likelihoods instead of probabilities."""
        return self.pseudo_log_likelihood is not None

    def most_suspicious(self, count: int = 1) -> tuple[Any, ...]:
        """The words most probably replaced, or least likely, worst first."""
        sign = 1 if self.is_likelihood else -1
        # The last field of a word is its score.
        return tuple(sorted(self.words, key=lambda w: sign * w[-1])[:count])


class Swap(NamedTuple):
    """A sentence in which one word was exchanged."""

    data: bytes  # the new sentence in UTF-8
    start: int  # first byte of the word, in both sentences
    old_end: int  # byte after the word in the old sentence
    new_end: int  # byte after the word in the new sentence


def swap_word(text: str, swap: str) -> Swap:
    """Exchanges a word of a sentence; `swap` is WORD:REPLACEMENT.

    Raises `ValueError` for another form, or if the word is not in the text.
    """
    word, colon, replacement = swap.partition(":")
    if not (word and colon and replacement):
        raise ValueError(
            f"A swap must be given as WORD:REPLACEMENT. Received: {swap!r}."
        )
    match = re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text)
    if match is None:
        raise ValueError(
            f"The word to swap must occur in the text. Received: {word!r} for "
            f"{text!r}. Choose one of its words."
        )
    return exchange(text, match.start(), match.end(), replacement)


def exchange(text: str, start: int, end: int, replacement: str) -> Swap:
    """Exchanges the characters from `start` to before `end` of a sentence."""
    parts = text[:start], text[start:end], replacement, text[end:]
    before, old, new, after = map(terminal.to_bytes, parts)
    first = len(before)
    return Swap(before + new + after, first, first + len(old), first + len(new))


def find_suspect(
    scored: ScoredText, start: int, end: int
) -> tuple[int, ScoredWord] | None:
    """Finds the most suspicious word in a byte range, with its rank from 1."""
    for rank, word in enumerate(scored.most_suspicious(len(scored.words)), 1):
        if word.start < end and word.end > start:
            return rank, word
    return None


def print_scored(texts: Sequence[ScoredText], num_marked: int = 1) -> None:
    """Prints each text's table of words, and the text with marked words."""
    console = rich_console.Console(highlight=False, markup=False)
    for scored in texts:
        marked = scored.most_suspicious(num_marked)
        console.print(build_table(scored, marked))
        console.print()
        spans = [(word.start, word.end) for word in marked]
        console.print(mark(scored.data, spans), soft_wrap=True)
        if scored.num_truncated:
            console.print(
                f"({scored.num_truncated} tokens at the end were not scored: "
                "the text is longer than the model's rows)"
            )
        if scored.is_likelihood:
            console.print(
                f"pseudo-log-likelihood {scored.pseudo_log_likelihood:.3f} "
                "(lower: less likely)"
            )


def describe_swap(original: ScoredText, scored: ScoredText, swap: Swap) -> str:
    """Describes in a sentence how a swap changed the scores."""
    before = original.pseudo_log_likelihood
    after = scored.pseudo_log_likelihood
    if before is not None and after is not None:
        if before == after:
            return f"Both sentences are equally likely: {after:.3f}."
        return (
            f"The swapped sentence is {'less' if after < before else 'more'} "
            f"likely than the original: {after:.3f} against {before:.3f}."
        )
    old = find_suspect(original, swap.start, swap.old_end)
    new = find_suspect(scored, swap.start, swap.new_end)
    if old is None or new is None:
        return "The swapped word was not scored: the text is too long."
    rank, word = new
    return (
        f"The swapped word is number {rank} of {len(scored.words)} by "
        f"suspicion, with {word.replaced_probability:.3f}; the original word "
        f"had {old[1].replaced_probability:.3f}."
    )


def mark(data: bytes, spans: Sequence[tuple[int, int]]) -> rich_text.Text:
    """Marks byte ranges of a text with `>>` and `<<`, and in red."""
    marked = rich_text.Text()
    position = 0
    for start, end in sorted(spans):
        marked.append(terminal.printable(data[position:start]))
        word = terminal.printable(data[start:end])
        marked.append(word.join(terminal.MARKS), style=_MARK_STYLE)
        position = end
    marked.append(terminal.printable(data[position:]))
    return marked


def build_table(scored: ScoredText, marked: Sequence[Any]) -> rich_table.Table:
    """Builds a table with a line per word: the word, its score, and a bar."""
    header, worst = "replaced", "most suspicious"
    if scored.is_likelihood:
        header, worst = "log likelihood", "least likely"
    table = rich_table.Table(box=None, pad_edge=False)
    table.add_column("word", no_wrap=True)
    table.add_column(header, justify="right")
    table.add_column("", no_wrap=True)
    for word in scored.words:
        text = terminal.printable(scored.data[word.start : word.end])
        bar = "" if scored.is_likelihood else terminal.draw_bar(word[-1])
        is_marked = word in marked
        table.add_row(
            rich_text.Text(text),
            f"{word[-1]:.3f}",
            f"{bar} <-- {worst}".lstrip() if is_marked else bar,
            style=_MARK_STYLE if is_marked else None,
        )
    return table
