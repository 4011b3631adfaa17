"""Which documents are dropped, which are repeated, and how it is said."""

import dataclasses
import json
import pathlib
import re

import numpy as np
import pytest

from electra_tf import errors
from electra_tf.records import readers
from electra_tf.records import selection
from electra_tf.records import shards
from electra_tf.records import writer
from electra_tf.records.manifest import Index
from electra_tf.records.manifest import verify_dataset
from tests.records.conftest import build
from tests.records.conftest import folder_bytes


def words(name, count):
    return [f"{name}{index}" for index in range(count)]


def write_json_lines(path, *texts):
    path.write_text(
        "".join(json.dumps({"text": each}) + "\n" for each in texts)
    )
    return str(path)


def select(settings, *corpora, **changes):
    """How often each document is taken, and the lines of the report."""
    changes = {"corpus": corpora, "validation_fraction": 0.0} | changes
    plan = shards.build_plan(dataclasses.replace(settings, **changes))
    for index in range(len(plan.units)):
        share = shards.BuildShare("", index)
        selection.write_fingerprints(plan, share, lambda *content: None)
    selection.choose_copies(plan)
    paths = sorted(plan.copies_folder.glob("*.npy"))
    copies = np.concatenate([np.load(path) for path in paths]).tolist()
    return copies, (plan.copies_folder / "report.txt").read_text().split("\n")


CHINESE = "".join(map(chr, range(0x4E00, 0x4E00 + 60)))


@pytest.mark.parametrize(
    ("second", "kind"),
    [
        ("A0  A1\n" + " ".join(words("a", 104)[2:]), "exact"),
        # 95 of 105 shingles, a similarity of 0.90; and 80 of 120, of 0.67.
        (" ".join([*words("a", 99), *words("b", 5)]), "near"),
        (" ".join([*words("a", 84), *words("b", 20)]), ""),
    ],
)
@pytest.mark.parametrize("deduplicate", ["exact", "near"])
def test_documents_like_an_earlier_one_are_dropped(
    settings, tmp_path, second, kind, deduplicate
):
    texts = " ".join(words("a", 104)), "other words", second
    corpus = write_json_lines(tmp_path / "a.jsonl", *texts)
    copies, lines = select(settings, corpus, deduplicate=deduplicate)
    is_dropped = kind == "exact" or kind == deduplicate == "near"
    assert copies == [1, 1, 1 - is_dropped]
    exact, near = int(kind == "exact"), int(is_dropped and kind == "near")
    expected = f"{exact} equal and {near} nearly equal ones of 3 documents"
    assert lines[0] == f"dropped: {expected}"
    if is_dropped:
        assert lines[1].startswith("  kept    a.jsonl: a0 a1 a2")
        assert lines[2].startswith("  dropped a.jsonl: a0 a1 a2")


def test_words_keep_the_marks_of_their_letters():
    assert selection.word_pattern().findall("हिन्दी, भाषा") == ["हिन्दी", "भाषा"]
    assert selection.word_pattern().findall("résumé 2") == ["résumé", "2"]


def test_scripts_without_blanks_are_compared_by_character(settings, tmp_path):
    texts = CHINESE, CHINESE[:-2] + "一一", CHINESE[::-1]
    corpus = write_json_lines(tmp_path / "a.jsonl", *texts)
    copies, _ = select(settings, corpus, deduplicate="near")
    assert copies == [1, 0, 1]


def test_long_documents_count_once(settings, tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "_BLOCK_BYTES", 64)
    lines = [f"line number {index}" for index in range(30)]
    text = "\n".join(lines)
    (tmp_path / "a.txt").write_text(f"{text}\n\nlast\n\n{text}\n\nlast line\n")
    corpus = str(tmp_path / "a.txt")
    copies, _ = select(settings, corpus, deduplicate="exact")
    assert copies == [1, 1, 0, 1]
    pieces = readers.FileReader(corpus, readers.ReadingOptions())
    found = list(shards._select(iter(pieces), [2, 0, 0, 1]))
    whole = [line for document in found for line in document.lines]
    assert whole == [*lines, *lines, "last line"]
    assert sum(not document.is_continued for document in found) == 3


def test_repetition_reaches_the_weights_by_hand(settings, tmp_path):
    first = write_json_lines(tmp_path / "a.jsonl", "a " * 12, "b " * 8)
    second = write_json_lines(tmp_path / "b.jsonl", "c " * 4, "d d", "e e")
    third = write_json_lines(tmp_path / "c.jsonl", *["f " * 10] * 3)
    corpora, weights = (first, second, third), (1.0, 1.0, 2.3)
    # 20 words against 8 and 30: the second is taken 2.5 times, 12 + 4 + 4
    # words; the third 1.53 times, 46 words up to one document.
    copies, lines = select(settings, *corpora, corpus_weights=weights)
    assert copies == [1, 1, 3, 2, 2, 2, 1, 2]
    assert lines == [
        "corpus 1: 20 words, taken 1.00 times",
        "corpus 2: 8 words, taken 2.50 times",
        "corpus 3: 30 words, taken 1.53 times",
    ]


def test_what_cannot_be_selected_is_refused(settings, tmp_path):
    corpus = write_json_lines(tmp_path / "a.jsonl", "one")
    empty = write_json_lines(tmp_path / "b.jsonl", "...")
    with pytest.raises(errors.DataError, match="Corpus 2 of 2 has no words"):
        select(settings, corpus, empty, corpus_weights=(1.0, 1.0))
    for weights, message in (
        ((1.0,), "Received: 1 for 2 corpora"),
        (("0.5", "half"), "weights.1` must be a number. Received: 'half'"),
    ):
        with pytest.raises(errors.ConfigError, match=message):
            select(settings, corpus, empty, corpus_weights=weights)
    with pytest.raises(errors.ConfigError, match="deduplicate=exact"):
        select(settings, corpus, original_order=True, deduplicate="exact")


@pytest.fixture
def mixed(settings, corpus_folder, tmp_path, many_units):
    """Settings that drop and repeat documents of several units."""
    text = (corpus_folder / "part_1.txt").read_text()
    (tmp_path / "own.txt").write_text(text + "\n\n" + "own words " * 40)
    return dataclasses.replace(
        settings,
        corpus=(*settings.corpus, str(tmp_path / "own.txt")),
        corpus_weights=(0.7, 0.3),
        deduplicate="near",
    )


def test_interrupted_selection_goes_on_to_the_same_bytes(
    mixed, tmp_path, monkeypatch, interrupt
):
    one_go = build(mixed, output_dir=str(tmp_path / "one_go"))
    verify_dataset(one_go)
    index = Index.load(one_go)
    assert index.build["builder"]["deduplicate"] == "near"
    # 60 of 71 documents once, ten not at all, and one 12 times.
    counts = [re.findall(r": (\d+) documents", x) for x in index.report[:2]]
    assert sum(int(count) for (count,) in counts) == 60 + 12
    assert "dropped: 10 equal and 0 nearly equal ones" in index.report[2]
    for module, name, number in (
        (selection, "write_fingerprints", 3),
        (shards, "build_part", 4),
    ):
        interrupt(module, name, number)
        with pytest.raises(KeyboardInterrupt):
            writer.build_dataset(mixed, resume=True)
    # What was compared is not compared again.
    monkeypatch.delattr(selection, "write_fingerprints")
    writer.build_dataset(mixed, resume=True)
    output = pathlib.Path(mixed.output_dir)
    assert folder_bytes(output) == folder_bytes(one_go)
