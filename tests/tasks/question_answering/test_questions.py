"""Contexts as pieces, their windows as rows, and the answers to learn."""

import pytest

from electra_tf.tasks.question_answering import questions
from tests.tasks.conftest import VOCABULARY
from tests.tasks.question_answering.conftest import example_of

LONG = "the cat sat on the mat . " * 9


def _ids(text):
    return [VOCABULARY.id_of(token) for token in text.split()]


def _build(examples, tokenizer, length=16, query=4, stride=5, training=False):
    settings = questions.Settings(max_query_length=query, doc_stride=stride)
    return questions.build_rows(examples, tokenizer, length, settings, training)


@pytest.mark.parametrize("occurrence", [1, 5])
def test_an_answer_is_learned_in_every_window_that_has_all_of_it(
    tokenizer, occurrence
):
    text = "sat on the"
    start = LONG.index(text, 25 * occurrence)
    example = example_of(text, LONG, start)
    rows = _build([example], tokenizer, training=True)
    windows = _build([example], tokenizer).details[0].rows.windows
    first = len(LONG[:start].split())
    num_inside = 0
    for row in range(rows.num_rows):
        begin = int(windows.starts[row])
        end = begin + int(windows.lengths[row])
        position = rows.columns["start_position"][row]
        if begin <= first and first + 3 <= end:
            num_inside += 1
            last = rows.columns["end_position"][row]
            found = rows.ids[row][position : last + 1]
            assert found.tolist() == _ids(text)
            assert position == first - begin + rows.segment_starts[row]
        else:
            assert position == rows.columns["end_position"][row] == 0
    assert 0 < num_inside < rows.num_rows
    assert not rows.columns["is_impossible"].any()


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
