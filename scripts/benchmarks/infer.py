"""An export of ours, asked beside transformers which tokens look replaced."""

import contextlib
import dataclasses
import itertools
import pathlib
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks import side
from benchmarks import timing

_SIGNATURE = "score_text"
_NUM_WARM_UP_BATCHES = 3
# Texts whose answers are compared before.
_NUM_COMPARED = 64


def read_texts(path: pathlib.Path) -> list[str]:
    """The lines of a file that are not blank."""
    lines = map(str.strip, path.read_text("utf-8").splitlines())
    if texts := [line for line in lines if line]:
        return texts
    raise ValueError(
        f"The file must have a text on every line. Received: {path}, without "
        "any."
    )


def deal(
    texts: Sequence[str], batch_size: int, num_batches: int, num_rounds: int
) -> Iterator[list[list[str]]]:
    """Blocks of batches, of texts in an endless circle; first the warm-up."""
    remaining = itertools.cycle(texts)
    for count in [_NUM_WARM_UP_BATCHES, *[num_batches] * num_rounds]:
        yield [
            list(itertools.islice(remaining, batch_size)) for _ in range(count)
        ]


def largest_difference(
    sides: Sequence[timing.Side], texts: Sequence[str]
) -> float:
    """Of the probabilities that sides give the same tokens."""
    first, *others = (side.ask("answer", list(texts)) for side in sides)
    largest = 0.0
    for second in others:
        for text, here, there in zip(texts, first, second, strict=True):
            if len(here) != len(there):
                raise ValueError(
                    "Both sides must split a text into the same tokens. "
                    f"Received: {len(here)} and {len(there)} for {text!r}. "
                    "Take one vocabulary and the same tokenizer settings."
                )
            found = np.abs(np.subtract(here, there)).max()
            largest = max(largest, float(found))
    return largest


def run(
    saved_model: pathlib.Path,
    texts: Sequence[str],
    batch_sizes: Sequence[int],
    num_batches: int,
    num_rounds: int,
    peer: dict[str, Any] | None,
    peer_python: str,
) -> list[timing.Side]:
    """Times an export, and a peer if its folder is given."""
    found = []
    with contextlib.ExitStack() as stack:
        described = {"kind": "infer", "folder": str(saved_model)}
        own = timing.Program("electra_tf", "", "infer", described)
        sides = timing.start_all([own], stack)
        if peer is not None:
            described = {"kind": "infer", **sides[0].sizes, **peer}
            theirs = timing.Program(
                "transformers", "", "torch_peer", described, peer_python
            )
            sides += timing.start_all([theirs], stack)
            difference = largest_difference(sides, texts[:_NUM_COMPARED])
            print(f"Largest difference of probabilities: {difference:.1e}")
        for size in batch_sizes:
            group = f"{size} text{'s' * (size > 1)}"
            now = [
                dataclasses.replace(side, group=group, rounds=[])
                for side in sides
            ]
            blocks = deal(texts, size, num_batches, num_rounds)
            timing.take_turns(now, blocks)
            found += now
    return found


def build(folder: str) -> side.Built:
    """An exported discriminator, its longest text among the sizes."""
    import tensorflow as tf

    from electra_tf.export import export_metadata
    from electra_tf.export.clients import text_models

    path = pathlib.Path(folder)
    model = text_models.load_saved_model(path)
    if _SIGNATURE not in model.signatures:
        raise ValueError(
            f"The export must have the signature {_SIGNATURE!r}. Received: "
            f"{folder}. Export a run that trained a discriminator."
        )

    def score(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        batch = tf.constant(texts, tf.string)
        answers = model.signatures[_SIGNATURE](texts=batch)
        probabilities, mask = (
            answers[name].numpy()
            for name in ("replaced_probability", "input_mask")
        )
        return probabilities, mask

    length = export_metadata.read(path).max_length
    return side.build_scorer(score, ("tensorflow",), max_length=length)


if __name__ == "__main__":
    side.serve({"infer": build})
