"""Vocabulary and settings come from any files, which must agree."""

import dataclasses
import json

import pytest
import tensorflow as tf
import tokenizers

from electra_tf import errors
from electra_tf.formats import tokenizer_files
from electra_tf.text import tokenizer as tokenizer_lib
from tests.formats import tiny_models

VOCABULARY = tiny_models.VOCABULARY
_TEXTS = (
    "The cat sat on a mat.",
    "Unable dogs, é and É? 東京 items",
    "unablesunable x\u200bran\tthe",
    "",
)


def _load(folder, vocab_size=VOCABULARY.size):
    sizes = dataclasses.replace(tiny_models.ENCODER, vocab_size=vocab_size)
    return tokenizer_files.load_if_there(folder, sizes)


@pytest.fixture
def folder(tmp_path):
    """As Hugging Face has it, all files."""
    tokenizer_files.write_hugging_face(VOCABULARY, tmp_path, 20)
    return tmp_path


def _change(folder, name="tokenizer.json", **fields):
    tiny_models.change_json(folder / name, **fields)


def _described(folder):
    return json.loads((folder / "tokenizer.json").read_text())


@pytest.mark.parametrize(
    "missing", ["vocab.txt", "tokenizer.json", "tokenizer_config.json"]
)
def test_some_of_the_files_are_enough(folder, missing):
    assert _load(folder) == VOCABULARY
    (folder / missing).unlink()
    # What tokenizer.json says of long words stands nowhere else.
    length = 100 if missing == "tokenizer.json" else 200
    assert _load(folder) == tiny_models.vocabulary_of(max_word_length=length)


@pytest.mark.parametrize(
    "settings",
    [{"do_lower_case": False}, {"strip_accents": False, "max_word_length": 9}],
)
def test_tokenizers_make_our_ids(tmp_path, settings):
    vocabulary = tiny_models.vocabulary_of(**settings)
    assert _load(tmp_path) is None
    vocabulary.save(tmp_path)
    assert _load(tmp_path) == vocabulary
    tokenizer_files.write_hugging_face(vocabulary, tmp_path, 20)
    assert _load(tmp_path) == vocabulary
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    ours = tokenizer_lib.Tokenizer(vocabulary).tokenize(tf.constant(_TEXTS))
    for text, ids in zip(_TEXTS, ours.to_list(), strict=True):
        found = theirs.encode(text).ids
        assert found == [vocabulary.cls_id, *ids, vocabulary.sep_id]


def test_rows_without_a_token_get_names_that_no_text_has(folder):
    found = _load(folder, VOCABULARY.size + 2)
    assert found.tokens == (*VOCABULARY.tokens, "[no_token_0]", "[no_token_1]")
    with pytest.raises(errors.ModelError, match="of 23 tokens. Received: 2"):
        _load(folder, VOCABULARY.size - 1)


def test_lists_that_contradict_each_other_are_refused(folder):
    file = folder / "vocab.txt"
    tokens = file.read_text().splitlines()
    file.write_text("\n".join([*tokens[:-2], tokens[-1], tokens[-2]]))
    with pytest.raises(errors.ModelError, match="must list the same"):
        _load(folder)
    # Hugging Face adds tokens to tokenizer.json alone.
    file.write_text("\n".join(tokens[:-1]))
    with pytest.raises(errors.ModelError, match="must list the same"):
        _load(folder)
    added = _described(folder)["added_tokens"]
    last = added[0] | {"id": VOCABULARY.size - 1, "content": tokens[-1]}
    _change(folder, added_tokens=[*added, last])
    assert _load(folder).tokens == VOCABULARY.tokens


@pytest.mark.parametrize("name", ["do_lower_case", "strip_accents"])
def test_settings_that_contradict_each_other_are_refused(folder, name):
    """Which one transformers takes depends on the tokenizer's class."""
    _change(folder, "tokenizer_config.json", **{name: False})
    with pytest.raises(errors.ModelError, match=f"agree.*{name}=False and Tr"):
        _load(folder)
    _change(folder, "tokenizer_config.json", **{name: ...})
    assert _load(folder) == VOCABULARY


def test_added_tokens_come_after_the_others(folder):
    added = _described(folder)["added_tokens"]
    added.append(added[0] | {"id": VOCABULARY.size, "content": "[ENTITY]"})
    _change(folder, added_tokens=added)
    found = _load(folder, VOCABULARY.size + 1)
    assert found.tokens == (*VOCABULARY.tokens, "[ENTITY]")
    for wrong in (added[-1] | {"id": 77}, added[0] | {"id": 3}):
        _change(folder, added_tokens=[wrong])
        with pytest.raises(errors.ModelError, match="its own id"):
            _load(folder, VOCABULARY.size + 1)


def test_a_token_that_vocab_txt_repeats_has_its_last_id(folder):
    """And tokenizer.json, made of it, has a gap."""
    tokens, described = list(VOCABULARY.tokens), _described(folder)
    place = tokens.index("mat")
    tokens[place] = tokens[-1]
    (folder / "vocab.txt").write_text("\n".join([*tokens, ""]))
    del described["model"]["vocab"]["mat"]
    _change(folder, model=described["model"])
    tokens[place] = f"[no_token_at_{place}]"
    assert _load(folder).tokens == tuple(tokens)
    for missing in ("tokenizer.json", "vocab.txt"):
        kept = (folder / missing).rename(folder / "kept")
        assert _load(folder).tokens == tuple(tokens)
        kept.rename(folder / missing)
    described["model"]["vocab"]["mat"] = 1 << 31
    _change(folder, model=described["model"])
    with pytest.raises(errors.ModelError, match="`vocab_size` of .* 24"):
        _load(folder)


def _with(stage, **fields):
    return lambda content: {stage: content[stage] | fields}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_with("model", type="BPE", merges=[]), "model.type` must be 'WordP"),
        ({"model": None}, "must describe a tokenizer"),
        (_with("model", vocab={"a": 0, "b": 0}), "its own id"),
        (_with("model", max_input_chars_per_word=0), "max_word_length"),
        ({"normalizer": None}, "must be 'BertNorm.*None"),
        ({"pre_tokenizer": {"type": "Whitespace"}},
         "must be 'BertPreTokenizer'.*Whitespace"),
        (_with("normalizer", clean_text=False), "clean_text"),
        (_with("normalizer", lowercase=False), "strip_accents` needs"),
        # Of the other file.
        ({"strip_accents": 0}, "config.json: `strip_accents"),
        ({"tokenizer_class": "BertJapanese"}, "config.json: `tokenizer_class"),
        ({"never_split": ["[ENT]"]}, "config.json: `never_split"),
    ],
)  # fmt: skip
def test_another_tokenizer_is_refused(folder, change, message):
    names = ["tokenizer.json", "tokenizer_config.json"]
    name = names.pop(message.startswith("config.json"))
    fields = change(_described(folder)) if callable(change) else change
    _change(folder, name, **fields)
    for other in (*names, *["vocab.txt"] * (name == "tokenizer.json")):
        (folder / other).unlink()
    with pytest.raises(ValueError, match=message):
        _load(folder)


def test_added_tokens_of_the_old_form_keep_their_rows(folder, caplog):
    (folder / "tokenizer.json").unlink()
    size = VOCABULARY.size
    added = {"covid": size + 1, "[ENT]": size, "[PAD]": VOCABULARY.pad_id}
    (folder / "added_tokens.json").write_text(json.dumps(added))
    vocabulary = _load(folder, size + 2)
    assert vocabulary.tokens[size:] == ("[ENT]", "covid")
    assert "2 added tokens" in caplog.text
    (folder / "added_tokens.json").write_text(json.dumps({"x": size + 7}))
    with pytest.raises(errors.ModelError, match="end of vocab.txt"):
        _load(folder, size + 8)
