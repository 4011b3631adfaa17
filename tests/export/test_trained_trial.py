"""Trials of one's own tasks are loaded without their training data."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import finetuning_config
from electra_tf.export import trained_trial
from electra_tf.tasks.sentences.text_task import Example
from electra_tf.tasks.tagging import conll
from electra_tf.training import model_dir
from tests.export import finetuned_tiny


def _write(folder, labels=(), **own):
    settings = finetuning_config.FinetuningConfig(
        task=finetuning_config.TaskConfig(names="own", max_seq_length=20),
        own=finetuning_config.OwnTaskConfig(train_file="gone.jsonl", **own),
    )
    return finetuned_tiny.write_trial(folder, settings, {"own": labels})


def _answer(trial, signature, *texts):
    module = trained_trial.load_task(trial.folder).module
    assert module.signature_names[0] == signature
    names = ("texts", "text_pairs")
    tensors = map(tf.constant, texts)
    inputs = dict(zip(names, tensors, strict=False))
    answer = module.answer(signature, **inputs)
    return {name: value.numpy() for name, value in answer.items()}


def test_own_pairs_are_classified_by_their_own_labels(tmp_path):
    labels = ("agrees", "disagrees", "says nothing")
    trial = _write(tmp_path, labels, text_pair_column="other")
    first, second = ["the cat", "a dog sat"], ["on the mat", "?"]
    answer = _answer(trial, "classify_pair_text", first, second)
    examples = [
        Example(n, *p) for n, p in enumerate(zip(first, second, strict=True))
    ]
    expected = trial.decode("own", examples)
    np.testing.assert_allclose(
        answer["probabilities"], expected.probabilities, atol=1e-5
    )
    assert [label.decode() for label in answer["label"]] == [
        labels[number] for number in expected.classes
    ]


def test_own_scores_have_their_own_range(tmp_path):
    trial = _write(tmp_path, kind="regression", min_value=-10, max_value=30)
    answer = _answer(trial, "regress_text", ["the cat", "sat"])
    expected = trial.decode("own", [Example(0, "the cat"), Example(1, "sat")])
    np.testing.assert_allclose(answer["score"], expected, rtol=1e-4)
    assert np.ptp(expected) > 1


def test_own_tags_that_mark_no_spans_are_empty_where_not_seen(tmp_path):
    labels = ("DET", "NOUN", "VERB")
    trial = _write(tmp_path, labels, kind="tagging")
    words = ["the", "cat", "sat"] * 9
    answer = _answer(trial, "tag_text", [" ".join(words)])
    (expected,) = trial.decode("own", [conll.Sentence(tuple(words), None)])
    assert [tag.decode() for tag in answer["tags"][0]] == [
        tag or "" for tag in expected
    ]
    assert None in expected
    assert set(expected) - {None} <= set(labels)


def test_a_folder_that_is_no_trial_is_none(tmp_path, tiny_run, tiny_trial):
    assert trained_trial.find_trial(tmp_path) is None
    assert trained_trial.find_trial(tiny_run.model_dir) is None
    assert trained_trial.find_trial(tiny_trial.folder) == tiny_trial.folder
    with pytest.raises(model_dir.ModelDirError, match="No trial"):
        trained_trial.load_task(tmp_path)


def test_a_path_that_cannot_be_is_refused(tmp_path):
    with pytest.raises(OSError, match="path that can be read.*too long"):
        trained_trial.find_trial(tmp_path / ("a" * 256))
