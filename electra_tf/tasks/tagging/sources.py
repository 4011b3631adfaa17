"""Which files the splits of a tagging task are read from.

CoNLL-2000 publishes `train.txt` and `test.txt` in a folder `conll2000`; the
original's layout is `chunk/{train,dev,test}.txt`. Where there is no `dev.txt`
the test file serves as dev split too: its scores are the published ones, but
nothing may be chosen by them.
"""

import functools
import pathlib
from collections.abc import Callable
from typing import NamedTuple

from absl import logging

from electra_tf import errors
from electra_tf.config import finetuning as finetuning_config
from electra_tf.tasks import files
from electra_tf.tasks import tables
from electra_tf.tasks import tfds_source
from electra_tf.tasks.tagging import conll

CHUNKING_FOLDERS = ("conll2000", "chunk", "chunking")
# Sentences and words of the published files.
_OFFICIAL_COUNTS = {"train.txt": (8_936, 211_727), "test.txt": (2_012, 47_377)}
_ENDINGS = {
    **tables.ENDINGS,
    **dict.fromkeys((".conll", ".txt", ".iob", ".bio"), "conll"),
}


class SplitFile(NamedTuple):
    """What was read for a split.

    Attributes:
        path: the file, for messages.
        sentences: in its order.
    """

    path: pathlib.Path
    sentences: list[conll.Sentence]


Reader = Callable[[], SplitFile]
"""Reads the file of a split; raises as `Task.read`."""


def chunking_readers(data_dir: str) -> dict[str, Reader]:
    """Readers of CoNLL-2000.

    Args:
        data_dir: where the folder is, see `files.find_file`.
    """
    return {
        split: functools.partial(_read_chunking, data_dir, split)
        for split in ("train", "dev", "test")
    }


def own_readers(own: finetuning_config.OwnTaskConfig) -> dict[str, Reader]:
    """Readers of a user's files; the one of `test` needs no tags.

    Args:
        own: files, their format and columns.

    Returns:
        Split to reader; none for splits without a file.
    """
    return {
        split: functools.partial(
            _read_own, pathlib.Path(path), own, split != "test"
        )
        for split, path in own.files.items()
    }


def _read_chunking(data_dir: str, split: str) -> SplitFile:
    if data_dir in ("", tfds_source.DATA_DIR):
        raise errors.DataError(
            "chunking is read from the files of CoNLL-2000, train.txt and "
            f"test.txt in a folder conll2000. Received: {data_dir!r}. Name "
            "the folder with --config.task.data_dir."
        )
    path = _find(pathlib.Path(data_dir), f"{split}.txt")
    sentences = conll.read_columns(path)
    is_official = path.name == "test.txt" or not (
        path.with_name("dev.txt").is_file()
    )
    if is_official:
        num_sentences, num_words = _OFFICIAL_COUNTS[path.name]
        found = sum(len(sentence.words) for sentence in sentences)
        files.require_count(path, len(sentences), num_sentences)
        if len(sentences) == num_sentences and found != num_words:
            logging.warning(
                "%s holds %d words, the official file %d: scores will not "
                "compare with published ones.", path, found, num_words,
            )  # fmt: skip
    return SplitFile(path, sentences)


def _find(data_dir: pathlib.Path, name: str) -> pathlib.Path:
    find = functools.partial(
        files.find_file, data_dir, CHUNKING_FOLDERS, task="chunking"
    )
    if name != "dev.txt":
        return find(file_names=(name,))
    try:
        return find(file_names=(name,))
    except FileNotFoundError:
        path = find(file_names=("test.txt",))
        logging.info("There is no %s: %s is the dev split.", name, path)
        return path


def _read_own(
    path: pathlib.Path,
    own: finetuning_config.OwnTaskConfig,
    needs_tags: bool,
) -> SplitFile:
    file_format = tables.resolve_format(path, own.file_format, _ENDINGS)
    if file_format == "conll":
        sentences = conll.read_columns(
            path,
            needs_tags,
            _column("text_column", own, conll.FIRST_COLUMN),
            _column("label_column", own, conll.LAST_COLUMN),
        )
    else:
        sentences = conll.read_table(
            path, file_format, own.text_column, own.label_column, needs_tags
        )
    return SplitFile(path, sentences)


def _column(
    field: str, own: finetuning_config.OwnTaskConfig, default: int
) -> int:
    """The index of a CoNLL column, which has no name."""
    value = getattr(own, field)
    if value == getattr(finetuning_config.OwnTaskConfig(), field):
        return default
    try:
        return int(value)
    except ValueError:
        raise ValueError(
            f"`own.{field}` of a file in CoNLL columns must be the column's "
            "number, from 0, or from the end if negative. Received: "
            f"{value!r}."
        ) from None
