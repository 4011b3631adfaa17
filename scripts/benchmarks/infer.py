"""Scores texts with an export of ours, and with transformers beside it."""

import itertools
import pathlib
from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks import side
from benchmarks import timing

_SIGNATURE = "score_text"
_NUM_WARM_UP_BATCHES = 3


def read_texts(path: pathlib.Path) -> list[str]:
    """Returns the lines of a file that are not blank."""
    lines = map(str.strip, path.read_text("utf-8").splitlines())
    if texts := [line for line in lines if line]:
        return texts
    raise ValueError(
        f"The file must have a text on every line. Received: {path}, which has "
        "none."
    )


def deal(
    texts: Sequence[str], batch_size: int, num_batches: int, num_rounds: int
) -> Iterator[list[list[str]]]:
    """Yields blocks of batches, the warm-up first; texts repeat endlessly."""
    remaining = itertools.cycle(texts)
    for count in [_NUM_WARM_UP_BATCHES, *[num_batches] * num_rounds]:
        yield [
            list(itertools.islice(remaining, batch_size)) for _ in range(count)
        ]


def largest_difference(
    sides: Sequence[timing.Side], texts: Sequence[str]
) -> float:
    """Returns the largest difference of the probabilities of two sides."""
    first, second = (side.ask("answer", list(texts)) for side in sides)
    largest = 0.0
    for text, here, there in zip(texts, first, second, strict=True):
        if len(here) != len(there):
            raise ValueError(
                "Both sides must split a text into the same tokens. Received: "
                f"{len(here)} and {len(there)} for {text!r}. Take one "
                "vocabulary and the same tokenizer settings."
            )
        largest = max(largest, float(np.abs(np.subtract(here, there)).max()))
    return largest


def build(folder: str) -> side.Built:
    """Loads an exported discriminator and returns its scorer."""
    import tensorflow as tf

    from electra_tf.export import export_metadata
    from electra_tf.export.clients import text_models

    model = text_models.load_saved_model(pathlib.Path(folder))
    if _SIGNATURE not in model.signatures:
        raise SystemExit(
            f"The export must have the signature {_SIGNATURE!r}. Received: "
            f"{folder}. Export a run that trained a discriminator."
        )

    def score(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        answers = model.signatures[_SIGNATURE](texts=tf.constant(texts))
        probabilities = answers["replaced_probability"].numpy()
        return probabilities, answers["input_mask"].numpy()

    length = export_metadata.read_metadata(pathlib.Path(folder)).max_length
    return side.build_scorer(score, ("tensorflow",), max_length=length)


if __name__ == "__main__":
    side.serve({"infer": build})
