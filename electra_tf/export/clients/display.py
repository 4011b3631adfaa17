"""Scored texts for people: a marked sentence and a table of its words."""

from collections.abc import Sequence
from typing import Any

from rich import console as rich_console
from rich import table as rich_table
from rich import text as rich_text

from electra_tf.export.clients import scoring

_MARK_STYLE = "bold red"
# Marks stay visible where colours are not.
_MARKS = (">>", "<<")
_BAR_WIDTH = 30

_Text = scoring.ScoredText | scoring.LikelyText


def print_scored(
    texts: Sequence[scoring.ScoredText], num_marked: int = 1
) -> None:
    """Prints table and marked sentence; in colour on a terminal only.

    Args:
        texts: what to show.
        num_marked: most suspicious words to mark in each.
    """
    console = _console()
    for scored in texts:
        marked = scored.most_suspicious(num_marked)
        console.print(build_table(scored, marked))
        console.print()
        _print_marked(console, scored, marked)


def print_likelihoods(
    texts: Sequence[scoring.LikelyText], num_marked: int = 1
) -> None:
    """Prints table, marked sentence and its pseudo-log-likelihood.

    Args:
        texts: what to show.
        num_marked: least likely words to mark in each.
    """
    console = _console()
    for scored in texts:
        marked = scored.least_likely(num_marked)
        console.print(build_likelihood_table(scored, marked))
        console.print()
        _print_marked(console, scored, marked)
        console.print(
            f"pseudo-log-likelihood {scored.pseudo_log_likelihood:.3f} "
            "(lower: less likely)"
        )


def describe_swap(
    original: scoring.ScoredText,
    scored: scoring.ScoredText,
    swap: scoring.Swap,
) -> str:
    """A sentence about the exchanged word, before and after.

    Args:
        original: the old sentence.
        scored: the new one.
        swap: how it came from the old one.
    """
    before = scoring.find_suspect(original, swap.start, swap.old_end)
    after = scoring.find_suspect(scored, swap.start, swap.new_end)
    if before is None or after is None:
        return "The swapped word was not scored: the text is too long."
    place, word = after
    return (
        f"The swapped word is number {place} of {len(scored.words)} by "
        f"suspicion, with {word.replaced_probability:.3f}; the original word "
        f"had {before[1].replaced_probability:.3f}."
    )


def describe_likelihood_swap(
    original: scoring.LikelyText, scored: scoring.LikelyText
) -> str:
    """A sentence about two texts, before and after an exchange of a word."""
    before, after = (t.pseudo_log_likelihood for t in (original, scored))
    if before == after:
        return f"Both sentences are equally likely: {after:.3f}."
    comparison = "less" if after < before else "more"
    return (
        f"The swapped sentence is {comparison} likely than the original: "
        f"{after:.3f} against {before:.3f}."
    )


def mark_words(
    scored: _Text, words: Sequence[scoring.ScoredWord | scoring.LikelyWord]
) -> rich_text.Text:
    """The sentence with words between `>>` and `<<`, red where colours are.

    Args:
        scored: the sentence.
        words: some of its words.
    """
    marked = rich_text.Text()
    position = 0
    for word in sorted(words, key=lambda word: word.start):
        marked.append(printable(scored.data[position : word.start]))
        inside = printable(scored.data[word.start : word.end])
        marked.append(inside.join(_MARKS), style=_MARK_STYLE)
        position = word.end
    marked.append(printable(scored.data[position:]))
    return marked


def build_table(
    scored: scoring.ScoredText, marked: Sequence[scoring.ScoredWord]
) -> rich_table.Table:
    """One line per word: the word, its probability, a bar.

    Args:
        scored: the sentence.
        marked: the words to emphasize.
    """
    values = [word.replaced_probability for word in scored.words]
    bars = ["#" * round(value * _BAR_WIDTH) for value in values]
    return _build_table(
        scored, marked, "replaced", values, bars, "most suspicious"
    )


def build_likelihood_table(
    scored: scoring.LikelyText, marked: Sequence[scoring.LikelyWord]
) -> rich_table.Table:
    """One line per word: the word and its log likelihood; as `build_table`."""
    values = [word.log_likelihood for word in scored.words]
    bars = [""] * len(values)
    return _build_table(
        scored, marked, "log likelihood", values, bars, "least likely"
    )


def _build_table(
    scored: _Text,
    marked: Sequence[Any],
    heading: str,
    values: Sequence[float],
    bars: Sequence[str],
    mark: str,
) -> rich_table.Table:
    words: Sequence[Any] = scored.words
    table = rich_table.Table(box=None, pad_edge=False)
    table.add_column("word", no_wrap=True)
    table.add_column(heading, justify="right")
    table.add_column("", no_wrap=True)
    for word, value, bar in zip(words, values, bars, strict=True):
        is_marked = word in marked
        table.add_row(
            rich_text.Text(printable(scored.data[word.start : word.end])),
            f"{value:.3f}",
            f"{bar} <-- {mark}".lstrip() if is_marked else bar,
            style=_MARK_STYLE if is_marked else None,
        )
    return table


def _console() -> rich_console.Console:
    return rich_console.Console(highlight=False, markup=False)


def _print_marked(
    console: rich_console.Console,
    scored: _Text,
    words: Sequence[scoring.ScoredWord | scoring.LikelyWord],
) -> None:
    console.print(mark_words(scored, words), soft_wrap=True)
    if scored.num_truncated:
        console.print(
            f"({scored.num_truncated} pieces at the end were not scored: "
            "the text is longer than the model takes)"
        )


def printable(data: bytes) -> str:
    """Text that cannot steer a terminal or break a line."""
    return "".join(
        character if character.isprintable() else " "
        for character in data.decode("utf-8", "replace")
    )
