"""Which documents of a corpus are like earlier ones.

Two passes, so that any number of processes or machines gives the same: every
work unit gets fingerprints; when all are there, one process decides. A document
goes if one before it is like it and stays, in the order of the corpus.

Exact: the same but for case and white space, by a hash of 64 bits. Near: or the
sets of 5 successive words have an estimated Jaccard similarity of at least 0.8,
by MinHash with 128 permutations (standard error 0.035 there). Pairs meet in 32
bands of 4 rows, as nearly all do that are so similar.
"""

import functools
import hashlib
import json
import pathlib
import re
import zlib
from collections.abc import Sequence

import numpy as np

from electra_tf.processes import atomic
from electra_tf.processes import pool
from electra_tf.records import corpus as corpus_lib
from electra_tf.records import readers

NUM_PERMUTATIONS = 128
MIN_SIMILARITY = 0.8
_SHINGLE_WORDS = 5
_BAND_ROWS = 4
_SHINGLES_AT_ONCE = 4096
_DOCUMENTS_AT_ONCE = 1024
_NUM_SHOWN = 3  # pairs of each kind in the report
_BEGINNING_BYTES = 80
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, of random bits
# Characters of scripts without blanks between words are words of their own.
_NO_BLANKS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
_WORD = re.compile(rf"[{_NO_BLANKS}]|[^\W{_NO_BLANKS}]+")


def write_fingerprints(
    sources: Sequence[corpus_lib.Source],
    options: readers.ReadingOptions,
    is_near: bool,
    folder: pathlib.Path,
    report: pool.Report,
) -> None:
    """Writes what is compared of a unit; reports bytes and documents.

    Of n documents: hashes `[n]`, beginnings `[n]`, and signatures `[128, n]`.
    """
    documents = []
    for source in sources:
        reader = corpus_lib.open_source(source, options)
        pieces, num_bytes, num_documents = [], 0, 0
        for document in reader:
            pieces.append(" ".join(" ".join(document.lines).lower().split()))
            if document.is_continued:
                continue
            text = " ".join(pieces).strip()
            digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
            beginning = f"{source.name}: {text}".encode()[:_BEGINNING_BYTES]
            signature = sign(text) if is_near else np.zeros([0], np.uint32)
            documents.append((digest, beginning, signature))
            pieces, num_documents = [], num_documents + 1
            if num_documents == _DOCUMENTS_AT_ONCE:
                report(reader.num_bytes - num_bytes, num_documents)
                num_bytes, num_documents = reader.num_bytes, 0
        report(reader.num_bytes - num_bytes, num_documents)
    nothing = b"", b"", np.zeros([0], np.uint32)
    digests, beginnings, signatures = zip(*documents or [nothing], strict=True)
    with atomic.creating_folder(folder) as partial:
        hashes = np.frombuffer(b"".join(digests), np.uint64)
        np.save(partial / "hashes.npy", hashes)
        np.save(partial / "beginnings.npy", np.array(beginnings))
        table = np.array(signatures, np.uint32).T
        np.save(partial / "signatures.npy", np.ascontiguousarray(table))


def sign(text: str) -> np.ndarray:
    """MinHash signature of a lower-case text, `[128]` uint32.

    The share of equal values of two signatures estimates the similarity. A text
    of fewer than 5 words has one set of them.
    """
    words = _WORD.findall(text) or [text]
    words += [""] * (_SHINGLE_WORDS - len(words))
    hashes = np.array([zlib.crc32(word.encode()) for word in words], np.uint64)
    shingles = np.zeros([len(words) - _SHINGLE_WORDS + 1], np.uint64)
    for place in range(_SHINGLE_WORDS):
        shingles = shingles * _FACTOR + hashes[place:][: len(shingles)]
    shingles = (shingles ^ shingles >> np.uint64(32)) * _FACTOR
    values = (shingles >> np.uint64(32)).astype(np.uint32)
    factors, terms = _permutations()
    return np.min(
        [
            (factors * values[begin:][:_SHINGLES_AT_ONCE] + terms).min(axis=1)
            for begin in range(0, len(values), _SHINGLES_AT_ONCE)
        ],
        axis=0,
    )


@functools.cache
def _permutations() -> tuple[np.ndarray, np.ndarray]:
    """Factors, odd, and terms of `x -> a x + b` modulo 2^32: `[128, 1]`."""
    # The one generator of numpy whose numbers are promised to stay.
    rng = np.random.RandomState(0)
    numbers = rng.randint(0, 2**32, [2, NUM_PERMUTATIONS, 1], np.uint32)
    return numbers[0] | np.uint32(1), numbers[1]


def mark_duplicates(
    folders: Sequence[pathlib.Path], is_near: bool, output: pathlib.Path
) -> None:
    """Decides from the units' fingerprints; writes a folder of the outcome.

    It gets `000000.npy`, which documents of the first unit go, and so on, and
    `report.json`: counts, and beginnings of pairs, which stays and which goes.
    """
    hashes = [np.load(folder / "hashes.npy") for folder in folders]
    ends = np.cumsum(list(map(len, hashes)))
    _, first, inverse = np.unique(np.concatenate(hashes), True, True)
    original, numbers = first[inverse], np.arange(len(inverse))
    exact = np.flatnonzero(original != numbers)
    if is_near:
        paths = [folder / "signatures.npy" for folder in folders]
        tables = [np.load(path, mmap_mode="r") for path in paths]
        distinct = np.flatnonzero(original == numbers)
        for earlier, later in find_pairs(tables, distinct):
            if original[earlier] == earlier and original[later] == later:
                original[later] = earlier
    is_dropped = original != numbers
    near = np.setdiff1d(np.flatnonzero(is_dropped), exact)

    def beginning(number: int) -> str:
        unit = int(np.searchsorted(ends, number, side="right"))
        texts = np.load(folders[unit] / "beginnings.npy", mmap_mode="r")
        return bytes(texts[number - ends[unit]]).decode("utf-8", "ignore")

    shown = [*exact[:_NUM_SHOWN], *near[:_NUM_SHOWN]]
    report = {
        "num_documents": len(numbers),
        "num_exact": len(exact),
        "num_near": len(near),
        "pairs": [(beginning(original[i]), beginning(i)) for i in shown],
    }
    with atomic.creating_folder(output) as partial:
        for unit, part in enumerate(np.split(is_dropped, ends[:-1])):
            np.save(partial / f"{unit:06d}.npy", part)
        (partial / "report.json").write_text(json.dumps(report), "utf-8")


def find_pairs(
    tables: Sequence[np.ndarray], chosen: np.ndarray
) -> list[tuple[int, int]]:
    """Pairs of similar ones among the chosen documents, by the later's number.

    `tables` are the units' signatures, `[128, n]` each. Of the documents that
    share a band, each is compared with the first and with the one before it.
    """

    def row(index: int) -> np.ndarray:
        return np.concatenate([table[index] for table in tables])[chosen]

    found = []
    for band in range(0, NUM_PERMUTATIONS, _BAND_ROWS):
        keys = np.zeros(len(chosen), np.uint64)
        for index in range(band, band + _BAND_ROWS):
            keys = keys * _FACTOR + row(index)
        order = np.argsort(keys, kind="stable")
        is_same = np.append(False, np.diff(keys[order]) == 0)
        firsts = np.maximum.accumulate(
            np.where(is_same, 0, np.arange(len(order)))
        )
        for earlier in (order[firsts], np.roll(order, 1)):
            found.append(order[is_same] * len(chosen) + earlier[is_same])
    later, earlier = np.divmod(np.unique(np.concatenate(found)), len(chosen))
    num_equal = np.zeros(len(later), np.uint8)
    for index in range(NUM_PERMUTATIONS):
        values = row(index)
        num_equal += values[later] == values[earlier]
    is_similar = num_equal >= MIN_SIMILARITY * NUM_PERMUTATIONS
    pairs = chosen[np.stack([earlier, later], axis=1)[is_similar]]
    return pairs.tolist()
