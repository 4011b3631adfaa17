"""Reads data sets of TensorFlow Datasets (extra `tfds`)."""

from typing import Any

import numpy as np

from electra_tf import errors
from electra_tf.records import corpus

DATA_DIR = "tfds"
"""The value of `task.data_dir` that means to read from there."""


def read(name: str, split: str) -> list[dict[str, Any]]:
    """Reads the examples of a split, in the order in which they are stored.

    Nothing is downloaded: the data set must have been prepared before. Each
    example is a dictionary: feature to string, number, list or dictionary.
    Classes are their names, or None where they are not told (-1).
    """
    builder = open_builder(name, split)
    # One file after the other: the order must not depend on timing.
    in_order = corpus.import_tfds().ReadConfig(interleave_cycle_length=1)
    dataset = builder.as_dataset(
        split=split, shuffle_files=False, read_config=in_order
    )
    features = builder.info.features
    return [
        {key: _plain(value, features[key]) for key, value in example.items()}
        for example in dataset.as_numpy_iterator()
    ]


def open_builder(name: str, split: str) -> Any:
    """Returns the builder of a data set that can be read; raises as `read`."""
    tfds = corpus.import_tfds()
    try:
        builder = tfds.builder(name)
    except Exception as error:
        # Its errors derive from several types, by what it looked for.
        lines = str(error).splitlines() or [repr(error)]
        raise errors.DataError(
            f"TensorFlow Datasets does not know {name}: {lines[0]}"
        ) from error
    if not builder.is_prepared():
        raise errors.DataError(
            f"Expected {name} in the folder of TensorFlow Datasets "
            f"({builder.data_dir}). Received: nothing there. Download it "
            f"first: tfds build {name}"
        )
    if split not in builder.info.splits:
        raise errors.DataError(
            f"Expected one of {name}'s splits "
            f"{', '.join(builder.info.splits)}. Received: {split!r}."
        )
    return builder


def _plain(value: Any, feature: Any) -> Any:
    """A value as Python's own types; `feature` says what it stands for."""
    # A list of dictionaries is stored as a dictionary of lists.
    inner = getattr(feature, "feature", feature)
    if isinstance(value, dict):
        return {key: _plain(item, inner[key]) for key, item in value.items()}
    if hasattr(value, "to_list"):
        value = value.to_list()
    if isinstance(value, list) or np.ndim(value) > 0:
        return [_plain(item, inner) for item in value]
    if isinstance(value, np.generic | np.ndarray):
        value = value.item()
    if isinstance(value, bytes):
        return value.decode()
    if hasattr(inner, "int2str"):
        return inner.int2str(value) if value >= 0 else None
    return value
