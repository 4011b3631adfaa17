"""Questions with the parts of their contexts that fit beside them, as rows.

    [CLS] question [SEP] part of the context [SEP]

A context that is too long is read through several windows (`windows`); every
window is a row. In training a window without the whole answer has [CLS] for
its answer (`labels`); in prediction an answer counts only in the window in
which its first piece has most context.
"""

from collections.abc import Iterator
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks import windows as windows_lib
from electra_tf.tasks.question_answering import contexts as contexts_lib
from electra_tf.tasks.question_answering import labels
from electra_tf.tasks.question_answering import records
from electra_tf.text import tokenizer as tokenizer_lib
from electra_tf.text import vocabulary as vocabulary_lib

NUM_SPECIAL = 3
"""[CLS] and two [SEP]."""

# Questions that are made into rows at once: bounds the memory of the rest.
_CHUNK = 4_096


class QuestionRows(NamedTuple):
    """R rows of N questions.

    Attributes:
        ids: `[R, (tokens)]` int32.
        shifts: `[R]` int64, tokens before the context's first; segment 1
            begins with it.
        windows: which part of its question's context each row has.
    """

    ids: tf.RaggedTensor
    shifts: tf.Tensor
    windows: windows_lib.Windows


class Chunk(NamedTuple):
    """Some questions of a split, and what their answers are read off.

    Attributes:
        examples: the questions.
        contexts: their distinct contexts.
        context_of_example: `[N]` int64.
        rows: of these questions.
        vocabulary: of the pieces.
    """

    examples: Sequence[records.Example]
    contexts: contexts_lib.Contexts
    context_of_example: np.ndarray
    rows: QuestionRows
    vocabulary: vocabulary_lib.Vocabulary


def lay_out(
    vocabulary: vocabulary_lib.Vocabulary,
    questions: tf.RaggedTensor,
    contexts: tf.RaggedTensor,
    context_of_question: tf.Tensor,
    max_length: int,
    max_query_length: int,
    doc_stride: int,
    least: int = 1,
) -> QuestionRows:
    """Lays out the rows of questions.

    Args:
        vocabulary: gives the special tokens.
        questions: `[N, (pieces)]` int32.
        contexts: `[C, (pieces)]` int32.
        context_of_question: `[N]` int64.
        max_length: most tokens of a row.
        max_query_length: most pieces of a question; the rest is cut off. Fewer
            than `max_length - NUM_SPECIAL`.
        doc_stride: pieces from one window to the next, or a window's length if
            that is less.
        least: rows of a question whose context has no pieces, 0 or 1.
    """
    kept = tf.minimum(questions.row_lengths(), max_query_length)
    rooms = max_length - NUM_SPECIAL - kept
    windows = windows_lib.split(
        tf.gather(contexts.row_lengths(), context_of_question),
        rooms,
        tf.minimum(rooms, doc_stride),
        least,
    )
    kept = tf.gather(kept, windows.texts)
    owners = tf.gather(context_of_question, windows.texts)
    ones = tf.ones_like(kept)
    ids = rows_lib.join(
        [
            rows_lib.token(vocabulary.cls_id, ones),
            rows_lib.Part(
                questions.values,
                tf.gather(questions.row_starts(), windows.texts),
                kept,
            ),
            rows_lib.token(vocabulary.sep_id, ones),
            rows_lib.Part(
                contexts.values,
                tf.gather(contexts.row_starts(), owners) + windows.starts,
                windows.lengths,
            ),
            rows_lib.token(vocabulary.sep_id, ones),
        ]
    )
    return QuestionRows(ids, kept + 2, windows)


def build_rows(
    examples: Sequence[records.Example],
    tokenizer: tokenizer_lib.Tokenizer,
    max_seq_length: int,
    max_query_length: int,
    doc_stride: int,
    is_training: bool,
) -> rows_lib.Rows:
    """Makes the rows of a whole split.

    Args:
        examples: questions; to learn from, with answers.
        tokenizer: holds the vocabulary.
        max_seq_length: most tokens of a row.
        max_query_length: most pieces of a question; more are cut off.
        doc_stride: pieces from one window to the next, or a window's length if
            that is less.
        is_training: whether `labels.COLUMNS` tell the answers, and no answers
            will be read; otherwise they are zeros.

    Returns:
        Rows; unless to be learned from, with `Chunk`s as details.

    Raises:
        ValueError: if a question leaves no room for its context.
        DataError: in training, if an answer is not in its context.
    """
    chunks = []
    owners, starts = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
    columns = {name: [np.zeros(0, np.int32)] for name in labels.COLUMNS}
    lengths = max_seq_length, max_query_length, doc_stride
    for begin, part in split_chunks(examples):
        chunk = _build_chunk(part, tokenizer, *lengths)
        chunks.append(chunk)
        windows = chunk.rows.windows
        owners.append(begin + windows.texts.numpy().astype(np.int32))
        starts.append(chunk.rows.shifts.numpy().astype(np.int32))
        found = labels.find(
            part if is_training else [],
            chunk.contexts,
            chunk.context_of_example,
            windows,
            chunk.rows.shifts.numpy(),
            tokenizer,
        )
        for name, column in found.items():
            columns[name].append(column)
    return rows_lib.Rows(
        ids=rows_lib.Ragged.join([chunk.rows.ids for chunk in chunks]),
        segment_starts=np.concatenate(starts),
        examples=np.concatenate(owners),
        columns={name: np.concatenate(c) for name, c in columns.items()},
        details=None if is_training else chunks,
    )


def split_chunks(
    examples: Sequence[records.Example],
) -> Iterator[tuple[int, Sequence[records.Example]]]:
    """Some questions after the other, with the number of their first."""
    for begin in range(0, len(examples), _CHUNK):
        yield begin, examples[begin : begin + _CHUNK]


def _build_chunk(
    examples: Sequence[records.Example],
    tokenizer: tokenizer_lib.Tokenizer,
    max_seq_length: int,
    max_query_length: int,
    doc_stride: int,
) -> Chunk:
    questions = tokenizer.tokenize(encode([e.question for e in examples]))
    _require_room(examples, questions, max_seq_length, max_query_length)
    numbers: dict[str, int] = {}
    context_of_example = np.array(
        [numbers.setdefault(e.context, len(numbers)) for e in examples]
    )
    contexts = contexts_lib.build(tokenizer, encode(list(numbers)))
    rows = lay_out(
        tokenizer.vocabulary,
        questions,
        contexts.ids,
        tf.constant(context_of_example),
        max_seq_length,
        max_query_length,
        doc_stride,
        least=0,
    )
    return Chunk(
        examples, contexts, context_of_example, rows, tokenizer.vocabulary
    )


def encode(texts: Sequence[str]) -> tf.Tensor:
    """Texts as bytes: TensorFlow takes no lone surrogates, as JSON has."""
    data = [text.encode(errors="surrogatepass") for text in texts]
    return tf.constant(data, tf.string)


def _require_room(
    examples: Sequence[records.Example],
    questions: tf.RaggedTensor,
    max_seq_length: int,
    max_query_length: int,
) -> None:
    counts = questions.row_lengths().numpy()
    taken = NUM_SPECIAL + np.minimum(counts, max_query_length)
    worst = int(np.argmax(taken))
    if taken[worst] >= max_seq_length:
        raise ValueError(
            f"`max_seq_length` must leave room for a document beside question "
            f"{examples[worst].id!r}, which takes {taken[worst]} tokens with "
            f"[CLS] and [SEP]. Received: {max_seq_length}. Raise it, or lower "
            "`qa.max_query_length`."
        )
