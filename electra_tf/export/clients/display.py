"""Answers of models as text for people: tables, marked words, lines."""

from collections.abc import Sequence
from typing import Any

from rich import console as rich_console
from rich import table as rich_table
from rich import text as rich_text

from electra_tf.export.clients import scoring
from electra_tf.text import terminal

_MARK_STYLE = "bold red"


def print_scored(
    texts: Sequence[scoring.ScoredText], num_marked: int = 1
) -> None:
    """Prints tables of words and marked sentences, on a terminal in colour."""
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
                "the text is longer than the model takes)"
            )
        if scored.is_likelihood:
            console.print(
                f"pseudo-log-likelihood {scored.pseudo_log_likelihood:.3f} "
                "(lower: less likely)"
            )


def describe_swap(
    original: scoring.ScoredText,
    scored: scoring.ScoredText,
    swap: scoring.Swap,
) -> str:
    """Describes in a sentence how a swap changed the scores."""
    before, after = original[3], scored[3]
    if before is not None and after is not None:
        if before == after:
            return f"Both sentences are equally likely: {after:.3f}."
        return (
            f"The swapped sentence is {'less' if after < before else 'more'} "
            f"likely than the original: {after:.3f} against {before:.3f}."
        )
    old = scoring.find_suspect(original, swap.start, swap.old_end)
    new = scoring.find_suspect(scored, swap.start, swap.new_end)
    if old is None or new is None:
        return "The swapped word was not scored: the text is too long."
    place, word = new
    return (
        f"The swapped word is number {place} of {len(scored.words)} by "
        f"suspicion, with {word.replaced_probability:.3f}; the original word "
        f"had {old[1].replaced_probability:.3f}."
    )


def mark(data: bytes, spans: Sequence[tuple[int, int]]) -> rich_text.Text:
    """A text with some spans of its bytes between `>>` and `<<`, and red."""
    marked = rich_text.Text()
    position = 0
    for start, end in sorted(spans):
        marked.append(terminal.printable(data[position:start]))
        marked.append(
            terminal.printable(data[start:end]).join(terminal.MARKS),
            style=_MARK_STYLE,
        )
        position = end
    marked.append(terminal.printable(data[position:]))
    return marked


def build_table(
    scored: scoring.ScoredText, marked: Sequence[Any]
) -> rich_table.Table:
    """One line per word: the word, its number, and a bar for probabilities."""
    header, worst = "replaced", "most suspicious"
    if scored.is_likelihood:
        header, worst = "log likelihood", "least likely"
    table = rich_table.Table(box=None, pad_edge=False)
    table.add_column("word", no_wrap=True)
    table.add_column(header, justify="right")
    table.add_column("", no_wrap=True)
    for word in scored.words:
        value = word[3]
        drawn = "" if scored.is_likelihood else terminal.draw_bar(value)
        is_marked = word in marked
        table.add_row(
            rich_text.Text(
                terminal.printable(scored.data[word.start : word.end])
            ),
            f"{value:.3f}",
            f"{drawn} <-- {worst}".lstrip() if is_marked else drawn,
            style=_MARK_STYLE if is_marked else None,
        )
    return table
