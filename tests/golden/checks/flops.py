"""The original's counts of floating-point operations, number by number.

A file holds up to three sections: `components` (parts of one Transformer, by
hyperparameters), `electra` (training of two towers) and `table` (models of
the paper's tables). Two entries of the table have no formula: the original's
authors measured ELMo and XLNet with TensorFlow's profiler and wrote the
results down. Comparing a constant with itself would say nothing, so these are
reported as skipped.
"""

import re
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from electra_tf.modeling.original_flops import OriginalTransformer
from tests.golden import comparison
from tests.golden import loading
from tests.golden.comparison import Line

_TOLERANCE = 1e-12  # relative
# The original's names of hyperparameters, and ours.
_FIELDS = {
    "h": "hidden_size",
    "l": "num_layers",
    "s": "length",
    "v": "vocab_size",
    "e": "embedding_size",
    "i": "intermediate_size",
    "heads": "num_heads",
    "head_size": "head_size",
    "output_frac": "output_fraction",
    "sparse_embed_lookup": "sparse_embed_lookup",
    "decoder": "decoder",
}
_MEASURED = ("elmo", "xlnet")


def check_file(path: Path) -> Iterator[Line]:
    """Every number of one file, computed anew from its hyperparameters.

    Args:
        path: JSON with `components`, `electra` and `table`, or some of them.

    Yields:
        One line per section, and one for each number without a formula.
    """
    sections = loading.read_json(path)
    checks = {
        "components": _check_components,
        "electra": _check_electra,
        "table": _check_table,
    }
    unknown = sorted(set(sections) - set(checks))
    if unknown or not sections:
        raise ValueError(
            f"Expected sections among {', '.join(checks)} in {path}. "
            f"Received: {', '.join(unknown) or 'none'}."
        )
    for name, check in checks.items():
        if name in sections:
            title = f"{path.stem}, {name}"
            yield from check(Line(title, _TOLERANCE), sections[name])


def _check_components(
    line: Line, entries: Sequence[Mapping[str, Any]]
) -> Iterator[Line]:
    for number, entry in enumerate(entries):
        transformer = _build_transformer(entry["args"])
        for name in entry.keys() - {"args"}:
            ours = _count_component(transformer, name)
            error = comparison.relative_error(ours, entry[name])
            line.add(f"{number}: {name}", error)
    yield line


def _check_electra(
    line: Line, entries: Sequence[Mapping[str, Any]]
) -> Iterator[Line]:
    for number, entry in enumerate(entries):
        ours = _count_electra(**entry["args"])
        error = comparison.relative_error(ours, entry["flops"])
        line.add(str(number), error)
    yield line


def _check_table(line: Line, table: Mapping[str, str]) -> Iterator[Line]:
    published, skipped = _count_published(), []
    for name, printed in table.items():
        if name in published:
            error = comparison.relative_error(published[name], float(printed))
            line.add(name, error)
            continue
        reason = "no hyperparameters of a model of that name"
        if name in _MEASURED:
            reason = "measured by the original's authors, no formula"
        skipped.append(Line(f"{line.case}, {name}", skipped=reason))
    yield from (line, *skipped)


def _build_transformer(arguments: Mapping[str, Any]) -> OriginalTransformer:
    unknown = sorted(set(arguments) - set(_FIELDS))
    if unknown:
        raise ValueError(
            f"Expected hyperparameters among {', '.join(_FIELDS)}. Received: "
            f"{', '.join(unknown)}."
        )
    return OriginalTransformer(**{_FIELDS[k]: v for k, v in arguments.items()})


def _count_component(transformer: OriginalTransformer, name: str) -> float:
    """One number of a Transformer.

    Args:
        transformer: its hyperparameters.
        name: `block`, `embedding`, `output`, `binary`, `infer`, or
            `train_BxN` for N steps of B rows, with `_disc` after it for a
            discriminator.
    """
    training = re.fullmatch(r"train_(\d+)x(\d+)(_disc)?", name)
    if training is not None:
        num_rows = int(training[1]) * int(training[2])
        return _count_training(transformer, num_rows, training[3] is not None)
    if name == "infer":
        return transformer.encoder() + transformer.binary()
    if name not in ("block", "embedding", "output", "binary"):
        raise ValueError(
            "Expected block, embedding, output, binary, infer or train_BxN "
            f"as a component. Received: {name!r}."
        )
    return float(getattr(transformer, name)())


def _count_training(
    transformer: OriginalTransformer,
    num_rows: float,
    is_discriminator: bool = False,
) -> float:
    """Training on a number of rows; backward counts as one forward."""
    head = transformer.binary if is_discriminator else transformer.output
    return 2.0 * num_rows * (transformer.encoder() + head())


def _count_electra(
    h_d: int,
    l_d: int,
    h_g: int,
    l_g: int,
    batch_size: int,
    train_steps: float,
    tied_embeddings: bool,
    e: int | None = None,
    **both: Any,
) -> float:
    """Training of a discriminator and a generator.

    Args:
        h_d: the discriminator's width.
        l_d: its blocks.
        h_g: the generator's width.
        l_g: its blocks.
        batch_size: rows of a step.
        train_steps: number of steps.
        tied_embeddings: the generator uses the discriminator's; else its own,
            as wide as its layers.
        e: width of the discriminator's embeddings; None: `h_d`.
        **both: further hyperparameters of both, under the original's names.
    """
    shared = h_d if e is None else e
    own = shared if tied_embeddings else h_g
    discriminator = _build_transformer({"h": h_d, "l": l_d, "e": shared} | both)
    generator = _build_transformer({"h": h_g, "l": l_g, "e": own} | both)
    num_rows = batch_size * train_steps
    return _count_training(discriminator, num_rows, True) + _count_training(
        generator, num_rows
    )


def _count_published() -> dict[str, float]:
    """Training of the models in the paper's tables, by the original's names.

    Hyperparameters, rows per step and steps are those of
    `flops_computation.py`.
    """
    base, large = {"h": 768, "l": 12}, {"h": 1024, "l": 24}
    # A decoder that scores every position, and an encoder that scores none.
    t5 = large | {"v": 32000, "i": 65536, "heads": 128, "head_size": 128}
    models = {
        "gpt": (base | {"v": 40000, "output_frac": 1.0}, 128, 960_800),
        "bert_small": ({"h": 256, "l": 12, "s": 128, "e": 128}, 128, 1_450_000),
        "bert_base": (base, 256, 1_000_000),
        "bert_large": (large, 256, 1_000_000),
        "roberta": (large | {"v": 50265}, 8000, 500_000),
        "albert": ({"h": 4096, "l": 12, "v": 30000, "e": 128}, 4096, 1_500_000),
        "t5 encoder": (t5 | {"output_frac": 0.0}, 2048, 1_000_000),
        "t5 decoder": (
            t5 | {"output_frac": 1.0, "decoder": True}, 2048, 1_000_000,
        ),
    }  # fmt: skip
    counts = {
        name: _count_training(_build_transformer(arguments), rows * steps)
        for name, (arguments, rows, steps) in models.items()
    }
    counts["t5_11b"] = counts.pop("t5 encoder") + counts.pop("t5 decoder")
    electra_large = (1024, 24, 256, 24, 2048)
    return counts | {
        "electra_small": _count_electra(
            256, 12, 64, 12, 128, 1_000_000, True, e=128, s=128
        ),
        "electra_base": _count_electra(768, 12, 256, 12, 256, 766_000, True),
        "electra_400k": _count_electra(*electra_large, 400_000, True),
        "electra_1.75M": _count_electra(*electra_large, 1_750_000, True),
    }
