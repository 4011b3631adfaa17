"""What the corpus gives away, and who is told of learning no more."""

import json
import math

import numpy as np
import pytest

from electra_tf.inputs import dataset as dataset_lib
from electra_tf.pretraining import run
from electra_tf.training import reporting
from tests import tiny_run

_ENTROPY = {"unigram_entropy": 6.0}
_UNIFORM = {"uniform_generator": True, "generator_hidden_size": 0.25}


def test_the_baselines_of_a_toy_corpus():
    # Ids 2, 3 and 4 stand 4, 2 and 2 times; the others never.
    counts = np.array([0, 0, 4, 2, 2, 0])
    # 1/2 ln 2 + 2 x 1/4 ln 4
    assert dataset_lib.compute_baselines(counts, counts) == pytest.approx(
        {"unigram_accuracy": 0.5, "unigram_entropy": 1.5 * math.log(2)}
    )


def test_held_out_text_is_measured_by_the_training_text():
    # Of four held-out tokens one is the commonest of the training text, two
    # are a rare one and one is new, half an occurrence in eight.
    found = dataset_lib.compute_baselines(
        np.array([0, 0, 4, 2, 2, 0]), np.array([0, 0, 1, 2, 0, 1])
    )
    entropy = (math.log(2) + 2 * math.log(4) + math.log(16)) / 4
    assert found == pytest.approx(
        {"unigram_accuracy": 0.25, "unigram_entropy": entropy}
    )


@pytest.mark.parametrize("name", ["masked_loss", "mlm_masked_loss"])
def test_who_sits_on_the_plateau_is_told_what_to_change(name):
    text = run.explain_plateau({name: 5.9} | _ENTROPY, 12_000_000)
    for part in ("12.0 M", "5.90", "6.00", "5.70", "initializer_range=0"):
        assert part in text


@pytest.mark.parametrize(
    ("metrics", "num_tokens"),
    [
        ({"masked_loss": 5.9}, 9_999_999),
        ({"masked_loss": 5.6}, 12_000_000),
        ({"disc_loss": 5.9}, 12_000_000),
    ],
    ids=["early", "learned", "no masked LM"],
)
def test_nobody_else_is_told(metrics, num_tokens):
    assert run.explain_plateau(metrics | _ENTROPY, num_tokens) is None


@pytest.mark.parametrize(
    ("margin", "generator", "num_warnings"),
    [(0.3, {}, 1), (0.3, _UNIFORM, 0)],
    ids=["plateau", "nothing to learn"],
)
def test_a_run_warns_once_and_notes_the_baselines(
    margin, generator, num_warnings, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(run, "_PLATEAU_TOKENS", 1)
    monkeypatch.setattr(run, "_PLATEAU_MARGIN", margin)
    monkeypatch.setattr(reporting, "draw_training_curves", lambda _: None)
    dataset = tiny_run.write_dataset(tmp_path / "dataset")
    settings = tiny_run.replace(
        tiny_run.build_settings(
            dataset, num_train_steps=3, eval_steps=1, deterministic=False
        ),
        generator=generator,
    )
    assert run.pretrain(settings, tmp_path / "model")
    printed = capsys.readouterr().out
    assert printed.count("unigram plateau") == num_warnings
    expected = dataset_lib.compute_baselines(
        *(
            np.load(dataset / split / "unigram_counts.npy")
            for split in ("train", "validation")
        )
    )
    assert run._describe(expected) in printed
    held_out = [
        line
        for line in tiny_run.reproducible_metrics(tmp_path / "model")
        if line["split"] == "validation"
    ]
    assert len(held_out) == 3
    for line in held_out:
        assert expected.items() <= line.items()
    summary = json.loads((tmp_path / "model" / "summary.json").read_text())
    assert expected.items() <= summary["validation"].items()
