"""SQuAD and MRQA files, good and bad."""

import gzip
import json

import pytest

from electra_tf import errors
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks.question_answering import records
from tests.tasks.question_answering.conftest import CONTEXT
from tests.tasks.question_answering.conftest import example_of
from tests.tasks.question_answering.conftest import squad_file
from tests.tasks.question_answering.conftest import squad_question

MRQA = {
    "context": CONTEXT,
    "qas": [
        {
            "qid": "m1",
            "question": "who sat",
            "answers": ["cats", "the cats"],
            "detected_answers": [
                {"text": "cats", "char_spans": [[27, 30], [0, 3]]},
                {"text": "the cats", "char_spans": [[23, 30]]},
            ],
        }
    ],
}


def _mrqa_lines(record, header=True):
    lines = [{"header": {"dataset": "x"}}] * header + [record]
    return "".join(json.dumps(line) + "\n" for line in lines)


def test_a_squad_file_is_read_in_its_order(write):
    questions = [
        squad_question("cats"),
        squad_question(None, id="q2"),
        {"id": "q3", "question": "where"},
        {"id": "q4", "question": "where", "answers": []},
    ]
    examples = records.read_squad(write("train.json", squad_file(questions)))
    first, second, third, fourth = examples
    assert first == example_of("cats")
    assert second.is_impossible and second.golds == () and not second.answer
    # Without answers, and without being told that there are none.
    assert third.golds is None and not third.is_impossible
    assert fourth.golds is None
    assert first.context is second.context


@pytest.mark.parametrize(
    ("said", "golds"),
    [
        ({"is_impossible": True}, ()),
        ({"is_impossible": False}, None),
        ({"is_impossible": False, "answers": []}, ()),
    ],
)
def test_what_a_flag_says_of_a_question_without_answers(write, said, golds):
    content = squad_file([{"id": "q", "question": "where"} | said])
    (example,) = records.read_squad(write("dev.json", content))
    assert example.golds == golds
    assert example.is_impossible == said["is_impossible"]


def test_all_answers_are_gold_and_the_first_is_learned(write):
    answers = [{"text": t, "answer_start": s} for t, s in (("b", 2), ("a", 0))]
    content = squad_file([squad_question(answers=answers)], "a b")
    (example,) = records.read_squad(write("dev.json", content))
    assert example.golds == ("b", "a")
    assert example.answer == records.Answer("b", 2)


@pytest.mark.parametrize("name", ["dev.jsonl", "dev.jsonl.gz"])
def test_an_mrqa_file_is_read_plain_and_compressed(write, tmp_path, name):
    path = write(name, _mrqa_lines(MRQA))
    if name.endswith("gz"):
        path.write_bytes(gzip.compress(path.read_bytes()))
    (example,) = records.read_mrqa(path)
    assert example.id == "m1"
    assert example.golds == ("cats", "the cats")
    assert example.answer == records.Answer("cats", 27)


@pytest.mark.parametrize(
    ("content", "pattern"),
    [
        ('{\n"data": [}', "line 2, character 10: expected JSON"),
        ({}, "`data` is missing"),
        ({"data": []}, "expected questions"),
        ({"data": [3]}, "`data.0` must be a JSON object. Received: 3"),
        (squad_file([squad_question(id=7)]), "qas.0.id` must be text.*: 7"),
        (
            squad_file([squad_question(is_impossible="no")]),
            "`data.0.paragraphs.0.qas.0.is_impossible` must be true or false",
        ),
        (
            squad_file(
                [squad_question(answers=[{"text": "a", "answer_start": True}])]
            ),
            "answers.0.answer_start` must be a whole number",
        ),
        (
            squad_file([squad_question(), squad_question()]),
            "questions 1 and 2: expected different ids.*'q1'",
        ),
    ],
)
def test_a_bad_squad_file_is_named_with_its_record(write, content, pattern):
    path = write("train.json", content)
    with pytest.raises(errors.DataError, match=pattern) as caught:
        records.read_squad(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("lines", "pattern"),
    [
        ('{"header": 1}\n', "expected questions"),
        ('{"header": 1}\n{"context": ', "line 2: expected a JSON object"),
        ('{"context": "a"}\n', "line 1: `qas` is missing"),
        (
            '{"context": "a", "qas": [{"qid": "c", "question": "b",'
            ' "answers": [1]}]}\n',
            "line 1: `qas.0.answers.0` must be text",
        ),
        (
            '{"context": "a", "qas": [{"qid": "c", "question": "b",'
            ' "detected_answers": [{"text": "a", "char_spans": []}]}]}\n',
            "`qas.0.detected_answers.0.char_spans`",
        ),
    ],
)
def test_a_bad_mrqa_file_is_named_with_its_line(write, lines, pattern):
    path = write("dev.jsonl", lines)
    with pytest.raises(errors.DataError, match=pattern) as caught:
        records.read_mrqa(path)
    assert str(path) in str(caught.value)


def test_a_damaged_compressed_file_is_named(tmp_path):
    path = tmp_path / "dev.jsonl.gz"
    data = gzip.compress(_mrqa_lines(MRQA).encode())
    for damaged in (data[:40], b"plain text", data[:30] + b"x" + data[31:]):
        path.write_bytes(damaged)
        with pytest.raises(errors.DataError, match=r"dev\.jsonl\.gz"):
            records.read_mrqa(path)


def test_questions_without_their_answer_are_left_out_with_one_warning(caplog):
    examples = [
        example_of("cats", name="good"),
        example_of("cats", start=2, name="bad 1"),
        example_of("dogs", start=2, name="bad 2"),
        example_of(None, name="none"),
    ]
    with caplog.at_level("WARNING"):
        kept = records.keep_answered(examples, "train.json")
    assert [example.id for example in kept] == ["good", "none"]
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith("train.json: 2 of 4 questions")
    assert message.endswith("bad 1, bad 2.")


def test_a_question_without_answer_cannot_be_learned():
    bare = records.Example("q7", "who", CONTEXT, ())
    with pytest.raises(errors.DataError, match="train.json, question 'q7'"):
        records.keep_answered([bare], "train.json")


@pytest.mark.parametrize(
    ("context", "answer", "start", "expected"),
    [
        ("a big cat", "big", 2, (1, 2)),
        ("a big cat", "big cat", 2, (1, 3)),
        # Case and numbers of blanks do not matter.
        ("a BIG  cat", "big cat", 2, (1, 3)),
        # A wrong place in the right word does not either.
        ("a (big) cat", "big", 2, (1, 2)),
        ("a (big) cat", "big", 4, (1, 2)),
        ("a big cat", "big", 5, (1, 3)),
        ("a big cat", "big", 6, None),
        ("a big cat", "cat", 0, None),
        # From a blank on, the word before it is covered.
        ("a big cat", "big", 1, (0, 2)),
        # Beyond the text, before it, nothing.
        ("a big cat", "cats", 6, None),
        ("a big cat", "cat", 7, None),
        ("a big cat", "cat", 90, None),
        ("a big cat", "a", -9, None),
        ("a big cat", "", 2, None),
        ("", "a", 0, None),
        # A blank that splits no words is one in the answer.
        ("a\u00a0b", "a\u00a0b", 0, None),
        # The blanks before the only word.
        (" cat", "cat", 0, (0, 1)),
        (" big cat", "big", 0, None),
    ],
)
def test_an_answer_is_in_the_words_that_cover_it(
    context, answer, start, expected
):
    place = records.find_answer(example_of(answer, context, start))
    words = None
    if place is not None:
        assert (context[: place[0]] or " ")[-1] in rows_lib.QUESTION_BLANKS
        words = tuple(len(context[:end].split()) for end in place)
    assert words == expected
