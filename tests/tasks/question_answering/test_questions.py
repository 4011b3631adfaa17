"""Contexts as pieces, and the answers to learn."""

import pytest

from electra_tf.tasks.question_answering import questions
from tests.tasks.conftest import VOCABULARY
from tests.tasks.question_answering.conftest import example_of

LONG = "the cat sat on the mat . " * 9


def _build(examples, tokenizer, length=16):
    settings = questions.Settings(max_query_length=4, doc_stride=5)
    return questions.build_rows(examples, tokenizer, length, settings, False)


def test_no_room_for_a_document_is_an_error_with_the_question(tokenizer):
    example = example_of("cat", LONG, question="who who who who", name="q9")
    with pytest.raises(ValueError, match="'q9', which takes 7 tokens"):
        _build([example], tokenizer, length=7)
    assert _build([example], tokenizer, length=8).num_rows > 50


def _find(example, tokenizer):
    """The first piece of an answer, and all of them as text."""
    (chunk,) = _build([example], tokenizer).details
    found = questions.find_answer_pieces(chunk)
    ((start, end),) = found.tolist()
    pieces = chunk.contexts.ids.to_list()[0][start : end + 1]
    text = " ".join(VOCABULARY.tokens[piece] for piece in pieces)
    return start, text


@pytest.mark.parametrize(
    ("context", "answer", "expected"),
    [
        ("the old cat", "old", (1, "old")),
        # Narrower than its word, where pieces allow it.
        ("(1895-18) cat", "1895", (1, "18 ##95")),
        ("the japanese cat", "japan", (1, "japan")),
        ("the cats", "at", (1, "cat ##s")),
        # The first of several, if the words hold several.
        ("18-18-18", "18", (0, "18")),
        ("the 18-1895", "1895", (3, "18 ##95")),
        # Over several words, up to the last one of the document.
        ("on the mats.", "the mats.", (1, "the mat ##s .")),
        # What has no pieces of its own is all of its words.
        ("the \u200bold\u200b cat", "\u200b", (1, "old")),
        # A word without pieces ends before it begins.
        ("the \u200b cat", "\u200b", (1, "")),
    ],
)
def test_an_answer_is_the_first_run_that_equals_it(
    tokenizer, context, answer, expected
):
    assert _find(example_of(answer, context), tokenizer) == expected
