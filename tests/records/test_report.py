"""The report of a built dataset: its numbers, and when it advises what."""

import pytest

from electra_tf.records.manifest import Index
from tests.records.conftest import build


def report(settings, tmp_path, text, **changes):
    (tmp_path / "text.txt").write_text(text)
    changes = {"num_out_files": 1, "validation_fraction": 0.0} | changes
    corpus = (str(tmp_path / "text.txt"),)
    return list(Index.load(build(settings, corpus=corpus, **changes)).report)


def test_numbers_by_hand(settings, tmp_path):
    # Two documents of 5 and 6 tokens: 3 and 4 words, [UNK] for the digits.
    lines = report(settings, tmp_path, "a bb cc\n\na b 12 ddd")
    first, second = "  [CLS] a bb cc [SEP]", "  [CLS] a b [UNK] ddd [SEP]"
    assert lines[:-1] == [
        # 5 + 2 and 6 + 2 of 64 places.
        "train: 2 documents, 2 rows of 32 tokens, 23% full, in 1 shards",
        "1.57 tokens per word, 9.09% unknown, 0% of the text cut off. Some "
        "rows:",
        *(first, second, second),
        "To change: The rows are 23% full, as a document has 6 tokens on "
        "average. Where documents go on after a blank line (JSON object, row "
        "of a table), make each file one: --noblanks_separate_docs. If they "
        "are as short as that, --packed puts several into a row. Or take "
        "--max_seq_length=16.",
    ]
    assert lines[-1].startswith("To change: The vocabulary does not fit the t")


@pytest.mark.parametrize(
    ("text", "changes", "advice"),
    [
        ("a b c d e f g h\n" * 90, {}, []),
        ("aaa " * 8 + "\n" + "aaa bbb ccc\n" * 90, {}, ["vocabulary"]),
        ("a b c d e f g h\n" * 90 + "\n12", {"max_seq_length": 64}, []),
        ("a " * 60 + "\n" + "b " * 60, {}, ["keep_overflow"]),
        ("a " * 60 + "\n" + "b " * 60, {"keep_overflow": True}, []),
        ("a b c\n\n" * 9, {"packed": True}, []),
    ],
)
def test_advice_is_given_where_it_is_needed(
    settings, tmp_path, text, changes, advice
):
    lines = report(settings, tmp_path, text, **changes)
    found = [line for line in lines if line.startswith("To change: ")]
    assert len(found) == len(advice)
    for line, word in zip(found, advice, strict=True):
        assert word in line
