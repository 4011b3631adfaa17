"""Examples of a reference folder, on a folder made here."""

import json
import random

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.records import schema
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.verification import examples

FILES = ["one.txt", "three.txt", "two.txt"]
RUN = {
    "seed": 5,
    "max_seq_length": 16,
    "blanks_separate_docs": True,
    "do_lower_case": True,
    "strip_accents": True,
    "file_order": FILES,
}


def _write_run(folder, name, run):
    """Records what our builder makes; its rules are tested elsewhere."""
    features, rng = examples.build_run(folder, run)
    run = {**run, "n_examples": len(features["input_ids"])}
    next_random = np.array(rng.random())
    np.savez(folder / f"{name}.npz", next_random=next_random, **features)
    (folder / "info.json").write_text(json.dumps({"runs": {name: run}}))
    return features


@pytest.fixture
def folder(tmp_path):
    words = [f"w{i}" for i in range(20)]
    (tmp_path / "vocab.txt").write_text(
        "\n".join((*vocabulary_lib.SPECIAL_TOKENS, *words)) + "\n"
    )
    (tmp_path / "corpus").mkdir()
    rng = random.Random(1)
    for name in FILES:
        lines = [
            " ".join(rng.choices(words, k=rng.randint(0, 9))) for _ in range(40)
        ]
        (tmp_path / "corpus" / name).write_text("\n".join(lines))
    return tmp_path


def test_a_run_passes_against_itself(folder):
    features = _write_run(folder, "any_name", RUN)
    assert len(features["input_ids"]) > 10
    result = examples.check_run(folder, "any_name")
    assert result.passed
    assert "any_name" in result.case


@pytest.mark.parametrize(
    ("change", "worst"),
    [
        (lambda a: a["segment_ids"].__setitem__((3, 4), 7), "segment_ids"),
        (lambda a: a.update(next_random=np.array(0.5)), "next_random"),
        (lambda a: a.update(input_ids=a["input_ids"][:-1]), "input_ids"),
    ],
)
def test_one_wrong_number_is_a_miss(folder, change, worst):
    _write_run(folder, "run", RUN)
    arrays = dict(np.load(folder / "run.npz"))
    change(arrays)
    np.savez(folder / "run.npz", **arrays)
    result = examples.check_run(folder, "run")
    assert not result.passed
    assert worst in result.case


def test_a_shuffled_order_has_used_numbers_of_the_generator():
    seed = next(seed for seed in range(50) if _shuffled(seed) != FILES)
    run = {**RUN, "seed": seed, "file_order": _shuffled(seed)}
    rng = random.Random(seed)
    rng.shuffle(sorted(FILES))
    assert examples._seed_generator(run).getstate() == rng.getstate()


def test_an_order_that_is_no_shuffle_has_used_none():
    order = _shuffled(0)
    seed = next(seed for seed in range(50) if _shuffled(seed) != order)
    for file_order in (order, FILES):
        run = {**RUN, "seed": seed, "file_order": file_order}
        expected = random.Random(seed).getstate()
        assert examples._seed_generator(run).getstate() == expected


def _shuffled(seed):
    order = sorted(FILES)
    random.Random(seed).shuffle(order)
    return order


def test_a_record_file_holds_every_nth_example(folder):
    features = _write_run(folder, "run", RUN)
    path = folder / "records-2-of-5"
    with tf.io.TFRecordWriter(str(path)) as writer:
        part = {name: rows[2::5] for name, rows in features.items()}
        for record in schema.serialize_examples(part):
            writer.write(record)
    assert examples.check_record_file(path).passed
    wrong = path.rename(folder / "records-1-of-5")
    assert not examples.check_record_file(wrong).passed
