"""Learns a WordPiece vocabulary from text, with the same bytes on every run.

The trainer of `tokenizers` numbers the characters that continue a word in the
random order of its hash tables, and breaks ties by these numbers. So all
characters are registered beforehand, in sorted order.
"""

import collections
import re
import string
import unicodedata
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from absl import logging

from electra_tf import errors
from electra_tf.text.vocabulary import SPECIAL_TOKENS
from electra_tf.text.vocabulary import TokenizerSettings
from electra_tf.text.vocabulary import Vocabulary

_CONTINUATION_PREFIX = "##"
# Longer words are not learned from: tensorflow-text matches tokens of up to 256
# bytes, which 64 characters of UTF-8 can take.
_MAX_LEARNED_LENGTH = 64
# Shares of text in longer words, above which a corpus is refused, or warned of.
_MAX_LONG_SHARE, _LARGE_LONG_SHARE = 0.9, 0.01
_BATCH_CHARACTERS = 1 << 18
_MAX_CHARACTERS = 1 << 26  # of the text that is held at once
_CHUNK_CHARACTERS = 1 << 14
_PRINTABLE = string.digits + string.ascii_letters + string.punctuation
# Scripts in which marks are no letters; marks without a script, too.
_ACCENTED = ("", "LATIN", "GREEK", "ARABIC", "HEBREW", "SYRIAC", "COMBINING")
# If more letters than this share would change, marks are kept.
_LOST_SHARE = 0.005


def train_vocabulary(
    texts: Iterable[str],
    size: int,
    settings: TokenizerSettings | None = None,
    *,
    num_unused: int = 0,
    character_coverage: float = 0.9995,
    min_frequency: int = 2,
) -> Vocabulary:
    """Learns a vocabulary of exactly the given size from a corpus.

    Args:
        texts: the corpus, in texts of any length.
        size: number of tokens, with special and unused ones.
        settings: settings of the tokenizer; None: the original's.
        num_unused: slots `[unused0]`, ... for tokens that are added later.
        character_coverage: share of the text's characters that the most
            frequent characters cover; these and ASCII become tokens. Words
            with other characters are [UNK].
        min_frequency: how often two pieces must be adjacent to be merged.

    Raises:
        DataError: if the corpus has too few words for `size`.
    """
    settings = settings or TokenizerSettings()
    counts, num_dropped = count_words(texts, settings)
    _check_lengths(counts, num_dropped, settings)
    reserved = [*SPECIAL_TOKENS, *(f"[unused{i}]" for i in range(num_unused))]
    alphabet = _choose_alphabet(counts, settings, character_coverage)
    reserved += _single_character_tokens(counts, alphabet)
    if len(reserved) > size:
        raise errors.DataError(
            f"Size {size} is too small: special tokens, unused slots and "
            f"{len(alphabet)} characters, alone and as continuations, take "
            f"{len(reserved)}. Raise the size, or lower --character_coverage."
        )
    learned = {
        word: count
        for word, count in counts.items()
        if len(word) <= _MAX_LEARNED_LENGTH and alphabet.issuperset(word)
    }
    tokens = _learn_pieces(learned, size, reserved, min_frequency)
    if len(tokens) < size:
        raise errors.DataError(
            f"The corpus supports only {len(tokens)} tokens that occur at "
            f"least {min_frequency} times. Received: size {size}. Set "
            f"--vocab_size={len(tokens)}, or give more text."
        )
    return Vocabulary(tuple(tokens), settings)


def _check_lengths(
    counts: Mapping[str, int], num_dropped: int, settings: TokenizerSettings
) -> None:
    """Warns of words too long to learn from; refuses a text of few others."""
    sizes = {word: len(word) * count for word, count in counts.items()}
    total = sum(sizes.values()) + num_dropped
    if not total:
        raise errors.DataError(
            "Expected text to learn a vocabulary from, but the corpus holds "
            "no words. Check that the files are text and not empty."
        )
    long = (size for w, size in sizes.items() if len(w) > _MAX_LEARNED_LENGTH)
    share = (num_dropped + sum(long)) / total
    message = (
        f"{share:.1%} of the text is in words of more than "
        f"{_MAX_LEARNED_LENGTH} characters, from which no tokens are learned; "
        f"words of more than max_word_length={settings.max_word_length} become "
        "[UNK]. Put blanks between the words of a script without them, and cut "
        "DNA or proteins into k-mers, for example ACGTAC GTTACG for k=6."
    )
    if share > _MAX_LONG_SHARE:
        raise errors.DataError(f"Expected text with words. Received: {message}")
    if share > _LARGE_LONG_SHARE:
        logging.warning(message)


def count_words(
    texts: Iterable[str], settings: TokenizerSettings
) -> tuple[collections.Counter[str], int]:
    """Counts the words of a corpus; of too long ones, only their characters."""
    # Imported late, so that reading a vocabulary needs no TensorFlow.
    import tensorflow as tf

    from electra_tf.text.normalization import Normalizer

    texts_spec = tf.TensorSpec([None], tf.string)
    split = tf.function(
        Normalizer(settings).split, [texts_spec], autograph=False
    )
    totals: collections.Counter[str] = collections.Counter()
    num_dropped = 0
    for chunks in _count_chunks(texts):
        # A lone surrogate becomes invalid UTF-8, which the graph drops.
        names = [chunk.encode("utf-8", "surrogatepass") for chunk in chunks]
        words = split(tf.constant(names, tf.string))
        counts = np.repeat(list(chunks.values()), np.diff(words.text_splits))
        sizes = words.num_characters.numpy()
        is_short = sizes <= settings.max_word_length
        num_dropped += int((sizes * counts)[~is_short].sum())
        short_words = words.words.numpy()[is_short]
        for word, count in zip(short_words, counts[is_short], strict=True):
            totals[word.decode("utf-8")] += int(count)
    return totals, num_dropped


def _count_chunks(texts: Iterable[str]) -> Iterator[dict[str, int]]:
    chunks: collections.Counter[str] = collections.Counter()
    num_characters = 0
    for text in texts:
        chunks.update(text.replace("\n", " ").split(" "))
        num_characters += len(text)
        if num_characters >= _MAX_CHARACTERS:
            yield from _divide(chunks)
            chunks.clear()
            num_characters = 0
    yield from _divide(chunks)


def _divide(chunks: Mapping[str, int]) -> Iterator[dict[str, int]]:
    batch: dict[str, int] = {}
    num_characters = 0
    for chunk, count in chunks.items():
        # Words are shorter than a batch. Batches bound the graph's memory, 500
        # times that of its text.
        for begin in range(0, len(chunk), _BATCH_CHARACTERS):
            part = chunk[begin : begin + _BATCH_CHARACTERS]
            batch[part] = batch.get(part, 0) + count
            num_characters += len(part)
            if num_characters >= _BATCH_CHARACTERS:
                yield batch
                batch, num_characters = {}, 0
    if batch:
        yield batch


def _choose_alphabet(
    counts: Mapping[str, int], settings: TokenizerSettings, coverage: float
) -> set[str]:
    alphabet = set(_PRINTABLE.lower() if settings.do_lower_case else _PRINTABLE)
    characters: collections.Counter[str] = collections.Counter()
    for word, count in counts.items():
        for character in word:
            characters[character] += count
    wanted = coverage * characters.total()
    ranked = sorted(characters.items(), key=lambda item: (-item[1], item[0]))
    for character, count in ranked:
        if wanted <= 0:
            break
        alphabet.add(character)
        wanted -= count
    return alphabet


def _single_character_tokens(
    counts: Mapping[str, int], alphabet: set[str]
) -> list[str]:
    """Returns all characters, and `##c` for each c that continues a word."""
    continuing = {character for word in counts for character in word[1:]}
    continuing.update(filter(str.isalnum, alphabet.intersection(_PRINTABLE)))
    return sorted(alphabet) + [
        _CONTINUATION_PREFIX + character
        for character in sorted(continuing & alphabet)
    ]


def _learn_pieces(
    counts: Mapping[str, int],
    size: int,
    reserved: list[str],
    min_frequency: int,
) -> list[str]:
    import tokenizers

    learner = tokenizers.Tokenizer(tokenizers.models.WordPiece())
    learner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=min_frequency,
        show_progress=False,
        # Registered first, so that their ids follow this order.
        special_tokens=reserved,
        continuing_subword_prefix=_CONTINUATION_PREFIX,
    )
    learner.train_from_iterator(_repeat_words(counts), trainer)
    numbers = learner.get_vocab()
    return sorted(numbers, key=numbers.__getitem__)


def _repeat_words(counts: Mapping[str, int]) -> Iterator[str]:
    for word, count in counts.items():
        per_chunk = max(1, _CHUNK_CHARACTERS // (len(word) + 1))
        for begin in range(0, count, per_chunk):
            yield f"{word} " * min(per_chunk, count - begin)


def choose_accents(text: str) -> tuple[bool, str]:
    """Chooses whether to strip accents, by a sample of a corpus.

    The original strips combining marks (category Mn) whenever it lower-cases.
    Latin, Greek, Arabic and Hebrew texts stay readable; Hindi loses vowels,
    Thai vowels and tones, Russian one letter, Japanese voiced sounds, and
    Korean syllables are divided. Returns the choice, and a sentence that
    explains it with an example.
    """
    # Composed, so that a letter and its mark are one character.
    text = unicodedata.normalize("NFC", text).lower()
    counts = collections.Counter(text)
    changed = [c for c, _ in counts.most_common() if _strip(c) != c]
    lost = [c for c in changed if _script(c) not in _ACCENTED]
    num_letters = sum(n for c, n in counts.items() if _is_letter(c))
    share = sum(counts[c] for c in lost) / max(num_letters, 1)
    if share <= _LOST_SHARE:
        reason, marks = "Accents are removed, as in the original", changed
        becomes, change = "becomes", "--nostrip_accents keeps them."
    else:
        scripts = dict.fromkeys(_script(c).title() for c in lost)
        reason = f"Marks are kept: {share:.1%} of all letters have marks that "
        reason += f"are letters themselves ({', '.join(scripts)})"
        marks, becomes = lost, "would become"
        change = "--strip_accents removes them."
    words = collections.Counter(re.findall(r"\S{3,20}", text)).most_common()
    example = next((w for w, _ in words if not {*marks}.isdisjoint(w)), "")
    if example:
        example = "".join(filter(_is_letter, example))
        stripped = _strip(example)
        if unicodedata.normalize("NFC", stripped) == example:
            stripped = " ".join(stripped)  # Korean, which would look the same
        reason += f"; {example!r} {becomes} {stripped!r}"
    return share <= _LOST_SHARE, f"{reason}. {change}"


def _strip(text: str) -> str:
    parts = unicodedata.normalize("NFD", text)
    return "".join(c for c in parts if unicodedata.category(c) != "Mn")


def _is_letter(character: str) -> bool:
    return unicodedata.category(character)[0] in "LM"


def _script(character: str) -> str:
    return unicodedata.name(character, "").partition(" ")[0]
