"""Learned vocabularies: exact size, same bytes, pieces worth having."""

import os
import subprocess
import sys
import unicodedata

import pytest
import tensorflow as tf

from electra_tf.text.tokenizer import Tokenizer
from electra_tf.text.vocabulary import SPECIAL_TOKENS
from electra_tf.text.vocabulary import TokenizerSettings
from electra_tf.text.vocabulary import Vocabulary
from electra_tf.text.vocabulary_training import choose_accents
from electra_tf.text.vocabulary_training import count_words
from electra_tf.text.vocabulary_training import train_vocabulary
from tests import script_modules


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Plain English of some size: the project's own documentation."""
    folder = script_modules.ROOT / "electra_tf"
    paths = sorted([*folder.glob("records/*.py"), *folder.glob("text/*.py")])
    return [line for path in paths for line in path.read_text().splitlines()]


def test_words_are_counted_as_the_tokenizer_splits_them():
    texts = ["Caf\xe9 cafe. CAFE\u0301\n\u4e2d\u6587", "cafe\x0bcafe \ud800x"]
    counts = {
        "cafe": 3,
        ".": 1,
        "\u4e2d": 1,
        "\u6587": 1,
        "cafecafe": 1,
        "x": 1,
    }
    assert count_words(texts, TokenizerSettings()) == (counts, 0)
    cased = TokenizerSettings(do_lower_case=False, max_word_length=4)
    counts = {"Caf\xe9": 1, ",": 1, "\xe9t\xe9": 1}
    assert count_words(["Caf\xe9 Cafes, \xe9t\xe9"], cased) == (counts, 5)


def test_the_size_is_exact(texts):
    size = 1111
    vocabulary = train_vocabulary(texts, size, num_unused=2)
    assert vocabulary.size == size
    assert vocabulary.tokens[:5] == SPECIAL_TOKENS
    assert vocabulary.tokens[5:7] == ("[unused0]", "[unused1]")
    assert vocabulary.settings == TokenizerSettings()
    backwards = train_vocabulary(reversed(texts), size, num_unused=2)
    assert backwards.tokens == vocabulary.tokens


def test_frequent_characters_and_all_of_ascii_are_tokens():
    texts = ["common words " * 500 + "\u4e2d"]
    vocabulary = train_vocabulary(texts, 115)
    text = "".join(map(chr, range(0x20, 0x7F)))
    ids = Tokenizer(vocabulary).tokenize(tf.constant([text, "q9z x0"]))
    assert vocabulary.unk_id not in ids.values.numpy()
    assert "\u4e2d" not in vocabulary.tokens
    kept = train_vocabulary(texts, 115, character_coverage=1.0)
    # An ideograph never continues a word.
    assert {"\u4e2d", "##\u4e2d"} & {*kept.tokens} == {"\u4e2d"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"texts": ["", " \n", "\x00"], "size": 500}, "no words"),
        # Lines of DNA, above both limits and above that of learning.
        ({"texts": ["ACGT" * 99], "size": 500}, "100.0%.*max_word_length.*k-m"),
        ({"texts": ["ACGT" * 17, "a"], "size": 500}, "98.6% of the text.*k=6"),
        ({"size": 50}, "Size 50 is too small.*68 characters.*take 109"),
        ({"size": 5000}, "only 1.. tokens.*at least 2 times.*size 5000"),
    ],
)
def test_what_cannot_be_learned_is_said(arguments, message):
    texts = ["the quick brown fox " * 3]
    with pytest.raises(ValueError, match=f"(?s){message}"):
        train_vocabulary(**({"texts": texts} | arguments))


def test_words_longer_than_any_piece_teach_nothing_and_are_told(caplog):
    texts = ["\u0436" * 150 + " ab" * 50] * 9
    with caplog.at_level("WARNING"):
        vocabulary = train_vocabulary(texts, 112)
    assert max(map(len, vocabulary.tokens)) < 9
    assert "60.0% of the text is in words of more than 64" in caplog.text
    Tokenizer(vocabulary)


@pytest.mark.parametrize(
    ("text", "strips", "told"),
    [
        ("Das Café der Bäume. " * 19 + "हिन्दी", True, "'café' becomes 'cafe'"),
        ("the quick brown fox", True, "removed, as in the original. --nostrip"),
        ("مُحَمَّد", True, "becomes 'محمد'. --nostrip_accents"),
        ("यह हिन्दी है और हिन्दी", False, "Devanagari); 'हिन्दी' would"),
        ("ภาษาไทย นี้", False, "(Thai); 'นี้' would become 'น'. --strip_acc"),
        ("がっこう です", False, "33.3% of all letters have marks"),
        ("мой твой", False, "(Cyrillic); 'мой' would become 'мои'"),
        ("한국어", False, "(Hangul); '한국어' would become 'ᄒ ᅡ ᆫ"),
    ],
)
def test_marks_that_are_letters_of_the_script_are_kept(text, strips, told):
    for spelled in (text, unicodedata.normalize("NFD", text)):
        chosen, why = choose_accents(spelled)
        assert chosen == strips
        assert told in why


def test_the_script_writes_the_same_bytes_as_any_process(tmp_path, texts):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(texts), "utf-8")
    script = script_modules.ROOT / "scripts" / "train_vocabulary.py"
    flags = f"--corpus={corpus}", f"--output_dir={tmp_path}"
    more = "--vocab_size=900", "--nostrip_accents", "--max_word_length=100"
    subprocess.run(
        [sys.executable, script, *flags, *more],
        env=os.environ | {"PYTHONHASHSEED": "1"},
        check=True,
    )
    settings = TokenizerSettings(True, False, 100)
    expected = train_vocabulary(texts, 900, settings)
    assert Vocabulary.load(tmp_path) == expected
