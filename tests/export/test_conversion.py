"""A conversion writes a whole model, or nothing and says why."""

import os
import re

import numpy as np
import pytest
import safetensors.numpy

from electra_tf import errors
from electra_tf.config import schema
from electra_tf.export import conversion
from electra_tf.formats import hugging_face
from electra_tf.formats import portable
from electra_tf.formats import reading
from electra_tf.objectives import registry
from electra_tf.processes import atomic
from tests import full_disk
from tests import tiny_electra
from tests.formats import tiny_models


def _write(folder, kind="embeddings", source_format="", **fields):
    usual = "huggingface" if kind in tiny_models.FINETUNED else "tf1"
    tiny_models.write(folder, kind, source_format or usual, **fields)
    return folder


@pytest.fixture
def source(tmp_path):
    """A pre-trained model."""
    return _write(tmp_path / "source")


def _convert(source, output_dir, target_format="huggingface", **options):
    options = conversion.ConversionOptions(**options)
    return conversion.convert(source, target_format, output_dir, options)


def _refuses(source, message, error=ValueError, **options):
    """And leaves nothing behind, beside the output folder or elsewhere."""
    before = tiny_models.names_in(source.parent)
    with pytest.raises(error, match=message):
        _convert(source, source.parent / "output", **options)
    assert tiny_models.names_in(source.parent) == before


_BOTH = "embeddings"
_LABELS = ("yes", "maybe", "no")


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (_BOTH, {"target_format": "onnx"}, "tf1, electra_tf.*'onnx'"),
        (_BOTH, {"source_format": "onnx"}, "tf1, electra_tf.*'onnx'"),
        (_BOTH, {"source_format": "huggingface", "error": FileNotFoundError},
         "config.json"),
        (_BOTH, {"labels": ("a", "b")}, "--labels is for"),
        (_BOTH, {"task": "mnli"}, "no trial of ours.*--task=mnli"),
        (_BOTH, {"checkpoint": "best"}, "for runs.*format tf1"),
        (_BOTH, {"drop": "("}, "--drop must be a regular expr"),
        (_BOTH, {"drop": "nothing"}, "matches tensors.*none of .*electra, gen"),
        (_BOTH, {"drop": "electra"}, "whole parts.*electra/emb.* missing"),
        (_BOTH, {"drop": "generator/"}, "leave whole parts"),
        # A generator's head would fit the discriminator's encoder too.
        ("same_size", {"drop": "generator/"}, "lacks its.*drop=generator"),
        ("regression", {"labels": ("a", "b")}, "model of regression task"),
        ("classification", {"labels": ("a", "a", "b")}, "different names"),
        ("classification", {"labels": ("a", "b")}, "be 3 different .*: a,b"),
        # Files of TF1 do not name them: they would be read as the usual ones.
        ("classification", {"labels": _LABELS, "target_format": "tf1"},
         "'mnli' has outputs for contradiction, entailment, neut"),
        ("tagging", {"text_pairs": True}, "model of tagging task"),
        ("own", {"text_pairs": True}, "'cola' reads single texts"),
    ],
)  # fmt: skip
def test_options_that_cannot_be_followed_are_refused(
    tmp_path, kind, options, message
):
    task = portable.PortableTask("cola", "classification", ("0", "1"))
    fields = {"task": task} if kind == "own" else {}
    _refuses(_write(tmp_path / "source", kind, **fields), message, **options)


def test_parts_are_dropped_and_noted(source, tmp_path):
    written = _convert(source, tmp_path / "output", drop="generator")
    assert written.generator is None
    assert written.notes[-1] == "dropped 19 tensors by --drop=generator"
    found = conversion.read_model(tmp_path / "output")
    tiny_models.require_same(found, written)
    assert found.parts == ("discriminator_predictions", "electra")


def test_disentangled_embeddings_convert_without_their_generator(tmp_path):
    settings = schema.replace_fields(
        tiny_electra.build_settings(),
        generator={"disentangled_embeddings": True},
    )
    vocabulary, source = tiny_electra.VOCABULARY, tmp_path / "source"
    model = registry.build_model(settings, vocabulary)
    tiny_electra.save(source, model, settings, vocabulary)
    drop = "generator|generator_predictions"
    for target_format in ("electra_tf", "huggingface", "tf1"):
        options = {"target_format": target_format}
        message = re.escape(f"--drop='{drop}'")
        _refuses(source, message, errors.ModelError, **options)
        output = tmp_path / target_format
        written = _convert(source, output, target_format, drop=drop)
        tiny_models.require_same(conversion.read_model(output), written)


def test_a_vocabulary_replaces_that_of_the_files(source, tmp_path):
    tokens = tiny_models.VOCABULARY.tokens
    (tmp_path / "words.txt").write_text("\n".join(tokens[:-1]))
    given = tmp_path / "words.txt"
    written = _convert(source, tmp_path / "out", vocab_file=given)
    assert written.vocabulary.tokens == (*tokens[:-1], "[no_token_0]")
    replaced = "words.txt replaces the model's vocabulary: 1 of 24 tokens"
    assert any(replaced in note for note in written.notes)
    given.write_text("\n".join([*tokens, "more"]))
    _refuses(source, "of 24 tokens. Received: 25", vocab_file=given)
    gone = tmp_path / "gone.txt"
    _refuses(source, "gone", FileNotFoundError, vocab_file=gone)
    os.mkfifo(gone)
    _refuses(source, "gone.*or a pipe", vocab_file=gone)


def test_a_generator_is_joined(tmp_path):
    source = _write(tmp_path / "source", source_format="huggingface")
    options, out = {"generator_input": source / "generator"}, tmp_path / "out"
    written = _convert(source / "discriminator", out, "tf1", **options)
    tiny_models.require_same(written, tiny_models.build("embeddings"))


def test_labels_and_pairs_are_told(tmp_path):
    source = _write(tmp_path / "source", "own")
    options = {"labels": ("no", "yes"), "text_pairs": True}
    _convert(source, tmp_path / "out", **options)
    task = conversion.read_model(tmp_path / "out").task
    assert (task.labels, task.has_pairs) == (("no", "yes"), True)


_TENSORS = ("index", "data-00000-of-00001")
_STEP = "checkpoints/step-00000000/variables"
_FILES = {
    "tf1": [*(f"model.ckpt.{end}" for end in _TENSORS), "hparams.json"],
    "huggingface": ["model.safetensors", "config.json", "tokenizer.json",
                    "tokenizer_config.json", "vocab.txt"],
    "keras_hub": ["model.weights.h5", "config.json", "tokenizer.json"],
    "electra_tf": ["config.json", *(f"{_STEP}.{end}" for end in _TENSORS)],
}  # fmt: skip


@pytest.mark.parametrize("source_format", _FILES)
def test_damaged_files_are_refused_and_nothing_is_written(
    tmp_path, source_format
):
    kind = "encoder" if source_format == "keras_hub" else "discriminator"
    source = _write(tmp_path / "source", kind, source_format)
    target = "huggingface" if source_format != "huggingface" else "tf1"
    _convert(source, tmp_path / "whole", target)
    for name in _FILES[source_format]:
        data = (source / name).read_bytes()
        (source / name).write_bytes(data[: len(data) // 2])
        _refuses(source, str(source), target_format=target)
        (source / name).write_bytes(data)


@pytest.mark.parametrize("target_format", reading.FORMATS)
def test_a_full_disk_leaves_nothing_and_says_so(tmp_path, target_format):
    source = _write(tmp_path / "source", "encoder")
    with full_disk.largest_file(3000):
        _refuses(
            source, "could not be written.*Free space",
            (OSError, errors.ModelError), target_format=target_format,
        )  # fmt: skip


def test_of_two_conversions_into_one_folder_the_later_fails(
    tmp_path, source, monkeypatch
):
    flush, output = atomic._flush, tmp_path / "output"

    def convert_another(path):
        monkeypatch.setattr(atomic, "_flush", flush)
        _convert(source, output, "tf1")
        flush(path)

    monkeypatch.setattr(atomic, "_flush", convert_another)
    with pytest.raises(FileExistsError, match="must not exist yet"):
        _convert(source, output, "huggingface")
    assert reading.detect(output) == "tf1"
    assert not list(tmp_path.glob(".output*"))


def test_what_reads_back_otherwise_is_not_kept(source, monkeypatch):
    write = hugging_face.write

    def forgetful(model, folder):
        written = write(model, folder)
        file = folder / "discriminator" / "model.safetensors"
        tensors = safetensors.numpy.load_file(file)
        name = "discriminator_predictions.dense.bias"
        tensors[name] = np.nextafter(tensors[name], np.float32(9))
        safetensors.numpy.save_file(tensors, file)
        return written

    monkeypatch.setattr(hugging_face, "write", forgetful)
    _refuses(source, r"\(1 problems\): discriminator_predictions/dense/bias")
