"""Every parser of foreign bytes: what it reads, and the seeds to begin with.

A target takes the bytes of a file. It returns, or raises one of the documented
errors; anything else that comes out is a finding.
"""

import dataclasses
import gzip
import io
import json
import pathlib
import tarfile
import tempfile
from collections.abc import Callable
from typing import NamedTuple

import h5py
import numpy as np
import safetensors.numpy

from electra_tf import config
from electra_tf import errors
from electra_tf.config import schema
from electra_tf.export import export_metadata
from electra_tf.export.demo import server
from electra_tf.finetuning import trial
from electra_tf.formats import original_hparams
from electra_tf.formats import tensor_files
from electra_tf.formats import tokenizer_files
from electra_tf.records import manifest
from electra_tf.records import readers
from electra_tf.tasks import cells
from electra_tf.tasks import files
from electra_tf.tasks.question_answering import records
from electra_tf.tasks.tagging import conll
from electra_tf.text import vocabulary
from electra_tf.training import checkpoint_index
from electra_tf.training import checkpoints
from electra_tf.training import reporting

DOCUMENTED = (errors.ConfigError, errors.DataError, errors.ModelError,
              errors.ExportError, FileNotFoundError)  # fmt: skip
_ENCODER = config.EncoderConfig(vocab_size=40)
_TOKENS = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n##s\n東\n"
_SETTINGS = {"do_lower_case": True, "strip_accents": True}
_NAMES = ("kind", "checkpoint", "precision", "stored_weights", "device",
          "electra_tf", "tensorflow")  # fmt: skip
_COUNTS = ("step", "trained_length", "max_length", "num_positions")
_EXPORT = {
    "signatures": ["score_text"],
    **dict.fromkeys(_NAMES, "a"),
    **dict.fromkeys(_COUNTS, 1),
}


class Target(NamedTuple):
    """A parser; of several names for its file one is drawn."""

    read: Callable[[pathlib.Path], object]
    seeds: list[bytes]
    names: list[str]


def run(target: Target, data: bytes, folder: pathlib.Path) -> str:
    """Reads the bytes; the error's class, or nothing where they are right."""
    number = data[0] % len(target.names) if data else 0
    path = folder / target.names[number]
    path.write_bytes(data[1:])
    try:
        target.read(path)
    except DOCUMENTED as error:
        return type(error).__name__
    finally:
        path.unlink(missing_ok=True)
    return ""


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _documents(path: pathlib.Path) -> None:
    for document in readers.FileReader(str(path), readers.ReadingOptions()):
        if "" in document.lines:
            raise AssertionError("an empty line")


def _index(path: pathlib.Path) -> None:
    path.with_name("x.data-00000-of-00001").write_bytes(bytes(64))
    try:
        checkpoint_index.check(str(path.with_suffix("")))
    except ValueError as error:
        raise errors.ModelError("as `read_tensors` does") from error


def _ask(path: pathlib.Path) -> None:
    """The answer of the demo page's server to a body."""
    try:
        texts = server._read_texts(json.loads(path.read_bytes()), ["text"])
    except (ValueError, RecursionError) as error:
        raise errors.DataError("the answer 400") from error
    texts[0].encode("utf-8")


def _build(path: pathlib.Path) -> None:
    text = path.read_bytes().decode("utf-8", "surrogateescape")
    place, _, value = text.partition("=")
    section, _, place = place.partition(".")
    try:
        fields = {place: json.loads(value)}
    except (ValueError, RecursionError):
        fields = {place: value}
    schema.build(config.ExperimentConfig, {section: fields})


def _array(path: pathlib.Path) -> None:
    stated = {"token_counts": path.name, "vocabulary": {"size": 3}}
    (path.parent / manifest.MANIFEST_FILE).write_bytes(_manifest(**stated))
    manifest.load_token_counts(path.parent)


def _manifest(**fields: object) -> bytes:
    shard = {"name": "a", "num_examples": 1, "num_tokens": 3, "num_bytes": 9,
             "sha256": "0"}  # fmt: skip
    return _json(
        dict.fromkeys(("num_documents", "num_corpus_tokens", "seed"), 1)
        | dict.fromkeys(("num_examples", "num_tokens"), 1)
        | dict.fromkeys(("corpus", "builder", "invalid_utf8", "tokenizer"), {})
        | {"split": "train", "max_seq_length": 16, "shards": [shard]}
        | {"vocabulary": {}, "token_counts": "counts.npy"}
        | fields
    )


def _tar(name: str) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.size = 6
        archive.addfile(member, io.BytesIO(b"a line"))
    return stream.getvalue()


def _numpy(value: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, value)
    return stream.getvalue()


def _hdf5() -> bytes:
    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        file["electra/electra/dense/kernel:0"] = np.ones([2, 3], np.float32)
    return stream.getvalue()


def _squad() -> bytes:
    answer = {"text": "cat", "answer_start": 4}
    question = {"id": "1", "question": "who", "answers": [answer]}
    paragraph = {"context": "The cat sat", "qas": [question]}
    return _json({"data": [{"paragraphs": [paragraph]}]})


def _mrqa() -> bytes:
    detected = {"text": "cat", "char_spans": [[4, 6]]}
    question = {"qid": "1", "question": "who", "answers": ["cat"],
                "detected_answers": [detected]}  # fmt: skip
    return _json({"context": "The cat sat", "qas": [question]})


def _tiny_index() -> bytes:
    folder = pathlib.Path(tempfile.mkdtemp())
    checkpoints.tf.raw_ops.SaveV2(
        prefix=str(folder / "x"),
        tensor_names=["model/a", "model/b"],
        shape_and_slices=["", ""],
        tensors=[np.ones([2, 3], np.float32), np.int64(3)],
    )
    return (folder / "x.index").read_bytes()


def _table(path: pathlib.Path) -> None:
    for row in files.read_table(path, "auto", ["text"], ["label"]):
        cells.read_text(row, "text")


def _trial() -> bytes:
    score = trial.Score({"accuracy": 90.0}, False)
    result = trial.TrialResult(
        1, {"a": {"dev": score}}, {}, 1, "a", 1.5, "a", {"a": "1"}
    )
    return _json(dataclasses.asdict(result))


_ENDINGS = "txt jsonl gz bz2 xz zst tar parquet arrow"
_TOKENIZER_FILES = "tokenizer_config.json tokenizer.json added_tokens.json"
_OVERRIDES = (
    b"encoder.hidden_size=256 masking.mask_prob=0.25 training.strategy=tpu "
    b"data.max_seq_length=1e3"
)
TARGETS: dict[str, Callable[[], Target]] = {
    "vocabulary": lambda: Target(
        vocabulary.Vocabulary.load, [_TOKENS.encode()], ["vocab.txt"]
    ),
    "tokenizer_settings": lambda: Target(
        lambda path: tokenizer_files.load_if_there(path.parent, _ENCODER),
        [_json(_SETTINGS), _json({"model": {"vocab": {}}}), _TOKENS.encode()],
        [*_TOKENIZER_FILES.split(), "vocab.txt"],
    ),
    "config": lambda: Target(
        lambda path: schema.read_file(config.ExperimentConfig, path),
        [_json({"encoder": {"hidden_size": 64}})],
        ["config.json"],
    ),
    "override": lambda: Target(_build, _OVERRIDES.split(), ["text"]),
    "hparams": lambda: Target(
        lambda path: original_hparams.from_original_hparams(
            schema.read_object(path, errors.ModelError)
        ),
        [_json({"model_size": "small", "vocab_size": 30522})],
        ["hparams.json"],
    ),
    "table": lambda: Target(
        _table,
        [b"text,label\na,b\n", b"text\tlabel\na\tb\n", b'{"text": "a"}\n'],
        ["a.csv", "a.tsv", "a.jsonl"],
    ),
    "tags": lambda: Target(
        conll.read_columns, [b"The DT B-NP\ncat NN I-NP\n\n"], ["a.txt"]
    ),
    "squad": lambda: Target(records.read_squad, [_squad()], ["a.json"]),
    "mrqa": lambda: Target(
        records.read_squad,
        [_mrqa(), gzip.compress(_mrqa())],
        ["a.jsonl", "a.jsonl.gz"],
    ),
    "corpus": lambda: Target(
        _documents,
        [b"a line\n\nb\n", b'{"text": "a"}\n', b'<doc id="1">\na\n</doc>\n',
         gzip.compress(b"a line\n"), _tar("a/b"), _tar("../b")],
        [f"a.{ending}" for ending in _ENDINGS.split()],
    ),
    "manifest": lambda: Target(
        lambda path: manifest.Manifest.load(path.parent),
        [_manifest()],
        ["manifest.json"],
    ),
    "array": lambda: Target(
        _array, [_numpy(np.arange(1, 4)), _numpy(np.ones(2))], ["counts.npy"]
    ),
    "index": lambda: Target(_index, [_tiny_index()], ["x.index"]),
    "safetensors": lambda: Target(
        lambda path: tensor_files.read_tensors(path.parent, {}),
        [safetensors.numpy.save({"a": np.ones([2], np.float32)}),
         _json({"weight_map": {"a": "x.safetensors"}})],
        ["model.safetensors", "model.safetensors.index.json"],
    ),
    "hdf5": lambda: Target(
        lambda path: tensor_files.read_tensors(path.parent, {}),
        [_hdf5()],
        ["tf_model.h5"],
    ),
    "metrics": lambda: Target(
        reporting.read_lines, [b'{"step": 1, "split": "train"}\n'], ["m"]
    ),
    "trial": lambda: Target(
        lambda path: trial.read_result(path.parent),
        [_trial()],
        [trial.RESULT_FILE],
    ),
    "export": lambda: Target(
        lambda path: schema.read_file(
            export_metadata.ExportMetadata, path, errors.ExportError
        ),
        [_json(_EXPORT), _json({**_EXPORT, "scores": {"dev": {"f1": 1}}})],
        ["export.json"],
    ),
    "request": lambda: Target(_ask, [_json({"text": "a [MASK]"})], ["body"]),
}  # fmt: skip
