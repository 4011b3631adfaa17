"""Pieces of all documents at once."""

import numpy as np

from electra_tf.tasks.question_answering import pieces
from tests.tasks.question_answering.conftest import CONTEXT
from tests.tasks.question_answering.conftest import VOCABULARY

CONTEXTS = (CONTEXT, "", "mats", "\u200b  cats\u200b (18)")


def test_pieces_are_those_of_the_whole_text(tokenizer):
    documents = pieces.build_documents(CONTEXTS, tokenizer)
    whole = tokenizer.tokenize(list(CONTEXTS)).to_list()
    assert [documents.pieces[d].tolist() for d in range(4)] == whole
    assert documents.num_pieces.tolist() == [len(ids) for ids in whole]


def test_every_piece_knows_its_word(tokenizer):
    documents = pieces.build_documents(CONTEXTS, tokenizer)
    for number, context in enumerate(CONTEXTS):
        words = [documents.distinct_words[w] for w in documents.words[number]]
        starts = documents.word_starts[number]
        for word, start in zip(words, starts, strict=True):
            assert context[start:].startswith(word)
        for piece, word in zip(
            documents.pieces[number],
            documents.word_of_piece[number],
            strict=True,
        ):
            token = VOCABULARY.tokens[piece].removeprefix("##")
            assert token in words[word].lower() or token == "[UNK]"
    assert len(set(documents.distinct_words)) == len(documents.distinct_words)


def test_words_without_pieces_point_at_the_next_word(tokenizer):
    documents = pieces.build_documents(["cat \u200b mat", "the"], tokenizer)
    assert documents.first_pieces.tolist() == [0, 1, 1, 2, 3]
    assert documents.word_of_piece.values.tolist() == [0, 2, 0]


def test_texts_are_tokenised_in_chunks_as_at_once(tokenizer, monkeypatch):
    texts = ["cat", "", "the mats", "sat \ud800 on"] * 3
    at_once = pieces.tokenize(texts, tokenizer)
    monkeypatch.setattr(pieces, "_CHUNK", 5)
    in_chunks = pieces.tokenize(texts, tokenizer)
    assert at_once.values.tolist() == in_chunks.values.tolist()
    assert at_once.splits.tolist() == in_chunks.splits.tolist()
    assert len(pieces.tokenize([], tokenizer)) == 0


def test_distinct_texts_are_numbered_in_their_order():
    distinct, numbers = pieces.number_distinct(["b", "a", "b"])
    assert distinct == ["b", "a"]
    assert numbers.tolist() == [0, 1, 0]


def test_ranges_follow_each_other():
    starts, counts = np.array([5, 9, 0]), np.array([2, 0, 3])
    assert pieces.ranges(starts, counts).tolist() == [5, 6, 0, 1, 2]
    assert pieces.ranges(starts[:0], counts[:0]).tolist() == []
