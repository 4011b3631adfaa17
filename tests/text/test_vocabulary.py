"""Vocabularies on disk, their settings and what is refused."""

import hashlib
import json
import logging

import pytest

from electra_tf import errors
from electra_tf.text.vocabulary import TokenizerSettings
from electra_tf.text.vocabulary import Vocabulary

TOKENS = ("[PAD]", "a", "[UNK]", "[CLS]", "##b", "[SEP]", "[MASK]")


def _write(folder, content: bytes, settings: object = None):
    (folder / "vocab.txt").write_bytes(content)
    if settings is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def _lines(*tokens: str, end: str = "\n") -> bytes:
    return "".join(token + end for token in tokens).encode()


def test_tokens_and_settings_survive_the_disk(tmp_path):
    settings = TokenizerSettings(False, False, max_word_length=77)
    vocabulary = Vocabulary((*TOKENS, "\u4e2d", "\u2028", "\x85"), settings)
    vocabulary.save(tmp_path / "new" / "folder")
    for path in ("new/folder", "new/folder/vocab.txt"):
        loaded = Vocabulary.load(tmp_path / path)
        assert loaded == vocabulary
        assert loaded.sha256 == vocabulary.sha256
    content = (tmp_path / "new/folder/vocab.txt").read_bytes()
    assert content == _lines(*vocabulary.tokens)
    assert vocabulary.sha256 == hashlib.sha256(content).hexdigest()


def test_files_of_other_editors_give_the_same_vocabulary(tmp_path):
    for content in (
        _lines(*TOKENS, end="\r\n"),
        _lines(*TOKENS).removesuffix(b"\n"),
        b"\xef\xbb\xbf" + _lines(*TOKENS),
    ):
        loaded = Vocabulary.load(_write(tmp_path, content))
        assert loaded == Vocabulary(TOKENS, TokenizerSettings(True, True, 200))
        assert loaded.sha256 == Vocabulary(TOKENS).sha256
    keep = _write(tmp_path, _lines(*TOKENS), {"strip_accents": False})
    assert Vocabulary.load(keep).settings == TokenizerSettings(True, False)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (_lines(*TOKENS[:-1]), r"missing: \[MASK\].*6 tokens.*train"),
        (_lines("[PAD]", "", *TOKENS[1:]), "Line 2 must hold one"),
        (_lines(*TOKENS, " \t"), "Line 8 must hold one token"),
        (_lines(*TOKENS) + b"c\r\n", r"Line 8 .* line end.* 'c\\r'"),
        (_lines(*TOKENS) + b"caf\xe9\n", "Line 8 must hold .* UTF-8"),
        (_lines(*TOKENS) + b"\xed\xa0\x80\n", "Line 8 must hold .* UTF-8"),
    ],
)
def test_an_unusable_file_is_refused_with_its_name(tmp_path, content, message):
    with pytest.raises(errors.DataError, match=f"(?s)vocab.txt: .*{message}"):
        Vocabulary.load(_write(tmp_path, content))


def test_the_last_of_repeated_lines_counts(tmp_path, caplog):
    content = _lines(*TOKENS, "c", "d", "[MASK]", "c")
    found = Vocabulary.load(_write(tmp_path, content))
    names = "[no_token_at_6]", "[no_token_at_7]"
    assert found.tokens == (*TOKENS[:6], *names, "d", "[MASK]", "c")
    assert "'[MASK]' on lines 7 and 10" in caplog.text
    with pytest.raises(errors.DataError, match="Replace the earlier lines"):
        Vocabulary((*TOKENS, "c", "c"))


def test_a_vocabulary_is_missed_and_never_overwritten(tmp_path):
    with pytest.raises(FileNotFoundError, match="vocab.txt.*train-vocab"):
        Vocabulary.load(tmp_path)
    Vocabulary(TOKENS).save(tmp_path)
    Vocabulary(TOKENS).save(tmp_path)
    for other in (
        Vocabulary((*TOKENS, "new")),
        Vocabulary(TOKENS, TokenizerSettings(do_lower_case=False)),
    ):
        with pytest.raises(FileExistsError, match="Name another folder"):
            other.save(tmp_path)
    assert Vocabulary.load(tmp_path) == Vocabulary(TOKENS)


def test_a_cased_vocabulary_under_lower_casing_is_noticed(tmp_path, caplog):
    folder = _write(tmp_path, _lines(*TOKENS, "The", "Paris"))
    with caplog.at_level(logging.WARNING, logger="absl"):
        Vocabulary.load(folder)
    assert "2 of 9 tokens hold capitals" in caplog.text
    caplog.clear()
    _write(tmp_path, _lines(*TOKENS, "The"), {"do_lower_case": False})
    Vocabulary.load(folder)
    assert caplog.text == ""
