"""Texts with the places of spans, as annotation tools write them."""

import itertools
from collections.abc import Sequence
from typing import Any

from electra_tf.tasks import cells
from electra_tf.tasks import files
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks.tagging import conll
from electra_tf.tasks.tagging import spans
from electra_tf.tasks.tagging import words as words_lib

# Keys of a span: of spaCy, Prodigy and Label Studio, and of Doccano.
_KEYS = ("start", "start_offset"), ("end", "end_offset"), ("label", "labels")
_MAX_CUT = 0.2  # share of spans that may begin or end inside a word


def read_sentences(
    records: Sequence[files.Record], text_column: str, span_column: str
) -> conll.Sentences:
    """Splits texts into words, which spans of characters tag in `BIO`.

    A word in which a span begins or ends is cut there. Where no text has spans,
    none has tags.
    """
    texts = [cells.read_text(record, text_column) for record in records]
    split = words_lib.split_text(rows_lib.encode(texts), True)
    sentences, num_cut, num_spans = conll.Sentences(), 0, 0
    sentences.are_texts = True
    bounds = zip(split.starts.to_list(), split.ends.to_list(), strict=True)
    for record, text, own in zip(records, texts, bounds, strict=True):
        cell = cells.open_spans(record.values.get(span_column)) or ()
        found = [_read_span(record, span_column, text, item) for item in cell]
        places = words_lib.character_places(rows_lib.encode([text])[0].numpy())
        words = [
            *zip(*(places[bytes_].tolist() for bytes_ in own), strict=True)
        ]
        edges = sorted({edge for span in found for edge in span[:2]})
        parts = [
            part
            for a, b in words
            for part in itertools.pairwise(
                [a, *(e for e in edges if a < e < b), b]
            )
        ]
        whole = {*itertools.chain(*words)}
        cut = {*itertools.chain(*parts)} - whole
        num_cut += sum(not cut.isdisjoint(span[:2]) for span in found)
        num_spans += len(found)
        sentences.append(_mark(record, text, parts, found))
    if num_cut > _MAX_CUT * num_spans:
        expected = "spans that begin and end between words"
        received = f"{num_cut} of {num_spans} spans that do not"
        remedy = "Put blanks between the words of the texts, or give CoNLL."
        raise files.unexpected(records[0].place, expected, received, remedy)
    if not num_spans:
        return conll.Sentences(s._replace(tags=None) for s in sentences)
    note = (
        f"{num_spans} spans of texts that are split at blanks and punctuation"
    )
    cut_note = f"; {num_cut} begin or end inside a word, which is cut there"
    sentences.notes = (f"{note}{cut_note if num_cut else ''}.",)
    return sentences


def _read_span(
    record: files.Record, column: str, text: str, item: Any
) -> tuple[int, int, str]:
    """Reads the first character, the one after the last, and the kind."""
    parts = item
    if isinstance(item, dict):
        parts = [item.get(a, item.get(b)) for a, b in _KEYS]
    if isinstance(parts, list | tuple) and len(parts) == 3:
        start, end, label = parts
        label = label[0] if isinstance(label, list) and label else label
        are_places = isinstance(start, int) and isinstance(end, int)
        is_named = isinstance(label, str) and label.strip()
        if are_places and is_named and 0 <= start < end <= len(text):
            return start, end, label.strip()
    expected = (
        f"in {column!r} spans of the text: the first character, from 0, the "
        "one after the last, and a label"
    )
    raise files.unexpected(record.place, expected, str(item))


def _mark(
    record: files.Record,
    text: str,
    words: Sequence[tuple[int, int]],
    found: Sequence[tuple[int, int, str]],
) -> conll.Sentence:
    """Tags the words of a text, given the places of both."""
    tags = [spans.OUTSIDE] * len(words)
    for first, last, kind in found:
        own = [n for n, (a, b) in enumerate(words) if first <= a and b <= last]
        if not own or any(tags[n] != spans.OUTSIDE for n in own):
            expected = "spans that hold words, and none of another span's"
            received, remedy = f"{first} to {last}, {kind}", "Remove the span."
            raise files.unexpected(record.place, expected, received, remedy)
        tags[own[0]] = f"B-{kind}"
        for number in own[1:]:
            tags[number] = f"I-{kind}"
    if not words:
        raise files.unexpected(record.place, "a text with words", text)
    cut = tuple(text[a:b] for a, b in words)
    return conll.Sentence(cut, tuple(tags), record.place)
