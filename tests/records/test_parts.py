"""Parts: which document goes where, and reading back what was written."""

import collections
import dataclasses
import random

import numpy as np
import pytest

from electra_tf.records import parts
from electra_tf.records import readers
from electra_tf.records.corpus import open_corpus
from electra_tf.records.parts import PartTask
from electra_tf.records.plan import build_plan
from electra_tf.text.vocabulary import Vocabulary


@pytest.fixture
def plan(settings, vocabulary_folder, tmp_path):
    """The plan of a build in one unit."""
    folder = tmp_path / "dataset" / ".build"
    (folder / "parts").mkdir(parents=True)
    corpus = open_corpus(settings.corpus)
    vocabulary = Vocabulary.load(vocabulary_folder)
    return build_plan(settings, corpus, vocabulary, folder)


def tokenize(lines):
    """Gives every word of a line the id 5 plus its length."""
    ids = [5 + len(word) for line in lines for word in line.split()]
    return np.array(ids, np.int32), [len(line.split()) for line in lines]


def test_examples_are_found_by_their_number(plan):
    reports = []
    report = parts.build_part(
        plan, PartTask(0, "x"), tokenize, lambda *c: reports.append(c)
    )
    assert parts.load_report(plan, 0) == report
    assert sum(report.num_documents.values()) == 60
    sizes = [
        len(parts.load_shard_examples(plan, 0, "train", residue).first_lengths)
        for residue in range(4)
    ]
    assert sum(sizes) == report.num_examples["train"]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] - sizes[-1] <= 1
    assert sum(tokens for _, tokens in reports) == sum(
        report.num_corpus_tokens.values()
    )


def test_pieces_of_a_document_stay_on_one_side(plan, tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "_BLOCK_BYTES", 100)
    monkeypatch.setattr(parts, "_BATCH_CHARACTERS", 250)
    plan = dataclasses.replace(plan, validation_fraction=0.5)
    sides = set()
    for index in range(8):
        path = tmp_path / f"{index}.txt"
        lines = [f"document {index} line {line}" for line in range(100)]
        path.write_text("\n".join(lines))
        unit = open_corpus(str(path)).sources
        one = dataclasses.replace(plan, units=(unit,) * 8)
        task = PartTask(index, "x")
        report = parts.build_part(one, task, tokenize, lambda *content: None)
        counts = report.num_documents
        assert sorted(counts.values()) == [0, 1]
        side = max(counts, key=lambda split: counts[split])
        assert report.num_corpus_tokens[side] == 400
        sides.add(side)
    assert sides == {"train", "validation"}


def test_token_counts_are_those_of_the_examples(plan):
    parts.build_part(plan, PartTask(0, "x"), tokenize, lambda *content: None)
    ids = collections.Counter()
    for residue in range(4):
        examples = parts.load_shard_examples(plan, 0, "train", residue)
        ids.update(examples.token_ids.tolist())
    counts = parts.load_token_counts(plan, "train")
    assert {index: counts[index] for index in ids} == ids
    assert counts.sum() == sum(ids.values())


def test_large_vocabularies_keep_large_ids(plan):
    tokens = [*plan.vocabulary.tokens, *(f"t{i}" for i in range(70_000))]
    plan = dataclasses.replace(plan, vocabulary=Vocabulary(tuple(tokens)))

    def tokenize_high(lines):
        ids, lengths = tokenize(lines)
        return ids + 69_000, lengths

    parts.build_part(
        plan, PartTask(0, "x"), tokenize_high, lambda *content: None
    )
    examples = parts.load_shard_examples(plan, 0, "train", 1)
    assert examples.token_ids.min() > 69_000


def test_share_of_held_out_documents_is_as_asked(plan):
    plan = dataclasses.replace(plan, validation_fraction=0.1)
    rng = random.Random(0)
    documents = [
        parts.Document("x", [f"document {rng.random()}", "and so on"])
        for _ in range(20_000)
    ]
    splits = [parts._choose_split(plan, document) for document in documents]
    share = splits.count("validation") / len(splits)
    assert abs(share - 0.1) < 0.01
    other = dataclasses.replace(plan, seed=6)
    others = [parts._choose_split(other, document) for document in documents]
    both = sum(
        one == two == "validation"
        for one, two in zip(splits, others, strict=True)
    )
    assert both < 0.3 * splits.count("validation"), "the seed changes nothing"


def test_equal_documents_fall_on_one_side(plan):
    plan = dataclasses.replace(plan, validation_fraction=0.5)
    for index in range(50):
        lines = [f"document {index}"]
        first = parts._choose_split(plan, parts.Document("x", lines))
        second = parts._choose_split(plan, parts.Document("y", list(lines)))
        assert first == second
