"""Contexts as words between blanks, and as pieces."""

import numpy as np

from electra_tf.tasks.question_answering import contexts
from electra_tf.tasks.question_answering import questions
from tests.tasks.question_answering.conftest import CONTEXT
from tests.tasks.question_answering.conftest import VOCABULARY

CONTEXTS = (CONTEXT, "", "mats", "\u200b  cats\u200b (18)", "a\ud800b mat")


def test_pieces_are_those_of_the_whole_text(tokenizer):
    data = questions.encode(CONTEXTS)
    found = contexts.build(tokenizer, data)
    assert found.ids.to_list() == tokenizer.tokenize(data).to_list()


def test_every_piece_knows_its_word(tokenizer):
    found = contexts.build(tokenizer, questions.encode(CONTEXTS))
    distinct = found.distinct.numpy()
    assert len(set(distinct)) == len(distinct)
    words = [
        distinct[number].decode(errors="replace") for number in found.index
    ]
    assert len(words) == found.pieces.nrows()
    for word, pieces in zip(words, found.pieces.to_list(), strict=True):
        for piece in pieces:
            token = VOCABULARY.tokens[piece].removeprefix("##")
            assert token in word.lower() or token == "[UNK]"


def test_words_without_pieces_point_at_the_next_word(tokenizer):
    texts = questions.encode(["cat \u200b mat", "the"])
    found = contexts.build(tokenizer, texts)
    np.testing.assert_array_equal(found.pieces.row_splits, [0, 1, 1, 2, 3])
    np.testing.assert_array_equal(found.ids.row_splits, [0, 2, 3])
