"""The answers of a split: texts, n-best lists, null odds.

A question's n-best list are the best spans of all its windows with different
texts, as in the original's `finetune/qa/qa_metrics.py`. A model answers in
normalised pieces, `steve smith`; the text is the part of the context that they
stand for, `Steve Smith` (`get_final_text` of the original, or the characters of
the pieces, where words are not Latin and may be whole sentences).
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.special
import tensorflow as tf

from electra_tf.tasks import base
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks.question_answering import questions
from electra_tf.tasks.question_answering import records
from electra_tf.tasks.question_answering import spans
from electra_tf.text import normalization
from electra_tf.text.vocabulary import TokenizerSettings

NO_ANSWER_FOUND = "empty"
"""The text where no candidate is a span of the document (the original's)."""

# The null odds of a document without a single piece (the original's).
_NO_WINDOW = 1_000_000.0

# Of an entry of the n-best list, and the only one where there is none.
_FIELDS = "text", "probability", "start_logit", "end_logit", "start", "end"
_NONE = NO_ANSWER_FOUND, 1.0, 0.0, 0.0, None, None


@dataclasses.dataclass(frozen=True)
class Predictions:
    """The predictions for questions, by their ids."""

    # The best answer, as the document spells it, also to a question that may
    # have none: compare `null_odds` with a threshold.
    texts: dict[str, str]
    # Answers from the best on, each with `text`, `probability` (among those
    # listed), `start_logit`, `end_logit`, and `start` and `end`: characters of
    # the context, or None.
    nbest: dict[str, list[dict[str, Any]]]
    # High where there is no answer; empty where every question has one
    null_odds: dict[str, float]


def decode(
    rows: rows_lib.EncodedRows,
    outputs: base.Outputs,
    settings: questions.Settings,
    has_unanswerable: bool,
    is_published: bool = False,
) -> Predictions:
    """Reads the predictions for the questions of some rows.

    `rows` are those of `questions.build_rows` to predict from, `outputs` those
    of `QuestionAnsweringHead.predict` for each row. Texts of a published task
    follow the original in every script.
    """
    predictions = Predictions({}, {}, {})
    begin = 0
    for chunk in rows.details:
        end = begin + int(chunk.rows.ids.nrows())
        own = {
            name: tf.constant(_pad(values[begin:end]))
            for name, values in outputs.items()
            if begin < end
        }
        begin = end
        find = _find_texts(chunk, is_published)
        _add_answers(chunk, own, settings, find, predictions)
        if has_unanswerable:
            _add_null_odds(chunk, own, predictions)
    return predictions


def _pad(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The outputs of all rows as one array; fillers are never an answer."""
    arrays = list(map(np.asarray, arrays))
    shape = np.max([array.shape for array in arrays], axis=0).astype(int)
    dtype, filler = arrays[0].dtype, 0.0
    if np.issubdtype(dtype, np.floating):
        dtype, filler = np.dtype(np.float32), float(np.finfo(np.float32).min)
    padded = np.full((len(arrays), *shape), filler, dtype)
    for row, array in enumerate(arrays):
        inside: Any = (row, *map(slice, array.shape))
        padded[inside] = array
    return padded


def _add_answers(
    chunk: questions.Chunk,
    outputs: spans.Tensors,
    settings: questions.Settings,
    find: Callable[[int, int, int], tuple[str, int, int]],
    predictions: Predictions,
) -> None:
    splits, columns = _list_spans(chunk, outputs, settings)
    for number, example in enumerate(chunk.examples):
        own = slice(splits[number], splits[number + 1])
        entries_by_text: dict[str, tuple] = {}
        context = chunk.context_of_example[number]
        for first, last, *numbers in zip(
            *(column[own].tolist() for column in columns), strict=True
        ):
            if len(entries_by_text) == settings.n_best_size:
                break
            text, *place = find(context, first, last)
            entries_by_text.setdefault(text, (text, 1.0, *numbers, *place))
        entries = entries_by_text.values() or [_NONE]
        nbest = [dict(zip(_FIELDS, entry, strict=True)) for entry in entries]
        logits = [entry["start_logit"] + entry["end_logit"] for entry in nbest]
        shares = scipy.special.softmax(np.array(logits, np.float32))
        for entry, share in zip(nbest, shares, strict=True):
            entry["probability"] = float(share)
        predictions.nbest[example.id] = nbest
        predictions.texts[example.id] = nbest[0]["text"]


def _list_spans(
    chunk: questions.Chunk, outputs: spans.Tensors, settings: questions.Settings
) -> tuple[np.ndarray, list[np.ndarray]]:
    """The spans of N questions that count, best first.

    Returns where those of each question begin, `[N + 1]`, and first and last
    pieces, start and end scores of all.
    """
    count = len(chunk.examples)
    if not outputs:
        return np.zeros(count + 1, int), [np.zeros(0)] * 4
    windows = chunk.rows.windows
    candidates, is_valid = spans.list_candidates(
        outputs, chunk.rows.shifts, windows.lengths, settings
    )
    rows = tf.range(tf.size(windows.texts))
    is_valid &= spans.have_most_context(candidates, windows, rows)[..., None]
    rows, starts, ends = np.nonzero(is_valid.numpy())
    owners = windows.texts.numpy()[rows]
    # Of equals the first stays first.
    order = np.lexsort((-candidates.scores.numpy()[rows, starts, ends], owners))
    rows, starts, ends = rows[order], starts[order], ends[order]
    begins = windows.starts.numpy()[rows]
    return np.searchsorted(owners[order], np.arange(count + 1)), [
        begins + candidates.starts.numpy()[rows, starts],
        begins + candidates.ends.numpy()[rows, starts, ends],
        candidates.start_scores.numpy()[rows, starts],
        candidates.end_scores.numpy()[rows, starts, ends],
    ]


def _add_null_odds(
    chunk: questions.Chunk, outputs: spans.Tensors, predictions: Predictions
) -> None:
    """Adds null odds of some questions, the least of their windows."""
    splits = chunk.rows.windows.splits.numpy()
    all_odds = np.zeros(0, np.float32)
    if outputs:
        all_odds = spans.compute_null_odds(outputs).numpy()
    for number, example in enumerate(chunk.examples):
        own = all_odds[splits[number] : splits[number + 1]]
        odds = np.min(own, initial=np.float32(_NO_WINDOW))
        nbest = predictions.nbest[example.id]
        best = next((entry for entry in nbest if entry["text"]), nbest[0])
        predictions.texts[example.id] = best["text"]
        if "answerable_logit" not in outputs:
            # One float32 after the other, as the reference subtracts.
            odds = odds - np.float32(best["start_logit"])
            odds = odds - np.float32(best["end_logit"])
        predictions.null_odds[example.id] = float(odds)


def _find_texts(
    chunk: questions.Chunk, is_published: bool
) -> Callable[[int, int, int], tuple[str, int, int]]:
    """Returns a function that finds what pieces of a context stand for.

    It gives their text, its first character and the one after the last. Each is
    made once: questions share their contexts.
    """
    contexts, vocabulary = chunk.contexts, chunk.tokenizer.vocabulary
    data = contexts.distinct.numpy()
    distinct = [word.decode(errors="surrogatepass") for word in data]
    normalized_words = normalize(distinct, vocabulary.settings)
    locate = functools.cache(functools.partial(questions.locate_pieces, chunk))
    indices = contexts.index.numpy()
    word_starts = contexts.starts.values.numpy()
    all_pieces = contexts.pieces.values.numpy()
    word_of_piece = contexts.pieces.value_rowids().numpy()
    begins = contexts.ids.row_starts().numpy()

    @functools.cache
    def find(context: int, first: int, last: int) -> tuple[str, int, int]:
        begin, end = begins[context] + first, begins[context] + last
        pieces = all_pieces[begin : end + 1]
        begin, end = word_of_piece[begin], word_of_piece[end] + 1
        index = indices[begin:end]
        words = [distinct[word] for word in index]
        original = " ".join(words)
        text = chunk.texts[context].encode(errors="surrogatepass")

        def character(byte: int) -> int:
            return len(text[:byte].decode(errors="surrogatepass"))

        if not is_published and records.OTHER_SCRIPTS.search(original):
            starts, ends = locate(context)
            start, stop = character(starts[first]), character(ends[last])
            answer = chunk.texts[context][start:stop]
            return records.ANY_BLANKS.sub(" ", answer), start, stop
        predicted = join_pieces([vocabulary.tokens[piece] for piece in pieces])
        normalized = " ".join(n for w in index if (n := normalized_words[w]))
        whole = 0, len(original)
        start, stop = project(predicted, normalized, original) or whole
        # For every character of the joined words its place in the context,
        # where words may be further apart than the one blank.
        places: list[int] = []
        for word, byte in zip(words, word_starts[begin:end], strict=True):
            place = character(byte)
            places += range(place, place + len(word) + 1)
        return original[start:stop], places[start], places[stop - 1] + 1

    return find


def join_pieces(tokens: Sequence[str]) -> str:
    """Joins word pieces to a text.

    >>> join_pieces(["smith", "##son", "'", "s"])
    "smithson ' s"
    """
    text = " ".join(tokens).replace(" ##", "").replace("##", "")
    return " ".join(text.split())


def project(
    predicted: str, normalized: str, original: str
) -> tuple[int, int] | None:
    """Finds where in the original text a prediction stands.

    `predicted` and `normalized` are normalised words with single blanks.
    Returns the first character and the one after the last; None if the texts do
    not line up.

    >>> project("steve smith", "steve smith ' s", "Steve Smith's")
    (0, 11)
    """
    first = normalized.find(predicted)
    last = first + len(predicted) - 1
    if first < 0 or not predicted or predicted != predicted.strip(" "):
        return None
    places = [i for i, char in enumerate(original) if char != " "]
    if len(places) != len(normalized) - normalized.count(" "):
        return None
    start = places[first - normalized.count(" ", 0, first)]
    return start, places[last - normalized.count(" ", 0, last)] + 1


def normalize(texts: Sequence[str], settings: TokenizerSettings) -> list[str]:
    """Returns texts as normalised words with single blanks."""
    words = normalization.Normalizer(settings).split(rows_lib.encode(texts))
    decoded = [word.decode() for word in words.words.numpy()]
    bounds = itertools.pairwise(words.text_splits.numpy())
    return [" ".join(decoded[start:end]) for start, end in bounds]
