"""A dataset and runs of the tiny model, for tests of whole runs."""

import dataclasses
import json
import os
import pathlib
import socket
import struct
import subprocess
import sys
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorboard.compat.tensorflow_stub import pywrap_tensorflow

from electra_tf import config
from electra_tf.config import schema
from electra_tf.records import examples
from electra_tf.records import manifest
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import checkpoints
from electra_tf.training import reporting
from tests import tiny

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
replace = schema.replace_fields
# More examples than one batch holds, not a multiple of it, in unequal shards.
NUM_TRAIN, NUM_HELD_OUT = 105, 21


def write_dataset(
    folder: pathlib.Path,
    vocabulary: vocabulary_lib.Vocabulary = tiny.VOCABULARY,
    length: int = tiny.LENGTH,
    seed: int = 0,
) -> pathlib.Path:
    """Writes a dataset of random examples of up to 16 tokens, then padding."""
    _write_split(folder / "train", NUM_TRAIN, 3, vocabulary, length, seed)
    _write_split(
        folder / "validation", NUM_HELD_OUT, 1, vocabulary, length, seed + 1
    )
    vocabulary.save(folder)
    manifest.save_index(folder, {}, [])
    return folder


def _write_split(folder, num_examples, num_shards, vocabulary, length, seed):
    folder.mkdir(parents=True)
    rows = {
        name: np.pad(value.numpy(), [[0, 0], [0, length - tiny.LENGTH]])
        for name, value in tiny.build_features(num_examples, seed).items()
    }
    shards = []
    for index in range(num_shards):
        own = {name: value[index::num_shards] for name, value in rows.items()}
        path = folder / f"pretrain_data.tfrecord-{index:05d}"
        with tf.io.TFRecordWriter(str(path)) as writer:
            for record in examples.serialize_examples(own):
                writer.write(record)
        shards.append(
            manifest.Shard(
                path.name,
                len(own["input_ids"]),
                int(own["input_mask"].sum()),
                path.stat().st_size,
                manifest.file_sha256(path),
            )
        )
    counts = np.bincount(rows["input_ids"].ravel(), minlength=vocabulary.size)
    counts[list(set(vocabulary.special_ids) - {vocabulary.unk_id})] = 0
    np.save(folder / manifest.TOKEN_COUNTS_FILE, counts.astype(np.int64))
    num_tokens = sum(shard.num_tokens for shard in shards)
    content = manifest.Manifest(
        split=folder.name, corpus={}, builder={}, seed=seed,
        vocabulary=manifest.describe_vocabulary(vocabulary),
        tokenizer=dataclasses.asdict(vocabulary.settings),
        max_seq_length=length, num_documents=1, num_corpus_tokens=num_tokens,
        num_examples=num_examples, num_tokens=num_tokens,
        shards=tuple(shards), token_counts=manifest.TOKEN_COUNTS_FILE,
        invalid_utf8={},
    )  # fmt: skip
    (folder / manifest.MANIFEST_FILE).write_text(schema.to_json(content))


def header(length: int) -> bytes:
    """The 12 bytes before a record of `length` bytes in a TFRecord file."""
    head = struct.pack("<Q", length)
    return head + struct.pack("<I", pywrap_tensorflow.masked_crc32c(head))


def build_settings(
    dataset: pathlib.Path, **training: Any
) -> config.ExperimentConfig:
    """The tiny model with one layer, deterministic, on a written dataset."""
    settings = tiny.build_settings(**({"deterministic": True} | training))
    return replace(
        tiny.with_dropout(settings),
        encoder={"num_hidden_layers": 1},
        data={"dataset_dir": str(dataset)},
    )


_STUDY = """
import json
from electra_tf import config
from electra_tf.studies import definition

def get_study():
    return definition.Study(
        name="toy", question="?", base=config.freeze(json.loads({base!r})),
        arms={{"electra": {{}}, "mlm": definition.MASKED_LM_ARM, **{more}}},
        budget="flops", reference_arm="electra", seeds=(1,))
"""


def write_study(
    path: pathlib.Path, base: config.ExperimentConfig, more: Any
) -> pathlib.Path:
    """Writes a study of ELECTRA, a masked LM, and more arms."""
    path.write_text(_STUDY.format(base=config.to_json(base), more=more))
    return path


def checkpoint_files(model_dir: pathlib.Path) -> dict[str, bytes]:
    """The files of the newest checkpoint, and their bytes."""
    newest = checkpoints.latest(model_dir)
    files = {path.name: path.read_bytes() for path in newest.iterdir()}
    return files | {"name": newest.name.encode()}


def reproducible_metrics(model_dir: pathlib.Path) -> list[dict[str, Any]]:
    """The lines of `metrics.jsonl` without times."""
    lines = reporting.read_lines(model_dir / "metrics.jsonl")
    for line in lines:
        line.pop("timing", None)
    return lines


def require_equal_runs(one: pathlib.Path, other: pathlib.Path) -> None:
    """Fails unless both runs ended with the same bits and metrics."""
    assert reproducible_metrics(one) == reproducible_metrics(other)
    assert checkpoint_files(one) == checkpoint_files(other)


def largest_difference(one: pathlib.Path, other: pathlib.Path) -> float:
    """Between any weights of two checkpoints."""
    first, second = (
        checkpoints.load_tensors(checkpoint, "model")
        for checkpoint in (one, other)
    )
    assert first.keys() == second.keys()
    return max(float(np.abs(first[n] - second[n]).max()) for n in first)


def write_clusters(count: int) -> list[str]:
    """The TF_CONFIG of each of so many workers on this machine."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    hosts = [f"127.0.0.1:{own.getsockname()[1]}" for own in sockets]
    for own in sockets:
        own.close()
    cluster = {"worker": hosts}
    tasks = [{"type": "worker", "index": index} for index in range(count)]
    return [json.dumps({"cluster": cluster, "task": task}) for task in tasks]


def write_config(path: pathlib.Path, settings: Any) -> pathlib.Path:
    """Writes settings as a file for `--config`."""
    path.write_text(
        "import json, ml_collections\ndef get_config():\n"
        f"    text = {config.to_json(settings)!r}\n"
        "    return ml_collections.ConfigDict(json.loads(text)).lock()\n"
    )
    return path


def start_script(
    settings: config.ExperimentConfig,
    model_dir: pathlib.Path,
    cluster: str = "",
    flags: Sequence[str] = (),
    **options: Any,
) -> subprocess.Popen[str]:
    """Starts scripts/run_pretraining.py; `cluster` is its TF_CONFIG."""
    number = zlib.crc32(config.to_json(settings).encode())
    name = f"{model_dir.name}_{number}_config.py"
    path = write_config(model_dir.with_name(name), settings)
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    if cluster:
        environment["TF_CONFIG"] = cluster
    given = f"--config={path}", f"--model_dir={model_dir}", *flags
    return subprocess.Popen(
        [sys.executable, "scripts/run_pretraining.py", *given],
        cwd=REPOSITORY, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options,
    )  # fmt: skip
