"""Models of any format are told apart, become layers, and start runs."""

import dataclasses

import numpy as np
import pytest

from electra_tf import errors
from electra_tf.export import conversion
from electra_tf.formats import reading
from electra_tf.text import vocabulary as vocabulary_lib
from tests.formats import tiny_models

POSITIONS = "electra/embeddings/position_embeddings"
WORDS = "electra/embeddings/word_embeddings"
OUTPUT_BIAS = "generator_predictions/output_bias"
TOKENS = tiny_models.VOCABULARY.tokens


@pytest.mark.parametrize("format_name", reading.FORMATS)
def test_every_format_is_told_by_its_files(tmp_path, format_name):
    model = tiny_models.build("encoder")
    written = conversion.write(model, format_name, tmp_path)
    assert reading.detect(tmp_path) == format_name
    tiny_models.require_same(reading.read_model(tmp_path), written)
    for other in set(reading.FORMATS) - {format_name}:
        with pytest.raises((ValueError, FileNotFoundError)):
            reading.read_model(tmp_path, other)


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent, none of"):
        reading.read_model(tmp_path / "absent")
    (tmp_path / "file").write_text("")
    with pytest.raises(FileNotFoundError, match="file, none of"):
        reading.read_model(tmp_path / "file")
    with pytest.raises(errors.ModelError, match=r"Received: file\."):
        reading.detect(tmp_path)
    (tmp_path / "config.json").write_text('{"class_name": "x"}')
    with pytest.raises(errors.ModelError, match=r"config\.json, file\."):
        reading.detect(tmp_path)
    (tmp_path / "model.ckpt.index").write_text("")
    assert reading.detect(str(tmp_path / "model.ckpt")) == "tf1"
    tiny_models.write(tmp_path / "trial", "tagging", "electra_tf")
    with pytest.raises(errors.ModelError, match="tuned one.*--drop=task_spec"):
        reading.read_model(tmp_path / "trial")


def _target(kind="embeddings", vocabulary=tiny_models.VOCABULARY, **sizes):
    """A model of other weights, its variables in layers."""
    changes = {"vocab_size": vocabulary.size} | sizes
    plain = tiny_models.build(kind)
    fields = {"encoder": dataclasses.replace(plain.encoder, **changes)}
    if plain.generator is not None:
        fields["generator"] = dataclasses.replace(plain.generator, **changes)
    model = tiny_models.build(kind, seed=9, vocabulary=vocabulary, **fields)
    built = reading.build_networks(model)
    towers = [t for t in (built.main, built.generator) if t is not None]
    variables = {v.path: v for tower in towers for v in tower.variables}
    generator = model.generator or model.encoder
    return reading.Target(variables, model.encoder, generator, vocabulary)


def _values(target):
    return {n: v.numpy().copy() for n, v in target.variables.items()}


@pytest.fixture
def source(tmp_path):
    tiny_models.write(tmp_path / "source", "embeddings", "tf1")
    return tmp_path / "source"


def _refuses(source, target, message):
    """Nothing may have changed then."""
    before = _values(target)
    with pytest.raises(errors.ModelError, match=message):
        reading.warm_start(source, target)
    for name, value in _values(target).items():
        np.testing.assert_array_equal(value, before[name])


def test_a_longer_position_table_keeps_the_first_rows(source):
    # A dropout rate may differ.
    target = _target(max_position_embeddings=24, hidden_dropout_prob=0.0)
    fresh = _values(target)[POSITIONS]
    saved = tiny_models.build("embeddings").tensors[POSITIONS]
    report = reading.warm_start(source, target)
    found = _values(target)[POSITIONS]
    np.testing.assert_array_equal(found[:20], saved)
    np.testing.assert_array_equal(found[20:], fresh[20:])
    assert f"; {POSITIONS}: 20 rows became 24" in report


@pytest.mark.parametrize(
    "tokens",
    [(*TOKENS[:7], "new", *TOKENS[7:], "##er"), tuple(reversed(TOKENS))],
)
def test_rows_follow_their_tokens(source, tokens):
    target = _target(vocabulary=vocabulary_lib.Vocabulary(tokens))
    fresh, saved = _values(target), tiny_models.build("embeddings").tensors
    report = reading.warm_start(source, target)
    found = _values(target)
    for name in (WORDS, OUTPUT_BIAS):
        for row, token in enumerate(tokens):
            expected = fresh[name][row]
            if token in TOKENS:
                expected = saved[name][TOKENS.index(token)]
            np.testing.assert_array_equal(found[name][row], expected)
    resized = f"{WORDS}: 24 rows became {len(tokens)}"
    assert (resized in report) == (len(tokens) != len(TOKENS))


_CASED = vocabulary_lib.TokenizerSettings(do_lower_case=False)


def test_another_vocabulary_is_refused(source):
    for vocabulary, message in (
        (((*TOKENS[:-2], "new", "newer"),), r"2 of .* as \['ran', '##é'"),
        ((TOKENS[:5],), "19 of them, such as .'the', 'cat'"),
        ((TOKENS, _CASED), "tokenizer settings"),
    ):
        other = vocabulary_lib.Vocabulary(*vocabulary)
        _refuses(source, _target(vocabulary=other), message)
    (source / "vocab.txt").unlink()
    _refuses(source, _target(), "vocab.txt")


def test_a_part_that_the_model_lacks_stays_fresh(tmp_path):
    model = tiny_models.write(tmp_path / "source", "discriminator", "tf1")
    target = _target()
    before = _values(target)
    report = reading.warm_start(tmp_path / "source", target)
    for name, value in _values(target).items():
        expected = model.tensors.get(name, before[name])
        np.testing.assert_array_equal(value, expected)
    assert f"restored {len(model.tensors)} of {len(before)} " in report
    assert "; generator (14 variables) keeps its initial values" in report
    assert "; generator_predictions (5 variables) keeps its ini" in report


def test_other_sizes_are_refused_and_told(source):
    for part, field, value in (
        ("encoder", "num_attention_heads", 4),
        ("encoder", "type_vocab_size", 2),
        ("generator", "num_attention_heads", 2),
    ):
        target = _target()
        sizes = dataclasses.replace(getattr(target, part), **{field: value})
        message = f"config's {part}.*{field}: .*, {value}.*--config.{part}."
        _refuses(source, target._replace(**{part: sizes}), message)
