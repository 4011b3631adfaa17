"""The dataset folder of a run: its vocabulary, its splits, its identity."""

import hashlib
import pathlib
from typing import NamedTuple

import numpy as np

from electra_tf.inputs import pipeline
from electra_tf.records import manifest
from electra_tf.records.manifest import TRAIN
from electra_tf.records.manifest import VALIDATION
from electra_tf.text import vocabulary as vocabulary_lib


class Dataset(NamedTuple):
    """What a run needs of a dataset folder, checked."""

    vocabulary: vocabulary_lib.Vocabulary
    train: pipeline.Split
    held_out: pipeline.Split | None
    identity: dict[str, str]


def open_dataset(folder: pathlib.Path, max_seq_length: int) -> Dataset:
    """Opens a dataset that `build_pretraining_dataset.py` has made.

    Raises `FileNotFoundError` if there is none, `DataError` if the records do
    not fit the run's row length, or a shard is damaged.
    """
    vocabulary = load_vocabulary(folder)
    names = [TRAIN]
    if (folder / VALIDATION).is_dir():
        names.append(VALIDATION)
    splits = {
        name: pipeline.open_split(folder / name, vocabulary, max_seq_length)
        for name in names
    }
    return Dataset(
        vocabulary,
        splits[TRAIN],
        splits.get(VALIDATION),
        {name: _identify(folder / name) for name in names},
    )


def load_vocabulary(folder: pathlib.Path) -> vocabulary_lib.Vocabulary:
    """The vocabulary that travels with a dataset."""
    if not (folder / TRAIN / "manifest.json").is_file():
        raise FileNotFoundError(
            f"No dataset in {str(folder)!r}: expected train/manifest.json "
            "there. Build one with scripts/build_pretraining_dataset.py and "
            "name it with --config.data.dataset_dir."
        )
    return vocabulary_lib.Vocabulary.load(folder)


def load_token_counts(
    folder: pathlib.Path,
    vocabulary: vocabulary_lib.Vocabulary,
    split: str = TRAIN,
) -> np.ndarray:
    """How often each entry occurs in a split, `[V]` int64."""
    return manifest.load_token_counts(folder / split, vocabulary.size)


def compute_baselines(
    token_counts: np.ndarray, held_out_counts: np.ndarray
) -> dict[str, float]:
    """Measures the training text's unigram model on held-out text.

    It says the commonest token everywhere, with the frequency of every token
    as its probability. Both counts are `[V]`, 0 for what is never masked. What
    the training text lacks counts as half an occurrence, as in the unigram
    generator's loss. `unigram_accuracy` and `unigram_entropy` (nats, crossed)
    are what `masked_accuracy` and `masked_loss` must pass.
    """
    shares = held_out_counts / held_out_counts.sum()
    costs = -np.log(np.maximum(token_counts, 0.5) / token_counts.sum())
    return {
        "unigram_accuracy": float(shares[token_counts.argmax()]),
        "unigram_entropy": float(np.sum(shares * costs)),
    }


def _identify(split_folder: pathlib.Path) -> str:
    shards = manifest.Manifest.load(split_folder).shards
    text = repr([(shard.num_examples, shard.sha256) for shard in shards])
    return hashlib.sha256(text.encode()).hexdigest()
