"""Documents of a TensorFlow Datasets data set (extra `tfds`)."""

import re
from collections.abc import Iterator
from typing import Any
from typing import NamedTuple

from electra_tf import errors
from electra_tf.records.readers import Document
from electra_tf.records.readers import text_lines

PREFIX = "tfds:"
_SPLIT = "train"
_DEFAULT_FIELD = "text"
_VERSION = re.compile(r"\d+\.[\d*]+\.[\d*]+")


class TfdsDataset(NamedTuple):
    """What the work plan needs to know of a data set.

    Attributes:
      name: `name/config`.
      version: its full name with version, as TFDS states it.
      num_examples: examples of the training split.
      num_bytes: size of that split as stored.
    """

    name: str
    version: str
    num_examples: int
    num_bytes: int


class TfdsReader:
    """The documents of a range of examples; each example is one document.

    Args:
      reference: `tfds:NAME[:VERSION][:FIELD]`.
      name: what errors and counts call the range.
      begin: first example.
      end: example after the last one; None for the end.

    Attributes:
      invalid_utf8: byte sequences replaced so far.
      num_bytes: bytes of text read so far.
    """

    def __init__(
        self, reference: str, name: str, begin: int = 0, end: int | None = None
    ):
        self._reference = reference
        self._name = name
        self._range = f"{_SPLIT}[{begin}:{'' if end is None else end}]"
        self.invalid_utf8 = 0
        self.num_bytes = 0

    def __iter__(self) -> Iterator[Document]:
        """Yields the examples in the order in which they are stored.

        Raises:
          DataError: if the examples lack the field.
        """
        dataset_name, field = parse_reference(self._reference)
        tfds = _import_tfds()
        builder = tfds.builder(dataset_name)
        if field not in builder.info.features:
            raise errors.DataError(
                f"{dataset_name} has no field {field!r}; it has "
                f"{sorted(builder.info.features)}. Name it as "
                f"{PREFIX}{dataset_name}:FIELD."
            )
        # One file after the other: the order must not depend on timing.
        in_order = tfds.ReadConfig(interleave_cycle_length=1)
        dataset = builder.as_dataset(
            split=self._range, shuffle_files=False, read_config=in_order
        )
        for example in dataset.as_numpy_iterator():
            data = example[field]
            self.num_bytes += len(data)
            text = data.decode(errors="replace")
            self.invalid_utf8 += text.count("\ufffd") - data.count(
                "\ufffd".encode()
            )
            lines = text_lines(text)
            if lines:
                yield Document(self._name, lines)


def describe(reference: str) -> TfdsDataset:
    """Returns name and size of a data set; downloads it if need be.

    Raises:
      DataError: if TensorFlow Datasets is missing, or does not know it.
    """
    dataset_name, _ = parse_reference(reference)
    tfds = _import_tfds()
    try:
        builder = tfds.builder(dataset_name)
        builder.download_and_prepare()
        split = builder.info.splits[_SPLIT]
    except (KeyError, ValueError, OSError) as error:
        # Its messages list all data sets that exist.
        lines = str(error).splitlines() or [repr(error)]
        hints = [line for line in lines[1:] if line.startswith("Did you mean")]
        raise errors.DataError(
            f"TensorFlow Datasets cannot give {dataset_name}, split {_SPLIT}: "
            + " ".join([lines[0], *hints])
        ) from error
    return TfdsDataset(
        dataset_name, builder.info.full_name, split.num_examples,
        max(1, split.num_bytes),
    )  # fmt: skip


def parse_reference(reference: str) -> tuple[str, str]:
    """Returns data set name (with config and version) and text field.

    Example:
      >>> parse_reference("tfds:wikipedia/20230601.en:1.0.0:title")
      ('wikipedia/20230601.en:1.0.0', 'title')

    Raises:
      DataError: if it is no such reference.
    """
    name, *rest = reference.removeprefix(PREFIX).split(":")
    if rest and _VERSION.fullmatch(rest[0]):
        name += ":" + rest.pop(0)
    if not name or len(rest) > 1:
        raise errors.DataError(
            f"Expected {PREFIX}NAME[:VERSION][:FIELD]. Received: {reference}."
        )
    return name, rest[0] if rest else _DEFAULT_FIELD


def _import_tfds() -> Any:
    """Returns the module `tensorflow_datasets`.

    Raises:
      DataError: if it is not installed.
    """
    try:
        import tensorflow_datasets as tfds
    except ImportError as error:
        raise errors.DataError(
            f"Corpora named {PREFIX}... need TensorFlow Datasets, which is "
            f"not installed ({error}). Install it: pip install "
            "'electra-tf[tfds]'."
        ) from error
    return tfds
