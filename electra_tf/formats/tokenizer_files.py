"""Reads and writes vocabularies and tokenizer settings of other projects.

vocab.txt holds tokens, and added_tokens.json further ones (old releases).
tokenizer_config.json, ours or Hugging Face's, holds settings; tokenizer.json
holds both. Files that state the same fact must agree.
"""

import dataclasses
import json
import pathlib
from typing import Annotated, Any, Literal

import tokenizers
from absl import logging

from electra_tf import config
from electra_tf import errors
from electra_tf.config import schema
from electra_tf.formats import portable
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.text.vocabulary import TokenizerSettings
from electra_tf.text.vocabulary import Vocabulary

TOKENIZER_FILE = "tokenizer.json"
_ADDED_TOKENS_FILE = "added_tokens.json"
_CLASSES = ("BertTokenizer", "BertTokenizerFast", "ElectraTokenizer",
            "ElectraTokenizerFast", "PreTrainedTokenizerFast",
            "TokenizersBackend")  # fmt: skip
# Fields of a tokenizer.json that splits words as our tokenizer.
_EXPECTED = (
    ("model", "type", "WordPiece"),
    ("model", "continuing_subword_prefix", "##"),
    ("normalizer", "type", "BertNormalizer"),
    ("normalizer", "clean_text", True),
    ("normalizer", "handle_chinese_chars", True),
    ("pre_tokenizer", "type", "BertPreTokenizer"),
)
_SPECIAL_NAMES = {
    f"{token[1:-1].lower()}_token": token
    for token in vocabulary_lib.SPECIAL_TOKENS
}


@schema.frozen
class _HuggingFaceSettings:
    """The accepted values of Hugging Face's `tokenizer_config.json`."""

    tokenizer_class: Annotated[str, schema.one_of(*_CLASSES)] | None = None
    do_lower_case: bool = True
    strip_accents: bool | None = None  # None: as `do_lower_case`
    tokenize_chinese_chars: Literal[True] = True
    do_basic_tokenize: Literal[True] = True
    never_split: tuple[()] | None = None
    word_tokenizer_type: Literal["basic"] | None = None
    subword_tokenizer_type: Literal["wordpiece"] | None = None


def load_if_there(
    folder: pathlib.Path, encoder: config.EncoderConfig
) -> Vocabulary | None:
    """Loads the vocabulary of a folder, if it has one; see `fit_rows`."""
    listed = folder / vocabulary_lib.VOCABULARY_FILE
    described = folder / TOKENIZER_FILE
    settings_file = folder / vocabulary_lib.SETTINGS_FILE
    if not listed.exists() and not described.exists():
        return None
    content = _read_object(settings_file)
    ours = {field.name for field in dataclasses.fields(TokenizerSettings)}
    is_ours = content.keys() <= ours and None not in content.values()
    if is_ours and not described.exists():
        return fit_rows(Vocabulary.load(folder), encoder, folder)
    known = portable.build_known(_HuggingFaceSettings, content, settings_file)
    lowers, strips = known.do_lower_case, known.strip_accents
    if not described.exists():
        tokens = vocabulary_lib.read_tokens(listed)
        tokens += _read_added_tokens(folder / _ADDED_TOKENS_FILE, tokens)
        # 100 characters: the longest word of Hugging Face's slow tokenizer.
        return build(folder, encoder, tokens, lowers, strips, 100)
    tokenizer = _read_tokenizer(described, encoder.vocab_size)
    normalizer = tokenizer.normalizer
    # Which file Hugging Face follows depends on the tokenizer's class.
    if {normalizer.strip_accents, strips} == {True, False} or (
        content.get("do_lower_case", normalizer.lowercase)
        != normalizer.lowercase
    ):
        raise errors.ModelError(
            f"{settings_file} and {TOKENIZER_FILE} must agree. Received: "
            f"do_lower_case={lowers} and {normalizer.lowercase}, strip_accents="
            f"{strips} and {normalizer.strip_accents}. Remove the wrong file."
        )
    return build(
        folder,
        encoder,
        _described_tokens(tokenizer, folder),
        normalizer.lowercase,
        normalizer.strip_accents,
        tokenizer.model.max_input_chars_per_word,
    )


def _read_object(path: pathlib.Path) -> dict[str, Any]:
    return schema.read_object(path, errors.ModelError) if path.exists() else {}


def build(
    source: pathlib.Path,
    encoder: config.EncoderConfig,
    tokens: tuple[str, ...],
    lowers: bool,
    strips: bool | None,
    max_word_length: int = TokenizerSettings.max_word_length,
) -> Vocabulary:
    """Builds a vocabulary from the contents of a model's files.

    If `strips` is None, accents are stripped with lower-casing. Raises
    `ModelError` or `DataError` for files that no vocabulary can have.
    """
    if strips and not lowers:
        raise errors.ModelError(
            f"{source}: `strip_accents` needs lower-casing, as in the "
            "original. Received: strip_accents=true, do_lower_case=false."
        )
    # Without lower-casing, strip_accents has no effect.
    has_default = strips is not False or not lowers
    settings = TokenizerSettings(lowers, has_default, max_word_length)
    try:
        vocabulary = Vocabulary(tokens, settings)
    except errors.DataError as error:
        raise errors.DataError(f"{source}: {error}") from error
    return fit_rows(vocabulary, encoder, source)


def fit_rows(
    vocabulary: Vocabulary, encoder: config.EncoderConfig, source: pathlib.Path
) -> Vocabulary:
    """Adds names, which occur in no text, for table rows without a token."""
    num_missing = encoder.vocab_size - vocabulary.size
    if num_missing < 0:
        raise errors.ModelError(
            f"The vocabulary of {source} must be the model's, of "
            f"{encoder.vocab_size} tokens. Received: {vocabulary.size} tokens. "
            "Give the vocabulary of the model's training."
        )
    prefix = vocabulary_lib.NO_TOKEN
    names = tuple(f"{prefix}{number}]" for number in range(num_missing))
    return dataclasses.replace(vocabulary, tokens=vocabulary.tokens + names)


def notes_of(vocabulary: Vocabulary | None) -> tuple[str, ...]:
    """Returns notes on a vocabulary of `load_if_there`, one line each."""
    if vocabulary is None:
        names = f"{vocabulary_lib.VOCABULARY_FILE} or {TOKENIZER_FILE}"
        return (f"found no vocabulary ({names})",)
    missing = sum(map(is_no_token, vocabulary.tokens))
    return (f"{missing} rows of the token table have no token",) * bool(missing)


def is_no_token(token: str) -> bool:
    """Returns whether `fit_rows` added a name, for a row without a token."""
    return token.startswith(vocabulary_lib.NO_TOKEN)


def are_alike(one: Vocabulary, other: Vocabulary | None) -> bool:
    """Returns whether two vocabularies make the same ids of every text."""
    return (
        other is not None
        and one.tokens == other.tokens
        and effective(one.settings) == effective(other.settings)
    )


def effective(settings: TokenizerSettings) -> TokenizerSettings:
    """Makes equivalent settings equal: without lower-casing none strips."""
    return dataclasses.replace(settings, strip_accents=settings.is_stripping)


def _read_tokenizer(
    path: pathlib.Path, vocab_size: int
) -> tokenizers.Tokenizer:
    content = schema.read_object(path, errors.ModelError)
    model, added = content.get("model"), content.get("added_tokens")
    vocab = model.get("vocab") if isinstance(model, dict) else None
    numbers = [*vocab.values()] if isinstance(vocab, dict) else []
    count = len(numbers) + (len(added) if isinstance(added, list) else 0)
    if not all(number in range(max(vocab_size, count)) for number in numbers):
        # The library would allocate memory up to the largest id.
        raise errors.ModelError(
            f"{path} must number its tokens below the `vocab_size` of the "
            f"model, {vocab_size}. Received: larger ids."
        )
    try:
        tokenizer = tokenizers.Tokenizer.from_str(json.dumps(content))
    except Exception as error:  # the library raises no narrower type
        raise errors.ModelError(
            f"{path} must describe a tokenizer. Received: {error}."
        ) from error
    # The library adds the defaults of absent fields.
    stages = json.loads(tokenizer.to_str())
    for stage, field, expected in _EXPECTED:
        received = (stages[stage] or {}).get(field)
        if received != expected:
            raise errors.ModelError(
                f"{path}: `{stage}.{field}` must be {expected!r}, as in the "
                f"original's tokenizer. Received: {received!r:.80}. Models of "
                "other tokenizers cannot be converted."
            )
    known = tokenizer.get_vocab()
    # The library ignores the ids that the file gives to added tokens.
    added = {t["content"]: t["id"] for t in content.get("added_tokens", ())}
    if {**known, **added} != known or len({*known.values()}) != len(known):
        raise errors.ModelError(
            f"{path} must give each token its own id, and added tokens the ids "
            "after the vocabulary's. Received: repeated or other ids. Give the "
            "file of the model's training."
        )
    return tokenizer


def _described_tokens(
    tokenizer: tokenizers.Tokenizer, folder: pathlib.Path
) -> tuple[str, ...]:
    """Returns all tokens in the order of their ids; vocab.txt must agree."""
    # A gap in the ids belongs to a token that vocab.txt repeats.
    ids = {number: token for token, number in tokenizer.get_vocab().items()}
    no_token = f"{vocabulary_lib.NO_TOKEN}at_{{}}]"
    tokens = tuple(ids.get(n, no_token.format(n)) for n in range(max(ids) + 1))
    added = [t.content for t in tokenizer.get_added_tokens_decoder().values()]
    _warn_of_added(added, folder)
    file = folder / vocabulary_lib.VOCABULARY_FILE
    listed = vocabulary_lib.read_tokens(file) if file.exists() else tokens
    # Added tokens need not be in vocab.txt.
    is_whole = set(added) >= set(tokens[len(listed) :])
    if tokens[: len(listed)] != listed or not is_whole:
        raise errors.ModelError(
            f"{folder}: vocab.txt and {TOKENIZER_FILE} must list the same "
            "tokens. Received: different ones. Remove the wrong file."
        )
    return tokens


def _read_added_tokens(
    path: pathlib.Path, listed: tuple[str, ...]
) -> tuple[str, ...]:
    ids = _read_object(path)
    known = dict(zip(listed, range(len(listed)), strict=True))
    new = {t: number for t, number in ids.items() if known.get(t) != number}
    expected = range(len(listed), len(listed) + len(new))
    # True and 5.0 would equal numbers.
    is_numbered = all(type(number) is int for number in ids.values())
    if not is_numbered or {*new.values()} != {*expected}:
        raise errors.ModelError(
            f"{path} must number its tokens from {len(listed)}, the end of "
            f"vocab.txt, or as vocab.txt does. Received: {ids!r:.80}."
        )
    tokens = sorted(new, key=new.__getitem__)
    _warn_of_added(tokens, path.parent)
    return tuple(tokens)


def _warn_of_added(tokens: list[str], folder: pathlib.Path) -> None:
    others = [t for t in tokens if t not in vocabulary_lib.SPECIAL_TOKENS]
    if others:
        logging.warning(
            f"{folder}: {len(others)} added tokens keep their rows, for "
            f"example {others[0]!r:.80}. Hugging Face never splits them in a "
            "text; our tokenizer splits them like other text."
        )


def write_hugging_face(
    vocabulary: Vocabulary, folder: pathlib.Path, num_positions: int
) -> None:
    """Writes the files that `AutoTokenizer.from_pretrained` reads."""
    settings = vocabulary.settings
    content = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": settings.do_lower_case,
        "strip_accents": settings.is_stripping,
        "tokenize_chinese_chars": True,
        "model_max_length": num_positions,
        **_SPECIAL_NAMES,
    }
    tokenizer = tokenizers.BertWordPieceTokenizer(
        {token: number for number, token in enumerate(vocabulary.tokens)},
        strip_accents=settings.is_stripping,
        lowercase=settings.do_lower_case,
    )
    described = json.loads(tokenizer.to_str())
    described["model"]["max_input_chars_per_word"] = settings.max_word_length
    for name, text in {
        TOKENIZER_FILE: json.dumps(described, indent=2, ensure_ascii=False),
        vocabulary_lib.VOCABULARY_FILE: "\n".join((*vocabulary.tokens, "")),
        vocabulary_lib.SETTINGS_FILE: schema.to_json(content),
        "special_tokens_map.json": schema.to_json(_SPECIAL_NAMES),
    }.items():
        # Bytes, as a text file's line ends depend on the system.
        (folder / name).write_bytes(text.encode("utf-8"))
