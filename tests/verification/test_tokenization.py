"""Token ids of a reference file, on a folder made here."""

import json

import pytest

from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.verification import reference
from electra_tf.verification import tokenization

# 5 a, 6 ##b, 7 A, 8 a with accent.
TOKENS = ("a", "##b", "A", "\u00e1")
LINES = [
    {
        "text": "ab A \u00c1",
        "ids_lower": [5, 6, 5, 5],
        "ids_lower_keep_accents": [5, 6, 5, 8],
        "ids_cased": [5, 6, 7, 1],
    },
    # A line separator for `splitlines`, but not for the file.
    {"text": "a\u2028a", "ids_lower": [5, 5], "ids_lower_keep_accents": [5, 5],
     "ids_cased": [5, 5]},
]  # fmt: skip


@pytest.fixture
def path(tmp_path):
    tokens = (*vocabulary_lib.SPECIAL_TOKENS, *TOKENS)
    (tmp_path / "vocab.txt").write_text("\n".join(tokens) + "\n", "utf-8")
    path = tmp_path / "lines.jsonl"
    _write(path, LINES)
    return path


def _write(path, lines):
    text = "".join(
        json.dumps(line, ensure_ascii=False) + "\n" for line in lines
    )
    path.write_text(text, "utf-8")


@pytest.mark.parametrize("mode", tokenization.MODES)
def test_right_ids_pass_in_every_mode(path, mode):
    result = tokenization.check_tokenization(path, mode)
    assert result.passed
    assert result.num_cases == 2


def test_a_wrong_id_is_a_miss_that_names_its_line(path):
    wrong = {**LINES[1], "ids_cased": [5, 6]}
    _write(path, [LINES[0], wrong])
    result = tokenization.check_tokenization(path, "ids_cased")
    assert not result.passed
    assert result.largest_error == 1
    assert "line 2" in result.case


def test_a_damaged_line_is_named(path):
    with open(path, "a") as file:
        file.write('{"text": \n')
    with pytest.raises(reference.ReferenceFileError, match="line 3"):
        tokenization.read_lines(path)
