"""Sentences of users' tables, in the forms that programs write, and damaged."""

import json

import pytest

from electra_tf import errors
from electra_tf.tasks.tagging import own_sentences
from tests.tasks import conftest

WORDS, TAGS = ("New", "York", "is"), ("B-LOC", "I-LOC", "O")
KAGGLE = """Sentence #,Word,POS,Tag
Sentence: 1,New,NNP,B-LOC
,York,NNP,I-LOC
,is,VB,O
Sentence: 2,NA,NN,O
,,,
"""


def _read(tmp_path, name, text, split="train", **fields):
    path = tmp_path / name
    path.write_text(text, "utf-8")
    fields[f"{split}_file"] = str(path)
    own = conftest.own_settings(kind="tagging", **fields).own
    return own_sentences.read_own(own, split)


def _csv(words, tags):
    cells = ('"' + cell.replace('"', '""') + '"' for cell in (words, tags))
    return f"text,label\n{','.join(cells)}\n"


@pytest.mark.parametrize(
    ("words", "tags"),
    [
        ("New York is", "B-LOC I-LOC O"),
        ("New York is", "['B-LOC', 'I-LOC', 'O']"),
        ("['New', 'York', 'is']", "['B-LOC', 'I-LOC', 'O']"),
        ("('New', 'York', 'is')", "('B-LOC', 'I-LOC', 'O')"),
        ("New York is", "[np.str_('B-LOC'), np.str_('I-LOC'), np.str_('O')]"),
        ("['New' 'York'\n 'is']", "['B-LOC' 'I-LOC'\n 'O']"),
        ('[ "New",\n "York", "is" ]', '[ "B-LOC ",\n "I-LOC", "O" ]'),
        ("New York is", "B-LOC, I-LOC, O"),
        ("New,York,is", "B-LOC,I-LOC,O"),
        ('["New", "York", "is"]', "[3.0, 4.0, 0.0]"),
        ("New York is", "3,4,0"),
        ("New York is", "3 4 0"),
    ],
)
def test_lists_are_read_as_programs_write_them(tmp_path, words, tags):
    labels = "O,B-PER,I-PER,B-LOC,I-LOC"
    rows = _read(tmp_path, "x.csv", _csv(words, tags), labels=labels)
    assert rows == [(WORDS, TAGS, f"{tmp_path / 'x.csv'}, line 2")]


@pytest.mark.parametrize(
    ("words", "tags"),
    [
        ("[ 1 ]", ("N", "V", "N")),
        ('( " a', ("N", "V", "N")),
        ("Yes , he", ("UH", ",", "PRP")),
        ("Well, yes", ("ADV,sing", "ADV,plur")),
    ],
)
def test_signs_may_be_words_and_parts_of_tags(tmp_path, words, tags):
    (row,) = _read(tmp_path, "x.csv", _csv(words, " ".join(tags)))
    assert row[:2] == (tuple(words.split()), tags)


EMOJI, TEXT = "\U0001f600", "\U0001f600 New York is"
MARKED = {"start": 3, "end": 11, "text": "New York", "labels": ["LOC"]}


@pytest.mark.parametrize(
    "rows",
    [
        *(
            [{"text": EMOJI, "label": []}, {"text": TEXT, "label": label}]
            for label in (
                [[2, 10, "LOC"]],
                {"entities": [[2, 10, "LOC"]]},
                [{"start_offset": 2, "end_offset": 10, "label": "LOC"}],
                [{"begin": 2, "end": 10, "type": "LOC"}] * 2,
                "[(2, 10, 'LOC')]",
                # In a browser an emoji counts two.
                [MARKED],
            )
        ),
        [[EMOJI, {"entities": []}], [TEXT, {"entities": [[2, 10, "LOC"]]}]],
        [
            conftest.label_studio(EMOJI, []),
            conftest.label_studio(TEXT, [MARKED]),
        ],
    ],
)
def test_spans_of_texts_tag_the_words(tmp_path, rows):
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    # Label Studio writes lists alone.
    written = ("x.json", json.dumps(rows)), ("x.jsonl", lines)
    for name, content in written[: 2 - ("data" in rows[0])]:
        found = _read(tmp_path, name, content)
        tagged = (EMOJI, *WORDS), ("O", *TAGS)
        assert [row[:2] for row in found] == [((EMOJI,), ("O",)), tagged]
        assert f"{name}: texts are split at" in found.notes[0]
        assert found.notes[0].endswith("; 1 texts have none.")


@pytest.mark.parametrize(
    ("text", "label", "tags"),
    [
        ("\u5728\u5317\u4eac\u3002", [[1, 3, "LOC"]], "O B-LOC I-LOC O"),
        ("\u3053\u306f ab\u3002c", [[3, 5, "X"]], "O O B-X O O"),
        ("\u0e01\u0e31\u0e19", [[0, 2, "X"]], "B-X O"),
        ("\u5317\u4eac", ["B-X", "O"], "B-X O"),
        ("\u5317\u4eac", "B-X O", "B-X O"),
    ],
)
def test_scripts_without_blanks_are_characters(tmp_path, text, label, tags):
    (row,) = _read(
        tmp_path, "x.jsonl", json.dumps({"text": text, "label": label})
    )
    assert "".join(row.words) == text.replace(" ", "")
    assert row.tags == tuple(tags.split())


def test_texts_to_predict_are_split_as_those_of_the_training_file(tmp_path):
    text = json.dumps({"text": "a.", "label": [[0, 1, "X"]]})
    _read(tmp_path, "train.jsonl", text)
    train_file = str(tmp_path / "train.jsonl")
    for label in ([], None):
        test = json.dumps({"text": "a.", "label": label})
        rows = _read(tmp_path, "x.jsonl", test, "test", train_file=train_file)
        assert [row[:2] for row in rows] == [(("a", "."), None)]


def test_a_span_has_whole_words_and_this_is_told(tmp_path):
    found = [[0, 1, "X"], [1, 2, "X"], [3, 8, "P"], [11, 15, "L"]]
    line = {"text": "\u00dc: Trump's U.S. a", "label": [*found, [16, 17, "X"]]}
    rows = _read(tmp_path, "x.jsonl", json.dumps(line))
    assert rows[0].words == ("\u00dc", ":", "Trump's", "U.S", ".", "a")
    assert rows[0].tags == ("B-X", "B-X", "B-P", "B-L", "I-L", "B-X")
    assert "1 of 5 spans begin or end inside a word" in rows.notes[0]


def test_rows_of_one_word_are_joined_by_an_id(tmp_path):
    columns = {"text_column": "Word", "label_column": "Tag"}
    id_column = {"id_column": "Sentence #"}
    rows = _read(tmp_path, "x.csv", KAGGLE, **columns, **id_column)
    # "NA" is a word.
    assert [row[:2] for row in rows] == [(WORDS, TAGS), (("NA",), ("O",))]
    assert [row.place[-1] for row in rows] == ["2", "5"]
    test = "Sentence #,Word\n1,New\n1,York\n1,is\n2,NA\n"
    found = _read(tmp_path, "x.csv", test, "test", **columns, **id_column)
    assert [row[:2] for row in found] == [(WORDS, None), (("NA",), None)]
    for text, message in (
        (f"{KAGGLE}Sentence: 1,x,N,O\n", "line 7: expected rows of one"),
        (f"{KAGGLE},x,N,\n", "line 7: expected a text in column 'Tag'"),
    ):
        with pytest.raises(errors.DataError, match=message):
            _read(tmp_path, "x.csv", text, **columns, **id_column)
    with pytest.raises(errors.DataError, match="sentence ids by own.id_column"):
        _read(tmp_path, "x.csv", KAGGLE.removesuffix(",,,\n"), **columns)


def test_a_tsv_file_with_blank_lines_has_columns(tmp_path):
    rows = _read(tmp_path, "x.tsv", "New\tB-LOC\nYork\tI-LOC\nis\tO\n\na\tO\n")
    assert [row.words for row in rows] == [WORDS, ("a",)]
    rows = _read(tmp_path, "x.conll", "a 1 O\nb 2 S-X\n", text_column="1")
    assert rows[0].words == ("1", "2")
    for fields in ({"text_column": "words"}, {"id_column": "0"}):
        with pytest.raises(ValueError, match="own.text_column.*numbers"):
            _read(tmp_path, "x.conll", "a O\nb X\n", **fields)


def test_what_is_predicted_may_have_empty_tags(tmp_path):
    lines = [{"text": "it is", "label": t} for t in ("", None, "O O")]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    rows = _read(tmp_path, "x.jsonl", text, "test")
    assert [row.tags for row in rows] == [None, None, ("O", "O")]
    with pytest.raises(errors.DataError, match=r"line 1: .*'label' a list"):
        _read(tmp_path, "x.jsonl", text)


@pytest.mark.parametrize(
    ("words", "tags", "expected"),
    [
        (["a", "b"], ["O"], "a tag for every word.*2 words, 1 tags"),
        ([], [], "'text' a list"),
        (["a", ""], ["O", "O"], "none of them empty"),
        (["a"], [None], "'label' a list of strings"),
        (["a", "b"], [3, 4], "own.labels lists.*Received: '3'.*labels=O,B-X"),
        (7, "O", "'text' a list of strings.*Received: 7"),
        ([101, 102], "O O", "'text' a list of strings"),
        ("[101 102]", "O O", "'text' a list of strings"),
        ('["a", "b"', "O O", "'text' a list of strings"),
        ("['a' ... 'b']", "O O O", "NumPy shortened"),
        ("a b", "'B-X' 'O'", "'label' a list of strings"),
        ("ab", [[0, 5, "X"]], "spans of the text: the first.*0, 5"),
        ("a b", [[0, 3, "X"], [2, 3, "Y"]], "do not share.*2 to 3, Y"),
        ("abc d", [[0, 2, "X"]], "between words.*1 of 1 sp.*lists of these"),
        ("a b", [{"start": 0, "end": 1, "tag": "X", "text": "b"}], "spans"),
        ("ab cd", [[0, 1, "X"], [3, 4, "X"]], "of last characters, add 1"),
    ],
)
def test_a_damaged_row_is_named_with_its_line(tmp_path, words, tags, expected):
    text = json.dumps({"text": words, "label": tags})
    with pytest.raises(errors.DataError, match=f"line 1: .*{expected}"):
        _read(tmp_path, "x.jsonl", f"{text}\n")
