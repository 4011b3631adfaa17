"""The answers of a split: texts, n-best lists, null odds.

A question's candidates are spans of all its windows. The best of them with
different texts are its n-best list (the original's `finetune/qa/qa_metrics.py`
gives the same ones). A model answers in normalised pieces: `steve smith` in
`Steve Smith's`. The text of an answer is the part of the context that they
stand for, `Steve Smith`, found by counting characters without blanks in both
(`get_final_text` of the original, and of BERT before).
"""

import dataclasses
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf.config import finetuning as finetuning_config
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks.question_answering import questions
from electra_tf.tasks.question_answering import spans
from electra_tf.text import normalization
from electra_tf.text import vocabulary as vocabulary_lib

NO_ANSWER_FOUND = "empty"
"""The text where no candidate is a span of the document (the original's)."""

# The only entry where there is none.
_NONE = (NO_ANSWER_FOUND, 0.0, 0.0, None, None)
# The null odds of a document without a single piece (the original's).
_NO_WINDOW = 1_000_000.0

Outputs = Mapping[str, Sequence[np.ndarray]]
Settings = finetuning_config.QuestionAnsweringConfig
Entry = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Predictions:
    """The predictions for questions."""

    # Id to the best answer, in the document's own text. Where questions may be
    # unanswerable too: the null odds say whether it is to be believed.
    texts: dict[str, str]
    # Id to the best answers in order: `text`, `probability` among them,
    # `start_logit`, `end_logit`, and `start` and `end`, the characters of the
    # context where it begins and ends, or None
    nbest: dict[str, list[Entry]]
    # Id to a number that is high where there is no answer; empty where every
    # question has one
    null_odds: dict[str, float]


def decode(
    rows: rows_lib.Rows,
    outputs: Outputs,
    settings: Settings,
    has_unanswerable: bool,
) -> Predictions:
    """Reads the predictions for the questions of some rows.

    `rows` are those of `questions.build_rows` to predict from, `outputs` those
    of `QuestionAnsweringHead.predict` for each row.
    """
    predictions = Predictions({}, {}, {})
    begin = 0
    for chunk in rows.details:
        count = int(chunk.rows.ids.nrows())
        own = {
            name: _pad(values[begin : begin + count])
            for name, values in outputs.items()
        }
        _decode_chunk(chunk, own, settings, has_unanswerable, predictions)
        begin += count
    return predictions


def _pad(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The outputs of all rows as one array; fillers are never an answer."""
    arrays = [np.asarray(array) for array in arrays]
    shape = np.max([array.shape for array in arrays] or [()], axis=0)
    dtype = arrays[0].dtype if arrays else np.float32
    filler: Any = 0
    if np.issubdtype(dtype, np.floating):
        dtype, filler = np.float32, np.finfo(np.float32).min
    padded = np.full((len(arrays), *np.asarray(shape, int)), filler, dtype)
    for row, array in enumerate(arrays):
        inside = (slice(row, row + 1), *map(slice, array.shape))
        padded[inside] = array
    return padded


def _decode_chunk(
    chunk: questions.Chunk,
    outputs: Mapping[str, np.ndarray],
    settings: Settings,
    has_unanswerable: bool,
    predictions: Predictions,
) -> None:
    """Adds the predictions for some questions."""
    splits = chunk.rows.windows.splits.numpy()
    texts = _SpanTexts(chunk)
    candidates = None
    if splits[-1]:
        tensors = {name: tf.constant(array) for name, array in outputs.items()}
        candidates = _Candidates(chunk, tensors, settings)
        if has_unanswerable:
            all_odds = spans.compute_null_odds(tensors).numpy()
    for number, example in enumerate(chunk.examples):
        begin, end = splits[number : number + 2]
        found = candidates.sort(begin, end) if candidates else ()
        nbest = _list_best(number, found, texts, settings.n_best_size)
        predictions.nbest[example.id] = nbest
        predictions.texts[example.id] = nbest[0]["text"]
        if has_unanswerable:
            best = next((entry for entry in nbest if entry["text"]), nbest[0])
            predictions.texts[example.id] = best["text"]
            odds = np.float32(_NO_WINDOW)
            if begin < end:
                odds = all_odds[begin:end].min()
            if "answerable_logit" not in outputs:
                # One float32 after the other, as the reference subtracts.
                odds = odds - np.float32(best["start_logit"])
                odds = odds - np.float32(best["end_logit"])
            predictions.null_odds[example.id] = float(odds)


class _Candidates:
    """The spans of all rows of a chunk that count."""

    def __init__(
        self,
        chunk: questions.Chunk,
        outputs: Mapping[str, tf.Tensor],
        settings: Settings,
    ) -> None:
        windows = chunk.rows.windows
        found = spans.list_candidates(
            outputs, chunk.rows.shifts, settings.n_best_size
        )
        is_valid = spans.are_valid(
            found, windows.lengths, settings.max_answer_length
        )
        rows = tf.range(tf.size(windows.texts))
        is_valid &= spans.have_most_context(found, windows, rows)[..., None]
        self._is_valid = is_valid.numpy()
        self._scores = found.scores.numpy()
        begins = windows.starts.numpy()[:, np.newaxis]
        self._firsts = begins + found.starts.numpy()
        self._lasts = begins[..., np.newaxis] + found.ends.numpy()
        self._start_scores = found.start_scores.numpy()
        self._end_scores = found.end_scores.numpy()

    def sort(self, begin: int, end: int) -> Any:
        """First and last pieces, start and end scores of rows, best first."""
        rows, starts, ends = np.nonzero(self._is_valid[begin:end])
        rows = rows + begin
        order = np.argsort(-self._scores[rows, starts, ends], kind="stable")
        rows, starts, ends = rows[order], starts[order], ends[order]
        return zip(
            self._firsts[rows, starts].tolist(),
            self._lasts[rows, starts, ends].tolist(),
            self._start_scores[rows, starts].tolist(),
            self._end_scores[rows, starts, ends].tolist(),
            strict=True,
        )


def _list_best(
    number: int, candidates: Any, texts: "_SpanTexts", n_best_size: int
) -> list[Entry]:
    """The best candidates of a question with different texts."""
    found: dict[str, tuple] = {}
    for first, last, start_score, end_score in candidates:
        if len(found) == n_best_size:
            break
        text, *place = texts.find(number, first, last)
        found.setdefault(text, (text, start_score, end_score, *place))
    entries = [
        {
            "text": text,
            "probability": 1.0,
            "start_logit": start_score,
            "end_logit": end_score,
            "start": start,
            "end": end,
        }
        for text, start_score, end_score, start, end in found.values()
        or [_NONE]
    ]
    logits = [entry["start_logit"] + entry["end_logit"] for entry in entries]
    scores = np.array(logits, np.float32)
    weights = np.exp(scores - scores.max())
    for entry, share in zip(entries, weights / weights.sum(), strict=True):
        entry["probability"] = float(share)
    return entries


class _SpanTexts:
    """Texts of spans, each made once: questions share their contexts."""

    def __init__(self, chunk: questions.Chunk) -> None:
        contexts, self._chunk = chunk.contexts, chunk
        self._tokens = chunk.vocabulary.tokens
        self._words = [
            word.decode(errors="surrogatepass")
            for word in contexts.distinct.numpy()
        ]
        self._normalized = normalize(self._words, chunk.vocabulary.settings)
        self._index = contexts.index.numpy()
        self._word_starts = contexts.starts.values.numpy()
        self._pieces = contexts.pieces.values.numpy()
        self._word_of_piece = contexts.pieces.value_rowids().numpy()
        self._begins = contexts.ids.row_starts().numpy()
        self._found: dict[tuple[int, int, int], tuple[str, int, int]] = {}

    def find(self, number: int, first: int, last: int) -> tuple[str, int, int]:
        """Text, first character and the one after the last of some pieces."""
        context = int(self._chunk.context_of_example[number])
        key = (context, first, last)
        if key not in self._found:
            begin = self._begins[context]
            self._found[key] = self._project(
                self._chunk.examples[number].context,
                begin + first,
                begin + last,
            )
        return self._found[key]

    def _project(
        self, context: str, first: int, last: int
    ) -> tuple[str, int, int]:
        pieces = self._pieces[first : last + 1]
        predicted = join_pieces([self._tokens[p] for p in pieces])
        begin, end = self._word_of_piece[first], self._word_of_piece[last] + 1
        index = self._index[begin:end]
        words = [self._words[word] for word in index]
        original = " ".join(words)
        normalized = " ".join(
            self._normalized[word] for word in index if self._normalized[word]
        )
        whole = 0, len(original)
        start, stop = project(predicted, normalized, original) or whole
        data = context.encode(errors="surrogatepass")
        # For every character of the joined words its place in the context,
        # where words may be further apart than the one blank.
        places: list[int] = []
        for word, byte in zip(words, self._word_starts[begin:end], strict=True):
            first = len(data[:byte].decode(errors="surrogatepass"))
            places += range(first, first + len(word) + 1)
        return original[start:stop], places[start], places[stop - 1] + 1


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
    if first < 0 or not predicted:
        return None
    if " " in (normalized[first], normalized[last]):
        return None
    places = [i for i, char in enumerate(original) if char != " "]
    if len(places) != len(normalized) - normalized.count(" "):
        return None
    start = places[first - normalized.count(" ", 0, first)]
    return start, places[last - normalized.count(" ", 0, last)] + 1


def normalize(
    texts: Sequence[str], settings: vocabulary_lib.TokenizerSettings
) -> list[str]:
    """Returns texts as normalised words with single blanks."""
    words = normalization.Normalizer(settings).split(questions.encode(texts))
    decoded = [word.decode() for word in words.words.numpy()]
    splits = words.text_splits.numpy()
    return [
        " ".join(decoded[start:end])
        for start, end in zip(splits, splits[1:], strict=False)
    ]
