"""The probe reads what the encoder says, and changes nothing."""

import numpy as np
import pytest

from electra_tf.finetuning import features as features_lib
from electra_tf.finetuning import probing
from electra_tf.finetuning import tasks
from electra_tf.text import tokenizer as tokenizer_lib
from tests.finetuning.conftest import VOCABULARY

TOKENIZER = tokenizer_lib.Tokenizer(VOCABULARY)


def _features(tasks_dir, name, length=16):
    task = tasks.TASKS[name]
    return task, *(
        features_lib.build_features(
            task.read(tasks_dir, split), task.kind, TOKENIZER, length
        )
        for split in ("train", "dev")
    )


def _shuffle(features):
    labels = np.random.default_rng(0).permutation(features.labels)
    changed = vars(features) | {"labels": labels}
    return features_lib.Features(**changed)


@pytest.mark.parametrize("name", ["cola", "sst2", "chunking"])
def test_a_label_that_follows_from_one_word_is_found(tasks_dir, loaded, name):
    task, train, dev = _features(tasks_dir, name)
    before = [variable.numpy() for variable in loaded.encoder.variables]
    score = probing.probe(loaded.encoder, task, train, dev)
    assert score > 0.95
    assert probing.probe(loaded.encoder, task, train, dev) == score
    for value, variable in zip(before, loaded.encoder.variables, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


def test_labels_of_other_sentences_teach_nothing(tasks_dir, loaded):
    task, train, dev = _features(tasks_dir, "sst2")
    score = probing.probe(loaded.encoder, task, _shuffle(train), dev)
    assert score < 0.85


def test_a_sentence_is_its_mean_and_its_first_vector(loaded):
    task = tasks.TASKS["cola"]
    texts = (("the cat ran the cat",), ("cat",), ("a dog sat",))
    examples = tasks.Examples(texts, ((1,), (0,), (1,)))
    rows = features_lib.build_features(examples, task.kind, TOKENIZER, 12)
    vectors, labels = probing._Collector(loaded.encoder, task.kind)(rows)
    # Shortest first, each alone and so without any padding.
    for vector, row in zip(vectors, (1, 2, 0), strict=True):
        batch = rows.batch(np.array([row]), length_multiple=1)
        hidden = loaded.encoder(
            batch["input_ids"], batch["input_mask"], batch["segment_ids"]
        ).sequence_output.numpy()[0]
        expected = np.concatenate([hidden.mean(0), hidden[0]])
        np.testing.assert_allclose(vector, expected, atol=1e-5)
    assert labels.tolist() == [0, 1, 1]


def test_a_word_is_the_vector_of_its_first_piece(loaded):
    task = tasks.TASKS["chunking"]
    # `unable` has two pieces, `cat` is the fourth.
    examples = tasks.Examples((("the", "unable", "cat"),), ((3, 4, 5),))
    row = features_lib.build_features(examples, task.kind, TOKENIZER, 9)
    vectors, labels = probing._Collector(loaded.encoder, task.kind)(row)
    hidden = loaded.encoder(row.input_ids, row.input_mask, row.segment_ids)
    expected = hidden.sequence_output.numpy()[0, [1, 2, 4]]
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    assert labels.tolist() == [3, 4, 5]


def test_words_beyond_the_row_lower_the_score(tasks_dir, loaded):
    task, train, dev = _features(tasks_dir, "chunking", length=5)
    score = probing.probe(loaded.encoder, task, train, dev)
    # One of four words is cut off.
    assert 0.7 < score <= 0.75


def test_a_single_label_cannot_be_probed(tasks_dir, loaded):
    task, train, dev = _features(tasks_dir, "cola")
    changed = vars(train) | {"labels": np.zeros_like(train.labels)}
    with pytest.raises(ValueError, match=r"two different.*96 times '0'"):
        probing.probe(
            loaded.encoder, task, features_lib.Features(**changed), dev
        )
