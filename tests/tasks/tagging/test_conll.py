"""Sentences of CoNLL files, as people bring them and damaged ones."""

import pytest

from electra_tf import errors
from electra_tf.tasks.tagging import conll


@pytest.fixture
def path(tmp_path):
    return tmp_path / "train.txt"


def test_words_are_first_and_tags_last_unless_columns_are_named(path):
    path.write_text("The DT  B-NP\ncat\tNN\t\tI-NP\n\n sat VBD B-VP \t\n")
    assert conll.read_columns(path) == [
        (("The", "cat"), ("B-NP", "I-NP"), f"{path}, line 1"),
        (("sat",), ("B-VP",), f"{path}, line 4"),
    ]
    row = conll.read_columns(path, word_column=1, tag_column=-3)[1]
    assert row[:2] == (("VBD",), ("sat",))


def _numbered(*rows):
    """Lines of CoNLL-U: an id, a word and its part of speech."""
    rest = "\t_" * 6
    return "".join(f"{i}\t{w}\t_\t{tag}{rest}\n" for i, w, tag in rows)


UNIVERSAL = "# sent_id = 1\n# text = vamos al mar\n" + _numbered(
    ("1", "vamos", "VERB"), ("2-3", "al", "_"), ("2", "a", "ADP"),
    ("3", "el", "DET"), ("3.1", "x", "_"), ("4", "#", "SYM"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("content", "sentences", "note"),
    [
        # A document begins, and a sentence ends, with or without blank lines.
        ("-DOCSTART- -X- O\n\n\na b O\n-DOCSTART-\nc d O", "a/O | c/O",
         "words in column 0, tags in column 2 of 3, from 0."),
        # Lines of blanks alone end sentences too; between tabs words hold them.
        ("\ufeffNew York \tB-X\r\nis\tO\r\n \t\r\n10\xa0km O\n\xa0\nb O",
         "New York/B-X is/O | 10\xa0km/O | b/O", ""),
        # A comment stands before a sentence, and has no tag. "#" is a word.
        ("# s1\na O\n# O\n\n# s2\n# O\n\n#b B-X\n",
         "a/O #/O | #/O | #b/B-X", "left out: 2 comments, as '# s1'"),
        ("# a = b\n#\tO\n\n###MEDLINE:1\n\n# s 2\nc\tB-X\n",
         "#/O | c/B-X", "left out: 3 comments, as '# a = b'"),
        ("# #\n5 CD\n\nthe DT\n# #\n", "#/# 5/CD | the/DT #/#", ""),
        ("#\tn-tv.de [2005]\n1\ta\tB-X\tO\n2\tb\tO\tI-Y\n", "a/O b/I-Y",
         "words in column 1, tags in column 3 of 4, from 0; left out: 1 c"),
        (UNIVERSAL, "vamos/VERB a/ADP el/DET #/SYM",
         "words in column 1, tags in column 3 of 10, from 0; left out: 2 "
         "comments, as '# sent_id = 1'; left out: 2 ranges or empty nodes"),
        ("## 1\t<b>\na\tB-X\n \tO\n", "a/B-X  /O", "as '## 1\\t<b>'"),
        ("Token\tNER_Tag\na\tO\nb\tO\n", "a/O b/O",
         "left out: 1 line of headings"),
    ],
)  # fmt: skip
def test_what_is_no_word_is_left_out_and_told(path, content, sentences, note):
    path.write_bytes(content.encode())
    found = conll.read_columns(path)
    pairs = (zip(row.words, row.tags, strict=True) for row in found)
    assert (
        " | ".join(" ".join(map("/".join, row)) for row in pairs) == sentences
    )
    assert note in " ".join(found.notes) and bool(note) == bool(found.notes)


@pytest.mark.parametrize("content", ["a\nb\n\nc\n", "a _\nb _\n\nc _\n"])
def test_words_alone_need_no_tags_if_none_are_asked_for(path, content):
    path.write_text(content)
    rows = conll.read_columns(path, needs_tags=False)
    assert [row[:2] for row in rows] == [(("a", "b"), None), (("c",), None)]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a\n", r"train.txt, line 1: expected a word and its tag"),
        (b"a N O\nb O\n", r"line 2: expected 3 fields.*instead of 2.*'b O'"),
        # The bad line is named, and not a good one after it.
        (b"a\nb O\nc O\n", r"line 1: expected 2 fields.*instead of 1.*'a'"),
        (b"# s 1\na O\n# s 2\nb O\n", r"line 3: .*blank line before a com"),
        (b"1 a O\n2 b O\nb c O\n", r"line 3: expected the word's number"),
        (b"a b\tB-X O\n", r"line 1: expected a word and its tag, without bl"),
        (b"a O\n\xff O\n", r"line 2: expected UTF-8"),
        (b"", r"train.txt: expected sentences.*Received: none"),
    ],
)
def test_a_damaged_file_is_named_with_its_line(path, content, expected):
    path.write_bytes(content)
    with pytest.raises(errors.DataError, match=expected):
        conll.read_columns(path)
