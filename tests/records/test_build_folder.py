"""Folders that may be built in, and folders that may not."""

import pytest

from electra_tf import errors
from electra_tf.records.build_folder import claim_folder
from electra_tf.records.build_folder import is_finished
from tests.records.dataset_folders import folder_bytes

RECORD = {"seed": 5, "builder": {"num_shards": {"train": 4}}}


def claim(folder, record, resume):
    """Claims a folder and releases it at once."""
    with claim_folder(folder, record, resume):
        pass


def leave_unfinished(folder, record=RECORD):
    """Leaves a folder as a killed build does, with one part done."""
    with (
        pytest.raises(KeyboardInterrupt),
        claim_folder(folder, record, resume=False) as build_folder,
    ):
        (build_folder / "parts" / "000000").mkdir()
        raise KeyboardInterrupt


def test_new_and_empty_folders_are_free(tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("empty", "new/deeper"):
        with claim_folder(tmp_path / name, RECORD, resume=False) as folder:
            assert folder == tmp_path / name / ".build"
        assert not is_finished(tmp_path / name)


def test_unfinished_work_stays_for_resuming(tmp_path):
    leave_unfinished(tmp_path / "x")
    with pytest.raises(
        errors.DataError, match="an unfinished dataset with these"
    ):
        claim(tmp_path / "x", RECORD, resume=False)
    with claim_folder(tmp_path / "x", RECORD, resume=True) as folder:
        assert (folder / "parts" / "000000").is_dir()


def test_half_written_files_are_removed_on_resuming(tmp_path):
    leave_unfinished(tmp_path / "x")
    partial = tmp_path / "x" / "train" / ".shard.partial-1"
    partial.parent.mkdir()
    partial.write_text("half")
    with claim_folder(tmp_path / "x", RECORD, resume=True):
        assert not partial.exists()


def test_other_settings_are_named_with_both_values(tmp_path):
    leave_unfinished(tmp_path / "x")
    other = {"seed": 6, "builder": {"num_shards": {"train": 8}}}
    message = (
        r"builder.num_shards.train is 4 there, 8 now; seed is 5 there, 6 now"
    )
    for resume in (False, True):
        with pytest.raises(errors.DataError, match=message):
            claim(tmp_path / "x", other, resume=resume)


def test_wrong_input_leaves_nothing(tmp_path):
    with (
        pytest.raises(ValueError, match="wrong input"),
        claim_folder(tmp_path / "x", RECORD, resume=False) as folder,
    ):
        (folder / "parts" / "000000").mkdir()
        raise ValueError("wrong input")
    assert not (tmp_path / "x").exists()


def test_early_interruption_leaves_nothing(tmp_path):
    with (
        pytest.raises(KeyboardInterrupt),
        claim_folder(tmp_path / "x", RECORD, resume=False),
    ):
        raise KeyboardInterrupt
    assert not (tmp_path / "x").exists()


def test_foreign_folders_and_files_are_not_touched(tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "thesis.tex").write_text("x")
    for resume in (False, True):
        with pytest.raises(errors.DataError, match=r"files: \['thesis.tex'\]"):
            claim(tmp_path / "x", RECORD, resume=resume)
        with pytest.raises(errors.DataError, match="is a file. Name a folder"):
            claim(tmp_path / "x" / "thesis.tex", RECORD, resume)
    assert folder_bytes(tmp_path / "x") == {"thesis.tex": b"x"}


def test_two_builds_in_one_folder_are_refused(tmp_path):
    with (
        claim_folder(tmp_path / "x", RECORD, resume=False),
        pytest.raises(errors.DataError, match="Another process is building"),
        claim_folder(tmp_path / "x", RECORD, resume=True),
    ):
        pass
