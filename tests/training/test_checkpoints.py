"""A run owns its folder; a checkpoint is whole or not there."""

import dataclasses
import itertools
import os
import pathlib
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import errors
from electra_tf import storage
from electra_tf.formats import own_run
from electra_tf.processes import atomic
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import checkpoints
from tests import full_disk
from tests import tiny
from tests import tiny_run

FILES = ("state.json", "variables.index", "variables.data-00000-of-00001")
STATE = {"position": {"epoch": 1, "batch": 2}, "best_loss": 0.5}
SETTINGS = tiny.build_settings()


def _variables(value=1.0):
    """A table and a counter, filled with a number."""
    return {
        "model/table": tf.Variable(np.full([20, 50], value, np.float32)),
        "model/bias": tf.Variable(np.full([50], -value, np.float32)),
        "optimizer/count": tf.Variable(int(10 * value), dtype=tf.int64),
    }


def _values(variables):
    return {name: v.numpy().tolist() for name, v in variables.items()}


def _save(model_dir, step, value=1.0, keep=3, **state):
    variables = _variables(value)
    return checkpoints.save(model_dir, step, variables, STATE | state, keep)


def _steps(model_dir):
    """Of all checkpoints; there must be nothing else."""
    paths = checkpoints.all_checkpoints(model_dir)
    assert {*paths} == {*(model_dir / "checkpoints").iterdir()}
    return [checkpoints.step_of(path) for path in paths]


def _load_all(folder):
    """State and values, or the error, which must not have changed any."""
    variables = _variables(0.0)
    try:
        state = checkpoints.load_state(folder)
        checkpoints.restore(folder, variables)
    except errors.ModelError as error:
        assert _values(variables) == _values(_variables(0.0))
        return str(error)
    return state, _values(variables)


def test_everything_comes_back_to_the_bit(tmp_path):
    third = np.float32(1 / 3)
    folder = _save(tmp_path, 7, third)
    expected = STATE | {"step": 7}, _values(_variables(third))
    assert _load_all(folder) == expected
    assert {p.name for p in folder.iterdir()} == {*FILES}


def test_the_newest_ones_and_the_best_are_kept(tmp_path):
    for step in (10, 20, 30, 40):
        _save(tmp_path, step, keep=2, best_step=10)
    assert _steps(tmp_path) == [10, 30, 40]
    assert checkpoints.best(tmp_path).name == "step-00000010"
    _save(tmp_path, 50, keep=2, best_step=40)
    assert _steps(tmp_path) == [40, 50]
    for name, remedy in (("latest", "Train first"), ("best", "eval_steps")):
        with pytest.raises(FileNotFoundError, match=f"={name} mus.*{remedy}"):
            checkpoints.find(tmp_path / "none", name)


def test_steps_sort_by_number_and_are_saved_once(tmp_path):
    for step in (100_000_000, 99_999_999):
        _save(tmp_path, step)
    assert checkpoints.latest(tmp_path).name == "step-100000000"
    with pytest.raises(errors.ModelError, match="another process"):
        _save(tmp_path, 99_999_999, 2.0)


class _Killed(BaseException):
    """Stands for a kill: no handler of the package may catch it."""


# Function and number of its call, the last that does not happen.
KILLS = {
    "before the variables": (tf.raw_ops, "SaveV2", 1),
    "before the state": (pathlib.Path, "write_text", 1),
    "while flushing": (atomic, "_flush", 2),
    "before it gets its name": (os, "rename", 1),
    "before the oldest is hidden": (os, "rename", 2),
    "before the oldest is removed": (shutil, "rmtree", 1),
    "halfway through the oldest": (os, "unlink", 2),
}


@pytest.mark.parametrize("kill", KILLS)
def test_a_kill_inside_a_save_leaves_whole_checkpoints(
    kill, tmp_path, monkeypatch
):
    owner, name, number = KILLS[kill]
    original, numbers = getattr(owner, name), itertools.count(1)

    def call(*arguments, **options):
        if next(numbers) == number:
            raise _Killed
        return original(*arguments, **options)

    for step in (1, 2):
        _save(tmp_path, step, float(step), keep=2)
    with monkeypatch.context() as patch, pytest.raises(_Killed):
        patch.setattr(owner, name, call)
        _save(tmp_path, 3, 3.0, keep=2)
    steps = []
    for path in checkpoints.all_checkpoints(tmp_path):
        state, values = _load_all(path)
        steps.append(state["step"])
        assert values == _values(_variables(float(steps[-1])))
    assert steps in ([1, 2], [1, 2, 3], [2, 3])
    _save(tmp_path, 4, 4.0, keep=2)
    assert _steps(tmp_path)[-1] == 4


@pytest.mark.parametrize("num_bytes", [0, 100, 3000])
def test_a_full_disk_gives_one_error_and_keeps_what_was_there(
    num_bytes, tmp_path
):
    whole = _load_all(_save(tmp_path, 1))
    message = "step 2 could not be written .*newest is .*step-00000001.*Free"
    with (
        full_disk.largest_file(num_bytes),
        pytest.raises(errors.ModelError, match=message) as caught,
    ):
        _save(tmp_path, 2, 2.0)
    assert not re.search(r"\n|\{\{", str(caught.value))
    assert _steps(tmp_path) == [1]
    assert _load_all(checkpoints.latest(tmp_path)) == whole


@pytest.mark.parametrize("name", FILES)
def test_damage_is_found_or_harmless(name, tmp_path):
    folder = _save(tmp_path, 7)
    whole, path = _load_all(folder), folder / name
    content = path.read_bytes()
    offsets = range(0, len(content), max(1, len(content) // 60))
    num_found = 0
    for offset in offsets:
        flipped = bytearray(content)
        flipped[offset] ^= 1 << offset % 8
        path.write_bytes(flipped)
        if (result := _load_all(folder)) != whole:
            assert re.search(f"{folder}.*(Remove this folder|version)", result)
            num_found += 1
    # The index ends in bytes that nobody reads.
    assert num_found > 0.6 * len(offsets)
    for size in (len(content) - 3, len(content) // 2, 0):
        path.write_bytes(content[:size])
        assert f"{folder} cannot be read" in _load_all(folder)
    path.unlink()
    assert f"{folder} cannot be read" in _load_all(folder)


def test_a_folder_that_holds_another_step_is_refused(tmp_path):
    folder = _save(tmp_path, 12)
    renamed = folder.rename(folder.with_name("step-00000999"))
    assert "holds step 12" in _load_all(renamed)


@pytest.mark.parametrize(
    "lie", [{"best_step": 8}, {"best_step": "7"}, {"best_step": [7]},
            {"best_loss": "low"}, {"position": 3}]
)  # fmt: skip
def test_a_state_that_cannot_be_is_damage(tmp_path, lie):
    ((name, value),) = lie.items()
    said = _load_all(_save(tmp_path, 7, **lie))
    assert f"cannot be read: its {name} is {value!r}. It is missing or" in said


def test_missing_unknown_and_misshapen_variables_are_listed(tmp_path):
    folder, variables = _save(tmp_path, 7), _variables(0.0)
    variables["model/new"] = tf.Variable([0.0])
    del variables["optimizer/count"]
    variables["model/bias"] = tf.Variable(np.zeros([3], np.float32))
    message = (
        "missing model/new; unknown optimizer/count; model/bias is (50,), "
        "expected (3,) (3 in all)"
    )
    with pytest.raises(errors.ModelError, match=re.escape(message)):
        checkpoints.restore(folder, variables)
    assert variables["model/table"].numpy().max() == 0.0


def test_weights_can_be_read_without_the_rest(tmp_path):
    folder = _save(tmp_path, 7, 3.0)
    assert {*checkpoints.load_tensors(folder, "model")} == {"bias", "table"}
    bias = tf.Variable(np.zeros([50], np.float32))
    checkpoints.load_weights(folder, {"bias": bias})
    assert set(bias.numpy()) == {-3.0}
    with pytest.raises(errors.ModelError, match="missing scale"):
        checkpoints.load_weights(folder, {"bias": bias, "scale": bias})


@pytest.fixture
def claimed(tmp_path):
    folder = tmp_path / "run"
    own_run.check(folder, SETTINGS, tiny.VOCABULARY)
    checkpoints.claim_folder(folder, SETTINGS, tiny.VOCABULARY)
    return folder


def _files(folder):
    return {p.name: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def _refused(folder, settings=SETTINGS, vocabulary=tiny.VOCABULARY):
    """The message of a refusal, which must not have changed anything."""
    before = _files(folder)
    with pytest.raises(errors.ModelError) as caught:
        own_run.check(folder, settings, vocabulary)
    assert _files(folder) == before
    return str(caught.value)


@pytest.mark.parametrize(
    "error",
    [
        OSError(5, "Input/output error"),
        OSError("gs://bucket/state.json: Input/output error"),
        tf.errors.UnavailableError(None, None, "Input/output error"),
    ],
)
def test_a_disk_or_store_that_fails_is_no_damage(error, tmp_path, monkeypatch):
    path = _save(tmp_path, 1)

    def fail(*arguments):
        raise error

    monkeypatch.setattr(storage, "read_bytes", fail)
    with pytest.raises(errors.ModelError, match="error. Repair the file sys"):
        checkpoints.load_state(path)


def test_a_claim_that_was_killed_is_completed(claimed):
    (claimed / "vocab.txt").unlink()
    (claimed / ".vocab.txt.partial-123").write_text("half")
    (claimed / "checkpoints" / ".step-00000004.partial-9").mkdir(parents=True)
    own_run.check(claimed, SETTINGS, tiny.VOCABULARY)
    checkpoints.claim_folder(claimed, SETTINGS, tiny.VOCABULARY)
    assert own_run.load_settings(claimed) == SETTINGS
    assert vocabulary_lib.Vocabulary.load(claimed) == tiny.VOCABULARY
    names = {"config.json", "tokenizer_config.json", "vocab.txt"}
    assert {*_files(claimed.parent)} == names


def test_what_changes_a_step_is_named_and_refused(claimed):
    safe = {"training": {"log_steps": 77}, "data": {"dataset_dir": "other"}}
    same = tiny_run.replace(SETTINGS, **safe)
    own_run.check(claimed, same, tiny.VOCABULARY)
    changed = {"learning_rate": 0.5}, {"num_hidden_layers": 3}
    other = tiny_run.replace(same, optimizer=changed[0], encoder=changed[1])
    message = _refused(claimed, other)
    assert "encoder.num_hidden_layers: 2, 3" in message
    assert "optimizer.learning_rate: 0.001, 0.5" in message
    assert "log_steps" not in message
    assert "another --model_dir" in message
    for change in (
        {"tokens": (*tiny.VOCABULARY.tokens, "more")},
        {"settings": vocabulary_lib.TokenizerSettings(do_lower_case=False)},
    ):
        vocabulary = dataclasses.replace(tiny.VOCABULARY, **change)
        message = _refused(claimed, vocabulary=vocabulary)
        assert "trained with another vocabulary" in message


def test_a_folder_of_something_else_is_refused(claimed, tmp_path):
    with pytest.raises(errors.ModelError, match=f"No run in {tmp_path}:"):
        own_run.load_settings(tmp_path)
    assert re.search("not empty.*new or empty --model_dir", _refused(tmp_path))
    path = claimed / "config.json"
    path.write_text(path.read_text().replace("seed", "quantum", 1))
    with pytest.raises(ValueError, match="'training.quantum'.* newer version"):
        own_run.load_settings(claimed)


def test_an_old_checkpoint_that_cannot_go_stops_nothing(
    tmp_path, monkeypatch, caplog
):
    def refuse(path, marker):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(checkpoints.storage, "remove_folder", refuse)
    for step in (1, 2):
        _save(tmp_path, step, keep=1)
    assert f"removed: [Errno 13] Permission denied: '{tmp_path}" in caplog.text
    assert checkpoints.load_state(checkpoints.latest(tmp_path))["step"] == 2
