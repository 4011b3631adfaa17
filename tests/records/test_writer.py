"""Whole builds: same bytes, splits, resuming, refusals, and the report."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.records import manifest
from electra_tf.records import shards
from electra_tf.records import writer
from electra_tf.records.examples import parse_examples
from electra_tf.records.manifest import Index
from electra_tf.records.manifest import Manifest
from electra_tf.records.writer import claim_folder
from tests import script_modules
from tests.full_disk import largest_file
from tests.records.conftest import build
from tests.records.conftest import folder_bytes
from tests.records.conftest import refused
from tests.records.conftest import write_corpus

LOST = "train/pretrain_data.tfrecord-00002-of-00004"


def read_split(folder, max_seq_length=32):
    manifest = Manifest.load(folder)
    paths = [str(folder / shard.name) for shard in manifest.shards]
    records = list(tf.data.TFRecordDataset(paths).as_numpy_iterator())
    return parse_examples(tf.constant(records), max_seq_length)


def test_shards_are_balanced_and_all_records_are_well_formed(
    dataset, vocabulary_folder
):
    for split, num_shards in (("train", 4), ("validation", 1)):
        manifest = Manifest.load(dataset / split)
        sizes = [shard.num_examples for shard in manifest.shards]
        assert len(sizes) == num_shards
        assert max(sizes) - min(sizes) <= 1
        features = read_split(dataset / split)
        assert len(features["input_ids"]) == manifest.num_examples
        assert tf.reduce_sum(features["input_mask"]) == manifest.num_tokens
    names = sorted(path.name for path in (dataset / "train").iterdir())
    assert names == [
        "manifest.json",
        *(f"pretrain_data.tfrecord-0000{i}-of-00004" for i in range(4)),
        "unigram_counts.npy",
    ]
    for name in ("vocab.txt", "tokenizer_config.json"):
        expected = (vocabulary_folder / name).read_bytes()
        assert (dataset / name).read_bytes() == expected
    assert not (dataset / ".build").exists()


def test_original_order_reproduces_the_original(oracles, tmp_path):
    folder = oracles / "examples"
    run = json.loads((folder / "info.json").read_text())["runs"]["script_order"]
    settings = shards.BuildSettings(
        corpus=(str(folder / "corpus"),),
        vocabulary=str(oracles / "tokenization" / "vocab.txt"),
        output_dir=str(tmp_path / "dataset"),
        max_seq_length=run["max_seq_length"], num_out_files=12,
        validation_fraction=0.0, seed=run["seed"], original_order=True,
    )  # fmt: skip
    found = read_split(build(settings) / "train", 128)
    expected = np.load(folder / "script_order.npz")
    order = np.concatenate(
        [np.arange(run["n_examples"])[index::12] for index in range(12)]
    )
    for name, values in found.items():
        np.testing.assert_array_equal(values, expected[name][order])


def test_resume_redoes_only_what_is_missing(
    settings, tmp_path, interrupt, many_units
):
    one_go = build(settings, output_dir=str(tmp_path / "one_go"))
    # Interrupted in the parts, then in the shards, then left to finish.
    parts = interrupt(shards, "build_part", 4)
    written = interrupt(shards, "write_shard", 3)
    with pytest.raises(KeyboardInterrupt):
        writer.build_dataset(settings)
    with refused("unfinished .* Use --resume"):
        writer.build_dataset(settings)
    with pytest.raises(KeyboardInterrupt):
        writer.build_dataset(settings, resume=True)
    writer.build_dataset(settings, resume=True)
    # What was interrupted is all that was begun twice.
    for tasks, count in ((parts, 6), (written, 5)):
        assert (len(tasks), len({*map(str, tasks)})) == (count + 1, count)
    found = folder_bytes(pathlib.Path(settings.output_dir))
    assert found == folder_bytes(one_go)


def test_resume_restores_deleted_shards_only(settings, dataset, monkeypatch):
    before = folder_bytes(dataset)
    (dataset / LOST).unlink()
    (dataset / "vocab.txt").unlink()
    kept = dataset / "train" / "pretrain_data.tfrecord-00001-of-00004"
    time_kept = kept.stat().st_mtime_ns
    writer.build_dataset(settings, resume=True)
    assert folder_bytes(dataset) == before
    assert kept.stat().st_mtime_ns == time_kept
    # Nothing is left to do.
    monkeypatch.delattr(shards, "build_part")
    (dataset / "vocab.txt").unlink()
    assert {*writer.build_dataset(settings, resume=True)} == {*manifest.SPLITS}
    assert folder_bytes(dataset) == before


def test_other_datasets_are_not_overwritten(settings, dataset):
    before = folder_bytes(dataset)
    with refused("holds a dataset with these setti"):
        writer.build_dataset(settings)
    changes = {"seed": 8, "max_seq_length": 64, "num_out_files": 3}
    other = dataclasses.replace(settings, **changes)
    thesis = dataset.parent / "thesis.tex"
    thesis.write_text("x")
    for resume in (False, True):
        with refused("max_seq_length: 32, 64; seed: 5, 8"):
            writer.build_dataset(other, resume=resume)
        for folder, message in (
            (dataset.parent, "files: .*'thesis.tex'"),
            (thesis, "is a file or .* Name a"),
        ):
            with refused(message), claim_folder(folder, {}, resume):
                pass
    assert folder_bytes(dataset) == before


@pytest.mark.parametrize(
    ("name", "text", "num_shards", "fraction", "message"),
    [
        ("a.txt", "a few\n", 1, 1e-9, "0 validation examples for 1 shards"),
        ("a.txt", "a few\n", 4, 0.0, "1 train examples for 4 shards"),
        ("a.txt", "\n \n\n", 4, 0.0, "gives 0 train examples"),
        ("bad.jsonl", '{"text": ', 4, 0.2, "bad.jsonl, line 1 "),
    ],
)
def test_bad_and_too_small_corpora_are_named_and_leave_nothing_behind(
    settings, tmp_path, name, text, num_shards, fraction, message
):
    changes = {"num_out_files": num_shards, "validation_fraction": fraction}
    (tmp_path / name).write_text(text)
    with refused(message):
        build(settings, corpus=(str(tmp_path / name),), **changes)
    assert not pathlib.Path(settings.output_dir).exists()


def test_full_disk_leaves_nothing_half_written(settings, many_units):
    output = pathlib.Path(settings.output_dir)
    with (
        largest_file(4000),
        pytest.raises(OSError, match="continue with --resume"),
    ):
        writer.build_dataset(settings)
    assert not [path for path in output.rglob("*") if "partial" in path.name]
    assert not list(output.glob("*/pretrain_data*"))
    writer.build_dataset(settings, resume=True)
    assert Index.load(output).splits["train"].num_shards == 4


@pytest.mark.extra("beam")
def test_beam_gives_the_bytes_of_a_local_build(settings, finished_dataset):
    options = ["--runner=DirectRunner", "--direct_running_mode=in_memory"]
    writer.build_dataset(settings, beam_options=options)
    found = folder_bytes(pathlib.Path(settings.output_dir))
    assert found == folder_bytes(finished_dataset)


@pytest.mark.slow
def test_script_verifies_with_its_exit_code(dataset):
    script = "build_pretraining_dataset"
    command = script, f"--output_dir={dataset}", "--verify"
    assert script_modules.run(*command, "--num_processes=2").returncode == 0
    shard = dataset / LOST
    shard.write_bytes(shard.read_bytes()[:-1])
    damaged = script_modules.run(*command)
    assert damaged.returncode == 1
    assert f"{shard} has {shard.stat().st_size} bytes" in damaged.stderr
    assert "Traceback" not in damaged.stderr


def report(settings, tmp_path, text, **changes):
    (tmp_path / "text.txt").write_text(text)
    changes = {"num_out_files": 1, "validation_fraction": 0.0} | changes
    corpus = (str(tmp_path / "text.txt"),)
    return list(Index.load(build(settings, corpus=corpus, **changes)).report)


def test_numbers_by_hand(settings, tmp_path):
    # Two documents of 5 and 6 tokens: 3 and 4 words, [UNK] for the digits.
    lines = report(settings, tmp_path, "a bb cc\n\na b 12 ddd")
    first, second = "  [CLS] a bb cc [SEP]", "  [CLS] a b [UNK] ddd [SEP]"
    assert lines[:-1] == [
        # 5 + 2 and 6 + 2 of 64 places.
        "train: 2 documents, 2 rows of 32 tokens, 23% full, in 1 shards",
        "1.57 tokens per word, 9.09% unknown, 0% of the text cut off. Some "
        "rows:",
        *(first, second, second),
        "To change: The rows are 23% full, as a document has 6 tokens on "
        "average. If a document goes on after a blank line (JSON object, row "
        "of a table), --noblanks_separate_docs makes each file one document. "
        "If documents are that short, --packed puts several into a row. Or "
        "take --max_seq_length=16.",
    ]
    assert lines[-1].startswith("To change: The vocabulary does not fit the t")


def test_rows_without_a_text_are_counted(settings, tmp_path):
    texts = "a bb", None, " ", "a 12"
    rows = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    lines = report(settings, tmp_path, rows)
    assert lines[1] == "2 JSON objects or rows without text: left out"


@pytest.mark.parametrize("keeps", [False, True])
def test_lost_tokens_are_told_with_the_remedy(settings, tmp_path, keeps):
    text = "a " * 60 + "\n" + "b " * 60
    lines = report(settings, tmp_path, text, keep_overflow=keeps)
    assert ("To change" in lines[-1] and "overflow" in lines[-1]) != keeps


def test_shard_of_a_changed_corpus_is_not_restored(settings, dataset, tmp_path):
    changed = write_corpus(tmp_path / "corpus")
    path = changed / "part_0.txt"
    path.write_text(path.read_text()[::-1])
    (dataset / LOST).unlink()
    settings = dataclasses.replace(settings, corpus=(str(changed),))
    with refused("00002-of-00004 differs from the"):
        writer.build_dataset(settings, resume=True)
    assert not (dataset / LOST).exists()
