"""Vocabulary and tokenizer settings in the files of other projects.

Tokens stand in vocab.txt, and those that follow in added_tokens.json (old
releases); settings in tokenizer_config.json, ours or Hugging Face's; both in
tokenizer.json. Where the same fact stands in several files, these must agree.
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
# What a tokenizer that splits words as ours does says of itself.
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
class _Stated:
    """Fields of Hugging Face's `tokenizer_config.json` that are accepted.

    Other values belong to tokenizers that split words otherwise. None stands
    for the default; of `strip_accents` that is the value of `do_lower_case`.
    """

    tokenizer_class: Annotated[str, schema.one_of(*_CLASSES)] | None = None
    do_lower_case: bool = True
    strip_accents: bool | None = None
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
    stated = _read_object(settings_file)
    ours = {field.name for field in dataclasses.fields(TokenizerSettings)}
    is_ours = stated.keys() <= ours and None not in stated.values()
    if is_ours and not described.exists():
        return fit_rows(Vocabulary.load(folder), encoder, folder)
    known = portable.build_known(_Stated, stated, settings_file)
    lowers, strips = known.do_lower_case, known.strip_accents
    if not described.exists():
        tokens = vocabulary_lib.read_tokens(listed)
        tokens += _read_added_tokens(folder / _ADDED_TOKENS_FILE, tokens)
        # Words of Hugging Face's slow tokenizer, whatever the original had.
        return build(folder, encoder, tokens, lowers, strips, 100)
    tokenizer = _read_tokenizer(described, encoder.vocab_size)
    normalizer = tokenizer.normalizer
    # Which file Hugging Face follows depends on the tokenizer's class.
    if {normalizer.strip_accents, strips} == {True, False} or (
        stated.get("do_lower_case", normalizer.lowercase)
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
    """Builds a vocabulary from a model's files, see `fit_rows`.

    `strips` is None where the files do not say it: with lower-casing.
    """
    if strips and not lowers:
        raise errors.ModelError(
            f"{source}: `strip_accents` must go with lower-casing, as in the "
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
    """Names rows of the model's table that have no token, as no text does."""
    num_missing = encoder.vocab_size - vocabulary.size
    if num_missing < 0:
        raise errors.ModelError(
            f"The vocabulary of {source} must be the model's, of "
            f"{encoder.vocab_size} tokens. Received: {vocabulary.size} tokens. "
            "Give the one that the model was trained with."
        )
    beginning = vocabulary_lib.NO_TOKEN
    names = tuple(f"{beginning}{number}]" for number in range(num_missing))
    return dataclasses.replace(vocabulary, tokens=vocabulary.tokens + names)


def notes_of(vocabulary: Vocabulary | None) -> tuple[str, ...]:
    """Returns notes on a vocabulary of `load_if_there`, one line each."""
    if vocabulary is None:
        names = f"{vocabulary_lib.VOCABULARY_FILE} or {TOKENIZER_FILE}"
        return (f"found no vocabulary, {names}",)
    missing = sum(map(is_no_token, vocabulary.tokens))
    return (f"{missing} rows of the token table have no token",) * bool(missing)


def is_no_token(token: str) -> bool:
    """Returns whether the name was made up for a row without a token."""
    return token.startswith(vocabulary_lib.NO_TOKEN)


def are_alike(one: Vocabulary, other: Vocabulary | None) -> bool:
    """Returns whether two vocabularies make the same ids of every text."""
    return (
        other is not None
        and one.tokens == other.tokens
        and effective(one.settings) == effective(other.settings)
    )


def effective(settings: TokenizerSettings) -> TokenizerSettings:
    """Makes settings equal that do the same: only lower-casing strips."""
    return dataclasses.replace(settings, strip_accents=settings.is_stripping)


def _read_tokenizer(
    path: pathlib.Path, vocab_size: int
) -> tokenizers.Tokenizer:
    content = schema.read_object(path, errors.ModelError)
    model, added = content.get("model"), content.get("added_tokens")
    stated = model.get("vocab") if isinstance(model, dict) else None
    numbers = [*stated.values()] if isinstance(stated, dict) else []
    count = len(numbers) + (len(added) if isinstance(added, list) else 0)
    if not all(number in range(max(vocab_size, count)) for number in numbers):
        # The library would count up to any number.
        raise errors.ModelError(
            f"{path} must number its tokens below the `vocab_size` of the "
            f"model, {vocab_size}. Received: ids beyond. Give the file that "
            "the model was trained with."
        )
    try:
        tokenizer = tokenizers.Tokenizer.from_str(json.dumps(content))
    except Exception as error:  # It raises nothing more special.
        raise errors.ModelError(
            f"{path} must describe a tokenizer. Received: {error}. Take the "
            "file again from where it comes from."
        ) from error
    # The library fills in what the file leaves out.
    stages = json.loads(tokenizer.to_str())
    for stage, field, expected in _EXPECTED:
        received = (stages[stage] or {}).get(field)
        if received != expected:
            raise errors.ModelError(
                f"{path}: `{stage}.{field}` must be {expected!r}, as in the "
                f"original's tokenizer. Received: {received!r:.80}. Models of "
                "other tokenizers cannot be converted."
            )
    ids = tokenizer.get_vocab()
    # It numbers added tokens anew, whatever the file says.
    added = {t["content"]: t["id"] for t in content.get("added_tokens", ())}
    if {**ids, **added} != ids or len({*ids.values()}) != len(ids):
        raise errors.ModelError(
            f"{path} must give each token an id of its own, and added ones "
            "those that follow. Received: repetitions or others. Give the file "
            "that the model was trained with."
        )
    return tokenizer


def _described_tokens(
    tokenizer: tokenizers.Tokenizer, folder: pathlib.Path
) -> tuple[str, ...]:
    """Returns all tokens in the order of their ids, those of vocab.txt."""
    # A gap is the id of a line of vocab.txt whose token came again.
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
    places = _read_object(path)
    known = dict(zip(listed, range(len(listed)), strict=True))
    new = {t: place for t, place in places.items() if known.get(t) != place}
    expected = range(len(listed), len(listed) + len(new))
    # True and 5.0 would equal numbers.
    is_numbered = all(type(place) is int for place in places.values())
    if not is_numbered or {*new.values()} != {*expected}:
        raise errors.ModelError(
            f"{path} must number its tokens from {len(listed)}, where "
            f"vocab.txt ends, or as vocab.txt does. Received: {places!r:.80}."
        )
    tokens = sorted(new, key=new.__getitem__)
    _warn_of_added(tokens, path.parent)
    return tuple(tokens)


def _warn_of_added(tokens: list[str], folder: pathlib.Path) -> None:
    others = [t for t in tokens if t not in vocabulary_lib.SPECIAL_TOKENS]
    if others:
        logging.warning(
            f"{folder}: {len(others)} added tokens keep their rows, "
            f"{others[0]!r:.80} among them. There they are cut out of the text "
            "before anything else; here they are taken apart like other text."
        )


def write_hugging_face(
    vocabulary: Vocabulary, folder: pathlib.Path, num_positions: int
) -> None:
    """Writes what `AutoTokenizer.from_pretrained` reads."""
    settings = vocabulary.settings
    stated = {
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
        vocabulary_lib.SETTINGS_FILE: schema.to_json(stated),
        "special_tokens_map.json": schema.to_json(_SPECIAL_NAMES),
    }.items():
        # Bytes, because line numbers are ids whatever the system's line end.
        (folder / name).write_bytes(text.encode("utf-8"))
