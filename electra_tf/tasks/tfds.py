"""Reads data sets that TensorFlow Datasets (extra `tfds`) has prepared."""

from typing import Any

import numpy as np

from electra_tf import errors
from electra_tf import installed

DATA_DIR = "tfds"
"""The value of `task.data_dir` that means TensorFlow Datasets."""


def read(name: str, split: str) -> list[dict[str, Any]]:
    """Reads a split of TensorFlow Datasets (extra `tfds`) from disk.

    Returns a dict for each example: feature to string, number, list or dict. A
    class is given by its name, or None if it is unknown.
    """
    builder = open_builder(name)
    # Parallel reads would make the order of the examples depend on timing.
    tfds = installed.import_extra("tensorflow_datasets", "tfds")
    in_order = tfds.ReadConfig(interleave_cycle_length=1)
    dataset = builder.as_dataset(
        split=split, shuffle_files=False, read_config=in_order
    )
    features = builder.info.features
    return [
        {key: _plain(value, features[key]) for key, value in example.items()}
        for example in dataset.as_numpy_iterator()
    ]


def open_builder(name: str) -> Any:
    """Returns the builder of a data set; raises `DataError` if it is absent."""
    tfds = installed.import_extra("tensorflow_datasets", "tfds")
    try:
        builder = tfds.builder(name)
    except Exception as error:
        # TFDS raises errors of several unrelated types.
        reason = (str(error).splitlines() or [repr(error)])[0]
        message = f"TensorFlow Datasets does not know {name}: {reason}"
        raise errors.DataError(message) from error
    if not builder.is_prepared():
        raise errors.DataError(
            f"Expected {name} in the folder of TensorFlow Datasets "
            f"({builder.data_dir}). Received: nothing there. Download it "
            f"first: tfds build {name}"
        )
    return builder


def _plain(value: Any, feature: Any) -> Any:
    # TFDS stores a list of dicts as a dict of lists.
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
