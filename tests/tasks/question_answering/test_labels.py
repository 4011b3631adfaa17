"""Pieces of answers within the words around them."""

import numpy as np
import pytest

from electra_tf.tasks.question_answering import contexts
from electra_tf.tasks.question_answering import labels
from electra_tf.tasks.question_answering import questions
from tests.tasks.question_answering.conftest import VOCABULARY
from tests.tasks.question_answering.conftest import example_of


def _spans(examples, tokenizer):
    """Contexts, which one each example has, and first and last pieces."""
    texts = list(dict.fromkeys(example.context for example in examples))
    found = contexts.build(tokenizer, questions.encode(texts))
    numbers = np.array([texts.index(example.context) for example in examples])
    return (
        found,
        numbers,
        labels.find_spans(examples, found, numbers, tokenizer),
    )


def _find(examples, tokenizer):
    found, numbers, spans = _spans(examples, tokenizer)
    pieces = found.ids.to_list()
    return [
        (
            int(start),
            " ".join(
                VOCABULARY.tokens[piece]
                for piece in pieces[number][start : end + 1]
            ),
        )
        for (start, end), number in zip(spans, numbers, strict=True)
    ]


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
    ],
)
def test_an_answer_is_the_first_run_that_equals_it(
    tokenizer, context, answer, expected
):
    assert _find([example_of(answer, context)], tokenizer) == [expected]


def test_many_answers_at_once_are_those_of_each_alone(tokenizer):
    examples = [
        example_of("1895", "(1895-18) cat"),
        example_of(None, "the mat"),
        example_of("mats", "the mats. mats"),
        example_of("mats", "the mats. mats", start=10),
        example_of("japan", "old japanese"),
    ]
    together = _find(examples, tokenizer)
    alone = [_find([example], tokenizer)[0] for example in examples]
    assert together == alone
    assert together[2][0] != together[3][0]


def test_a_word_without_pieces_ends_before_it_begins(tokenizer):
    example = example_of("\u200b", "the \u200b cat")
    _, _, spans = _spans([example], tokenizer)
    assert spans.tolist() == [[1, 0]]


def test_an_answer_in_front_of_the_only_word_is_that_word(tokenizer):
    examples = [example_of("mat", "mat"), example_of("ca", " cats", start=0)]
    assert _find(examples, tokenizer)[1] == (0, "cat ##s")
