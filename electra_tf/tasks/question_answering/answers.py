"""Computes the answers of a split: texts, n-best lists, null odds.

The n-best list of a question holds the best spans of all its windows, without
repeated texts, as in the original's `finetune/qa/qa_metrics.py`. The model
predicts normalised pieces (`steve smith`); `_find_texts` returns the part of
the context (`Steve Smith`), as the original's `get_final_text`. For words that
are not Latin, which may be whole sentences, it returns the pieces' characters.
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
"""The original's answer if no candidate is a span of the document."""

# Fields of an entry of the n-best list, and the entry of an empty list
_FIELDS = "text", "probability", "start_logit", "end_logit", "start", "end"
_NONE = NO_ANSWER_FOUND, 1.0, 0.0, 0.0, None, None


@dataclasses.dataclass(frozen=True)
class Predictions:
    """The predictions for questions; the keys are ids."""

    # The best answer as the document spells it, also if the question is
    # probably unanswerable: compare `null_odds` with a threshold.
    texts: dict[str, str]
    # Answers, best first, with `text`, `probability` (within the list),
    # `start_logit`, `end_logit`, and the characters `start` and `end` or None
    nbest: dict[str, list[dict[str, Any]]]
    # High for unanswerable questions; {} if all questions have an answer
    null_odds: dict[str, float]


def decode(
    rows: rows_lib.EncodedRows,
    outputs: base.Outputs,
    settings: questions.Settings,
    has_unanswerable: bool,
    is_published: bool = False,
) -> Predictions:
    """Computes the predictions for the questions of a split.

    `rows` are from `questions.build_rows`, and `outputs` from
    `QuestionAnsweringHead.predict`. If the task `is_published`, texts follow
    the original also in scripts that are not Latin.
    """
    predictions = Predictions({}, {}, {})
    begin = 0
    for chunk in rows.details:
        end = begin + int(chunk.rows.ids.nrows())
        chunk_outputs = {
            name: tf.constant(_pad(values[begin:end]))
            for name, values in outputs.items()
            if begin < end
        }
        begin = end
        find = _find_texts(chunk, is_published)
        _add_answers(chunk, chunk_outputs, settings, find, predictions)
        if has_unanswerable:
            _add_null_odds(chunk, chunk_outputs, predictions)
    return predictions


def _pad(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Stacks the outputs of rows, padded with a score that no answer has."""
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
        spans_of = slice(splits[number], splits[number + 1])
        entries_by_text: dict[str, tuple] = {}
        context = chunk.context_of_example[number]
        for first, last, *numbers in zip(
            *(column[spans_of].tolist() for column in columns), strict=True
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
    """Lists the valid spans of N questions, the best span first.

    Returns the row splits of the questions, `[N + 1]`, and arrays of the first
    pieces, last pieces, start scores and end scores of all spans.
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
    # `lexsort` is stable: of equal spans the first stays first.
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
    splits = chunk.rows.windows.splits.numpy()
    least = np.float32(spans.NO_CONTEXT_ODDS)
    all_odds = np.zeros(0, np.float32)
    if outputs:
        all_odds = spans.compute_null_odds(outputs).numpy()
    for number, example in enumerate(chunk.examples):
        windows = slice(splits[number], splits[number + 1])
        odds = np.min(all_odds[windows], initial=least)
        nbest = predictions.nbest[example.id]
        best = next((entry for entry in nbest if entry["text"]), nbest[0])
        predictions.texts[example.id] = best["text"]
        if "answerable_logit" not in outputs:
            # In the original's order, so that float32 rounds equally.
            odds = odds - np.float32(best["start_logit"])
            odds = odds - np.float32(best["end_logit"])
        predictions.null_odds[example.id] = float(odds)


def _find_texts(
    chunk: questions.Chunk, is_published: bool
) -> Callable[[int, int, int], tuple[str, int, int]]:
    """Returns a function that finds the text of a span of pieces.

    The function takes the index of a context and the first and last piece. It
    returns the text, its first character and the character after it.
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
        # Maps characters of `original` to characters of the context, where
        # several blanks may separate two words.
        characters: list[int] = []
        for word, byte in zip(words, word_starts[begin:end], strict=True):
            place = character(byte)
            characters += range(place, place + len(word) + 1)
        return original[start:stop], characters[start], characters[stop - 1] + 1

    return find


def join_pieces(tokens: Sequence[str]) -> str:
    """Joins word pieces into a text.

    >>> join_pieces(["smith", "##son", "'", "s"])
    "smithson ' s"
    """
    text = " ".join(tokens).replace(" ##", "").replace("##", "")
    return " ".join(text.split())


def project(
    predicted: str, normalized: str, original: str
) -> tuple[int, int] | None:
    """Finds the place of a normalised prediction in the original text.

    `predicted` and `normalized` are normalised words with single blanks.
    Returns the first character and the character after the last, or None if
    the texts cannot be aligned.

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
    """Normalises texts; single blanks separate the words."""
    words = normalization.Normalizer(settings).split(rows_lib.encode(texts))
    decoded = [word.decode() for word in words.words.numpy()]
    bounds = itertools.pairwise(words.text_splits.numpy())
    return [" ".join(decoded[start:end]) for start, end in bounds]
