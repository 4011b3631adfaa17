"""A user's own questions: tables and files of published forms."""

import json

import pytest

from electra_tf import errors
from electra_tf.config import finetuning as finetuning_config
from electra_tf.tasks.question_answering import own_records
from electra_tf.tasks.question_answering import records
from tests.tasks.question_answering.conftest import squad_file
from tests.tasks.question_answering.conftest import squad_question

TABLE = (
    "question,context,answer,answer_start\n"
    'who,"a cat, a dog",a dog,7\n'
    'where,"a cat, a dog",,\n'
)


def _read(path, split="train", **fields):
    settings = finetuning_config.OwnTaskConfig(kind="qa", **fields)
    return own_records.read_own(path, settings, split)


def test_a_table_has_answers_and_questions_without(write):
    first, second = _read(write("own.csv", TABLE))
    assert first == records.Example(
        "0", "who", "a cat, a dog", ("a dog",), records.Answer("a dog", 7)
    )
    assert second.id == "1"
    assert second.is_impossible and second.golds == ()
    assert first.context is second.context


def test_without_a_column_of_places_the_first_occurrence_counts(write):
    path = write("own.tsv", "question\tcontext\tanswer\nwho\ta b a b\tb\n")
    (example,) = _read(path, answer_start_column="")
    assert example.answer == records.Answer("b", 2)


def test_columns_are_named_by_the_config(write):
    line = {"key": 7, "q": "who", "doc": "a b", "a": "b", "at": 2}
    path = write("own.jsonl", json.dumps(line) + "\n")
    (example,) = _read(
        path,
        id_column="key",
        question_column="q",
        context_column="doc",
        answer_column="a",
        answer_start_column="at",
    )
    assert example.id == "7"
    assert example.answer == records.Answer("b", 2)


def test_a_test_file_needs_no_answers_but_may_have_them(write):
    bare = write("bare.csv", "question,context\nwho,a b\n")
    (example,) = _read(bare, "test")
    assert example.golds is None and not example.is_impossible
    assert _read(write("own.csv", TABLE), "test")[0].golds == ("a dog",)
    with pytest.raises(errors.DataError, match="column 'answer'"):
        _read(bare, "dev")


@pytest.mark.parametrize(
    ("line", "pattern"),
    [
        ("who,a b,c,0", "line 2.*answer 'c' in the context at character 0"),
        ("who,a b,b,0", "Received: 'a' there"),
        ("who,a b,b,x", "'answer_start' to be the number of a character"),
        ("who,a b,b,-1", "'answer_start' to be the number of a character"),
        ("who,a b,b,1.5", "'answer_start' to be the number of a character"),
        (",a b,b,2", "line 2: expected text in 'question'"),
        ("who, ,b,2", "line 2: expected text in 'context'"),
    ],
)
def test_a_bad_row_is_named_by_file_and_line(write, line, pattern):
    path = write("own.csv", f"question,context,answer,answer_start\n{line}\n")
    with pytest.raises(errors.DataError, match=pattern) as caught:
        _read(path)
    assert str(path) in str(caught.value)


def test_an_answer_that_is_nowhere_is_named_with_its_id(write):
    path = write("own.csv", "name,question,context,answer\nn1,who,a b,c\n")
    with pytest.raises(errors.DataError, match=r"line 2 \(question 'n1'\)"):
        _read(path, id_column="name", answer_start_column="")


def test_an_id_may_occur_once(write):
    path = write("own.csv", "k,question,context\nx,a,b\nx,c,d\n")
    with pytest.raises(errors.DataError, match="'x' for questions 1 and 2"):
        _read(path, "test", id_column="k")


def test_published_forms_are_read_by_their_ending_or_by_name(write):
    content = squad_file([squad_question()])
    assert len(_read(write("a.json", content))) == 1
    assert len(_read(write("a.txt", content), file_format="squad")) == 1
    with pytest.raises(errors.DataError, match=r"Received: '\.txt'"):
        _read(write("a.txt", content))


@pytest.mark.parametrize("split", ["train", "dev"])
def test_a_wrong_place_is_an_error_in_own_files(write, split):
    answers = [{"text": "cats", "answer_start": 0}]
    path = write("a.json", squad_file([squad_question(answers=answers)]))
    with pytest.raises(errors.DataError, match="question 'q1'.*'cats'.*'The '"):
        _read(path, split)
    assert len(_read(path, "test")) == 1


def test_an_answer_with_a_blank_inside_a_word_is_left_out(write, caplog):
    context = "a New\u00a0York b"
    answers = [{"text": "New\u00a0York", "answer_start": 2}]
    questions = [squad_question(answers=answers), squad_question(None, id="q2")]
    path = write("a.json", squad_file(questions, context))
    assert len(_read(path, "dev")) == 2
    with caplog.at_level("WARNING"):
        assert [example.id for example in _read(path)] == ["q2"]
    assert "1 of 2 questions" in caplog.text
