"""A folder belongs to one run, and says what differs from it."""

import dataclasses
import re

import pytest

from electra_tf import errors
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import model_dir as model_dir_lib
from tests import tiny
from tests import tiny_run

SETTINGS = tiny.build_settings()
OTHER_TOKENS = vocabulary_lib.Vocabulary((*tiny.VOCABULARY.tokens, "more"))
OTHER_CASING = dataclasses.replace(
    tiny.VOCABULARY,
    settings=vocabulary_lib.TokenizerSettings(do_lower_case=False),
)


@pytest.fixture
def claimed(tmp_path):
    """The folder of a run."""
    folder = tmp_path / "run"
    model_dir_lib.check(folder, SETTINGS, tiny.VOCABULARY)
    model_dir_lib.claim(folder, SETTINGS, tiny.VOCABULARY)
    return folder


def _files(folder):
    return {p.name: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def _refused(folder, settings=SETTINGS, vocabulary=tiny.VOCABULARY):
    """The message of a refusal, which must not have changed anything."""
    before = _files(folder)
    with pytest.raises(errors.ModelError) as caught:
        model_dir_lib.check(folder, settings, vocabulary)
    assert _files(folder) == before
    return str(caught.value)


def test_a_claimed_folder_holds_settings_and_vocabulary(claimed):
    assert model_dir_lib.load_settings(claimed) == SETTINGS
    assert vocabulary_lib.Vocabulary.load(claimed) == tiny.VOCABULARY
    assert sorted(_files(claimed.parent)) == [
        "config.json",
        "tokenizer_config.json",
        "vocab.txt",
    ]


def test_what_a_killed_claim_left_is_completed(claimed):
    (claimed / "vocab.txt").unlink()
    (claimed / ".vocab.txt.partial-123").write_text("half")
    model_dir_lib.check(claimed, SETTINGS, tiny.VOCABULARY)
    model_dir_lib.claim(claimed, SETTINGS, tiny.VOCABULARY)
    assert vocabulary_lib.Vocabulary.load(claimed) == tiny.VOCABULARY
    assert not list(claimed.glob(".*"))


def test_other_settings_are_named_unless_they_change_no_step(claimed):
    safe = {"training": {"log_steps": 77}, "data": {"dataset_dir": "other"}}
    model_dir_lib.check(
        claimed, tiny_run.replace(SETTINGS, **safe), tiny.VOCABULARY
    )
    other = tiny_run.replace(
        SETTINGS,
        optimizer={"learning_rate": 0.5},
        encoder={"num_hidden_layers": 3},
        **safe,
    )
    message = _refused(claimed, other)
    assert "encoder.num_hidden_layers: 2, 3" in message
    assert "optimizer.learning_rate: 0.001, 0.5" in message
    assert "log_steps" not in message
    assert "another --model_dir" in message


def test_a_folder_with_foreign_files_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    assert re.search("not empty.*new or empty --model_dir", _refused(tmp_path))


@pytest.mark.parametrize("other", [OTHER_TOKENS, OTHER_CASING])
def test_another_vocabulary_is_refused(claimed, other):
    assert "trained with another vocabulary" in _refused(
        claimed, vocabulary=other
    )


def test_a_folder_without_a_run_has_no_settings(tmp_path):
    with pytest.raises(errors.ModelError, match=f"No run in {tmp_path}"):
        model_dir_lib.load_settings(tmp_path)
