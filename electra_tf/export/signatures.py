"""The public format of an export, read from `signatures.toml`.

The table says what every signature takes and gives; `models` computes exactly
these names. README.md and signatures.json of an export are made of it.
"""

import importlib.resources
import tomllib
from typing import Any
from typing import NamedTuple

# The logit where there is no token; its sigmoid is exactly zero in float32.
PADDING_LOGIT = -10000.0
# What stands where there is no token, for outputs where that is not 0.
PADDING = {"replaced_logits": PADDING_LOGIT}
# Predictions for every token, fewer where the vocabulary is smaller.
NUM_PREDICTIONS = 5
# The score of an answer where there is none.
NO_ANSWER_SCORE = -10000.0
# Null odds of a context without a single piece.
NO_CONTEXT_ODDS = 1e6


class TensorMeaning(NamedTuple):
    """Documentation of one input or output."""

    dtype: str  # TensorFlow's name of it
    shape: str  # in letters, keys of `DIMENSIONS`, as in `[B, S]`
    meaning: str  # one sentence

    @property
    def axes(self) -> list[str]:
        """The letters of the shape."""
        return self.shape.strip("[]").split(", ")


class Signature(NamedTuple):
    """Documentation of one signature."""

    purpose: str  # one sentence
    inputs: tuple[str, ...]  # names, keys of `TENSORS`
    outputs: tuple[str, ...]  # names, keys of `TENSORS`


def read_table(name: str) -> dict[str, Any]:
    """Reads a TOML file of this folder."""
    folder = importlib.resources.files("electra_tf.export")
    return tomllib.loads(folder.joinpath(name).read_text("utf-8"))


_TABLE = read_table("signatures.toml")
_CONSTANTS = {
    "padding_logit": PADDING_LOGIT,
    "num_predictions": NUM_PREDICTIONS,
    "no_answer_score": NO_ANSWER_SCORE,
    "no_context_odds": NO_CONTEXT_ODDS,
}

DIMENSIONS = {
    letter: meaning.format(**_CONSTANTS)
    for letter, meaning in _TABLE["dimensions"].items()
}
TENSORS = {
    name: TensorMeaning(
        entry["dtype"], entry["shape"], entry["meaning"].format(**_CONSTANTS)
    )
    for name, entry in _TABLE["tensors"].items()
}
SIGNATURES = {
    name: Signature(
        entry["purpose"], tuple(entry["inputs"]), tuple(entry["outputs"])
    )
    for name, entry in _TABLE["signatures"].items()
}
