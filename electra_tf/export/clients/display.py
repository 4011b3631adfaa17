"""Answers of models as text for people: tables, marked words, lines."""

import itertools
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.special
from rich import console as rich_console
from rich import table as rich_table
from rich import text as rich_text

from electra_tf.export import export_metadata
from electra_tf.export.clients import scoring
from electra_tf.export.clients import text_models

_MARK_STYLE = "bold red"
# Marks stay visible where colours are not.
_MARKS = (">>", "<<")
_BAR_WIDTH = 30
# The most probable labels of a text.
_MAX_LABELS = 5
# What is shown of a context on either side of its answer, in bytes.
_MAX_CONTEXT = 200
_COMPARED = ("multiple_choice", "ranking")
_KINDS = (
    *("classification", "multilabel", "regression", *_COMPARED),
    *("tagging", "question_answering"),
)


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
                f"({scored.num_truncated} pieces at the end were not scored: "
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
    """A sentence about a text before and after a swap."""
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
        marked.append(printable(data[position:start]))
        inside = printable(data[start:end])
        marked.append(inside.join(_MARKS), style=_MARK_STYLE)
        position = end
    marked.append(printable(data[position:]))
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
        bar = "" if scored.is_likelihood else "#" * round(value * _BAR_WIDTH)
        is_marked = word in marked
        table.add_row(
            rich_text.Text(printable(scored.data[word.start : word.end])),
            f"{value:.3f}",
            f"{bar} <-- {worst}".lstrip() if is_marked else bar,
            style=_MARK_STYLE if is_marked else None,
        )
    return table


def printable(data: bytes) -> str:
    """Text that cannot steer a terminal or break a line."""
    return "".join(
        character if character.isprintable() else " "
        for character in data.decode("utf-8", "replace")
    )


def describe_predictions(
    export: text_models.LoadedExport, inputs: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """Describes the answers of a fine-tuned model, one string for each row.

    `inputs` are texts by name; a single text counts for all rows.
    """
    metadata = export.metadata
    if metadata is None or metadata.kind not in _KINDS:
        raise ValueError(
            "The SavedModel must be of a fine-tuned model: its export.json "
            f"says of {', '.join(_KINDS)}. Received: {export.folder}, of "
            f"{metadata.kind if metadata else 'nothing'}. "
            "scripts/score_text.py is for pre-trained ones."
        )
    signature = metadata.signatures[0]
    wanted = export_metadata.SIGNATURES[signature].inputs
    given = {name: list(texts) for name, texts in inputs.items() if texts}
    count = max(map(len, given.values()), default=0)
    sizes = {len(texts) for texts in given.values()}
    if set(given) != set(wanted) or not sizes <= {1, count}:
        received = " and ".join(f"{len(v)} {k}" for k, v in given.items())
        raise ValueError(
            f"{export.folder} answers {' and '.join(wanted)}, as many of all, "
            f"or one. Received: {received or 'nothing'}. Give the flags of "
            "these."
        )
    columns = {
        name: given[name] * (count if len(given[name]) == 1 else 1)
        for name in wanted
    }
    rows = export.predict(signature, **columns)
    if metadata.kind in _COMPARED:
        yield from _describe_comparisons(rows)
    for data, row in rows:
        heading = [printable(text) for text in data]
        # Of a question and its context the latter is shown with the answer.
        if metadata.kind == "question_answering":
            heading = heading[:1]
        lines = _describe_row(metadata, data, row)
        yield "\n".join([*heading, *(f"  {line}" for line in lines)])


def _describe_comparisons(rows: Iterator[Any]) -> Iterator[str]:
    """The texts that follow each other with one first text, best first."""
    for query, own in itertools.groupby(rows, key=lambda item: item[0][0]):
        pairs, answers = zip(*own, strict=True)
        scores = np.array([answer["choice_score"] for answer in answers])
        shares = scipy.special.softmax(scores)
        lines = [
            f"  {shares[place]:.3f}  {scores[place]:8.3f}  "
            f"{printable(pairs[place][1])}"
            for place in np.argsort(-scores, kind="stable")
        ]
        yield "\n".join([printable(query), *lines])


def _describe_row(
    metadata: export_metadata.ExportMetadata,
    texts: tuple[bytes, ...],
    row: Mapping[str, Any],
) -> list[str]:
    if metadata.kind in ("classification", "multilabel"):
        labels, probabilities = metadata.labels or (), row["probabilities"]
        width = max(map(len, labels))
        return [
            f"{labels[place]:{width}}  {probabilities[place]:.3f}  "
            f"{'#' * round(float(probabilities[place]) * _BAR_WIDTH)}".rstrip()
            for place in np.argsort(-probabilities, kind="stable")[:_MAX_LABELS]
        ]
    if metadata.kind == "regression":
        low, high = metadata.min_value, metadata.max_value
        return [f"{row['score']:.3f} (trained on {low:g} to {high:g})"]
    if metadata.kind == "tagging":
        words = [printable(word) for word in row["words"][: row["num_words"]]]
        width = max(map(len, words), default=0)
        columns = words, row["tags"], row["tag_probabilities"]
        return [
            f"{word:{width}}  {tag.decode():8}  {probability:.3f}"
            for word, tag, probability in zip(*columns, strict=False)
        ]
    start, end = int(row["answer_byte_starts"]), int(row["answer_byte_ends"])
    first = max(start - _MAX_CONTEXT, 0)
    part = texts[1][first : end + _MAX_CONTEXT]
    spans = [(start - first, end - first)] if end else []
    return [
        f"{printable(bytes(row['answers'])) or '(none)'}",
        f"characters {row['answer_starts']} to {row['answer_ends']}, score "
        f"{row['answer_scores']:.3f}, null odds {row['null_odds']:.3f}",
        mark(part, spans).plain,
    ]
