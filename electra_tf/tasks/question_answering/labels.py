"""Which pieces of a context are the answer to learn.

An answer is first the pieces of all words that it touches: `(1895-1943).` for
`1895`. Of these it is the first run of pieces that equals the answer's own, if
there is one; `Japan` stays `Japanese`.
"""

import bisect
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from electra_tf import errors
from electra_tf.tasks import windows as windows_lib
from electra_tf.tasks.question_answering import contexts as contexts_lib
from electra_tf.tasks.question_answering import records
from electra_tf.text import tokenizer as tokenizer_lib

COLUMNS = ("start_position", "end_position", "is_impossible")
"""Of the rows, as the head reads them."""


def find(
    examples: Sequence[records.Example],
    contexts: contexts_lib.Contexts,
    context_of_example: np.ndarray,
    windows: windows_lib.Windows,
    shifts: np.ndarray,
    tokenizer: tokenizer_lib.Tokenizer,
) -> dict[str, np.ndarray]:
    """Positions of the answers in R rows; 0, [CLS], where there is none.

    Args:
        examples: N questions; empty for rows that nothing is learned from.
        contexts: their distinct contexts.
        context_of_example: `[N]` integer.
        windows: of the rows.
        shifts: `[R]` integer, tokens before the context's first.
        tokenizer: of the answers.

    Returns:
        `COLUMNS`, `[R]` int32.

    Raises:
        DataError: for the first answer that is not in its context.
    """
    questions = windows.texts.numpy()
    if not examples:
        return {name: np.zeros(len(questions), np.int32) for name in COLUMNS}
    spans = find_spans(examples, contexts, context_of_example, tokenizer)
    is_impossible = np.array([e.is_impossible for e in examples])[questions]
    starts = windows.starts.numpy()
    first, last = spans[questions].T
    is_inside = (
        ~is_impossible
        & (first >= starts)
        & (last < starts + windows.lengths.numpy())
    )
    columns = (
        np.where(is_inside, first + shifts - starts, 0),
        np.where(is_inside, last + shifts - starts, 0),
        # Also where another window has the answer.
        is_impossible,
    )
    return {
        name: column.astype(np.int32)
        for name, column in zip(COLUMNS, columns, strict=True)
    }


def find_spans(
    examples: Sequence[records.Example],
    contexts: contexts_lib.Contexts,
    context_of_example: np.ndarray,
    tokenizer: tokenizer_lib.Tokenizer,
) -> np.ndarray:
    """First and last piece of every answer in its context, `[N, 2]` int64.

    0 for unanswerable questions. The last piece is before the first if the
    answer's words have no pieces. Arguments and errors as for `find`.
    """
    answers = [e.answer.text if e.answer else "" for e in examples]
    data = [text.encode(errors="surrogatepass") for text in answers]
    wanted = tokenizer.tokenize(tf.constant(data, tf.string)).to_list()
    # Lists: single numbers of arrays are slow.
    word_starts = contexts.starts.values.numpy().tolist()
    word_splits = contexts.starts.row_splits.numpy().tolist()
    first_pieces = contexts.pieces.row_splits.numpy().tolist()
    pieces = contexts.pieces.values.numpy().tolist()
    spans = np.zeros([len(examples), 2], np.int64)
    for number, example in enumerate(examples):
        if example.is_impossible:
            continue
        context = context_of_example[number]
        words = word_splits[context], word_splits[context + 1]
        first, last = (
            first_pieces[bisect.bisect_left(word_starts, byte, *words)]
            for byte in _locate(example)
        )
        run = _find_run(pieces[first:last], wanted[number])
        if run is not None:
            first += run
            last = first + len(wanted[number])
        begin = first_pieces[words[0]]
        spans[number] = first - begin, last - 1 - begin
    return spans


def _locate(example: records.Example) -> tuple[int, int]:
    """The bytes of the context from which on its answer's words stand."""
    place = records.find_answer(example)
    if place is None:
        raise errors.DataError(
            f"Question {example.id!r}: expected an answer that is in the "
            "context at the place given. Received: "
            f"{example.answer or 'none'}. Leave such questions out of "
            "training."
        )
    if example.context.isascii():
        return place
    begin, end = (
        len(example.context[:character].encode(errors="surrogatepass"))
        for character in place
    )
    return begin, end


def _find_run(pieces: list[int], wanted: list[int]) -> int | None:
    """Where in some pieces others stand first; None if they do not."""
    count = len(wanted)
    for place in range(len(pieces) - count + 1 if count else 0):
        if pieces[place : place + count] == wanted:
            return place
    return None
