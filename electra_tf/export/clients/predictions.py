"""Predictions of fine-tuned models for raw text: as objects, and as lines.

A kind of task has a class of its own for them, in its module.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from electra_tf.export import export_metadata
from electra_tf.export.clients import text_models
from electra_tf.tasks import base


def predict(
    model: text_models.TextModel,
    metadata: export_metadata.ExportMetadata,
    inputs: Mapping[str, Iterable[str] | None],
) -> Iterator[tuple[tuple[bytes, ...], Any]]:
    """Answers for texts by the names of inputs of the model's first signature.

    A single text of one input counts for all rows, as one context for many
    questions. Raises `ValueError` if the model takes other inputs.

    Yields:
        The texts in UTF-8 and what the model says of them, in their order.
    """
    kind, signature = base.find_kind(metadata.kind), metadata.signatures[0]
    wanted = export_metadata.SIGNATURES[signature].inputs
    given = {n: list(texts) for n, texts in inputs.items() if texts is not None}
    sizes = {len(texts) for texts in given.values()} - {1} or {1}
    if set(given) != set(wanted) or len(sizes) > 1:
        names = " and ".join(f"{name} (--{name[:-1]})" for name in wanted)
        listed = " and ".join(f"{len(v)} {k}" for k, v in given.items())
        raise ValueError(
            f"This model answers {names.replace('text_pairs', 'pairs')}, as "
            "many of all, or one. Received: "
            f"{listed.replace('text_', '') or 'nothing'}. Give just these."
        )
    (count,) = sizes
    columns = {
        name: given[name] * (count if len(given[name]) == 1 else 1)
        for name in wanted
    }
    for texts, row in model.predict(signature, **columns):
        yield texts, kind.read_prediction(metadata, texts, row)


def describe(
    model: text_models.TextModel,
    metadata: export_metadata.ExportMetadata,
    inputs: Mapping[str, Iterable[str]],
) -> Iterator[str]:
    """Describes the answers of a fine-tuned model, a string for each row.

    Inputs are those of `predict`; empty ones count as not given.
    """
    given = {name: texts or None for name, texts in inputs.items()}
    rows = predict(model, metadata, given)
    yield from base.find_kind(metadata.kind).show_all(metadata, rows)


def require_finetuned(
    export: text_models.LoadedExport,
) -> export_metadata.ExportMetadata:
    """Returns the metadata of an export of a fine-tuned model."""
    metadata = export.metadata
    if metadata is None or metadata.task is None:
        raise ValueError(
            "The SavedModel must be of a fine-tuned model. Received: "
            f"{export.folder}, of {metadata.kind if metadata else 'nothing'}. "
            "electra-score is for pre-trained ones."
        )
    return metadata
