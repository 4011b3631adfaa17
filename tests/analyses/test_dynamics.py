"""Measures over the checkpoints of a run."""

import numpy as np
import pandas as pd
import pytest
from analyses import analysis
from analyses import dynamics
from etils import epath

from electra_tf import errors
from electra_tf.training import checkpoints
from tests import tiny_electra

TEXT = "The cat sat on a good mat and was a bad dog , good film .\n"


def test_every_checkpoint_has_a_row(tmp_path, monkeypatch):
    run, text = tmp_path / "run", tmp_path / "text.txt"
    text.write_text(TEXT + TEXT.replace("bad", "good"))
    model = tiny_electra.write_run(run)
    request = analysis.Request(str(text), model=str(run), mask_prob=0.4)
    electra, folder = tiny_electra.build(), epath.Path(tmp_path)
    work = analysis.Work(electra, request, folder, "key")
    with pytest.raises(errors.ModelError, match="keep_checkpoints"):
        dynamics.measure(work)
    # At the next checkpoint the generator knows nothing: all is as likely.
    head = model.generator.head
    for variable in (head.layer_norm.gamma, head.layer_norm.beta):
        variable.assign(np.zeros(variable.shape))
    weights = {f"model/{v.path}": v for v in model.trainable_variables}
    checkpoints.save(run, 9, weights, {"best_step": None}, keep=5)
    table = dynamics.measure(work).table
    assert table.index.tolist() == [7, 9]
    vocab_size = tiny_electra.VOCABULARY.size
    assert table["entropy"][9] == pytest.approx(np.log(vocab_size))
    assert table["entropy"][7] < table["entropy"][9]
    assert table["rows, softmax"][7] == 1
    assert (table["rows, discriminator's input"] < 1).all()
    pulls = table.filter(regex="^pull").sum(axis=1)
    np.testing.assert_allclose(pulls, 1)
    # What was measured of a checkpoint is read back.
    monkeypatch.delattr(dynamics.corruption, "detect")
    again = dynamics.measure(work).table
    pd.testing.assert_frame_equal(table, again)


def test_precision_and_recall_of_a_band_by_hand():
    pieces = pd.DataFrame(
        {
            "id": [5, 6, 6, 6],
            "sentence": [0, 0, 1, 1],
            "position": [1, 2, 3, 4],
            "length": 4,
            "label": "",
            "is_masked": [True, True, True, False],
            "is_replaced": [True, True, True, False],
            "logit": [-1.0, 1.0, -1.0, 1.0],
            "entropy": [1.0, 2.0, 3.0, 0.0],
            "is_guessed": [0.0, 0.0, 1.0, 0.0],
        }
    )
    found = dynamics.describe(pieces, seed=1)
    assert found["entropy"] == 2
    assert found["right at [MASK]"] == pytest.approx(1 / 3)
    assert found["replaced"] == 0.75
    assert found["recall, once"] == 0
    assert found["recall, 2 to 10"] == 0.5
    assert found["precision, 2 to 10"] == 0.5
    # The sentences have 1.5 and 3 nats on average; a sample can hold one twice.
    assert found["half width: entropy"] == pytest.approx((3 - 1.5) / 2)


SENTENCES = [dynamics.texts.Sentence(("cat", "sat") * 4)] * 2
REQUEST = analysis.Request(seed=3)


def test_the_gradients_of_the_pieces_that_occur(tmp_path):
    tiny_electra.write_run(tmp_path / "run")
    electra = analysis.load(tmp_path / "run")
    found = dynamics.trace_gradients(electra, SENTENCES, REQUEST, 1.0, 50.0)
    share = found["rows, generator's input"] * tiny_electra.VOCABULARY.size
    assert round(share) <= 5  # [CLS], [SEP], [MASK], `cat` and `sat`
    assert found["rows, softmax"] == 1
    # A loss twice as heavy pulls twice as hard; one that rests does not.
    twice = dynamics.trace_gradients(electra, SENTENCES, REQUEST, 2.0, 50.0)
    first, second = (
        own["pull, softmax"] / own["pull, discriminator's input"]
        for own in (found, twice)
    )
    assert second == pytest.approx(2 * first, rel=1e-4)
    resting = dynamics.trace_gradients(electra, SENTENCES, REQUEST, 0.0, 0.0)
    assert not any(resting.values())
