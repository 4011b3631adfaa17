"""The embedded little task: which documentation is a sentence from?

For those who have no task files yet. Sentences are taken from the embedded
corpus (`records/python_docs.py`), the label is the topic of the package that
they document. So the text is real, the label follows from it, and nothing has
to be downloaded. Sentences that name one of the packages are left out.
"""

import csv
import json
import os
import pathlib
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from electra_tf import errors
from electra_tf.processes import atomic
from electra_tf.records import python_docs

TOPICS: Mapping[str, tuple[str, ...]] = {
    "language": ("python",),
    "numerics": ("numpy", "scipy"),
    "plotting": ("matplotlib",),
    "learning": ("keras", "keras_hub", "tensorflow"),
}
"""Label to the files of the corpus that it stands for."""
SIZES: Mapping[str, int] = {"train": 4_000, "dev": 500, "test": 500}
SEED = 1
_VERSION = 1  # of the rules below; part of the provenance
_MAX_OF_DOCUMENT = 25  # sentences, so that no document outweighs the others
_MIN_WORDS, _MAX_WORDS = 6, 24
_SENTENCE_END = re.compile(r"(?<=[.!?]) +(?=[A-Z])")
# Words of letters between single blanks, perhaps with commas behind them.
_PLAIN = re.compile(r"[A-Z][a-z]*,?(?: [A-Za-z]+,?)*\.")
_NAMES = re.compile(
    r"\b(?:python|numpy|np|scipy|matplotlib|pyplot|keras|tensorflow|tf)", re.I
)


class Example(NamedTuple):
    """A row of the files; the names are those of their columns."""

    text: str
    label: str


Documents = list[list[str]]
"""The sentences of each document."""


def prepare(
    folder: str | os.PathLike | None = None,
    corpus: str | os.PathLike | None = None,
    seed: int = SEED,
) -> pathlib.Path:
    """A folder with `train.csv`, `dev.csv` and `test.csv`; made if need be.

    Args:
        folder: where to put them; None for one beside the corpus.
        corpus: folder of the embedded corpus; None harvests it if need be.
        seed: of the choice of documents and sentences.

    Returns:
        The folder, with columns as in `Example`, and `provenance.json`.

    Raises:
        DataError: if the folder holds something else, or the corpus too
            little.
    """
    corpus = python_docs.prepare(corpus)
    folder = pathlib.Path(folder or f"{corpus}-doc_topics")
    source = json.loads((corpus / python_docs.PROVENANCE_FILE).read_text())
    provenance = {
        "version": _VERSION,
        "seed": seed,
        "sizes": dict(SIZES),
        "corpus": source["versions"],
    }
    path = folder / python_docs.PROVENANCE_FILE
    if folder.exists():
        found = json.loads(path.read_text()) if path.is_file() else None
        if found != provenance:
            raise errors.DataError(
                f"{folder} exists and holds other files. Expected: "
                f"{provenance}. Received: {found}. Delete it or name another "
                "folder."
            )
        return folder
    splits = make_splits(read_documents(corpus), SIZES, seed)
    with atomic.creating_folder(folder) as partial:
        for split, examples in splits.items():
            _write(partial / f"{split}.csv", examples)
        text = json.dumps(provenance, indent=1) + "\n"
        (partial / path.name).write_text(text, "utf-8")
    return folder


def read_documents(corpus: pathlib.Path) -> dict[str, Documents]:
    """Label to the plain sentences of its documents, none of them twice.

    Args:
        corpus: folder of the embedded corpus.
    """
    seen: set[str] = set()
    documents: dict[str, Documents] = {}
    for label, names in TOPICS.items():
        documents[label] = []
        for name in names:
            path = corpus / f"{name}.txt"
            text = path.read_text("utf-8") if path.is_file() else ""
            for document in text.strip().split("\n\n"):
                new = []
                for sentence in find_sentences(document):
                    if sentence.lower() not in seen:
                        seen.add(sentence.lower())
                        new.append(sentence)
                documents[label].append(new)
    return documents


def find_sentences(document: str) -> Iterator[str]:
    """The plain sentences of middling length that name no package.

    Args:
        document: a paragraph on every line.
    """
    for paragraph in document.splitlines():
        for sentence in _SENTENCE_END.split(paragraph):
            if (
                _MIN_WORDS <= len(sentence.split(" ")) <= _MAX_WORDS
                and _PLAIN.fullmatch(sentence)
                and not _NAMES.search(sentence)
            ):
                yield sentence


def make_splits(
    documents: Mapping[str, Documents], sizes: Mapping[str, int], seed: int
) -> dict[str, list[Example]]:
    """Examples for each split, as many of each label.

    A document is in one split only, and gives 25 sentences at most.

    Args:
        documents: label to sentences, none of them twice.
        sizes: split to its number of examples, a multiple of the labels'.
        seed: of all choices.

    Raises:
        DataError: if there are too few sentences.
    """
    rng = random.Random(seed)
    splits: dict[str, list[Example]] = {split: [] for split in sizes}
    for label, supply in documents.items():
        wanted = {
            split: size // len(documents) for split, size in sizes.items()
        }
        chosen = _choose(label, supply, wanted, rng)
        for split, sentences in chosen.items():
            splits[split] += [Example(text, label) for text in sentences]
    for examples in splits.values():
        rng.shuffle(examples)
    return splits


def _choose(
    label: str,
    documents: Documents,
    sizes: Mapping[str, int],
    rng: random.Random,
) -> dict[str, list[str]]:
    """Sentences of whole documents for each split, the smallest one first."""
    supply = [
        rng.sample(sentences, min(len(sentences), _MAX_OF_DOCUMENT))
        for sentences in documents
    ]
    rng.shuffle(supply)
    num_found = sum(map(len, supply))
    chosen = {}
    for split in sorted(sizes, key=sizes.__getitem__):
        sentences: list[str] = []
        while len(sentences) < sizes[split] and supply:
            sentences += supply.pop()
        if len(sentences) < sizes[split]:
            raise errors.DataError(
                f"Expected {sum(sizes.values())} plain sentences of {label} "
                f"and some more. Received: {num_found}. Install the packages "
                "of requirements.lock, whose documentation they are from."
            )
        chosen[split] = sentences[: sizes[split]]
    return chosen


def _write(path: pathlib.Path, examples: Sequence[Example]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Example._fields)
        writer.writerows(examples)
