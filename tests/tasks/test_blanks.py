"""Words between blanks, and where they stand."""

import pytest
import tensorflow as tf

from electra_tf.tasks import blanks


def _split(texts, parted_at=blanks.QUESTION_BLANKS):
    data = [t if isinstance(t, bytes) else t.encode() for t in texts]
    found = blanks.split(tf.constant(data, tf.string), parted_at)
    return [part.to_list() for part in found]


def test_words_of_contexts_end_at_five_blanks_and_no_others():
    text = " a\tb\r\nc\u202fd\u00a0e  \u2028f"
    words, starts, ends = _split([text, "b"])
    expected = ["a", "b", "c", "d\u00a0e", "\u2028f"]
    assert words == [[word.encode() for word in expected], [b"b"]]
    assert (starts[1], ends[1]) == ([0], [1])
    for word, start, end in zip(words[0], starts[0], ends[0], strict=True):
        assert text.encode()[start:end] == word


@pytest.mark.parametrize("text", ["", " ", "\n\t "])
def test_blanks_alone_are_no_words(text):
    assert _split([text, "a", text])[0] == [[], [b"a"], []]
    assert _split([]) == [[], [], []]


def test_all_blanks_are_those_of_python():
    characters = [chr(code) for code in range(1, 0x3100)]
    text = "x".join(characters)
    words, _, _ = _split([text], blanks.ALL_BLANKS)
    assert [word.decode() for word in words[0]] == text.split()


def test_bytes_that_are_no_text_stay_in_their_word():
    data = b"the \xffcat\xc3 sat \xe6\x9d\xe2\x80"
    words, starts, _ = _split([data], blanks.ALL_BLANKS)
    assert words == [[b"the", b"\xffcat\xc3", b"sat", b"\xe6\x9d\xe2\x80"]]
    assert starts == [[0, 4, 10, 14]]
