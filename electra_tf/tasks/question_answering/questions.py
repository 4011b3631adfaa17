"""Builds rows of questions and windows of their contexts.

A row is `[CLS] question [SEP] window of the context [SEP]`; a long context has
several windows (the original's `finetune/qa/qa_tasks.py`). In training the
answer of a window that does not hold the whole answer is [CLS].
"""

import bisect
import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.config import finetuning as finetuning_config
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks.question_answering import records
from electra_tf.text import tokenizer as tokenizer_lib
from electra_tf.text import vocabulary as vocabulary_lib

Settings = finetuning_config.QuestionAnsweringConfig
NUM_SPECIAL = 3
"""[CLS] and two [SEP]."""

COLUMNS = ("start_position", "end_position", "is_impossible")
"""Columns of the rows that the head reads."""

_CHUNK = 4_096  # questions tokenized at once; limits memory


class Contexts(NamedTuple):
    """C contexts with W words, of which D are distinct."""

    distinct: tf.Tensor  # `[D]` string, the distinct words
    index: tf.Tensor  # `[W]` int64, index of each word in `distinct`
    starts: tf.RaggedTensor  # `[C, (words)]` int64, first byte of each word
    pieces: tf.RaggedTensor  # `[W, (pieces)]` int32, ids of the pieces

    @property
    def ids(self) -> tf.RaggedTensor:
        """The pieces of the contexts, `[C, (pieces)]` int32."""
        return tf.RaggedTensor.from_row_splits(
            self.pieces.values,
            tf.gather(self.pieces.row_splits, self.starts.row_splits),
            validate=False,
        )


class QuestionRows(NamedTuple):
    """R rows of N questions."""

    ids: tf.RaggedTensor  # `[R, (tokens)]` int32
    shifts: tf.Tensor  # `[R]` int64, number of tokens before the context
    windows: rows_lib.Windows  # of the contexts


class Chunk(NamedTuple):
    """Some questions of a split, with the data to decode their answers."""

    examples: Sequence[records.Example]  # the questions
    texts: Sequence[str]  # the distinct contexts
    contexts: Contexts  # the pieces of `texts`
    context_of_example: list[int]  # index in `texts` for each example
    rows: QuestionRows
    tokenizer: tokenizer_lib.Tokenizer


def build_contexts(
    tokenizer: tokenizer_lib.Tokenizer, contexts: tf.Tensor
) -> Contexts:
    """Splits contexts, `[C]` string in UTF-8, into words and pieces.

    Contexts repeat their words, so each distinct word is tokenized once.
    """
    # Operations on strings have no GPU kernels.
    with tf.device("/CPU:0"):
        words = rows_lib.split_words(contexts, rows_lib.QUESTION_BLANKS)
        distinct, index = tf.unique(words.words.values, tf.int64)
        pieces = tf.gather(tokenizer.tokenize(distinct), index)
        return Contexts(distinct, index, words.starts, pieces)


def lay_out(
    vocabulary: vocabulary_lib.Vocabulary,
    questions: tf.RaggedTensor,
    contexts: tf.RaggedTensor,
    context_of_question: tf.Tensor,
    max_length: int,
    settings: Settings,
    least: int = 1,
) -> QuestionRows:
    """Builds rows of at most `max_length` tokens.

    `questions` are `[N, (pieces)]`, `contexts` `[C, (pieces)]`, and question i
    asks about context `context_of_question[i]`. A question is cut after
    `max_query_length` pieces. A context without pieces has `least` rows, 0 or
    1.
    """
    kept = tf.minimum(questions.row_lengths(), settings.max_query_length)
    rooms = max_length - NUM_SPECIAL - kept
    windows = rows_lib.split_windows(
        tf.gather(contexts.row_lengths(), context_of_question),
        rooms,
        tf.minimum(rooms, settings.doc_stride),
        least,
    )
    kept = tf.gather(kept, windows.texts)
    owners = tf.gather(context_of_question, windows.texts)
    ones = tf.ones_like(kept)
    begins = tf.gather(questions.row_starts(), windows.texts)
    starts = tf.gather(contexts.row_starts(), owners) + windows.starts
    end = rows_lib.token(vocabulary.sep_id, ones)
    ids = rows_lib.join(
        [
            rows_lib.token(vocabulary.cls_id, ones),
            rows_lib.Part(questions.values, begins, kept),
            end,
            rows_lib.Part(contexts.values, starts, windows.lengths),
            end,
        ]
    )
    return QuestionRows(ids, kept + 2, windows)


def build_rows(
    examples: Sequence[records.Example],
    tokenizer: tokenizer_lib.Tokenizer,
    max_seq_length: int,
    settings: Settings,
    is_training: bool,
) -> rows_lib.EncodedRows:
    """Builds the rows of a whole split by `lay_out`.

    In training `COLUMNS` hold the answers. For prediction they are zeros, and
    `details` are the `Chunk`s that `answers.decode` reads.
    """
    chunks = []
    owners, starts = [np.zeros(0)], [np.zeros(0)]
    columns = [np.zeros((len(COLUMNS), 0))]
    for begin in range(0, len(examples), _CHUNK):
        part = examples[begin : begin + _CHUNK]
        asked = tokenizer.tokenize(rows_lib.encode([e.question for e in part]))
        counts = np.minimum(asked.row_lengths(), settings.max_query_length)
        _require_room(part, NUM_SPECIAL + counts, max_seq_length)
        numbers: dict[str, int] = {}
        owner = [numbers.setdefault(e.context, len(numbers)) for e in part]
        texts = list(numbers)
        contexts = build_contexts(tokenizer, rows_lib.encode(texts))
        pieces = asked, contexts.ids, tf.constant(owner, tf.int64)
        rows = lay_out(
            tokenizer.vocabulary, *pieces, max_seq_length, settings, least=0
        )
        chunk = Chunk(part, texts, contexts, owner, rows, tokenizer)
        chunks.append(chunk)
        owners.append(begin + rows.windows.texts.numpy())
        starts.append(rows.shifts.numpy())
        columns.append(np.zeros((len(COLUMNS), len(starts[-1]))))
        if is_training:
            columns[-1] = _label_windows(chunk)
    table = np.concatenate(columns, axis=1).astype(np.int32)
    return rows_lib.EncodedRows(
        ids=rows_lib.Ragged.join([chunk.rows.ids for chunk in chunks]),
        segment_starts=np.concatenate(starts).astype(np.int32),
        examples=np.concatenate(owners).astype(np.int32),
        columns=dict(zip(COLUMNS, table, strict=True)),
        details=None if is_training else chunks,
    )


def _require_room(
    examples: Sequence[records.Example], taken: np.ndarray, max_seq_length: int
) -> None:
    worst = int(np.argmax(taken))
    if taken[worst] >= max_seq_length:
        raise ValueError(
            f"`max_seq_length` must leave room for a document beside question "
            f"{examples[worst].id!r}, which takes {taken[worst]} tokens with "
            f"[CLS] and [SEP]. Received: {max_seq_length}. Raise it, or lower "
            "`qa.max_query_length`."
        )


def _label_windows(chunk: Chunk) -> np.ndarray:
    """Returns `COLUMNS` of R rows, `[3, R]`; the position of no answer is 0."""
    windows = chunk.rows.windows
    questions, starts = windows.texts.numpy(), windows.starts.numpy()
    ends, shifts = starts + windows.lengths.numpy(), chunk.rows.shifts.numpy()
    first, last = find_answer_pieces(chunk)[questions].T
    # Not set for a window whose answer is in another window.
    is_impossible = np.array([e.is_impossible for e in chunk.examples])
    is_impossible = is_impossible[questions]
    is_inside = ~is_impossible & (first >= starts) & (last < ends)
    begin, end = (
        np.where(is_inside, piece + shifts - starts, 0)
        for piece in (first, last)
    )
    return np.stack([begin, end, is_impossible])


def find_answer_pieces(chunk: Chunk) -> np.ndarray:
    """Finds the first and last piece of every answer in its context.

    If `Answer.end` is known, the answer is all pieces of its characters.
    Otherwise the original's rule applies: the answer is all pieces of the words
    that it overlaps (`(1895-1943).` for `1895`); if these pieces contain the
    pieces of the answer, it is their first occurrence. So `Japan` may become
    `Japanese`.

    Returns `[N, 2]` int64, 0 for unanswerable questions. If an answer has no
    pieces, its last piece is before its first.
    """
    contexts = chunk.contexts
    answers = [e.answer or records.Answer("", 0) for e in chunk.examples]
    owners = chunk.context_of_example
    texts = rows_lib.encode([answer.text for answer in answers])
    pieces_of_answers = chunk.tokenizer.tokenize(texts).to_list()
    locate = functools.cache(functools.partial(locate_pieces, chunk))
    # Indexing lists is faster than indexing arrays.
    word_starts = contexts.starts.values.numpy().tolist()
    word_splits = contexts.starts.row_splits.numpy().tolist()
    first_pieces = contexts.pieces.row_splits.numpy().tolist()
    pieces = contexts.pieces.values.numpy().tolist()
    answer_pieces = np.zeros([len(answers), 2], np.int64)
    for number, example in enumerate(chunk.examples):
        if example.is_impossible:
            continue
        owner, answer_bytes = owners[number], _locate(example)
        if answers[number].end is not None:
            starts, ends = locate(owner)
            answer_pieces[number] = (
                np.searchsorted(ends, answer_bytes[0], "right"),
                np.searchsorted(starts, answer_bytes[1], "left") - 1,
            )
            continue
        words = word_splits[owner], word_splits[owner + 1]
        first, last = (
            first_pieces[bisect.bisect_left(word_starts, byte, *words)]
            for byte in answer_bytes
        )
        count = len(pieces_of_answers[number])
        for begin in range(first, last - count + 1 if count else first):
            if pieces[begin : begin + count] == pieces_of_answers[number]:
                first, last = begin, begin + count
                break
        begin = first_pieces[words[0]]
        answer_pieces[number] = first - begin, last - 1 - begin
    return answer_pieces


def _locate(example: records.Example) -> list[int]:
    """Returns first byte and end of an answer, or of the words around it."""
    answer, context = example.answer, example.context
    place = records.find_answer(example)
    if answer and answer.end is not None:
        place = answer.start, answer.end
    if place is None:  # see `records.keep_answered`
        raise ValueError(f"The answer of {example.id!r} is not in its context.")
    return [len(context[:n].encode(errors="surrogatepass")) for n in place]


def locate_pieces(chunk: Chunk, number: int) -> list[np.ndarray]:
    """Returns the first bytes and the ends of a context's pieces, int32."""
    texts = rows_lib.encode([chunk.texts[number]])
    offsets = chunk.tokenizer.locate_pieces(texts)
    return [ragged.values.numpy() for ragged in offsets]
