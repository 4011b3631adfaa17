"""Published files and a user's own, good and bad."""

import gzip
import json

import pytest

from electra_tf import errors
from electra_tf.config import finetuning as finetuning_config
from electra_tf.tasks.question_answering import records
from tests.tasks.question_answering.conftest import CONTEXT
from tests.tasks.question_answering.conftest import example_of
from tests.tasks.question_answering.conftest import squad_file
from tests.tasks.question_answering.conftest import squad_question

SPANS = [
    {"text": "cats", "char_spans": [[27, 30], [0, 3]]},
    {"text": "the cats", "char_spans": [[23, 30]]},
]
MRQA = {"qid": "m1", "question": "who sat", "answers": ["cats", "the cats"],
        "detected_answers": SPANS}  # fmt: skip
SQUAD = squad_file([squad_question()])
WRONG = squad_question(answers=[{"text": "cats", "answer_start": 90}], id="q2")


def _lines(*values):
    return "".join(json.dumps(value) + "\n" for value in values)


def _mrqa(question=MRQA):
    return _lines({"header": {}}, {"context": CONTEXT, "qas": [question]})


def test_a_squad_file_is_read_in_its_order(write):
    bare = {"id": "q3", "question": "where"}
    questions = [squad_question("cats"), squad_question(None, id="q2"), bare]
    answers = [{"text": t, "answer_start": s} for t, s in (("b", 2), ("a", 0))]
    questions.append(squad_question(answers=answers, id="q4"))
    path = write("train.json", squad_file(questions))
    first, second, third, last = records.read_squad(path)
    assert first == example_of("cats")
    # All answers are gold, and the first is learned.
    assert last.golds == ("b", "a")
    assert last.answer == records.Answer("b", 2)
    assert second.is_impossible and second.golds == () and not second.answer
    # Without answers, and without being told that there are none.
    assert third.golds is None and not third.is_impossible
    assert first.context is second.context


@pytest.mark.parametrize(
    ("said", "golds"),
    [
        ({"answers": []}, None),
        ({"is_impossible": True}, ()),
        ({"is_impossible": False}, None),
        ({"is_impossible": False, "answers": []}, ()),
    ],
)
def test_what_a_flag_says_of_a_question_without_answers(write, said, golds):
    content = squad_file([{"id": "q", "question": "where"} | said])
    (example,) = records.read_squad(write("dev.json", content))
    is_impossible = said.get("is_impossible", False)
    assert (example.golds, example.is_impossible) == (golds, is_impossible)


@pytest.mark.parametrize("name", ["dev.jsonl", "dev.jsonl.gz"])
def test_an_mrqa_file_is_read_plain_and_compressed(write, name):
    path = write(name, _mrqa())
    if name.endswith("gz"):
        path.write_bytes(gzip.compress(path.read_bytes()))
    golds, answer = ("cats", "the cats"), records.Answer("cats", 27)
    expected = records.Example("m1", "who sat", CONTEXT, golds, answer)
    assert records.read_squad(path) == [expected]


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
    write, tmp_path, task, split, name, caplog
):
    path = write(name, _mrqa() if task == "newsqa" else SQUAD)
    source = records.SOURCES[task]
    assert source.find(str(tmp_path), split) == path
    assert len(source.read_split(str(tmp_path), split)) == 1
    number = source.counts[split]
    assert f"holds 1 examples, the official file {number}" in caplog.text
    other = "dev" if split == "train" else "train"
    with pytest.raises(FileNotFoundError, match=f"{other}.*Received"):
        source.find(str(tmp_path), other)


def test_questions_without_their_answer_are_left_out(write, tmp_path, caplog):
    for split in records.SPLITS:
        write(f"{split}-v1.1.json", squad_file([squad_question(), WRONG]))
    source = records.SOURCES["squad1"]
    assert len(source.read_split(str(tmp_path), "train")) == 1
    assert "1 of 2 questions" in caplog.text and "place: q2." in caplog.text
    assert len(source.read_split(str(tmp_path), "dev")) == 2


def _read(path, split="train", **fields):
    settings = finetuning_config.OwnTaskConfig(
        kind="qa", **{f"{split}_file": str(path)}, **fields
    )
    return records.read_own(settings, split)


BOTH = [{"text": ["cats"], "answer_start": [27]},
        {"text": [], "answer_start": []}]  # fmt: skip
ROWS = [{"question": "who", "context": CONTEXT, "answers": both, "id": number}
        for number, both in enumerate(BOTH)]  # fmt: skip
QAS = [{"id": 7, "question": "who",
        "answers": [{"text": "cats", "answer_start": 27}]},
       {"id": 8, "question": "where", "answers": None}]  # fmt: skip
PARAGRAPH = {"context": CONTEXT, "qas": QAS}
CELL = '"{""text"": [""cats""], ""answer_start"": [27]}"'
NUMPY = (
    "\"{'text': array(['cats'], dtype=object), 'answer_start': array([27])}\""
)


def _table(header, answer, none=""):
    rows = f"who,{CONTEXT},{answer}\nwhere,{CONTEXT},{none}\n"
    return f"question,context,{header}\n{rows}"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("list.json", ROWS),
        ("lines.json", _lines(*ROWS)),
        ("lines.jsonl", _lines(*ROWS)),
        ("indented.json", json.dumps(ROWS, indent=1)),
        ("one_answer.jsonl",
         _lines(*({**row, "answers": row["answers"]["text"]} for row in ROWS))),
        ("start.json", [ROWS[0] | {"answers": {"text": "cats", "start": 27}},
                        ROWS[1]]),
        ("no_answer.jsonl",
         _lines(ROWS[0], ROWS[1] | {"answers": {"text": [""]}})),
        ("paragraphs.json", [PARAGRAPH]),
        ("articles.json", [{"title": "t", "paragraphs": [PARAGRAPH]}]),
        ("squad.json", {"data": [{"paragraphs": [PARAGRAPH]}]}),
        ("flags.json", squad_file([QAS[0], QAS[1] | {"is_impossible": True}])),
        ("denied.json", squad_file([QAS[0],
                                    QAS[0] | {"id": 1, "is_impossible": 1}])),
        ("a.csv", _table("answer,answer_start", "cats,27", ",")),
        ("float.csv", _table("answer,answer_start", "cats,27.0", ",")),
        ("near.csv", _table("answer,answer_start", "cats,24", ",")),
        ("case.csv", _table("answer,answer_start", "CATS,30", ",")),
        ("no_place.csv", _table("answer,answer_start", "cats,-1", ",")),
        ("no_column.csv.gz", gzip.compress(_table("answer", "cats").encode())),
        ("flag.csv", _table("is_impossible,answer", "False,cats", "True,")),
        ("r.csv", _table("answer,answer_start", "cats,27", "NA,NA")),
        ("json.csv", _table("answers", CELL)),
        ("numpy.csv", _table("answers", NUMPY, "\"{'text': array([])}\"")),
        ("list.csv", _table("answer,answer_start", "['cats'],[27]", ",")),
    ],
    ids=str,
)  # fmt: skip
def test_every_form_of_a_file_has_the_same_questions(write, name, content):
    first, second = _read(write(name, content))
    answer = records.Answer("CATS" if name == "case.csv" else "cats", 27, 31)
    assert (first.context, first.question) == (CONTEXT, "who")
    assert (first.golds, first.answer) == ((answer.text,), answer)
    assert second.golds == () and not second.answer and second.is_impossible
    assert first.context is second.context


TOKENS = {"doc_tokens": ["a"], "question": "who", "id": 1}
COLUMNS = {name: [row[name] for row in ROWS] for name in ROWS[0]}
BOOL = {"answers": [{"text": "a", "answer_start": True}]}
EMPTY = {"detected_answers": [{"text": "a", "char_spans": []}]}


@pytest.mark.parametrize(
    ("name", "content", "pattern"),
    [
        ("a.json", '{\n"data": [}', "line 2, character 10: expected JSON"),
        ("a.json", {}, "expected questions in SQuAD's form.*none"),
        ("a.json", {"data": [3]}, r"line 1 data\[0\]: .*Received: '3'"),
        ("a.json", {"train": ROWS}, "the members train.*question_column"),
        ("a.json", [TOKENS], r"line 1\[0\]: expected a text as `context` bes"),
        ("a.json", COLUMNS, 'line 1: expected questions in.*orient="records"'),
        ("a.json", squad_file([squad_question(is_impossible="nope")]),
         r"qas\[0\]: expected 0 or 1, .* or true as 'is_impossible'"),
        ("a.json", squad_file([squad_question(**BOOL)]),
         r"qas\[0\]: expected `answer_start` to be the number of a char"),
        ("a.json", squad_file([squad_question(answers=[{"answer": "a"}])]),
         "expected answers with `text` and `answer_start`.*members answer"),
        ("a.json", [ROWS[0] | {"answers": {"text": ["a", "b"],
                                           "answer_start": [0]}}],
         "expected 2 numbers `answer_start`"),
        ("a.json", squad_file([squad_question(), squad_question(
            id="q2", answers=[], is_impossible=False)]),
         "question 'q2': expected an answer, or `is_impossible`"),
        ("a.json", squad_file([squad_question(answers=[])]),
         "question 'q1': expected an answer, or `is_impossible`"),
        ("a.json", squad_file([WRONG | {"answers": [{"text": "x"}]}]),
         r"1 of 1 answers are not in their contexts: 'q2' \('x'\)"),
        ("a.gz", '{"header": 1}\n', "a.gz"),
        ("a.jsonl", '{"header": 1}\n', "expected questions"),
        ("a.jsonl", '{"header": 1}\n{"context": ', "line 2: expected a JSON"),
        ("a.jsonl", '{"context": "a"}\n', "line 1: expected questions in"),
        ("a.jsonl", _mrqa(MRQA | {"answers": [True]}),
         r"line 2 qas\[0\]: expected the text of an answer"),
        ("a.jsonl", _mrqa(MRQA | EMPTY), "`detected_answers` to have `text`"),
        ("a.csv", _table("answer,answer_start", "cats,x", ","),
         "line 2: expected `answer_start` to be the number of a character"),
        ("a.csv", "question,context\nwho,a b\n", "an answer.*own.answer_col"),
        ("a.csv", "question,context,answer\nwho, ,b\n",
         "line 2: expected a text in column 'context'"),
        ("a.txt", SQUAD, r"Received: '\.txt'"),
    ],
)  # fmt: skip
def test_a_bad_file_is_named_with_its_record(write, name, content, pattern):
    path = write(name, content)
    with pytest.raises(errors.DataError, match=f"(?s){pattern}") as caught:
        _read(path)
    assert str(path) in str(caught.value)


def test_published_ids_differ_and_others_are_numbered(write, caplog):
    path = write("a.json", squad_file([squad_question(), squad_question()]))
    with pytest.raises(errors.DataError, match=r"\[0\], and .*\[1\]: .*'q1'"):
        records.read_squad(path)
    assert [example.id for example in _read(path)] == ["0", "1"]
    assert "2 questions have 1 ids" in caplog.text


def test_what_is_guessed_of_answers_is_said(write, caplog):
    answers = ("cats", 24), ("18", -1), ("The", 40), ("dog", 0), ("mat", 44)
    rows = [
        ROWS[0] | {"id": text, "answers": {"text": text, "answer_start": start}}
        for text, start in answers
    ]
    path = write("a.jsonl", _lines(*rows, ROWS[0] | {"is_impossible": True}))
    train, dev = _read(path), _read(path, "dev")
    found = {e.id: e.answer.start for e in train if e.answer}
    assert found == {"cats": 27, "18": 18, "The": 23, "mat": 44}
    assert [e.id for e in dev] == [
        e.id for e in [*train[:3], dev[3], *train[3:]]
    ]
    for told in (
        "1 questions have answers, but `is_impossible` is true: 0.",
        "1 of 5 answers have no `answer_start` and occur several times",
        "2 of 5 answers do not begin where `answer_start` says",
        "the farthest: 'The' of question 'The' begins at 23, not at 40.",
        "1 of 5 answers are not in their contexts: 'dog' ('dog'). These "
        "questions are left out of training.",
        "These questions are kept, and never right.",
    ):
        assert told in caplog.text


def test_without_a_column_of_places_the_first_occurrence_counts(write):
    fields = {"id_column": "k", "question_column": "q", "context_column": "c"}
    fields |= {"answer_column": "a", "answer_start_column": ""}
    path = write("own.tsv", "k\tq\tc\ta\n7\twho\tab b a b\tb\n")
    (example,) = _read(path, **fields)
    # A whole word comes before a part of one.
    assert (example.id, example.answer) == ("7", records.Answer("b", 3, 4))
    # Another form of Unicode is the same text.
    path = write("own.tsv", "k\tq\tc\ta\n7\twho\ta e\u0301 b\t\xe9 b\n")
    (example,) = _read(path, **fields)
    assert example.golds == (example.answer.text,) == ("e\u0301 b",)
    assert example.answer.start == 2
    (example,) = _read(write("own.json", squad_file([WRONG])), **fields)
    assert example.answer.start == CONTEXT.index("cats")


def test_a_test_file_needs_no_answers_but_may_have_them(write):
    bare = write("bare.csv", "question,context\nwho,a b\n")
    (example,) = _read(bare, "test")
    assert example.golds is None and not example.is_impossible
    table = write("own.csv", _table("answer", "cats"))
    assert _read(table, "test")[0].golds == ("cats",)
    assert len(_read(write("a.txt", SQUAD), file_format="squad")) == 1
