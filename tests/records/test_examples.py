"""The original's example building: golden, by hand, and its invariants."""

import hashlib
import json
import pathlib
import random

import numpy as np
import pytest

from electra_tf.records.examples import ExampleBuilder
from electra_tf.records.examples import build_features
from electra_tf.records.examples import pack_rows

CLS, SEP = 101, 102
FOLDER = pathlib.Path(__file__).parent / "original_examples"
RUNS = json.loads((FOLDER / "info.json").read_text())["runs"]


def add_document(builder, token_ids, lengths):
    builder.add_lines(token_ids, lengths)
    builder.end_document()


def documents_of(corpus, run):
    """Yields ids and line lengths of each document, in the run's order."""
    for name in run["file_order"]:
        ids = corpus[f"{name}/token_ids"].astype(np.int32)
        begin = end = 0
        lengths = []
        for length in [*corpus[f"{name}/line_lengths"].tolist(), None]:
            is_end = length is None or (
                length < 0 and run["blanks_separate_docs"]
            )
            if not is_end and length >= 0:
                lengths.append(length)
                end += length
            if is_end and lengths:
                yield ids[begin:end], lengths
                begin, lengths = end, []


@pytest.mark.parametrize("name", RUNS)
def test_examples_and_random_numbers_equal_the_original(name):
    run = RUNS[name]
    corpus = np.load(FOLDER / "corpus.npz")
    rng = random.Random(run["seed"])
    if name == "script_order":
        order = sorted(run["file_order"])
        rng.shuffle(order)
        assert order == run["file_order"]
    builder = ExampleBuilder(run["max_seq_length"], rng)
    for token_ids, lengths in documents_of(corpus, run):
        add_document(builder, token_ids, lengths)
    features = build_features(builder.take(), run["max_seq_length"], CLS, SEP)
    assert len(features["input_ids"]) == run["n_examples"]
    if name == "len128_blanks":
        expected = np.load(FOLDER / "len128_blanks.npz")
        for key in features:
            np.testing.assert_array_equal(features[key][:100], expected[key])
    for key, digest in run["sha256"].items():
        content = features[key].astype("<i4").tobytes()
        assert hashlib.sha256(content).hexdigest() == digest, key
    assert rng.random() == float.fromhex(run["next_random"])


def test_pieces_of_a_document_give_the_same_as_the_whole():
    lengths = random.Random(2).choices(range(1, 30), k=200)
    token_ids = np.arange(sum(lengths), dtype=np.int32)
    for keep_overflow in (False, True):
        whole, pieces = (
            ExampleBuilder(32, random.Random(9), keep_overflow)
            for _ in range(2)
        )
        add_document(whole, token_ids, lengths)
        rest = token_ids
        for index in range(0, 200, 7):
            piece = lengths[index : index + 7]
            pieces.add_lines(rest[: sum(piece)].copy(), piece)
            rest = rest[sum(piece) :]
        pieces.end_document()
        for ours, theirs in zip(pieces.take(), whole.take(), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_keep_overflow_loses_no_token_and_overfills_no_example():
    builder = ExampleBuilder(32, random.Random(4), keep_overflow=True)
    rng = random.Random(5)
    total = 0
    for _ in range(200):
        lengths = rng.choices([1, 2, 3, 20, 45, 90], k=rng.randint(1, 20))
        ids = np.arange(total, total + sum(lengths), dtype=np.int32)
        total += sum(lengths)
        add_document(builder, ids, lengths)
    examples = builder.take()
    assert sorted(examples.token_ids.tolist()) == list(range(total))
    lengths = examples.first_lengths + examples.second_lengths + 2
    assert (lengths + (examples.second_lengths > 0)).max() == 32


def _pack(lengths, capacity):
    """Packs examples that consist of their numbers, from 1; 0 is padding."""
    lengths = np.array(lengths)[:, np.newaxis]
    numbers = np.arange(len(lengths))[:, np.newaxis] + 1
    ids = numbers * (np.arange(capacity) < lengths)
    packed, segments = pack_rows(ids, np.minimum(ids, 2))
    np.testing.assert_array_equal(segments, np.minimum(packed, 2))
    return packed


def test_an_example_goes_where_it_leaves_the_least_room():
    assert _pack([5, 4, 3, 3, 5], 8).tolist() == [
        [1, 1, 1, 1, 1, 3, 3, 3],
        [2, 2, 2, 2, 4, 4, 4, 0],
        [5, 5, 5, 5, 5, 0, 0, 0],
    ]
    assert _pack([], 8).shape == (0, 8)
    lengths = np.random.default_rng(3).integers(3, 33, 500)
    packed = _pack(lengths, 64)
    assert np.mean(packed > 0) > 0.97
    np.testing.assert_array_equal(np.bincount(packed.ravel())[1:], lengths)
