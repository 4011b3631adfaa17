"""Parts and shards: which document and example goes where, and what is done."""

import dataclasses
import random

import numpy as np
import pytest

from electra_tf import errors
from electra_tf.config import schema
from electra_tf.records import readers
from electra_tf.records import shards
from electra_tf.records.corpus import open_corpus
from electra_tf.records.readers import Document
from electra_tf.records.shards import BuildShare
from electra_tf.records.shards import build_plan
from electra_tf.text.vocabulary import Vocabulary


def change_settings(plan, **changes):
    settings = dataclasses.replace(plan.settings, **changes)
    return dataclasses.replace(plan, settings=settings)


def tokenize(lines):
    """Gives every word of a line the id 5 plus its length."""
    ids = [5 + len(word) for line in lines for word in line.split()]
    return np.array(ids, np.int32), [len(line.split()) for line in lines]


def build_part(plan, index=0, tokenize=tokenize):
    share = BuildShare("x", index)
    shards.build_part(plan, share, tokenize, lambda *content: None)
    path = plan.part_folder(index) / shards.REPORT_FILE
    return schema.read_file(shards.PartReport, path)


@pytest.fixture
def plan(settings):
    """The plan of a build in one unit."""
    plan = build_plan(settings)
    for name in ("parts", "shards"):
        (plan.output_folder / ".build" / name).mkdir(parents=True)
    return plan


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


def test_share_of_held_out_documents_is_as_asked_and_follows_the_seed(plan):
    rng = random.Random(0)
    documents = [Document([f"text {rng.random()}"]) for _ in range(20_000)]
    held_out = []
    for seed in (5, 5, 6):
        changed = change_settings(plan, validation_fraction=0.1, seed=seed)
        splits = [shards.choose_split(changed, each) for each in documents]
        held_out.append(np.array(splits) == "validation")
    first, again, other = held_out
    assert (first == again).all()
    assert abs(first.mean() - 0.1) < 0.01
    assert (first & other).sum() < 0.3 * first.sum()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_seq_length": 4}, "`max_seq_length` must be at least 5"),
        ({"corpus_format": "xml"}, "'auto', 'text', .* Received: 'xml'"),
        ({"original_order": True}, "set validation_fraction=0"),
        ({"original_order": True, "packed": True, "validation_fraction": 0},
         "leave out the others. Received: packed=True."),
    ],
)  # fmt: skip
def test_impossible_settings_are_refused(change, message):
    values = {"corpus": ["x"], "vocabulary": "v", "output_dir": "o"} | change
    with pytest.raises(ValueError, match=message):
        schema.build(shards.BuildSettings, values)


def test_output_inside_the_corpus_is_refused(settings, tmp_path):
    settings = dataclasses.replace(settings, corpus=(str(tmp_path),))
    with pytest.raises(errors.DataError, match="lies inside the corpus"):
        build_plan(settings)


def test_large_vocabularies_keep_large_ids(plan):
    tokens = [*plan.vocabulary.tokens, *(f"t{i}" for i in range(70_000))]
    plan = dataclasses.replace(plan, vocabulary=Vocabulary(tuple(tokens)))

    def tokenize_high(lines):
        ids, lengths = tokenize(lines)
        return ids + 69_000, lengths

    build_part(plan, tokenize=tokenize_high)
    ids, _ = shards.load_rows(plan, BuildShare("", 0, "train", (1,)))
    is_special = np.isin(ids, plan.vocabulary.special_ids)
    assert ids[~is_special].min() > 69_000


def test_number_of_shards_is_as_asked_or_grows_with_the_corpus(plan):
    for num_out_files, num_bytes, expected in (
        (0, 10, 1), (0, 50 << 20, 8), (0, 1 << 30, 64), (0, 1 << 40, 1000),
        (12, 10, 12),
    ):  # fmt: skip
        settings = change_settings(plan, num_out_files=num_out_files).settings
        found = shards._choose_num_shards(settings, num_bytes)
        assert found["train"] == expected
