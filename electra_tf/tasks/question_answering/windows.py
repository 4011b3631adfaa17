"""Windows: questions with the part of a long document that fits beside them.

    [CLS] question [SEP] part of the document [SEP]

A document that is too long is read through several windows, each `doc_stride`
pieces after the last; every window is a row. In training a window without the
whole answer has [CLS] for its answer; in prediction an answer counts only in
the window in which it has most context (the original's
`finetune/qa/qa_tasks.py`). Here the windows of a whole split are laid out with
array operations.
"""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks.question_answering import answer_spans
from electra_tf.tasks.question_answering import pieces as pieces_lib
from electra_tf.tasks.question_answering import records
from electra_tf.text import tokenizer as tokenizer_lib
from electra_tf.text import vocabulary as vocabulary_lib

COLUMNS = ("start_position", "end_position", "is_impossible")
"""Of the rows, as the head reads them."""

# [CLS] and two [SEP].
_NUM_SPECIAL = 3
# Rows whose tokens are copied at once: bounds the memory of the indices.
_CHUNK = 8_192


@dataclasses.dataclass(frozen=True)
class Windows:
    """Where the R rows of N questions come from.

    Attributes:
        documents: C distinct documents.
        vocabulary: of the pieces.
        document_of_example: `[N]` int32.
        num_question_pieces: `[N]` int64, those that are kept.
        rooms: `[N]` int64, most pieces of a document in a window.
        strides: `[N]` int64, pieces from one window to the next.
        row_splits: `[N + 1]` int64; question i has the rows from
            `row_splits[i]` up to `row_splits[i + 1]`.
    """

    documents: pieces_lib.Documents
    vocabulary: vocabulary_lib.Vocabulary
    document_of_example: np.ndarray
    num_question_pieces: np.ndarray
    rooms: np.ndarray
    strides: np.ndarray
    row_splits: np.ndarray

    @property
    def num_rows(self) -> int:
        """Windows of all questions, R."""
        return int(self.row_splits[-1])

    @functools.cached_property
    def num_windows(self) -> np.ndarray:
        """Rows of each question, `[N]` int64."""
        return np.diff(self.row_splits)

    @functools.cached_property
    def examples(self) -> np.ndarray:
        """The question of each row, `[R]` int32."""
        count = len(self.row_splits) - 1
        numbers = np.arange(count, dtype=np.int32)
        return np.repeat(numbers, self.num_windows)

    @functools.cached_property
    def numbers(self) -> np.ndarray:
        """Each row's number among those of its question, `[R]` int64."""
        return np.arange(self.num_rows) - np.repeat(
            self.row_splits[:-1], self.num_windows
        )

    @functools.cached_property
    def num_document_pieces(self) -> np.ndarray:
        """Pieces of each question's whole document, `[N]` int64."""
        return self.documents.num_pieces[self.document_of_example]

    @functools.cached_property
    def starts(self) -> np.ndarray:
        """The document's piece that each row begins with, `[R]` int64."""
        return self.numbers * self.strides[self.examples]

    @functools.cached_property
    def lengths(self) -> np.ndarray:
        """Pieces of the document in each row, `[R]` int64."""
        examples = self.examples
        left = self.num_document_pieces[examples] - self.starts
        return np.minimum(self.rooms[examples], left)

    def is_max_context(
        self, examples: np.ndarray, numbers: np.ndarray, pieces: np.ndarray
    ) -> np.ndarray:
        """Whether a window is the one in which a piece has most context.

        That is the smaller of what is left and right of the piece, plus a
        hundredth of the window's length; the first of equals wins.

        Args:
            examples: `[Q]` integer, questions.
            numbers: `[Q]` integer, windows of these questions.
            pieces: `[Q]` integer, pieces of the documents, in these windows.

        Returns:
            `[Q]` bool.
        """
        rooms, strides = self.rooms[examples], self.strides[examples]
        totals = self.num_document_pieces[examples]
        last = np.minimum(pieces // strides, self.num_windows[examples] - 1)
        number = np.maximum(0, -((rooms - 1 - pieces) // strides))
        best = np.full(pieces.shape, -np.inf)
        best_number = np.full(pieces.shape, -1)
        while np.any(number <= last):
            start = number * strides
            length = np.minimum(rooms, totals - start)
            context = np.minimum(pieces - start, start + length - 1 - pieces)
            # In this order and precision: equals must stay equal.
            score = context + 0.01 * length
            is_better = (score > best) & (number <= last)
            best = np.where(is_better, score, best)
            best_number = np.where(is_better, number, best_number)
            number = number + 1
        return best_number == numbers


def build_windows(
    examples: Sequence[records.Example],
    tokenizer: tokenizer_lib.Tokenizer,
    max_seq_length: int,
    max_query_length: int,
    doc_stride: int,
    is_training: bool,
) -> rows_lib.Rows:
    """The rows of questions, with a `Windows` as their details.

    Args:
        examples: N questions; to learn from, with answers.
        tokenizer: holds the vocabulary.
        max_seq_length: most tokens of a row.
        max_query_length: most pieces of a question; more are cut off.
        doc_stride: pieces from one window to the next, or a window's length if
            that is less.
        is_training: whether `COLUMNS` tell the answers; zeros otherwise.

    Raises:
        ValueError: if a question leaves no room for its document.
        TaskDataError: in training, if an answer is not in its document.
    """
    questions, starts, counts = _tokenize_questions(examples, tokenizer)
    kept = np.minimum(counts, max_query_length)
    rooms = max_seq_length - kept - _NUM_SPECIAL
    _require_room(examples, rooms, max_seq_length)
    windows = _lay_out(examples, tokenizer, kept, rooms, doc_stride)
    if is_training:
        columns = _label(examples, windows, tokenizer)
    else:
        columns = {c: np.zeros(windows.num_rows, np.int32) for c in COLUMNS}
    return rows_lib.Rows(
        ids=_copy_ids(windows, questions, starts),
        segment_starts=(kept[windows.examples] + 2).astype(np.int32),
        examples=windows.examples,
        columns=columns,
        details=windows,
    )


def _tokenize_questions(
    examples: Sequence[records.Example], tokenizer: tokenizer_lib.Tokenizer
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ids of the distinct ones, and where each question's are, how many."""
    questions, numbers = pieces_lib.number_distinct(
        example.question for example in examples
    )
    pieces = pieces_lib.tokenize(questions, tokenizer)
    return pieces.values, pieces.splits[numbers], pieces.lengths[numbers]


def _lay_out(
    examples: Sequence[records.Example],
    tokenizer: tokenizer_lib.Tokenizer,
    num_question_pieces: np.ndarray,
    rooms: np.ndarray,
    doc_stride: int,
) -> Windows:
    """Documents, and where their windows begin."""
    contexts, document_of_example = pieces_lib.number_distinct(
        example.context for example in examples
    )
    documents = pieces_lib.build_documents(contexts, tokenizer)
    strides = np.minimum(rooms, doc_stride)
    totals = documents.num_pieces[document_of_example]
    # One, and as many more as it takes to get to the end.
    counts = np.where(totals > rooms, 1 - (rooms - totals) // strides, 1)
    counts = np.where(totals > 0, counts, 0)
    return Windows(
        documents,
        tokenizer.vocabulary,
        document_of_example,
        num_question_pieces,
        rooms,
        strides,
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
    )


def _require_room(
    examples: Sequence[records.Example],
    rooms: np.ndarray,
    max_seq_length: int,
) -> None:
    if np.all(rooms > 0):
        return
    worst = int(np.argmin(rooms))
    raise ValueError(
        f"`max_seq_length` must leave room for a document beside question "
        f"{examples[worst].id!r}, which takes "
        f"{max_seq_length - rooms[worst]} tokens with [CLS] and [SEP]. "
        f"Received: {max_seq_length}. Raise it, or lower "
        "`qa.max_query_length`."
    )


def _label(
    examples: Sequence[records.Example],
    windows: Windows,
    tokenizer: tokenizer_lib.Tokenizer,
) -> dict[str, np.ndarray]:
    """Positions of the answers in the rows; 0, [CLS], where there is none."""
    is_impossible = np.array([e.is_impossible for e in examples], np.int32)
    first, last = answer_spans.find_spans(
        examples, windows.documents, windows.document_of_example, tokenizer
    )
    rows = windows.examples
    first, last, starts = first[rows], last[rows], windows.starts
    is_inside = (
        (is_impossible[rows] == 0)
        & (first >= starts)
        & (last < starts + windows.lengths)
    )
    shifts = windows.num_question_pieces[rows] + 2 - starts
    labels = (
        np.where(is_inside, first + shifts, 0),
        np.where(is_inside, last + shifts, 0),
        # Also where another window has the answer.
        is_impossible[rows],
    )
    return {
        name: label.astype(np.int32)
        for name, label in zip(COLUMNS, labels, strict=True)
    }


def _copy_ids(
    windows: Windows, question_ids: np.ndarray, question_starts: np.ndarray
) -> rows_lib.Ragged:
    """The tokens of all rows."""
    examples = windows.examples
    num_question = windows.num_question_pieces[examples]
    num_document = windows.lengths
    splits = np.concatenate(
        [[0], np.cumsum(num_question + num_document + _NUM_SPECIAL)]
    ).astype(np.int64)
    # What is not written below is a [SEP].
    ids = np.full(splits[-1], windows.vocabulary.sep_id, np.int32)
    ids[splits[:-1]] = windows.vocabulary.cls_id
    pieces = windows.documents.pieces
    document_starts = (
        pieces.splits[windows.document_of_example[examples]] + windows.starts
    )
    for begin in range(0, len(examples), _CHUNK):
        part = slice(begin, begin + _CHUNK)
        places = splits[:-1][part]
        for source, source_starts, targets, counts in (
            (question_ids, question_starts[examples[part]], places + 1,
             num_question[part]),
            (pieces.values, document_starts[part],
             places + num_question[part] + 2, num_document[part]),
        ):  # fmt: skip
            ids[pieces_lib.ranges(targets, counts)] = source[
                pieces_lib.ranges(source_starts, counts)
            ]
    return rows_lib.Ragged(ids, splits)
