"""Trials of one's own tasks are loaded without their training data."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import errors
from electra_tf.config import finetuning as finetuning_config
from electra_tf.export.finetuned import trial as trial_export
from electra_tf.finetuning import results
from electra_tf.tasks.sentences.task import Example
from electra_tf.tasks.tagging import conll
from tests.export import finetuned_tiny


def _write(folder, labels=(), **own):
    settings = finetuning_config.FinetuningConfig(
        task=finetuning_config.TaskConfig(names="own", max_seq_length=20),
        own=finetuning_config.OwnTaskConfig(train_file="gone.jsonl", **own),
    )
    return finetuned_tiny.write_trial(folder, settings, {"own": labels})


def _answer(trial, signature, *texts):
    module = trial_export.load_task(trial.folder).module
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


def test_long_own_texts_are_tagged_to_the_end(tmp_path):
    labels = ("DET", "NOUN", "VERB")
    trial = _write(tmp_path, labels, kind="tagging")
    texts = ["the cat sat " * 30, "", "sat", "the unaffable cat " * 11]
    answer = _answer(trial, "tag_text", texts)
    expected = trial.decode(
        "own",
        [conll.Sentence(tuple(text.split()), None) for text in texts],
    )
    for tags, wanted in zip(answer["tags"], expected, strict=True):
        found = [tag.decode() for tag in tags]
        assert found[: len(wanted)] == wanted
        assert set(found[len(wanted) :]) <= {""}
        assert set(wanted) <= set(labels)
    np.testing.assert_array_equal(answer["num_truncated"], 0)
    np.testing.assert_array_equal(answer["num_tokens"], [92, 2, 3, 57])


def test_own_tags_that_mark_no_spans_are_empty_where_not_looked_at(tmp_path):
    trial = _write(tmp_path, ("DET", "NOUN"), kind="tagging")
    answer = _answer(trial, "tag_text", ["the [CLS] cat"])
    first, middle, last = answer["tags"][0]
    assert middle == b""
    assert b"" not in (first, last)


def test_a_folder_that_is_no_trial_is_none(tmp_path, tiny_run, tiny_trial):
    assert results.find_trial(tmp_path) is None
    assert results.find_trial(tiny_run.model_dir) is None
    assert results.find_trial(tiny_trial.folder) == tiny_trial.folder
    with pytest.raises(errors.ModelError, match="No trial"):
        trial_export.load_task(tmp_path)


def test_a_path_that_cannot_be_is_refused(tmp_path):
    with pytest.raises(OSError, match="path that can be read.*too long"):
        results.find_trial(tmp_path / ("a" * 256))
