"""Vocabulary and tokenizer settings in the files of other projects.

    vocab.txt               one token a line (original, Hugging Face, ours)
    tokenizer_config.json   settings, ours or Hugging Face's
    tokenizer.json          Hugging Face's `tokenizers`: settings and tokens

Hugging Face may leave `vocab.txt` out; where both are there they must agree.
"""

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import tokenizers
from absl import logging
from tokenizers import decoders
from tokenizers import models
from tokenizers import normalizers
from tokenizers import pre_tokenizers
from tokenizers import processors

from electra_tf import config
from electra_tf.formats import portable
from electra_tf.formats import tokenizer_tokens
from electra_tf.text import vocabulary as vocabulary_lib

TOKENIZER_FILE = tokenizer_tokens.TOKENIZER_FILE
# What Hugging Face's slow tokenizer has, whatever the original had.
_DEFAULT_WORD_LENGTH = 100
# Keys that tell our settings file from Hugging Face's.
_OUR_KEYS = {
    f.name for f in dataclasses.fields(vocabulary_lib.TokenizerSettings)
}
# Hugging Face's settings, and what tokenizer.json calls them.
_SAME_SETTINGS = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
# Tokenizers that split words as ours does, and what they may be set to.
_CLASSES = ("BertTokenizer", "BertTokenizerFast", "ElectraTokenizer",
            "ElectraTokenizerFast", "PreTrainedTokenizerFast")  # fmt: skip
_PLAIN_SETTINGS: Mapping[str, Any] = {
    "do_basic_tokenize": True,
    "never_split": None,
    "word_tokenizer_type": "basic",
    "subword_tokenizer_type": "wordpiece",
}
_NO_TOKEN = "[no_token_"
_SPECIAL_NAMES = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}

# Stages of a tokenizer.json that do what ours does.
_STAGES = {
    "normalizer": "BertNormalizer",
    "pre_tokenizer": "BertPreTokenizer",
}

Json = Mapping[str, Any]


def load_if_there(
    folder: pathlib.Path, encoder: config.EncoderConfig
) -> vocabulary_lib.Vocabulary | None:
    """The vocabulary in a folder, with a token for every row of the table.

    Args:
        folder: of a model of any format.
        encoder: the model's sizes.

    Returns:
        None if the folder has no vocabulary.

    Raises:
        FormatError: if its files contradict each other or the model.
        VocabularyError: if the tokens cannot be used.
    """
    described = tokenizer_tokens.read_object(folder / TOKENIZER_FILE)
    has_list = (folder / vocabulary_lib.VOCABULARY_FILE).is_file()
    if not has_list and described is None:
        return None
    settings_file = folder / vocabulary_lib.SETTINGS_FILE
    stated = tokenizer_tokens.read_object(settings_file) or {}
    is_ours = set(stated) <= _OUR_KEYS and None not in stated.values()
    if described is None and is_ours:
        return fit_rows(vocabulary_lib.Vocabulary.load(folder), encoder, folder)
    tokens = tokenizer_tokens.read(folder, described)
    try:
        settings = _hugging_face_settings(stated, described or {}, folder)
        vocabulary = vocabulary_lib.Vocabulary(tokens, settings)
    except vocabulary_lib.VocabularyError as error:
        raise vocabulary_lib.VocabularyError(f"{folder}: {error}") from error
    return fit_rows(vocabulary, encoder, folder)


def fit_rows(
    vocabulary: vocabulary_lib.Vocabulary,
    encoder: config.EncoderConfig,
    source: pathlib.Path,
) -> vocabulary_lib.Vocabulary:
    """The vocabulary with a token for every row of the model's table.

    Rows without a token (tables are sometimes padded to round numbers) get
    names that no text contains.

    Args:
        vocabulary: as its files have it.
        encoder: the model's sizes.
        source: of the vocabulary, for the message.

    Raises:
        FormatError: if there are more tokens than rows.
    """
    num_missing = encoder.vocab_size - vocabulary.size
    if num_missing < 0:
        raise portable.FormatError(
            f"The vocabulary of {source} must be the model's, of "
            f"{encoder.vocab_size} tokens. Received: {vocabulary.size} tokens. "
            "Give the one that the model was trained with."
        )
    if not num_missing:
        return vocabulary
    logging.warning(
        "%s: the last %d rows of the token table have no token; they are "
        "called [no_token_0] and so on.",
        source,
        num_missing,
    )
    names = tuple(f"{_NO_TOKEN}{number}]" for number in range(num_missing))
    return vocabulary_lib.Vocabulary(
        vocabulary.tokens + names, vocabulary.settings
    )


def notes_of(vocabulary: vocabulary_lib.Vocabulary | None) -> tuple[str, ...]:
    """What there is to tell of a model's vocabulary, one line each.

    Args:
        vocabulary: that `load_if_there` found.
    """
    if vocabulary is None:
        return (
            f"found no vocabulary, {vocabulary_lib.VOCABULARY_FILE} or "
            f"{TOKENIZER_FILE}",
        )
    missing = sum(map(is_no_token, vocabulary.tokens))
    if not missing:
        return ()
    return (f"{missing} rows of the token table have no token",)


def is_no_token(token: str) -> bool:
    """Whether `fit_rows` made up a token's name."""
    return token.startswith(_NO_TOKEN)


def are_alike(
    one: vocabulary_lib.Vocabulary, other: vocabulary_lib.Vocabulary | None
) -> bool:
    """Whether two vocabularies make the same ids of every text.

    Args:
        one: a vocabulary.
        other: another; None is like no vocabulary.
    """
    return (
        other is not None
        and one.tokens == other.tokens
        and effective(one.settings) == effective(other.settings)
    )


def effective(
    settings: vocabulary_lib.TokenizerSettings,
) -> vocabulary_lib.TokenizerSettings:
    """Settings that say the same where the same happens.

    Without lower-casing no accent is stripped, whatever the settings say.

    Args:
        settings: any.
    """
    if settings.do_lower_case:
        return settings
    return dataclasses.replace(settings, strip_accents=True)


def _require_switches(
    content: Json, names: Sequence[str], file: pathlib.Path
) -> None:
    """Raises `FormatError` for settings that are neither true nor false."""
    for name in names:
        value = content.get(name, True)
        # Null means "as with lower-casing" there.
        is_unsaid = name == "strip_accents" and value is None
        if not isinstance(value, bool) and not is_unsaid:
            raise portable.FormatError(
                f"{file}: {name} must be true or false. Received: "
                f"{value!r:.80}. Correct it, as the model was trained."
            )


def _require_plain(stated: Json, folder: pathlib.Path) -> None:
    """Raises `FormatError` for settings of tokenizers that are others."""
    wrong = {
        name: stated[name]
        for name, value in _PLAIN_SETTINGS.items()
        if stated.get(name) and stated[name] != value
    }
    if stated.get("do_basic_tokenize") is False:
        wrong["do_basic_tokenize"] = False
    name = stated.get("tokenizer_class")
    if name and name not in _CLASSES:
        wrong["tokenizer_class"] = name
    if wrong:
        raise portable.FormatError(
            f"{folder / vocabulary_lib.SETTINGS_FILE} must be of a tokenizer "
            f"that splits words as the original's. Received: {wrong!s:.200}. "
            "Such text has to be split beforehand; this tokenizer cannot do it."
        )


def _normalizer(described: Json, folder: pathlib.Path) -> Json:
    """Settings of a tokenizer.json whose stages do what ours does."""
    for name, wanted in _STAGES.items() if described else ():
        stage = described.get(name)
        kind = stage.get("type") if isinstance(stage, dict) else stage
        if not isinstance(stage, dict) or kind != wanted:
            raise portable.FormatError(
                f"{folder / TOKENIZER_FILE} must have a {wanted}. Received: "
                f"{kind!r:.80}, which this tokenizer does not follow."
            )
    normalizer = described.get("normalizer") or {}
    _require_switches(
        normalizer,
        (*_SAME_SETTINGS.values(), "clean_text"),
        folder / TOKENIZER_FILE,
    )
    return normalizer


def _require_same(stated: Json, normalizer: Json, folder: pathlib.Path) -> None:
    """Raises `FormatError` unless both files give the same settings."""
    for ours, theirs in _SAME_SETTINGS.items():
        one, other = stated.get(ours), normalizer.get(theirs)
        if one is not None and other is not None and one != other:
            raise portable.FormatError(
                f"{folder}: {vocabulary_lib.SETTINGS_FILE} and "
                f"{TOKENIZER_FILE} must agree. Received: {ours}={one} and "
                f"{theirs}={other}. Remove the wrong file."
            )


def _hugging_face_settings(
    stated: Json, described: Json, folder: pathlib.Path
) -> vocabulary_lib.TokenizerSettings:
    """Settings out of both files, which must agree.

    Which of them is followed there depends on the tokenizer's class.
    """
    _require_switches(
        stated,
        (*_SAME_SETTINGS, "do_basic_tokenize"),
        folder / vocabulary_lib.SETTINGS_FILE,
    )
    _require_plain(stated, folder)
    normalizer = _normalizer(described, folder)
    _require_same(stated, normalizer, folder)
    splits_ideographs = normalizer.get(
        "handle_chinese_chars", stated.get("tokenize_chinese_chars", True)
    )
    if not splits_ideographs or not normalizer.get("clean_text", True):
        raise portable.FormatError(
            f"{folder}: the tokenizer must split ideographs and clean text, "
            "as the original's does. Received: tokenize_chinese_chars="
            f"{splits_ideographs}, clean_text={normalizer.get('clean_text')}."
        )
    is_lower: Any = normalizer.get(
        "lowercase", stated.get("do_lower_case", True)
    )
    strips = normalizer.get("strip_accents", stated.get("strip_accents"))
    if strips and not is_lower:
        raise portable.FormatError(
            f"{folder}: accents can only be stripped when lower-casing, as in "
            "the original. Received: strip_accents=true, do_lower_case=false."
        )
    length = (described.get("model") or {}).get(
        "max_input_chars_per_word", _DEFAULT_WORD_LENGTH
    )
    return vocabulary_lib.TokenizerSettings(
        do_lower_case=is_lower,
        # None means "as with lower-casing"; without that it has no effect.
        strip_accents=strips is None or strips or not is_lower,
        max_word_length=length,
    )


def write_hugging_face(
    vocabulary: vocabulary_lib.Vocabulary,
    folder: pathlib.Path,
    num_positions: int,
) -> None:
    """Writes what `AutoTokenizer.from_pretrained` reads.

    Args:
        vocabulary: of the model.
        folder: of the model; exists.
        num_positions: most tokens of a row.
    """
    settings = vocabulary.settings
    strips = settings.do_lower_case and settings.strip_accents
    stated = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": settings.do_lower_case,
        "strip_accents": strips,
        "tokenize_chinese_chars": True,
        "model_max_length": num_positions,
        **_SPECIAL_NAMES,
    }
    tokenizer = _build_tokenizer(vocabulary, strips)
    tokenizer.save(str(folder / TOKENIZER_FILE))
    lines = "".join(f"{token}\n" for token in vocabulary.tokens)
    # Bytes, because the ids are line numbers, whatever the system's line end.
    (folder / vocabulary_lib.VOCABULARY_FILE).write_bytes(lines.encode("utf-8"))
    for name, content in {
        vocabulary_lib.SETTINGS_FILE: stated,
        "special_tokens_map.json": _SPECIAL_NAMES,
    }.items():
        text = json.dumps(content, indent=2) + "\n"
        (folder / name).write_text(text, "utf-8")


def _build_tokenizer(
    vocabulary: vocabulary_lib.Vocabulary, strips: bool
) -> tokenizers.Tokenizer:
    settings = vocabulary.settings
    ids = {token: number for number, token in enumerate(vocabulary.tokens)}
    tokenizer = tokenizers.Tokenizer(
        models.WordPiece(
            ids,
            unk_token="[UNK]",
            max_input_chars_per_word=settings.max_word_length,
        )
    )
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=True,
        strip_accents=strips,
        lowercase=settings.do_lower_case,
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special: Sequence[str] = vocabulary_lib.SPECIAL_TOKENS
    tokenizer.add_special_tokens(list(special))
    tokenizer.post_processor = processors.BertProcessing(
        ("[SEP]", vocabulary.sep_id), ("[CLS]", vocabulary.cls_id)
    )
    return tokenizer
