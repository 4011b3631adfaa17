"""The pieces that are an answer, narrower than the words around them.

An answer is first the pieces of all words that it touches: `(1895-1943).` for
`1895`. Of these it is the first run of pieces that equals the answer's own, if
there is one; `Japan` stays `Japanese`.
"""

from collections.abc import Sequence

import numpy as np

from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks.question_answering import pieces as pieces_lib
from electra_tf.tasks.question_answering import records
from electra_tf.tasks.task import TaskDataError
from electra_tf.text import tokenizer as tokenizer_lib


def find_spans(
    examples: Sequence[records.Example],
    documents: pieces_lib.Documents,
    document_of_example: np.ndarray,
    tokenizer: tokenizer_lib.Tokenizer,
) -> tuple[np.ndarray, np.ndarray]:
    """First and last piece of every answer in its document.

    Args:
        examples: N questions.
        documents: the distinct documents.
        document_of_example: `[N]` integer.
        tokenizer: of the answers.

    Returns:
        Two `[N]` int64 arrays; 0 for unanswerable questions. The last piece
        is before the first if the answer's words have no pieces.

    Raises:
        TaskDataError: for the first answer that is not in its document.
    """
    located = _require_words(examples)
    numbers = np.array([i for i, w in enumerate(located) if w], np.int64)
    words = np.array([w for w in located if w], np.int64).reshape(-1, 2)
    document = document_of_example[numbers]
    first, last = _pieces_of_words(words, documents, document)
    texts, text_of_answer = pieces_lib.number_distinct(
        answer.text
        for answer in (examples[number].answer for number in numbers)
        if answer
    )
    answers = pieces_lib.tokenize(texts, tokenizer)
    first, last = _narrow(
        documents.pieces.values, first, last, answers, text_of_answer
    )
    offsets = documents.pieces.splits[document]
    spans = np.zeros([2, len(examples)], np.int64)
    spans[:, numbers] = first - offsets, last - offsets
    return spans[0], spans[1]


def _pieces_of_words(
    words: np.ndarray, documents: pieces_lib.Documents, document: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """First and last pieces of words, as indices of all pieces.

    Args:
        words: `[N, 2]`, first and last word in the document.
        documents: the distinct documents.
        document: `[N]` integer, which of them.
    """
    # A first word of -1 counts from the document's end.
    num_words = documents.words.lengths[document]
    first_words = np.where(words[:, 0] < 0, num_words - 1, words[:, 0])
    begins = documents.words.splits[document]
    first = documents.first_pieces[begins + first_words]
    return first, documents.first_pieces[begins + words[:, 1] + 1] - 1


def _require_words(
    examples: Sequence[records.Example],
) -> list[tuple[int, int] | None]:
    """The words of all answers, None for unanswerable questions."""
    words = records.locate_answers(examples)
    for example, found in zip(examples, words, strict=True):
        if found is None and not example.is_impossible:
            raise TaskDataError(
                f"Question {example.id!r}: expected an answer that is in the "
                "context at the place given. Received: "
                f"{example.answer or 'none'}. Leave such questions out of "
                "training."
            )
    return words


def _narrow(
    pieces: np.ndarray,
    first: np.ndarray,
    last: np.ndarray,
    answers: rows_lib.Ragged,
    text_of_answer: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The first runs in `first` to `last` that equal the answers' pieces."""
    lengths = answers.lengths[text_of_answer]
    starts = answers.splits[text_of_answer]
    num_places = np.maximum(0, last - first + 2 - lengths)
    # No piece equals nothing.
    num_places = np.where(lengths > 0, num_places, 0)
    owners = np.repeat(np.arange(len(first)), num_places)
    places = pieces_lib.ranges(first, num_places)
    step = 0
    is_open = np.ones(len(places), bool)
    while np.any(is_open):
        # Compare the next piece of all runs that have not failed.
        is_open = lengths[owners] > step
        sources = starts[owners[is_open]] + step
        is_right = np.ones(len(places), bool)
        is_right[is_open] = (
            pieces[places[is_open] + step] == answers.values[sources]
        )
        owners, places = owners[is_right], places[is_right]
        is_open = is_open[is_right]
        step += 1
    found, where = np.unique(owners, return_index=True)
    first, last = first.copy(), last.copy()
    first[found] = places[where]
    last[found] = places[where] + lengths[found] - 1
    return first, last
