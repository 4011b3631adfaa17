"""Question answering as a task, from files to scores."""

import dataclasses
import json

import pytest

from electra_tf.config import finetuning as finetuning_config
from electra_tf.tasks.question_answering import answers
from electra_tf.tasks.question_answering import records
from electra_tf.tasks.question_answering.answering_task import (
    QuestionAnsweringTask,
)
from electra_tf.tasks.question_answering.answering_task import build_task
from tests.tasks.conftest import own_settings
from tests.tasks.conftest import settings_of
from tests.tasks.question_answering.conftest import squad_file
from tests.tasks.question_answering.conftest import squad_question

QUESTIONS = [squad_question(), squad_question(None, id="q2")]


def _settings(tmp_path, **fields):
    settings = settings_of(names="squad2", data_dir=str(tmp_path))
    qa = finetuning_config.QuestionAnsweringConfig(**fields)
    return dataclasses.replace(settings, qa=qa)


def _predictions(texts, odds=()):
    return answers.Predictions(
        texts, {key: [] for key in texts}, dict(zip(texts, odds, strict=False))
    )


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("squad1", {"exact_match", "f1"}),
        ("newsqa", {"exact_match", "f1"}),
        ("squad2", {"exact", "best_f1", "NoAns_f1", "HasAns_total"}),
    ],
)
def test_scores_are_those_of_the_official_script(tmp_path, name, keys):
    qa = build_task(name, _settings(tmp_path))
    examples = [records.Example("a", "who", "cat", ("cat",))]
    if name == "squad2":
        examples.append(records.Example("b", "who", "cat", (), None, True))
    texts = {example.id: "cat" for example in examples}
    scores = qa.score(examples, _predictions(texts, [-9.0, 9.0]))
    assert keys <= scores.keys()
    assert scores[qa.metric] == 100
    unknown = records.Example("c", "who", "cat")
    with pytest.raises(ValueError, match="none for 1 questions, c"):
        qa.score([*examples, unknown], _predictions(texts))


def test_files_hold_answers_by_id(tmp_path):
    qa = build_task("squad2", _settings(tmp_path, qa_na_threshold=0.5))
    predictions = _predictions({"a": "cat", "b": "mat"}, [0.5, 0.6])
    paths = qa.write_predictions(tmp_path, "dev", [], predictions)
    contents = {path.name: json.loads(path.read_text()) for path in paths}
    assert contents == {
        "dev_predictions.json": {"a": "cat", "b": "mat"},
        "dev_nbest.json": {"a": [], "b": []},
        "dev_null_odds.json": {"a": 0.5, "b": 0.6},
        "dev_submission.json": {"a": "cat", "b": ""},
    }
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(contents)
    plain = build_task("squad1", _settings(tmp_path))
    paths = plain.write_predictions(tmp_path, "dev", [], predictions)
    names = ["dev_predictions.json", "dev_nbest.json"]
    assert [path.name for path in paths] == names


def test_to_do_no_better_than_no_answers_at_all_is_degenerate(tmp_path):
    qa = build_task("squad2", _settings(tmp_path))
    examples = [
        records.Example("a", "who", "cat", ("cat",)),
        records.Example("b", "who", "cat", (), None, True),
    ]
    wrong = _predictions({"a": "x", "b": "y"}, [0.0, 1.0])
    right = _predictions({"a": "cat", "b": "y"}, [0.0, 1.0])
    assert qa.is_degenerate(examples, wrong)
    assert not qa.is_degenerate(examples, right)
    assert qa.is_degenerate(examples, _predictions({"a": "x", "b": "x"}))
    assert qa.has_labels(examples)
    assert not qa.has_labels(examples[1:])
    unknown = [records.Example(i, "who", "cat") for i in "ab"]
    assert not qa.is_degenerate(unknown, wrong)


def _own(**fields):
    return QuestionAnsweringTask.build_own(own_settings(kind="qa", **fields))


def test_lines_tell_questions_windows_and_what_is_learned(write, tokenizer):
    path = write("train.json", squad_file(QUESTIONS))
    own = _own(train_file=str(path))
    examples = {"train": own.read_split("train")}
    rows = {"train": own.build_rows(examples["train"], tokenizer, 21, True)}
    lines = own.describe(examples, rows, tokenizer.vocabulary, 512)
    assert {
        "Questions of train: 2; 1 contexts, 1 unanswerable, 0 without answers.",
        "Rows, windows of the contexts: 4 of train.",
        "Its answer in tokens: cat ##s",
    } <= set(lines)


def test_own_answers_in_scripts_without_blanks_share_characters(tmp_path):
    examples = [records.Example("a", "谁", "北京大学", ("北京大学",))]
    answered = _predictions({"a": "北京"}, [-9.0])
    scores = _own(dev_file="x.csv").score(examples, answered)
    # Two characters of two, two of four.
    assert scores["best_exact"] == 0.0
    assert scores["best_f1"] == pytest.approx(100 * 2 / 3)
    by_name = build_task("squad2", _settings(tmp_path))
    assert by_name.score(examples, answered)["best_f1"] == 0.0
