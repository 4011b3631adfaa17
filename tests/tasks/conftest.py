"""A little vocabulary, its tokenizer, and settings of tasks."""

import json
import pathlib
from typing import Any

import pytest

from electra_tf.config import finetuning as finetuning_config
from electra_tf.tasks import base
from electra_tf.tasks import catalog
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks.question_answering import questions
from electra_tf.tasks.tagging import words as words_lib
from electra_tf.text import tokenizer as tokenizer_lib
from electra_tf.text import vocabulary as vocabulary_lib

VOCABULARY = vocabulary_lib.Vocabulary(
    (
        *vocabulary_lib.SPECIAL_TOKENS,
        *("the", "cat", "##s", "sat", "on", "a", "un", "##able", "dog", "ran"),
        *("mat", "who", "where", "(", ")", ".", "-", "18", "##95", "japan"),
        *("##ese", "red", "old"),
    )
)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Splits are made into rows in several chunks, as large ones are."""
    for module, size in ((rows_lib, 4), (words_lib, 70), (questions, 2)):
        monkeypatch.setattr(module, "_CHUNK", size)


@pytest.fixture(scope="session")
def tokenizer() -> tokenizer_lib.Tokenizer:
    return tokenizer_lib.Tokenizer(VOCABULARY)


@pytest.fixture
def write(tmp_path: pathlib.Path) -> Any:
    """Writes bytes, a text, or other content as JSON; returns the path."""

    def write_file(name: str, content: Any = "x\n") -> pathlib.Path:
        if not isinstance(content, str | bytes):
            content = json.dumps(content)
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(
            content.encode() if isinstance(content, str) else content
        )
        return path

    return write_file


def settings_of(**fields: object) -> finetuning_config.FinetuningConfig:
    """Settings whose section `task` has these fields."""
    return finetuning_config.FinetuningConfig(
        task=finetuning_config.TaskConfig(**fields)
    )


def own_settings(**fields: object) -> finetuning_config.FinetuningConfig:
    """Settings of one's own task, whose section `own` has these fields."""
    return finetuning_config.FinetuningConfig(
        task=finetuning_config.TaskConfig(names="own"),
        own=finetuning_config.OwnTaskConfig(**fields),
    )


def label_studio(text: str, values: list[dict]) -> dict:
    """A task of Label Studio's full export, and what was marked."""
    results = [{"from_name": "label", "value": value} for value in values]
    return {"data": {"text": text}, "annotations": [{"result": results}]}


def build_own(
    folder: pathlib.Path, text: str, name: str = "train.csv", **fields: object
) -> base.Task:
    """One's own task, whose training file holds this text."""
    (folder / name).write_text(text, "utf-8")
    path = str(folder / name)
    return catalog.build_task("own", own_settings(train_file=path, **fields))
