"""Two tests of words: has a model learnt context?

Gaps: in every sentence, `[MASK]` replaces one word, a single token of the
vocabulary; does the generator restore it? Swaps: in every sentence, a word of
another sentence replaces one word; is it the most suspicious one?
"""

import collections
import itertools
import pathlib
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.export.clients import mask_filling
from electra_tf.export.clients import scoring
from electra_tf.loaded_models.pretrained import PretrainedModel
from electra_tf.records import corpus as corpus_lib

MIN_WORDS, MAX_WORDS = 8, 30
"""Words of a sentence, separated by blanks, or ideographs."""
_POOL = 50  # sentences that are read for each that is drawn
SENTENCE_END = re.compile(
    r"(?:(?<=[.!?])|(?<=[.!?][\"'”’)]))\s+(?=[\"'“‘(]?[A-Z])"
    r"|(?<=[。！？])(?![”’」』）])|(?<=[。！？][”’」』）])"
)
"""Blanks after one of `.!?` and perhaps a quote or bracket, before a capital
letter; or the position after one of `。！？` and perhaps a quote or bracket."""
_IDEOGRAPHS = "\u3400-\u9fff"
_IDEOGRAPH = re.compile(f"[{_IDEOGRAPHS}]")
# Letters between blanks, without surrounding punctuation; or one ideograph, a
# word of the tokenizer.
_WORD = re.compile(
    rf"([{_IDEOGRAPHS}])|"
    rf"(?<!\S)[\"'“‘(\[]*([^\W\d_{_IDEOGRAPHS}]+)[.,;:!?\"'”’)\]]*(?!\S)"
)
_TABLE = "{:<19} {:>10}  {:>5}  {:>9}  {}"
_COLUMNS = ("test", "hits", "share", "std error", "without reading")
_HEADER = "sentence\tword\treplacement"


class _Word(NamedTuple):
    text: str
    start: int  # its first character in the sentence
    end: int  # the character after it


class SwappedWord(NamedTuple):
    """The original word, and the sentence with its replacement."""

    word: str
    swap: scoring.Swap


class WordTests(NamedTuple):
    """A model's answers to gaps and swaps; empty for tests not taken."""

    # The sentence with `[MASK]`, the original token, the generator's best guess
    # and the guess's probability.
    gaps: tuple[tuple[str, str, str, float], ...] = ()
    # The sentence with `[old -> new]`, the new word's rank by suspicion, from
    # 1, and the number of words and punctuation marks.
    swaps: tuple[tuple[str, int, int], ...] = ()

    def compute(self) -> dict[str, Any]:
        """Computes the measures of the tests taken, as plain JSON.

        `gaps_constant` is the share of the most frequent word; `swaps_chance`
        the mean of 1 / number of words; `swaps_auc` the mean share of the other
        words that are less suspicious.
        """
        numbers: dict[str, Any] = {}
        if self.gaps:
            _, words, guesses, _ = zip(*self.gaps, strict=True)
            ((commonest, count),) = collections.Counter(words).most_common(1)
            numbers |= {
                "num_gaps": len(words),
                "gaps_filled": float(np.mean(np.equal(words, guesses))),
                "gaps_constant": count / len(words),
                "constant_word": commonest,
            }
        if self.swaps:
            _, ranks, counts = zip(*self.swaps, strict=True)
            rank, total = np.array(ranks), np.array(counts)
            numbers |= {
                "num_swaps": len(self.swaps),
                "swaps_first": float(np.mean(rank == 1)),
                "swaps_chance": float(np.mean(1 / total)),
                "swaps_auc": float(np.mean((total - rank) / (total - 1))),
            }
        return numbers

    def describe(self, num_examples: int = 4) -> list[str]:
        """Formats the measures, their baselines, and examples as lines."""
        numbers, rows = self.compute(), [_COLUMNS]
        if self.gaps:
            hits = _count_hits(numbers["gaps_filled"], len(self.gaps))
            always = f"(always {numbers['constant_word']!r})"
            constant = f"{numbers['gaps_constant']:.3f} {always}"
            rows.append(("gaps filled", *hits, constant))
        if self.swaps:
            hits = _count_hits(numbers["swaps_first"], len(self.swaps))
            chance = f"{numbers['swaps_chance']:.3f} (chance)"
            rows.append(("swaps ranked first", *hits, chance))
            area = f"{numbers['swaps_auc']:.3f}"
            rows.append(("swaps, mean AUC", "", area, "", "0.500 (chance)"))
        lines = [_TABLE.format(*row) for row in rows]
        for text, word, guess, probability in self.gaps[:num_examples]:
            lines += ["", text, f"    {guess} ({probability:.2f}), was {word}"]
        for text, rank, count in self.swaps[:num_examples]:
            lines += ["", text, f"    number {rank} of {count} by suspicion"]
        return lines


def read_sentences(corpus: str, count: int, seed: int) -> list[str]:
    """Draws different sentences of a corpus; reads files in random order."""
    generator = np.random.default_rng(seed)
    opened = corpus_lib.open_corpus(corpus)
    order = generator.permutation(len(opened.sources))
    documents = itertools.chain.from_iterable(
        corpus_lib.open_source(opened.sources[number], opened.options)
        for number in order
    )
    pool: dict[str, None] = {}
    for document in documents:
        pool |= {
            sentence: None
            for line in document.lines
            for sentence in SENTENCE_END.split(line.strip())
            if MIN_WORDS <= _count_words(sentence) <= MAX_WORDS
            and mask_filling.MASK not in sentence
        }
        if len(pool) >= _POOL * count:
            break
    if not any(map(_WORD.search, pool)):
        raise ValueError(
            f"A corpus for tests of words must have sentences of {MIN_WORDS} "
            f"to {MAX_WORDS} words. Received: {corpus}, without any."
        )
    sentences = list(pool)
    return [sentences[i] for i in generator.permutation(len(pool))[:count]]


def run(
    electra: PretrainedModel, sentences: Sequence[str], seed: int
) -> WordTests:
    """Runs the tests that the model can answer.

    Each sentence that fits into the model's row gets one gap and one swap.
    Raises `ValueError` for a model that can answer neither.
    """
    if not (electra.can_fill_masks or electra.can_score):
        raise ValueError(
            "Tests of words need a generator or a discriminator of replaced "
            f"tokens. Received: {electra!r}. Load a pre-trained model."
        )
    limit = electra.config.max_position_embeddings - 2  # [CLS] and [SEP]
    fits = electra.count_pieces(sentences) <= limit
    fitting = list(np.array(sentences, object)[fits])
    answers: dict[str, Any] = {}
    if electra.can_fill_masks:
        answers["gaps"] = fill_gaps(electra, fitting, seed)
    if electra.can_score:
        answers["swaps"] = rank_swaps(electra, draw_swaps(fitting, seed))
    return WordTests(**answers)


def _count_words(sentence: str) -> int:
    ideographs = _IDEOGRAPH.findall(sentence)
    is_chinese = 2 * len(ideographs) > len(sentence)
    return len(ideographs if is_chinese else sentence.split())


def _find_words(sentence: str) -> list[_Word]:
    matches = ((m, m.lastindex or 0) for m in _WORD.finditer(sentence))
    return [_Word(match[group], *match.span(group)) for match, group in matches]


def fill_gaps(
    electra: PretrainedModel, sentences: Sequence[str], seed: int
) -> tuple[tuple[str, str, str, float], ...]:
    """Masks one word in each sentence and lets the generator fill the gap.

    The word must be a single token. Models of different vocabularies get the
    same gaps for a seed if the words are tokens of both.
    """
    generator = np.random.default_rng(seed)
    words = [_find_words(sentence) for sentence in sentences]
    pieces = _single_pieces(electra, {w.text for row in words for w in row})
    texts, answers = [], []
    for sentence, row in zip(sentences, words, strict=True):
        order = generator.permutation(len(row))
        known = [row[i] for i in order if row[i].text in pieces]
        if known:
            word, start, end = known[0]
            texts.append(sentence[:start] + mask_filling.MASK + sentence[end:])
            answers.append(pieces[word])
    guesses = electra.fill_masks(texts, top_k=1)
    return tuple(
        (text, word, *best)
        for text, word, ((best,),) in zip(texts, answers, guesses, strict=True)
    )


def draw_swaps(sentences: Sequence[str], seed: int) -> list[SwappedWord]:
    """Exchanges a word of each sentence for a word of another sentence."""
    generator = np.random.default_rng(seed)
    words = [_find_words(sentence) for sentence in sentences]
    swaps = []
    for number, row in enumerate(words):
        if not row:
            continue
        old = row[generator.integers(len(row))]
        same = old.text.casefold()
        for donor in generator.permutation(len(words)):
            texts = [word.text for word in words[donor]]
            others = [text for text in texts if text.casefold() != same]
            if donor != number and others:
                new = others[generator.integers(len(others))]
                swap = scoring.exchange(
                    sentences[number], old.start, old.end, new
                )
                swaps.append(SwappedWord(old.text, swap))
                break
    return swaps


def read_swaps(path: pathlib.Path) -> list[SwappedWord]:
    """Reads a table of swaps: sentence, word and replacement, split by tabs."""
    lines = path.read_text("utf-8").removesuffix("\n").split("\n")
    rows = [line.split("\t") for line in lines[1:]]
    if lines[:1] != [_HEADER] or any(len(row) != 3 for row in rows):
        raise ValueError(
            f"{path} must begin with the line {_HEADER!r} and have three "
            "columns in every line. Received: another table."
        )
    return [
        SwappedWord(word, scoring.swap_word(sentence, f"{word}:{replacement}"))
        for sentence, word, replacement in rows
    ]


def rank_swaps(
    electra: PretrainedModel, swaps: Sequence[SwappedWord]
) -> tuple[tuple[str, int, int], ...]:
    """Ranks each exchanged word by suspicion among the words of its sentence.

    Leaves out words after the cut, and words without others.
    """
    texts = [change.swap.data.decode("utf-8", "replace") for change in swaps]
    ranked = []
    for change, scored in zip(swaps, electra.score(texts), strict=True):
        data, start, _, end = change.swap
        suspect = scoring.find_suspect(scored, start, end)
        if suspect is not None and len(scored.words) > 1:
            new = data[start:end].decode()
            shown = f"[{change.word} -> {new}]".encode()
            text = (data[:start] + shown + data[end:]).decode()
            ranked.append((text, suspect[0], len(scored.words)))
    return tuple(ranked)


def _single_pieces(electra: PretrainedModel, words: set[str]) -> dict[str, str]:
    listed = sorted(words)
    rows = electra.tokenizer.tokenize(tf.constant(listed, tf.string)).to_list()
    vocabulary = electra.vocabulary
    return {
        word: vocabulary.tokens[ids[0]]
        for word, ids in zip(listed, rows, strict=True)
        if len(ids) == 1 and ids[0] != vocabulary.unk_id
    }


def _count_hits(share: float, count: int) -> tuple[str, str, str]:
    error = (share * (1 - share) / count) ** 0.5
    hits = f"{round(share * count)} of {count}"
    return hits, f"{share:.3f}", f"{error:.3f}"
