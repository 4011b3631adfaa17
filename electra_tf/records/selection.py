"""Drops duplicate documents, and repeats documents to weight corpora.

The workers write fingerprints of all documents; then one process decides. A
document is dropped as a duplicate of an earlier one if both are equal except
for case and white space (hashes of 64 bits), or if their sets of 5 successive
words have an estimated Jaccard similarity of at least 0.8 (MinHash of 128
permutations, standard error 0.035). Only documents with 4 successive equal
MinHash values are compared.
"""

import functools
import hashlib
import re
import sys
import unicodedata
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from electra_tf import errors
from electra_tf import storage
from electra_tf.processes import atomic
from electra_tf.processes import pool
from electra_tf.records import corpus as corpus_lib
from electra_tf.records import shards
from electra_tf.text import vocabulary as vocabulary_lib

FINGERPRINTS = "fingerprints"  # a `BuildShare.kind`
# The files that mark a folder of fingerprints, or of copies, as complete.
SIGNATURES_FILE, COPIES_FILE = "signatures.npy", "report.txt"
NUM_PERMUTATIONS = 128
MIN_SIMILARITY = 0.8
_BAND_ROWS = 4
_SHINGLE_WORDS = 5
_SHINGLES_AT_ONCE = 4096
_NUM_SHOWN = 3  # pairs of each kind in the report
_FIELDS = [("hash", "u8"), ("corpus", "i4"), ("words", "i8"), ("text", "S80")]
# Permutations `x -> a x + b` modulo 2^32 with odd a: both `[128, 1]`. NumPy
# promises that `RandomState` gives the same numbers in every release.
_FACTORS, _TERMS = np.random.RandomState(0).randint(
    0, 2**32, [2, NUM_PERMUTATIONS, 1], np.uint32
)
_FACTORS |= 1
_MIXER = np.uint64(0x9E3779B97F4A7C15)  # odd, of random bits
_POWERS = _MIXER ** np.arange(_SHINGLE_WORDS, dtype=np.uint64)


def write_fingerprints(
    plan: shards.BuildPlan, share: shards.BuildShare, report: pool.Report
) -> None:
    """Writes the fingerprints of a work unit; reports bytes and documents.

    Of n documents, `documents.npy` (`_FIELDS`) has the shape `[n]`, and
    `signatures.npy` (uint32) `[n, 128]`.
    """
    rows: list[tuple[int, int, int, bytes]] = []
    signatures, pieces = [], []
    for source in plan.units[share.index]:
        reader = corpus_lib.open_source(source, plan.corpus.options)
        num_bytes = 0
        for document in reader:
            pieces += document.lines
            if document.is_continued:
                continue
            text, pieces = " ".join(" ".join(pieces).lower().split()), []
            digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
            words = word_pattern().findall(text)
            name = f"{source.name}: {text[:80]}"
            counts = source.corpus, len(words)
            rows.append((int(digest, 16), *counts, name.encode()))
            if plan.settings.deduplicate == "near":
                signatures.append(sign(words or [text]))
            report(reader.num_bytes - num_bytes, 1)
            num_bytes = reader.num_bytes
    folder = plan.part_folder(share.index, FINGERPRINTS)
    with atomic.creating_folder(folder, SIGNATURES_FILE) as partial:
        np.save(partial / "documents.npy", np.array(rows, _FIELDS))
        table = np.array(signatures, np.uint32).reshape(-1, NUM_PERMUTATIONS)
        np.save(partial / SIGNATURES_FILE, table)


@functools.cache
def word_pattern() -> re.Pattern[str]:
    """Matches a word, with combining marks (Hindi's vowels), unlike `\\w+`."""
    marks = "".join(
        character
        for character in map(chr, range(sys.maxunicode))
        if unicodedata.category(character)[0] == "M"
    )
    single = vocabulary_lib.WITHOUT_BLANKS
    return re.compile(rf"[{single}]|[^\W{single}](?:[^\W{single}]|[{marks}])*")


def sign(words: list[str]) -> np.ndarray:
    """Returns the MinHash signature of a text's words, `[128]` uint32.

    The share of equal values of two signatures estimates the texts' Jaccard
    similarity. Texts of fewer than 5 words are padded.
    """
    words = words + [""] * (_SHINGLE_WORDS - len(words))
    hashes = np.array([zlib.crc32(word.encode()) for word in words], np.uint64)
    windows = np.lib.stride_tricks.sliding_window_view(hashes, _SHINGLE_WORDS)
    shingles = windows @ _POWERS
    shingles = (shingles ^ shingles >> np.uint64(32)) * _MIXER
    values = (shingles >> np.uint64(32)).astype(np.uint32)
    parts = [
        (_FACTORS * values[begin:][:_SHINGLES_AT_ONCE] + _TERMS).min(axis=1)
        for begin in range(0, len(values), _SHINGLES_AT_ONCE)
    ]
    return np.min(parts, axis=0)


def choose_copies(plan: shards.BuildPlan) -> None:
    """Decides how often each document is taken; fills `plan.copies_folder`.

    The folder has a file for each work unit (`000000.npy` and so on), the
    copies of its documents, `[num_documents]` int64, and `report.txt`, lines of
    the dataset's report. A complete folder is kept.
    """
    if (plan.copies_folder / COPIES_FILE).is_file():
        return
    indices, settings = range(len(plan.units)), plan.settings
    folders = [plan.part_folder(index, FINGERPRINTS) for index in indices]
    parts = [storage.load_rows(f / "documents.npy") for f in folders]
    documents, lines = np.concatenate(parts), list[str]()
    copies = np.ones(len(documents), np.int64)
    if settings.deduplicate:
        _, first, inverse = np.unique(documents["hash"], True, True)
        original = first[inverse]
        if settings.deduplicate == "near":
            paths = [folder / SIGNATURES_FILE for folder in folders]
            _join_similar(
                original, np.concatenate(list(map(storage.load_rows, paths)))
            )
        copies[original != np.arange(len(original))] = 0
        lines += _describe_pairs(documents, original)
    if settings.corpus_weights:
        lines += _repeat(documents, copies, settings.corpus_weights)
    ends = np.cumsum(list(map(len, parts)))
    with atomic.creating_folder(plan.copies_folder, COPIES_FILE) as partial:
        for unit, part in enumerate(np.split(copies, ends[:-1])):
            np.save(partial / f"{unit:06d}.npy", part)
        (partial / COPIES_FILE).write_text("\n".join(lines), "utf-8")


def _join_similar(original: np.ndarray, signatures: np.ndarray) -> None:
    """Sets `original[i]` to the earlier document of which i is a duplicate."""
    # A document is compared only with the first one of the same band of values,
    # so that the work does not grow with the square of the documents.
    distinct = np.flatnonzero(original == np.arange(len(original)))
    pairs: set[tuple[int, int]] = set()
    for begin in range(0, NUM_PERMUTATIONS, _BAND_ROWS):
        band = signatures[distinct, begin : begin + _BAND_ROWS]
        keys = band.astype(np.uint64) @ _POWERS[:_BAND_ROWS]
        _, first, inverse = np.unique(keys, True, True)
        both = np.stack([distinct, distinct[first[inverse]]], axis=1)
        both = both[both[:, 0] != both[:, 1]]
        is_equal = signatures[both[:, 0]] == signatures[both[:, 1]]
        is_similar = is_equal.mean(axis=1) >= MIN_SIMILARITY
        pairs.update(map(tuple, both[is_similar].tolist()))
    for later, earlier in sorted(pairs):
        if original[later] == later and original[earlier] == earlier:
            original[later] = earlier


def _describe_pairs(documents: Any, original: np.ndarray) -> Iterator[str]:
    dropped = np.flatnonzero(original != np.arange(len(original)))
    pairs = documents[np.stack([original[dropped], dropped], axis=1)]
    is_exact = pairs["hash"][:, 0] == pairs["hash"][:, 1]
    exact, near = pairs["text"][is_exact], pairs["text"][~is_exact]
    yield (
        f"dropped: {len(exact):,} equal and {len(near):,} nearly equal ones of "
        f"{len(documents):,} documents"
    )
    for pair in (*exact[:_NUM_SHOWN], *near[:_NUM_SHOWN]):
        kept, gone = (text.decode("utf-8", "ignore") for text in pair)
        yield f"  kept    {kept}\n  dropped {gone}"


def _repeat(
    documents: Any, copies: np.ndarray, weights: Sequence[float]
) -> Iterator[str]:
    """Multiplies `copies`, until the corpora's words have the given shares."""
    # The corpus with the most words for its weight is taken once.
    words = documents["words"] * copies
    totals = np.bincount(documents["corpus"], words, len(weights))
    if not totals.all():
        raise errors.DataError(
            f"Corpus {totals.argmin() + 1} of {len(totals)} has no words, so "
            "it cannot have a weight. Leave it out, or add text to it."
        )
    times = weights / totals
    times /= times.min()
    missing = np.zeros(len(times))
    for index in np.flatnonzero(words):
        corpus, size = documents["corpus"][index], words[index]
        missing[corpus] += times[corpus] % 1 * size
        is_extra = 2 * missing[corpus] >= size
        missing[corpus] -= is_extra * size
        copies[index] = int(times[corpus]) + is_extra
    for number, (total, time) in enumerate(zip(totals, times, strict=True), 1):
        yield f"corpus {number}: {total:,.0f} words, taken {time:.2f} times"
