"""Published files and a user's own, good and bad."""

import gzip
import json

import pytest

from electra_tf import errors
from electra_tf.config import finetuning as finetuning_config
from electra_tf.tasks import files
from electra_tf.tasks import rows as rows_lib
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
WRONG = squad_question(answers=[{"text": "cats", "answer_start": 0}], id="q2")


def _mrqa(question=MRQA):
    lines = [{"header": {}}, {"context": CONTEXT, "qas": [question]}]
    return "".join(json.dumps(line) + "\n" for line in lines)


def test_a_squad_file_is_read_in_its_order(write):
    bare = {"id": "q3", "question": "where"}
    questions = [squad_question("cats"), squad_question(None, id="q2"), bare]
    path = write("train.json", squad_file(questions))
    first, second, third = records.read_squad(path)
    assert first == example_of("cats")
    assert second.is_impossible and second.golds == () and not second.answer
    # Without answers, and without being told that there are none.
    assert third.golds is None and not third.is_impossible
    assert first.context is second.context
    with pytest.raises(errors.DataError, match="the key 'is_impossible'"):
        records.read_squad(path, needs_is_impossible=True)


def test_what_a_flag_says_of_a_question_without_answers(write):
    for said, golds in (
        ({"answers": []}, None),
        ({"is_impossible": True}, ()),
        ({"is_impossible": False}, None),
        ({"is_impossible": False, "answers": []}, ()),
    ):
        content = squad_file([{"id": "q", "question": "where"} | said])
        (example,) = records.read_squad(write("dev.json", content))
        assert example.golds == golds
        assert example.is_impossible == said.get("is_impossible", False)


def test_all_answers_are_gold_and_the_first_is_learned(write):
    answers = [{"text": t, "answer_start": s} for t, s in (("b", 2), ("a", 0))]
    content = squad_file([squad_question(answers=answers)], "a b")
    (example,) = records.read_squad(write("dev.json", content))
    assert example.golds == ("b", "a")
    assert example.answer == records.Answer("b", 2)


@pytest.mark.parametrize("name", ["dev.jsonl", "dev.jsonl.gz"])
def test_an_mrqa_file_is_read_plain_and_compressed(write, name):
    path = write(name, _mrqa())
    if name.endswith("gz"):
        path.write_bytes(gzip.compress(path.read_bytes()))
    golds, answer = ("cats", "the cats"), records.Answer("cats", 27)
    expected = records.Example("m1", "who sat", CONTEXT, golds, answer)
    assert records.read_mrqa(path) == [expected]


BOOL = {"answers": [{"text": "a", "answer_start": True}]}
EMPTY = {"detected_answers": [{"text": "a", "char_spans": []}]}


@pytest.mark.parametrize(
    ("read", "content", "pattern"),
    [
        ("squad", '{\n"data": [}', "line 2, character 10: expected JSON"),
        ("squad", {}, "`data` is missing"),
        ("squad", {"data": []}, "expected questions"),
        ("squad", {"data": [3]}, "`data.0` must be a JSON object. Received: 3"),
        ("squad", squad_file([squad_question(id=7)]), "id` must be text.*: 7"),
        ("squad", squad_file([squad_question(is_impossible="no")]),
         "`data.0.paragraphs.0.qas.0.is_impossible` must be true or false"),
        ("squad", squad_file([squad_question(**BOOL)]),
         "answers.0.answer_start` must be a whole number"),
        ("squad", squad_file([squad_question(), squad_question()]),
         "questions 1 and 2: expected different ids.*'q1'"),
        ("mrqa", '{"header": 1}\n', "expected questions"),
        ("mrqa", '{"header": 1}\n{"context": ', "line 2: expected a JSON obj"),
        ("mrqa", '{"context": "a"}\n', "line 1: `qas` is missing"),
        ("mrqa", _mrqa(MRQA | {"answers": [1]}), "line 2: `qas.0.answers.0`"),
        ("mrqa", _mrqa(MRQA | EMPTY), "`qas.0.detected_answers.0.char_spans`"),
    ],
)  # fmt: skip
def test_a_bad_file_is_named_with_its_record(write, read, content, pattern):
    path = write("train.json", content)
    with pytest.raises(errors.DataError, match=pattern) as caught:
        (records.read_squad if read == "squad" else records.read_mrqa)(path)
    assert str(path) in str(caught.value)


def test_a_damaged_compressed_file_is_named(tmp_path):
    path = tmp_path / "dev.jsonl.gz"
    data = gzip.compress(_mrqa().encode())
    for damaged in (data[:40], b"plain text", data[:30] + b"x" + data[31:]):
        path.write_bytes(damaged)
        with pytest.raises(errors.DataError, match=r"dev\.jsonl\.gz"):
            records.read_mrqa(path)


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
        ("a (big) cat", "big", 4, (1, 2)),
        ("a big cat", "big", 5, (1, 3)),
        ("a big cat", "big", 6, None),
        ("a big cat", "cat", 0, None),
        # From a blank on, the word before it is covered.
        ("a big cat", "big", 1, (0, 2)),
        # Beyond the text, before it, nothing.
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
    with caplog.at_level("WARNING"):
        assert len(source.read_split(str(tmp_path), split)) == 1
    number = source.counts[split]
    assert f"holds 1 examples, the official file {number}" in caplog.text
    other = "dev" if split == "train" else "train"
    with pytest.raises(FileNotFoundError, match=f"{other}.*Received"):
        source.find(str(tmp_path), other)


def test_training_questions_without_their_answer_are_left_out(
    write, tmp_path, caplog
):
    for split in records.SPLITS:
        write(f"{split}-v1.1.json", squad_file([squad_question(), WRONG]))
    source = records.SOURCES["squad1"]
    with caplog.at_level("WARNING"):
        assert len(source.read_split(str(tmp_path), "train")) == 1
    assert "1 of 2 questions" in caplog.text and "answer: q2." in caplog.text
    assert len(source.read_split(str(tmp_path), "dev")) == 2


def test_tfds_is_asked_for_the_split_by_its_name_there(monkeypatch):
    asked = []
    answer = {"text": ["cats"], "answer_start": [CONTEXT.index("cats")]}
    record = {"id": "q1", "question": "who sat", "context": CONTEXT}
    record |= {"answers": answer}
    none = {"text": [], "answer_start": []}
    impossible = {"id": "q2", "answers": none, "is_impossible": True}

    def read(name, split):
        asked.append((name, split))
        return [record, record | impossible]

    monkeypatch.setattr(files, "read_tfds", read)
    first, second = records.SOURCES["squad1"].read_split("tfds", "dev")
    assert first == example_of("cats")
    assert second.is_impossible and second.golds == ()
    records.SOURCES["squad2"].read_split("tfds", "train")
    assert asked == [("squad/v1.1", "validation"), ("squad/v2.0", "train")]
    with pytest.raises(errors.DataError, match="newsqa is not read from"):
        records.SOURCES["newsqa"].read_split("tfds", "dev")


HEADER = "question,context,answer,answer_start\n"
TABLE = f'{HEADER}who,"a cat, a dog",a dog,7\nwhere,"a cat, a dog",,\n'


def _read(path, split="train", **fields):
    settings = finetuning_config.OwnTaskConfig(
        kind="qa", **{f"{split}_file": str(path)}, **fields
    )
    return records.read_own(settings, split)


def test_a_table_has_answers_and_questions_without(write):
    first, second = _read(write("own.csv", TABLE))
    answer = records.Answer("a dog", 7)
    example = ("0", "who", "a cat, a dog", ("a dog",), answer)
    assert first == records.Example(*example)
    assert second.id == "1"
    assert second.is_impossible and second.golds == ()
    assert first.context is second.context


def test_without_a_column_of_places_the_first_occurrence_counts(write):
    fields = {"id_column": "k", "question_column": "q", "context_column": "c"}
    fields |= {"answer_column": "a", "answer_start_column": ""}
    text = "k\tq\tc\ta\n7\twho\ta b a b\t"
    (example,) = _read(write("own.tsv", f"{text}b\n"), **fields)
    assert (example.id, example.answer) == ("7", records.Answer("b", 2))
    path = write("own.tsv", f"{text}x\n")
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
    path = write("own.csv", f"{HEADER}{line}\n")
    with pytest.raises(errors.DataError, match=pattern) as caught:
        _read(path)
    assert str(path) in str(caught.value)


def test_published_forms_are_read_by_their_ending_or_by_name(write):
    assert len(_read(write("a.json", SQUAD))) == 1
    assert len(_read(write("a.txt", SQUAD), file_format="squad")) == 1
    with pytest.raises(errors.DataError, match=r"Received: '\.txt'"):
        _read(write("a.txt", SQUAD))


@pytest.mark.parametrize("split", ["train", "dev"])
def test_a_wrong_place_is_an_error_in_own_files(write, split):
    path = write("a.json", squad_file([WRONG]))
    with pytest.raises(errors.DataError, match="question 'q2'.*'cats'.*'The '"):
        _read(path, split)
    assert len(_read(path, "test")) == 1


def test_an_answer_with_a_blank_inside_a_word_is_left_out(write, caplog):
    answers = [{"text": "New\u00a0York", "answer_start": 2}]
    questions = [squad_question(answers=answers), squad_question(None, id="q2")]
    path = write("a.json", squad_file(questions, "a New\u00a0York b"))
    assert len(_read(path, "dev")) == 2
    with caplog.at_level("WARNING"):
        assert [example.id for example in _read(path)] == ["q2"]
    assert "1 of 2 questions" in caplog.text
