"""The Python API: what a model in memory answers, and how it is loaded."""

import dataclasses
import doctest
import pathlib

import numpy as np
import pytest
import tensorflow as tf

import electra_tf
from electra_tf.formats import own_run
from electra_tf.formats import portable
from electra_tf.loaded_models import pretrained
from electra_tf.modeling import keras_models
from tests import tiny_electra
from tests.export import finetuned_tiny
from tests.formats import tiny_models

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "python_api.md"
TEXTS = [
    "The cats sat on the mat.",
    "unable",
    "",
    "a good film , the dog was bad ! " * 3,
    "\U0001f600 café \u05e9\u05dc\u05d5\u05dd",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Folder and model of a run."""
    folder = tmp_path_factory.mktemp("run")
    return folder, tiny_electra.write_run(folder)


def _rows(features):
    return [features[name] for name in keras_models.FEATURES]


def _states(tower, features):
    return tower.encoder(*_rows(features)).sequence_output


def _logits(tower, features):
    table = tower.encoder.embeddings.word_embeddings
    return tower.head(_states(tower, features), table)


def test_a_run_is_loaded_with_both_towers(run):
    folder, model = run
    electra = electra_tf.load(folder)
    assert repr(electra).startswith(
        "PretrainedModel(discriminator of 2 layers, 16 wide, 24 tokens, 16 pos"
    )
    features = electra.tokenize(TEXTS)
    for found, expected in (
        (electra.discriminator(features), model.main(*_rows(features)).logits),
        (electra.encoder(features), _states(model.main, features)),
        (electra.generator(features), _logits(model.generator, features)),
    ):
        np.testing.assert_array_equal(found, expected)
    assert electra.vocabulary == tiny_electra.VOCABULARY
    assert electra.config.vocab_size == tiny_electra.VOCABULARY.size
    assert electra.objective == "electra"
    rough = electra_tf.load(folder, precision="bfloat16")
    assert rough.encoder(features).dtype == tf.bfloat16
    assert "step-00000007" in electra.origin
    assert electra_tf.load(str(folder), format="electra_tf").notes == ()


def test_a_generator_is_taken_from_a_second_model(run, tmp_path):
    model = tiny_electra.write_run(tmp_path / "mlm", "mlm")
    electra = electra_tf.load(run[0], generator_path=tmp_path / "mlm")
    features = electra.tokenize(["the cat"])
    expected = _logits(model.main, features)
    np.testing.assert_array_equal(electra.generator(features), expected)
    assert electra.score(["the cat"])
    # By itself it fills masks and does not score.
    alone = electra_tf.load(tmp_path / "mlm")
    assert alone.discriminator is None
    assert alone.generator.layer.encoder is alone.encoder.layer
    assert len(alone.fill_masks(["the [MASK]"], 3)[0][0]) == 3
    with pytest.raises(ValueError, match="`score` needs a discriminator.*mask"):
        alone.score(["the cat"])
    assert repr(alone).startswith("PretrainedModel(masked language model of 2")


def test_other_objectives_keep_both_networks(tmp_path):
    model = tiny_electra.write_run(tmp_path, "replace_mlm")
    electra = electra_tf.load(tmp_path)
    features = electra.tokenize(["the cat"])
    expected = _states(model.main, features)
    np.testing.assert_array_equal(electra.encoder(features), expected)
    assert electra.discriminator is None and not electra.can_score
    assert len(electra.fill_masks(["the [MASK] sat"])[0][0]) == 5
    stored = electra.to_portable().tensors
    assert stored.keys() == {v.path for v in model.trainable_variables}
    assert repr(electra).startswith("PretrainedModel(masked language model of")


def test_without_its_head_the_encoder_is_taken(tmp_path):
    tiny_electra.write_run(tmp_path)
    model = own_run.read_model(tmp_path)
    bare = portable.drop_part(model.tensors, portable.REPLACED_TOKEN_HEAD)
    electra = pretrained.PretrainedModel.from_portable(
        dataclasses.replace(model, objective="electra", tensors=bare)
    )
    assert electra.discriminator is None and electra.generator is None
    assert "the encoder alone was loaded" in electra.notes[-1]
    assert repr(electra).startswith("PretrainedModel(encoder of 2 layers")


def test_scores_are_the_discriminators_by_word(electra):
    logits = electra.discriminator(electra.tokenize(TEXTS))
    probabilities = tf.sigmoid(logits).numpy()
    scored = electra.score(TEXTS)
    assert [s.data.decode() for s in scored] == TEXTS
    words = [w.text for w in scored[0].words]
    assert words == ["The", "cats", "sat", "on", "the", "mat", "."]
    got = [w.replaced_probability for w in scored[0].words]
    _, the, cat, ending, *others = probabilities[0]
    expected = [the, max(cat, ending), *others[:5]]
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    assert scored[2].words == ()
    assert scored[3].num_truncated == 3 * 9 - 14
    assert len(scored[3].words) == 14


def test_rows_have_segments_and_padding(electra):
    features = electra.tokenize(["The cat sat", "a"], ["a dog", ""])
    tokens = electra.vocabulary.tokens
    words = [[tokens[i] for i in row] for row in features["input_ids"].numpy()]
    assert words == [
        ["[CLS]", "the", "cat", "sat", "[SEP]", "a", "dog", "[SEP]"],
        ["[CLS]", "a", "[SEP]", *["[PAD]"] * 5],
    ]
    segments, mask = features["segment_ids"], features["input_mask"]
    assert segments.numpy().tolist() == [[0] * 5 + [1] * 3, [0] * 8]
    assert mask.numpy().tolist() == [[1] * 8, [1] * 3 + [0] * 5]
    assert all(rows.dtype == tf.int32 for rows in features.values())
    cut = electra.tokenize(["cat " * 30], max_length=5)
    assert cut["input_ids"].shape == (1, 5)


@pytest.mark.parametrize(
    ("objective", "format"),
    [("mlm", "huggingface"), ("two_tower", "electra_tf")],
)
def test_a_saved_model_reads_back(tmp_path, objective, format):
    tiny_electra.write_run(tmp_path / "run", objective)
    electra = electra_tf.load(tmp_path / "run")
    for variable in electra.encoder.trainable_variables:
        variable.assign(0.5 * variable)
    electra.save(tmp_path / "saved", format)
    again = electra_tf.load(tmp_path / "saved")
    tensors = electra.to_portable().tensors
    tiny_models.require_tensors(again.to_portable().tensors, tensors)
    assert again.summary == electra.summary
    assert again.can_fill_masks == electra.can_fill_masks


def test_every_example_of_the_page_runs(tmp_path):
    tiny_electra.write_run(tmp_path / "run")
    tiny_electra.write_run(tmp_path / "encoder", "all_tokens_mlm")
    trial = tmp_path / "out" / "trial_01"
    finetuned_tiny.write_trial(trial, finetuned_tiny.build_settings())
    finetuned_tiny.write_scores(trial, 80.0)
    names = {
        "path": str(tmp_path / "run"),
        "output_dir": str(tmp_path / "out"),
        "encoder_path": str(tmp_path / "encoder"),
        "folder": str(tmp_path),
    }
    results = doctest.testfile(
        str(PAGE), module_relative=False, globs=names, encoding="utf-8"
    )
    assert results.attempted > 30
    assert results.failed == 0
