"""Machines that share a build: same bytes, passes, and what is refused."""

import dataclasses
import pathlib
import shutil

import pytest

from electra_tf.records import shards
from electra_tf.records.writer import build_dataset
from electra_tf.records.writer import claim_folder
from electra_tf.records.writer import run_task
from tests.records.conftest import build
from tests.records.conftest import folder_bytes
from tests.records.conftest import refused
from tests.records.conftest import write_corpus

# Six units.
pytestmark = pytest.mark.usefixtures("many_units")


def run(settings, *numbers, count=3):
    return [run_task(settings, f"{each}/{count}") for each in numbers]


def test_shares_with_all_options_give_the_bytes_of_one_machine(
    settings, corpus_folder, tmp_path
):
    second = write_corpus(tmp_path / "second", num_files=2)
    (second / "part_0.txt").write_text("a word of its own " * 90)
    settings = dataclasses.replace(
        settings, corpus=(str(corpus_folder), str(second / "*.txt")),
        deduplicate="near", corpus_weights=(1.0, 1.0), keep_overflow=True,
        packed=True,
    )  # fmt: skip
    whole = build(settings, output_dir=str(tmp_path / "whole"))
    told = [run(settings, 2, 0, 1) for _ in range(3)]
    assert [texts[-1].split(". ")[0] for texts in told] == [
        "All 3 tasks have made their fingerprints",
        "All 3 tasks have made their parts",
        "All 3 tasks have made their shards",
    ]
    assert told[0][0] == (
        "Task 2/3 has made its fingerprints; missing: ['0/3', '1/3']."
    )
    output = pathlib.Path(settings.output_dir)
    assert len(list(output.glob("*/pretrain_data*"))) == 5
    build_dataset(settings, merge=True)
    assert folder_bytes(output) == folder_bytes(whole)
    # There is nothing to merge any more, and nothing to do.
    build_dataset(settings, merge=True)
    with refused("holds a dataset with these"):
        run(settings, 0)


def test_missing_tasks_and_units_are_named_and_nothing_is_lost(settings):
    output = pathlib.Path(settings.output_dir)
    for _ in range(2):
        assert run(settings, 1) == [
            "Task 1/3 has made its parts; missing: ['0/3', '2/3']."
        ]
    with refused(r"4 of 6 work units have no part .* \[0, 1, 4, 5\]. Run"):
        build_dataset(settings, merge=True)
    run(settings, 0, 2)
    shutil.rmtree(next(output.glob(".build/parts/000003-*")))
    with refused(r"1 of 6 .* \[3\]"):
        build_dataset(settings, merge=True)
    with refused("other settings.*seed: 5, 8"):
        run(dataclasses.replace(settings, seed=8), 2)
    run(settings, 1)
    assert set(build_dataset(settings, merge=True)) == {"train", "validation"}


def test_a_merge_beside_a_task_is_refused(settings, monkeypatch):
    def merge(*unused):
        with pytest.raises(BlockingIOError, match=r"\.build is in use by"):
            build_dataset(settings, resume=True)
        raise KeyboardInterrupt

    monkeypatch.setattr(shards, "build_part", merge)
    with pytest.raises(KeyboardInterrupt):
        run(settings, 0)
    record = shards.build_plan(settings).record()
    with (
        claim_folder(pathlib.Path(settings.output_dir), record, True),
        pytest.raises(BlockingIOError, match=r"\.build is in use by"),
    ):
        run(settings, 2)
