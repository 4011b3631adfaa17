"""Parts and shards: which document and example goes where, and what is done."""

import collections
import dataclasses
import random

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.records import readers
from electra_tf.records import shards
from electra_tf.records.corpus import open_corpus
from electra_tf.records.readers import Document
from electra_tf.records.schema import parse_examples
from electra_tf.records.shards import Task
from electra_tf.records.shards import build_plan
from electra_tf.text.vocabulary import Vocabulary


def change_settings(plan, **changes):
    settings = dataclasses.replace(plan.settings, **changes)
    return dataclasses.replace(plan, settings=settings)


def tokenize(lines):
    """Gives every word of a line the id 5 plus its length."""
    ids = [5 + len(word) for line in lines for word in line.split()]
    return np.array(ids, np.int32), [len(line.split()) for line in lines]


def build_part(plan, index=0, report=lambda *content: None, tokenize=tokenize):
    shards.build_part(plan, Task("x", index), tokenize, report)
    return shards.load_report(plan, index)


@pytest.fixture
def plan(settings):
    """The plan of a build in one unit."""
    plan = build_plan(settings)
    for name in ("parts", "shards"):
        (plan.output_folder / ".build" / name).mkdir(parents=True)
    return plan


def test_examples_are_found_by_their_number(plan):
    calls = []
    report = build_part(plan, report=lambda *content: calls.append(content))
    assert sum(report.num_documents.values()) == 60
    sizes = [
        len(shards.load_rows(plan, Task("", 0, "train", (index,)))[0])
        for index in range(4)
    ]
    assert sum(sizes) == report.num_examples["train"]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] - sizes[-1] <= 1
    num_bytes, num_tokens = (sum(done) for done in zip(*calls, strict=True))
    assert num_tokens == sum(report.num_corpus_tokens.values())
    assert num_bytes == sum(source.num_bytes for source in plan.corpus.sources)


def test_pieces_of_a_document_stay_on_one_side(plan, tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "_BLOCK_BYTES", 100)
    monkeypatch.setattr(shards, "_BATCH_CHARACTERS", 250)
    plan = change_settings(plan, validation_fraction=0.5)
    sides = set()
    for index in range(8):
        path = tmp_path / f"{index}.txt"
        lines = [f"document {index} line {line}" for line in range(100)]
        path.write_text("\n".join(lines))
        unit = open_corpus(str(path)).sources
        report = build_part(dataclasses.replace(plan, units=(unit,) * 8), index)
        counts = report.num_documents
        assert sorted(counts.values()) == [0, 1]
        side = max(counts, key=lambda split: counts[split])
        assert report.num_corpus_tokens[side] == 400
        sides.add(side)
    assert sides == {"train", "validation"}


def test_large_vocabularies_keep_large_ids(plan):
    tokens = [*plan.vocabulary.tokens, *(f"t{i}" for i in range(70_000))]
    plan = dataclasses.replace(plan, vocabulary=Vocabulary(tuple(tokens)))

    def tokenize_high(lines):
        ids, lengths = tokenize(lines)
        return ids + 69_000, lengths

    build_part(plan, tokenize=tokenize_high)
    ids, segments = shards.load_rows(plan, Task("", 0, "train", (1,)))
    is_special = np.isin(ids, plan.vocabulary.special_ids)
    assert ids[~is_special].min() > 69_000
    assert (ids > 69_000).sum() == (~is_special).sum() > 0


def test_share_of_held_out_documents_is_as_asked(plan):
    plan = change_settings(plan, validation_fraction=0.1)
    rng = random.Random(0)
    documents = [
        Document([f"document {rng.random()}", "and so on"])
        for _ in range(20_000)
    ]
    splits = [shards._choose_split(plan, document) for document in documents]
    # Equal documents fall on one side.
    assert splits == [shards._choose_split(plan, each) for each in documents]
    share = splits.count("validation") / len(splits)
    assert abs(share - 0.1) < 0.01
    other = change_settings(plan, seed=6)
    others = [shards._choose_split(other, document) for document in documents]
    both = sum(
        one == two == "validation"
        for one, two in zip(splits, others, strict=True)
    )
    assert both < 0.3 * splits.count("validation"), "the seed changes nothing"


def test_shard_holds_its_examples_in_another_order(plan):
    build_part(plan)
    task = Task("", 2, "train", (2,))
    shards.write_shard(plan, task, lambda *content: None)
    shard = shards.find_shard(plan, "train", 2)
    path = plan.shard_path("train", 2)
    assert path.name == "pretrain_data.tfrecord-00002-of-00004"
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    found = parse_examples(tf.constant(records), 32)["input_ids"].numpy()
    expected = shards.load_rows(plan, task)[0].astype(np.int32)
    assert shard.num_examples == len(found) == len(expected)
    assert not np.array_equal(found, expected)
    rows = [collections.Counter(map(bytes, ids)) for ids in (found, expected)]
    assert rows[0] == rows[1]
    # A file of another size is to be written again.
    path.write_bytes(path.read_bytes()[:-1])
    assert shards.find_shard(plan, "train", 2) is None
