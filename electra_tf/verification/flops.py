"""The original's counts of floating-point operations, number by number.

A file holds up to three sections: `components` (parts of one Transformer, by
hyperparameters), `electra` (training of two towers) and `table` (models of
the paper's tables). Two entries of the table have no formula: the original's
authors measured ELMo and XLNet with TensorFlow's profiler and wrote the
results down. Comparing a constant with itself would say nothing, so these are
reported as skipped.
"""

import re
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from electra_tf.modeling import original_flops
from electra_tf.verification import comparison
from electra_tf.verification import reference
from electra_tf.verification.report import CheckResult

KIND = "flops"
TOLERANCE = 1e-12  # relative

_Transformer = original_flops.OriginalTransformer

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
"""The original's names of hyperparameters, and ours."""

_MEASURED = ("elmo", "xlnet")


def check_file(path: Path) -> list[CheckResult]:
    """Every number of one file, computed anew from its hyperparameters.

    Args:
        path: JSON with `components`, `electra` and `table`, or some of them.

    Returns:
        One line per section, and one for each number without a formula.

    Raises:
        ReferenceFileError: if it holds no section or something unknown.
    """
    sections = reference.read_json(path)
    unknown = sorted(set(sections) - set(_SECTIONS))
    if unknown or not sections:
        raise reference.ReferenceFileError(
            f"Expected sections among {', '.join(_SECTIONS)} in {path}. "
            f"Received: {', '.join(unknown) or 'none'}."
        )
    return [
        result
        for name in _SECTIONS
        if name in sections
        for result in _SECTIONS[name](f"{path.stem}, {name}", sections[name])
    ]


def compute_component(arguments: Mapping[str, Any], name: str) -> float:
    """One number of a Transformer.

    Args:
        arguments: hyperparameters under the original's names.
        name: `block`, `embedding`, `output`, `binary`, `infer`, or
            `train_BxN` for N steps of B rows, with `_disc` after it for a
            discriminator.

    Raises:
        ReferenceFileError: if the name or a hyperparameter is unknown.
    """
    transformer = _build_transformer(arguments)
    training = re.fullmatch(r"train_(\d+)x(\d+)(_disc)?", name)
    if training is not None:
        num_rows = int(training[1]) * int(training[2])
        return _train(transformer, num_rows, training[3] is not None)
    if name == "infer":
        return transformer.encoder() + transformer.binary()
    if name not in ("block", "embedding", "output", "binary"):
        raise reference.ReferenceFileError(
            "Expected block, embedding, output, binary, infer or train_BxN "
            f"as a component. Received: {name!r}."
        )
    return float(getattr(transformer, name)())


def compute_electra(
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
    return _train(discriminator, num_rows, True) + _train(generator, num_rows)


def compute_published() -> dict[str, float]:
    """Training of the models in the paper's tables, by the original's names.

    Hyperparameters, rows per step and steps are those of
    `flops_computation.py`.
    """
    base, large = (768, 12), (1024, 24)
    # T5: a decoder that scores every position, and an encoder that scores
    # none.
    t5: dict[str, Any] = {"vocab_size": 32000, "intermediate_size": 65536,
          "num_heads": 128, "head_size": 128}  # fmt: skip
    t5_encoder = _Transformer(*large, output_fraction=0.0, **t5)
    t5_decoder = _Transformer(*large, output_fraction=1.0, decoder=True, **t5)
    gpt = _Transformer(*base, vocab_size=40000, output_fraction=1.0)
    bert_small = _Transformer(256, 12, length=128, embedding_size=128)
    roberta = _Transformer(*large, vocab_size=50265)
    albert = _Transformer(4096, 12, vocab_size=30000, embedding_size=128)
    electra_large = (*large, 256, 24, 2048)
    return {
        "gpt": _train(gpt, 128 * 960_800),
        "bert_small": _train(bert_small, 128 * 1_450_000),
        "bert_base": _train(_Transformer(*base), 256 * 1_000_000),
        "bert_large": _train(_Transformer(*large), 256 * 1_000_000),
        "electra_small": compute_electra(
            256, 12, 64, 12, 128, 1_000_000, True, e=128, s=128
        ),
        "electra_base": compute_electra(*base, 256, 12, 256, 766_000, True),
        "electra_400k": compute_electra(*electra_large, 400_000, True),
        "electra_1.75M": compute_electra(*electra_large, 1_750_000, True),
        "roberta": _train(roberta, 8000 * 500_000),
        "albert": _train(albert, 4096 * 1_500_000),
        "t5_11b": _train(t5_encoder, 2048 * 1_000_000)
        + _train(t5_decoder, 2048 * 1_000_000),
    }


def _train(
    transformer: _Transformer, num_rows: float, is_discriminator: bool = False
) -> float:
    """Training on a number of rows; backward counts as one forward."""
    head = transformer.binary if is_discriminator else transformer.output
    return 2.0 * num_rows * (transformer.encoder() + head())


def _build_transformer(arguments: Mapping[str, Any]) -> _Transformer:
    unknown = sorted(set(arguments) - set(_FIELDS))
    if unknown:
        raise reference.ReferenceFileError(
            f"Expected hyperparameters among {', '.join(_FIELDS)}. Received: "
            f"{', '.join(unknown)}."
        )
    return _Transformer(**{_FIELDS[k]: v for k, v in arguments.items()})


def _check_components(
    title: str, entries: Sequence[Mapping[str, Any]]
) -> list[CheckResult]:
    compared = comparison.Comparison(KIND, title, TOLERANCE)
    for number, entry in enumerate(entries):
        for name in entry.keys() - {"args"}:
            ours = compute_component(entry["args"], name)
            error = comparison.compute_relative_error(ours, entry[name])
            compared.add(f"{number}: {name}", error)
    return [compared.result()]


def _check_electra(
    title: str, entries: Sequence[Mapping[str, Any]]
) -> list[CheckResult]:
    compared = comparison.Comparison(KIND, title, TOLERANCE)
    for number, entry in enumerate(entries):
        ours = compute_electra(**entry["args"])
        error = comparison.compute_relative_error(ours, entry["flops"])
        compared.add(str(number), error)
    return [compared.result()]


def _check_table(title: str, table: Mapping[str, str]) -> list[CheckResult]:
    compared = comparison.Comparison(KIND, title, TOLERANCE)
    skipped = []
    published = compute_published()
    for name, printed in table.items():
        if name in published:
            error = comparison.compute_relative_error(
                published[name], float(printed)
            )
            compared.add(name, error)
        else:
            reason = "no hyperparameters of a model of that name"
            if name in _MEASURED:
                reason = "measured by the original's authors, no formula"
            case = f"{title}, {name}"
            skipped.append(CheckResult.skipped(KIND, case, reason))
    return [compared.result(), *skipped]


_SECTIONS: Mapping[str, Callable[[str, Any], list[CheckResult]]] = {
    "components": _check_components,
    "electra": _check_electra,
    "table": _check_table,
}
