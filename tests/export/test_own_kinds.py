"""Exports of several labels and of rankings answer as their trainer does."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config import finetuning as finetuning_config
from electra_tf.export import export_metadata
from electra_tf.export import saved_model
from electra_tf.tasks.sentences.task import Example
from tests.export import finetuned_tiny

TEXTS = ["the cat sat", "what dog", "", "items in a cafe"]
PAIRS = ["on the mat", "the dog of smithson", "table", "who? where?"]


def _load(folder, **own):
    settings = finetuning_config.FinetuningConfig(
        task=finetuning_config.TaskConfig(names="own", max_seq_length=24),
        own=finetuning_config.OwnTaskConfig(**own),
    )
    labels = {"own": tuple(filter(None, own.get("labels", "").split(",")))}
    trial = finetuned_tiny.write_trial(folder, settings, labels)
    pairs = zip(TEXTS, PAIRS, strict=True)
    examples = [Example(0, text, pair) for text, pair in pairs]
    trained = saved_model.load_task(folder)
    assert set(trained.module.signature_names) < set(export_metadata.SIGNATURES)
    answers = trained.module.run(
        trained.module.signature_names[0],
        texts=tf.constant(TEXTS),
        text_pairs=tf.constant(PAIRS),
    )
    found = {name: value.numpy() for name, value in answers.items()}
    return trained, found, trial.decode("own", examples)


def test_several_labels(tmp_path):
    trained, found, expected = _load(
        tmp_path,
        kind="multilabel",
        labels="a,b,c",
        threshold=0.4,
        text_pair_column="pair",
    )
    assert trained.origin["threshold"] == 0.4
    probabilities = found["probabilities"]
    np.testing.assert_allclose(probabilities, expected.probabilities, atol=1e-5)
    names = np.where(expected.classes > 0, [b"a", b"b", b"c"], b"")
    assert found["labels"].tolist() == names.tolist()
    # Both happen, and one between the threshold and the usual one.
    assert 0 < expected.classes.sum() < names.size
    np.testing.assert_array_equal(expected.classes, probabilities >= 0.4)


@pytest.mark.parametrize("kind", ["ranking", "multiple_choice"])
def test_texts_that_are_compared(tmp_path, kind):
    pair = "pair" if kind == "ranking" else ""
    trained, found, expected = _load(tmp_path, kind=kind, text_pair_column=pair)
    assert trained.module.kind == kind
    np.testing.assert_allclose(
        found["choice_score"], expected.scores, rtol=1e-4, atol=1e-5
    )
    assert np.ptp(expected.scores) > 0.1
