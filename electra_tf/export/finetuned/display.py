"""Answers of an exported fine-tuned model, for people.

export = loaded_export.LoadedExport(export_dir)
for lines in describe(export, {"texts": ["The cat sat on the mat."]}):
    print(lines)
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

import numpy as np

from electra_tf.export import signatures
from electra_tf.export.clients import display
from electra_tf.export.clients import loaded_export
from electra_tf.export.clients import scoring

# The most probable labels of a text.
_MAX_LABELS = 5
_BAR_WIDTH = 30
# What is shown of a context on either side of its answer.
_MAX_BYTES = 200

Row = loaded_export.Row


def describe(
    export: loaded_export.LoadedExport, inputs: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """Lines of text for every row of inputs.

    Args:
        export: of a fine-tuned model.
        inputs: name to texts. Those that have a single one have it for all
            rows, such as one context of many questions.

    Raises:
        ValueError: if the model is none, or needs other inputs.
    """
    kind = export.facts.get("kind", "")
    if kind not in _FORMATS:
        raise ValueError(
            "The SavedModel must be of a fine-tuned model: its export.json "
            f"says of {', '.join(_FORMATS)}. Received: {export.folder}, of "
            f"{kind or 'nothing'}. scripts/score_text.py is for pre-trained "
            "ones."
        )
    signature = export.facts["signatures"][0]
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
    columns = {
        name: given[name] * (count if len(given[name]) == 1 else 1)
        for name in wanted
    }
    for data, row in export.answer(signature, **columns):
        heading = [display.printable(text) for text in data]
        # Of a question and its context the latter is shown with the answer.
        shown = heading[:1] if kind == "question_answering" else heading
        lines = _FORMATS[kind](export, data, row)
        yield "\n".join([*shown, *(f"  {line}" for line in lines)])


def _describe_labels(
    export: loaded_export.LoadedExport, texts: Sequence[bytes], row: Row
) -> list[str]:
    del texts
    labels, probabilities = export.facts["labels"], row["probabilities"]
    width = max(map(len, labels))
    return [
        f"{labels[place]:{width}}  {probabilities[place]:.3f}  "
        f"{'#' * round(float(probabilities[place]) * _BAR_WIDTH)}".rstrip()
        for place in np.argsort(-probabilities, kind="stable")[:_MAX_LABELS]
    ]


def _describe_score(
    export: loaded_export.LoadedExport, texts: Sequence[bytes], row: Row
) -> list[str]:
    del texts
    low, high = (export.facts[f"{side}_value"] for side in ("min", "max"))
    return [f"{row['score']:.3f} (trained on {low:g} to {high:g})"]


def _describe_tags(
    export: loaded_export.LoadedExport, texts: Sequence[bytes], row: Row
) -> list[str]:
    del export, texts
    count = int(row["num_words"])
    words = [display.printable(word) for word in row["words"][:count]]
    width = max(map(len, words), default=0)
    return [
        f"{word:{width}}  {tag.decode():8}  {probability:.3f}"
        for word, tag, probability in zip(
            words, row["tags"], row["tag_probabilities"], strict=False
        )
    ]


def _describe_answer(
    export: loaded_export.LoadedExport, texts: Sequence[bytes], row: Row
) -> list[str]:
    del export
    context = texts[1]
    start, end = (int(row[f"answer_byte_{side}s"]) for side in ("start", "end"))
    first = max(start - _MAX_BYTES, 0)
    part = context[first : end + _MAX_BYTES]
    answer = scoring.ScoredWord("", start - first, end - first, 0.0)
    marked = display.mark_words(
        scoring.ScoredText(part, (answer,), 0), [answer] if end else []
    )
    return [
        f"{display.printable(bytes(row['answers'])) or '(none)'}",
        f"characters {row['answer_starts']} to {row['answer_ends']}, score "
        f"{row['answer_scores']:.3f}, null odds {row['null_odds']:.3f}",
        marked.plain,
    ]


_FORMATS: dict[str, Callable[..., list[str]]] = {
    "classification": _describe_labels,
    "regression": _describe_score,
    "tagging": _describe_tags,
    "question_answering": _describe_answer,
}
