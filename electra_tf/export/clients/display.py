"""Answers of models as text for people: tables, marked words, lines."""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich import console as rich_console
from rich import table as rich_table
from rich import text as rich_text

from electra_tf.export import signatures
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

_Text = scoring.ScoredText | scoring.LikelyText
_Word = scoring.ScoredWord | scoring.LikelyWord


def print_scored(texts: Sequence[_Text], num_marked: int = 1) -> None:
    """Prints tables of words and marked sentences, on a terminal in colour."""
    console = rich_console.Console(highlight=False, markup=False)
    for scored in texts:
        marked = _choose(scored, num_marked)
        console.print(build_table(scored, marked))
        console.print()
        console.print(mark_words(scored, marked), soft_wrap=True)
        if scored.num_truncated:
            console.print(
                f"({scored.num_truncated} pieces at the end were not scored: "
                "the text is longer than the model takes)"
            )
        if isinstance(scored, scoring.LikelyText):
            console.print(
                f"pseudo-log-likelihood {scored.pseudo_log_likelihood:.3f} "
                "(lower: less likely)"
            )


def describe_swap(original: Any, scored: Any, swap: scoring.Swap) -> str:
    """A sentence about two `ScoredText`s or `LikelyText`s and their swap."""
    if isinstance(scored, scoring.LikelyText):
        return _compare_likelihoods(original, scored)
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


def _compare_likelihoods(
    original: scoring.LikelyText, scored: scoring.LikelyText
) -> str:
    before, after = (t.pseudo_log_likelihood for t in (original, scored))
    if before == after:
        return f"Both sentences are equally likely: {after:.3f}."
    comparison = "less" if after < before else "more"
    return (
        f"The swapped sentence is {comparison} likely than the original: "
        f"{after:.3f} against {before:.3f}."
    )


def mark_words(scored: _Text, words: Sequence[_Word]) -> rich_text.Text:
    """The sentence with some words between `>>` and `<<`, and red."""
    marked = rich_text.Text()
    position = 0
    for word in sorted(words, key=lambda word: word.start):
        marked.append(printable(scored.data[position : word.start]))
        inside = printable(scored.data[word.start : word.end])
        marked.append(inside.join(_MARKS), style=_MARK_STYLE)
        position = word.end
    marked.append(printable(scored.data[position:]))
    return marked


def build_table(scored: _Text, marked: Sequence[_Word]) -> rich_table.Table:
    """One line per word: the word, its number, and a bar for probabilities."""
    is_likelihood = isinstance(scored, scoring.LikelyText)
    mark = "least likely" if is_likelihood else "most suspicious"
    table = rich_table.Table(box=None, pad_edge=False)
    table.add_column("word", no_wrap=True)
    table.add_column(
        "log likelihood" if is_likelihood else "replaced", justify="right"
    )
    table.add_column("", no_wrap=True)
    for word in scored.words:
        value = word[-1]
        bar = "" if is_likelihood else "#" * round(value * _BAR_WIDTH)
        is_marked = word in marked
        table.add_row(
            rich_text.Text(printable(scored.data[word.start : word.end])),
            f"{value:.3f}",
            f"{bar} <-- {mark}".lstrip() if is_marked else bar,
            style=_MARK_STYLE if is_marked else None,
        )
    return table


def _choose(scored: _Text, count: int) -> Sequence[_Word]:
    if isinstance(scored, scoring.LikelyText):
        return scored.least_likely(count)
    return scored.most_suspicious(count)


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
    if metadata is None or metadata.kind not in _FORMATS:
        raise ValueError(
            "The SavedModel must be of a fine-tuned model: its export.json "
            f"says of {', '.join(_FORMATS)}. Received: {export.folder}, of "
            f"{metadata.kind if metadata else 'nothing'}. "
            "scripts/score_text.py is for pre-trained ones."
        )
    signature = metadata.signatures[0]
    columns = _fill_columns(export, signature, inputs)
    for data, row in export.predict(signature, **columns):
        heading = [printable(text) for text in data]
        # Of a question and its context the latter is shown with the answer.
        if metadata.kind == "question_answering":
            heading = heading[:1]
        lines = _FORMATS[metadata.kind](metadata, data, row)
        yield "\n".join([*heading, *(f"  {line}" for line in lines)])


def _fill_columns(
    export: text_models.LoadedExport,
    signature: str,
    inputs: Mapping[str, Sequence[str]],
) -> dict[str, list[str]]:
    """Equally many texts for all inputs of a signature."""
    wanted = signatures.SIGNATURES[signature].inputs
    given = {name: list(texts) for name, texts in inputs.items() if texts}
    if set(given) != set(wanted):
        raise ValueError(
            f"{export.folder} answers {' and '.join(wanted)}. Received: "
            f"{' and '.join(given) or 'nothing'}. Give the flags of these."
        )
    count = max(map(len, given.values()))
    for name, texts in given.items():
        if len(texts) not in (1, count):
            raise ValueError(
                f"There must be as many of all inputs, or one. Received: "
                f"{len(texts)} {name} and {count} of another."
            )
    return {
        name: given[name] * (count if len(given[name]) == 1 else 1)
        for name in wanted
    }


def _describe_labels(metadata: Any, texts: Any, row: Any) -> list[str]:
    del texts
    labels, probabilities = metadata.labels, row["probabilities"]
    width = max(map(len, labels))
    return [
        f"{labels[place]:{width}}  {probabilities[place]:.3f}  "
        f"{'#' * round(float(probabilities[place]) * _BAR_WIDTH)}".rstrip()
        for place in np.argsort(-probabilities, kind="stable")[:_MAX_LABELS]
    ]


def _describe_score(metadata: Any, texts: Any, row: Any) -> list[str]:
    del texts
    low, high = metadata.min_value, metadata.max_value
    return [f"{row['score']:.3f} (trained on {low:g} to {high:g})"]


def _describe_tags(metadata: Any, texts: Any, row: Any) -> list[str]:
    del metadata, texts
    words = [printable(word) for word in row["words"][: row["num_words"]]]
    width = max(map(len, words), default=0)
    columns = words, row["tags"], row["tag_probabilities"]
    return [
        f"{word:{width}}  {tag.decode():8}  {probability:.3f}"
        for word, tag, probability in zip(*columns, strict=False)
    ]


def _describe_answer(metadata: Any, texts: Any, row: Any) -> list[str]:
    del metadata
    start, end = (int(row[f"answer_byte_{side}s"]) for side in ("start", "end"))
    first = max(start - _MAX_CONTEXT, 0)
    part = texts[1][first : end + _MAX_CONTEXT]
    answer = scoring.ScoredWord("", start - first, end - first, 0.0)
    marked = mark_words(
        scoring.ScoredText(part, (answer,), 0), [answer] if end else []
    )
    return [
        f"{printable(bytes(row['answers'])) or '(none)'}",
        f"characters {row['answer_starts']} to {row['answer_ends']}, score "
        f"{row['answer_scores']:.3f}, null odds {row['null_odds']:.3f}",
        marked.plain,
    ]


# Takes metadata, the texts of a row, and its answers.
_FORMATS: dict[str, Callable[..., list[str]]] = {
    "classification": _describe_labels,
    "regression": _describe_score,
    "tagging": _describe_tags,
    "question_answering": _describe_answer,
}
