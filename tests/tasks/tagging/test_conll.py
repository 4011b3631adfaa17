"""Files of words with tags, good ones and damaged ones."""

import json

import pytest

from electra_tf import errors
from electra_tf.tasks.tagging import conll
from electra_tf.tasks.tagging.conll import Sentence


@pytest.fixture
def path(tmp_path):
    return tmp_path / "train.txt"


def test_words_are_first_and_tags_last(path):
    path.write_text("The DT  B-NP\ncat\tNN\t\tI-NP\n\n sat VBD B-VP \t\n")
    row = conll.read_columns(path, word_column=1, tag_column=-3)[1]
    assert row[:2] == (("VBD",), ("sat",))
    assert conll.read_columns(path) == [
        Sentence(("The", "cat"), ("B-NP", "I-NP"), f"{path}, line 1"),
        Sentence(("sat",), ("B-VP",), f"{path}, line 4"),
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        # Starts of documents are left out.
        ("-DOCSTART- -X- O\n\n\na b O\n \n\n-DOCSTART-\nc d O",
         [("a",), ("c",)]),
        # Between tabs, and as other blanks, words may hold them.
        ("New York \tS-LOC\r\nis\tO\r\n\r\n10\u00a0km O\r\n",
         [("New York", "is"), ("10\u00a0km",)]),
    ],
    ids=["documents", "blanks"],
)  # fmt: skip
def test_words_of_sentences(path, content, words):
    path.write_bytes(content.encode())
    assert [row.words for row in conll.read_columns(path)] == words


def test_words_alone_need_no_tags_if_none_are_asked_for(path):
    path.write_text("a\nb\n\nc\n")
    rows = conll.read_columns(path, needs_tags=False)
    assert [row[:2] for row in rows] == [(("a", "b"), None), (("c",), None)]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a\n", r"train.txt, line 1: expected a word and its tag"),
        (b"a N O\nb O\n", r"line 2: expected 3 fields.*instead of 2.*'b O'"),
        (b"a O\n\xff O\n", r"line 2: expected UTF-8"),
        (b"", r"train.txt: expected sentences.*Received: none"),
    ],
)
def test_a_damaged_file_is_named_with_its_line(path, content, expected):
    path.write_bytes(content)
    with pytest.raises(errors.DataError, match=expected):
        conll.read_columns(path)


def _table(tmp_path, *rows, name="x.jsonl"):
    path = tmp_path / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_json_lines_hold_lists_or_strings(tmp_path):
    lists = {"words": ["New York", "is"], "tags": ["S", "O"]}
    path = _table(tmp_path, lists, {"words": "it is", "tags": "O O"})
    assert conll.read_table(path, "auto", "words", "tags") == [
        Sentence(("New York", "is"), ("S", "O"), f"{path}, line 1"),
        Sentence(("it", "is"), ("O", "O"), f"{path}, line 2"),
    ]


def test_what_is_predicted_may_have_empty_tags(tmp_path):
    tags = ("", None, "O O")
    path = _table(tmp_path, *({"words": "it is", "tags": t} for t in tags))
    rows = conll.read_table(path, "auto", "words", "tags", needs_tags=False)
    assert [row.tags for row in rows] == [None, None, ("O", "O")]
    with pytest.raises(errors.DataError, match=r"line 1: .*'tags' a list"):
        conll.read_table(path, "auto", "words", "tags")


def test_csv_holds_json_lists_or_strings(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('w,t\n"[""a,"", ""b""]",N V\n[ 1 ],O N O\n')
    rows = conll.read_table(path, "auto", "w", "t")
    assert [row.words for row in rows] == [("a,", "b"), ("[", "1", "]")]
    assert [row.place[-1] for row in rows] == ["2", "3"]


@pytest.mark.parametrize(
    ("words", "tags", "expected"),
    [
        (["a", "b"], ["O"], "a tag for every word.*2 words.*1 tags"),
        ([], [], "'words' a list"),
        (["a", ""], ["O", "O"], "none of them empty"),
        (["a"], [3], "'tags' a list of strings"),
        (7, "O", "'words' a list of strings.*Received: 7"),
        ('["a", "b"', "O O", "'words' a list of strings"),
    ],
)
def test_a_damaged_row_is_named_with_its_line(tmp_path, words, tags, expected):
    good = {"words": "a", "tags": "O"}
    path = _table(tmp_path, good, {"words": words, "tags": tags})
    with pytest.raises(errors.DataError, match=f"line 2: .*{expected}"):
        conll.read_table(path, "auto", "words", "tags")
