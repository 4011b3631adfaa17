"""Folders of published data, and a user's own files."""

import json

import pytest

from electra_tf import errors
from electra_tf.config import finetuning as finetuning_config
from electra_tf.tasks import files
from electra_tf.tasks.question_answering import records
from tests.tasks.question_answering.conftest import CONTEXT
from tests.tasks.question_answering.conftest import squad_file
from tests.tasks.question_answering.conftest import squad_question

SQUAD = squad_file([squad_question()])
MRQA = json.dumps(
    {"context": "a b", "qas": [{"qid": "m1", "question": "c", "answers": []}]}
)


@pytest.mark.parametrize(
    ("task", "split", "name"),
    [
        ("squad1", "train", "train-v1.1.json"),
        ("squad1", "dev", "any/where/dev-v1.1.json"),
        ("squad1", "dev", "squadv1/dev.json"),
        ("squad2", "train", "SQuAD/train-v2.0.json"),
        ("squad2", "dev", "finetuning_data/squad/dev.json"),
        ("newsqa", "dev", "newsqa/dev.jsonl"),
        ("newsqa", "dev", "mrqa/dev/NewsQA.jsonl"),
    ],
)
def test_a_file_is_found_where_its_publisher_or_the_original_has_it(
    write, tmp_path, task, split, name
):
    path = write(name, MRQA if task == "newsqa" else SQUAD)
    source = records.SOURCES[task]
    assert source.find(str(tmp_path), split) == path
    assert len(source.read(str(tmp_path), split)) == 1


def test_another_number_of_questions_is_a_warning(write, tmp_path, caplog):
    write("dev-v1.1.json", SQUAD)
    with caplog.at_level("WARNING"):
        records.SOURCES["squad1"].read(str(tmp_path), "dev")
    assert "holds 1 examples, the official file 10570" in caplog.text


def test_tfds_is_asked_for_the_split_by_its_name_there(monkeypatch):
    asked = []

    def read(name, split):
        asked.append((name, split))
        start = CONTEXT.index("mat")
        return [
            {
                "id": "q1",
                "question": "where",
                "context": CONTEXT,
                "answers": {"text": ["mat"], "answer_start": [start]},
            }
        ]

    monkeypatch.setattr(files, "read_tfds", read)
    (example,) = records.SOURCES["squad1"].read("tfds", "dev")
    assert example.golds == ("mat",)
    records.SOURCES["squad2"].read("tfds", "train")
    assert asked == [("squad/v1.1", "validation"), ("squad/v2.0", "train")]
    with pytest.raises(errors.DataError, match="newsqa is not read from"):
        records.SOURCES["newsqa"].read("tfds", "dev")


TABLE = (
    "question,context,answer,answer_start\n"
    'who,"a cat, a dog",a dog,7\n'
    'where,"a cat, a dog",,\n'
)


def _read(path, split="train", **fields):
    settings = finetuning_config.OwnTaskConfig(
        kind="qa", **{f"{split}_file": str(path)}, **fields
    )
    return records.read_own(settings, split)


def test_a_table_has_answers_and_questions_without(write):
    first, second = _read(write("own.csv", TABLE))
    assert first == records.Example(
        "0", "who", "a cat, a dog", ("a dog",), records.Answer("a dog", 7)
    )
    assert second.id == "1"
    assert second.is_impossible and second.golds == ()
    assert first.context is second.context


def test_without_a_column_of_places_the_first_occurrence_counts(write):
    fields = {"id_column": "k", "question_column": "q", "context_column": "c"}
    fields |= {"answer_column": "a", "answer_start_column": ""}
    path = write("own.tsv", "k\tq\tc\ta\n7\twho\ta b a b\tb\n")
    (example,) = _read(path, **fields)
    assert example.id == "7"
    assert example.answer == records.Answer("b", 2)
    path = write("own.tsv", "k\tq\tc\ta\n7\twho\ta b a b\tx\n")
    with pytest.raises(errors.DataError, match=r"line 2 \(question '7'\)"):
        _read(path, **fields)


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
        ("who,a b,b,0", "Received: 'a'\\."),
        ("who,a b,b,x", "'answer_start' to be the number of a character"),
        ("who,a b,b,-1", "'answer_start' to be the number of a character"),
        ("who, ,b,2", "line 2: expected a text in column 'context'"),
    ],
)
def test_a_bad_row_is_named_by_file_and_line(write, line, pattern):
    path = write("own.csv", f"question,context,answer,answer_start\n{line}\n")
    with pytest.raises(errors.DataError, match=pattern) as caught:
        _read(path)
    assert str(path) in str(caught.value)


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
