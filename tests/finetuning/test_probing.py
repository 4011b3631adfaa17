"""The probe reads what the encoder says, and changes nothing."""

import dataclasses

import numpy as np
import pytest

from electra_tf.config import finetuning as finetuning_config
from electra_tf.finetuning import probing
from electra_tf.tasks import catalog
from electra_tf.tasks import rows as rows_lib
from electra_tf.text import tokenizer as tokenizer_lib
from tests.finetuning.conftest import VOCABULARY

TOKENIZER = tokenizer_lib.Tokenizer(VOCABULARY)


def _task_with_rows(tasks_dir, name, length=16):
    settings = finetuning_config.FinetuningConfig(
        task=finetuning_config.TaskConfig(names=name, data_dir=str(tasks_dir))
    )
    task = catalog.build_task(name, settings)
    return task, *(
        task.build_rows(task.read(split), TOKENIZER, length, split == "train")
        for split in ("train", "dev")
    )


def _score(task, encoder, train, dev):
    outputs = probing.probe(encoder, train, dev)
    examples = task.read("dev")
    return task.score(examples, task.decode(examples, dev, outputs))


@pytest.mark.parametrize("name", ["cola", "sst2", "chunking"])
def test_a_label_that_follows_from_one_word_is_found(tasks_dir, loaded, name):
    task, train, dev = _task_with_rows(tasks_dir, name)
    before = [variable.numpy() for variable in loaded.encoder.variables]
    score = _score(task, loaded.encoder, train, dev)
    assert score[task.metric] > 95
    assert _score(task, loaded.encoder, train, dev) == score
    for value, variable in zip(before, loaded.encoder.variables, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


def test_labels_of_other_sentences_teach_nothing(tasks_dir, loaded):
    task, train, dev = _task_with_rows(tasks_dir, "sst2")
    labels = np.random.default_rng(0).permutation(train.columns["label"])
    train = dataclasses.replace(train, columns={"label": labels})
    assert _score(task, loaded.encoder, train, dev)["accuracy"] < 85


def _hidden(encoder, ids, segment):
    ids = np.array([ids])
    ones = np.ones_like(ids)
    return encoder(ids, ones, segment * ones).sequence_output.numpy()[0]


def test_a_sentence_is_its_mean_and_its_first_vector(loaded, tasks_dir):
    _, train, _ = _task_with_rows(tasks_dir, "cola")
    vectors = probing._collect(loaded.encoder, train)
    for row in (0, 5, 17):
        hidden = _hidden(loaded.encoder, train.ids[row], 0)
        expected = np.concatenate([hidden.mean(0), hidden[0]])
        np.testing.assert_allclose(vectors[row], [expected], atol=1e-5)


def test_a_word_is_the_vector_of_its_first_piece(loaded, tasks_dir):
    _, train, _ = _task_with_rows(tasks_dir, "chunking")
    vectors = probing._collect(loaded.encoder, train)
    hidden = _hidden(loaded.encoder, train.ids[3], 1)
    positions = train.ragged["word_positions"][3]
    np.testing.assert_allclose(vectors[3], hidden[positions], atol=1e-5)


def test_words_beyond_the_row_lower_the_score(tasks_dir, loaded):
    task, train, dev = _task_with_rows(tasks_dir, "chunking")
    cut = _task_with_rows(tasks_dir, "chunking", length=8)[2]
    missing = 1 - len(cut.details.values) / len(dev.details.values)
    score = _score(task, loaded.encoder, train, cut)["accuracy"]
    assert score <= 100 * (1 - missing) + 1e-6
    assert (missing > 0) == (score < 95)


def test_a_single_label_cannot_be_probed(tasks_dir, loaded):
    _, train, dev = _task_with_rows(tasks_dir, "cola")
    labels = np.zeros_like(train.columns["label"])
    train = dataclasses.replace(train, columns={"label": labels})
    with pytest.raises(ValueError, match=r"two different.*96 times"):
        probing.probe(loaded.encoder, train, dev)


def test_a_regression_cannot_be_probed(loaded):
    ids = rows_lib.Ragged.of([[2, 5, 3]])
    rows = rows_lib.Rows(
        ids,
        np.array([3]),
        np.array([0]),
        {"target": np.array([0.5], np.float32)},
    )
    with pytest.raises(ValueError, match="classification or tagging"):
        probing.probe(loaded.encoder, rows, rows)
