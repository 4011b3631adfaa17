"""Vocabulary and tokenizer settings in the files of other projects.

    vocab.txt               one token a line (original, Hugging Face, ours)
    added_tokens.json       tokens that follow them (old releases)
    tokenizer_config.json   settings, ours or Hugging Face's
    tokenizer.json          settings and tokens, read by `tokenizers`

Where the same fact stands in several files, these must agree.
"""

import dataclasses
import pathlib
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Annotated
from typing import Any
from typing import Literal

import tokenizers
from absl import logging
from tokenizers import decoders
from tokenizers import models
from tokenizers import normalizers
from tokenizers import pre_tokenizers
from tokenizers import processors

from electra_tf import config
from electra_tf import errors
from electra_tf.config import schema
from electra_tf.formats import portable
from electra_tf.text import vocabulary as vocabulary_lib

TOKENIZER_FILE = "tokenizer.json"
_ADDED_TOKENS_FILE = "added_tokens.json"
# Keys that tell our settings file from Hugging Face's.
_OUR_KEYS = {
    f.name for f in dataclasses.fields(vocabulary_lib.TokenizerSettings)
}
_CLASSES = ("BertTokenizer", "BertTokenizerFast", "ElectraTokenizer",
            "ElectraTokenizerFast", "PreTrainedTokenizerFast")  # fmt: skip
_NO_TOKEN = "[no_token_"
_SPECIAL_NAMES = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}


@schema.frozen
class _Stated:
    """What Hugging Face's `tokenizer_config.json` may say.

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
) -> vocabulary_lib.Vocabulary | None:
    """Loads a model's vocabulary, with a token for every row of its table.

    Returns:
        None if the folder has no vocabulary.
    """
    has_list = (folder / vocabulary_lib.VOCABULARY_FILE).is_file()
    is_described = (folder / TOKENIZER_FILE).is_file()
    if not has_list and not is_described:
        return None
    stated = _read_object(folder / vocabulary_lib.SETTINGS_FILE)
    is_ours = set(stated) <= _OUR_KEYS and None not in stated.values()
    if not is_described and is_ours:
        return fit_rows(vocabulary_lib.Vocabulary.load(folder), encoder, folder)
    described = _read_tokenizer(folder) if is_described else None
    tokens = _read_tokens(folder, described)
    settings = _read_settings(folder, stated, described)
    return build(tokens, settings, encoder, folder)


def build(
    tokens: tuple[str, ...],
    settings: Mapping[str, Any],
    encoder: config.EncoderConfig,
    source: pathlib.Path,
) -> vocabulary_lib.Vocabulary:
    """Builds a vocabulary from a model's files, see `fit_rows`."""
    try:
        chosen = vocabulary_lib.TokenizerSettings(**settings)
        vocabulary = vocabulary_lib.Vocabulary(tokens, chosen)
    except errors.DataError as error:
        raise errors.DataError(f"{source}: {error}") from error
    return fit_rows(vocabulary, encoder, source)


def _read_object(path: pathlib.Path) -> dict[str, Any]:
    """Returns the object in a JSON file; an empty one if there is no file."""
    if not path.is_file():
        return {}
    return schema.read_object(path, errors.ModelError)


def fit_rows(
    vocabulary: vocabulary_lib.Vocabulary,
    encoder: config.EncoderConfig,
    source: pathlib.Path,
) -> vocabulary_lib.Vocabulary:
    """Gives every row of the model's table a token.

    Rows without a token (tables are sometimes padded to round numbers) get
    names that no text contains.
    """
    num_missing = encoder.vocab_size - vocabulary.size
    if num_missing < 0:
        raise errors.ModelError(
            f"The vocabulary of {source} must be the model's, of "
            f"{encoder.vocab_size} tokens. Received: {vocabulary.size} tokens. "
            "Give the one that the model was trained with."
        )
    if not num_missing:
        return vocabulary
    names = tuple(f"{_NO_TOKEN}{number}]" for number in range(num_missing))
    return vocabulary_lib.Vocabulary(
        vocabulary.tokens + names, vocabulary.settings
    )


def notes_of(vocabulary: vocabulary_lib.Vocabulary | None) -> tuple[str, ...]:
    """Returns notes on what `load_if_there` found, one line each."""
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
    """Returns whether `fit_rows` made up a token's name."""
    return token.startswith(_NO_TOKEN)


def are_alike(
    one: vocabulary_lib.Vocabulary, other: vocabulary_lib.Vocabulary | None
) -> bool:
    """Returns whether two vocabularies make the same ids of every text."""
    return (
        other is not None
        and one.tokens == other.tokens
        and effective(one.settings) == effective(other.settings)
    )


def effective(
    settings: vocabulary_lib.TokenizerSettings,
) -> vocabulary_lib.TokenizerSettings:
    """Makes settings equal that do the same.

    Without lower-casing no accent is stripped, whatever the settings say.
    """
    if settings.do_lower_case:
        return settings
    return dataclasses.replace(settings, strip_accents=True)


def _read_tokenizer(folder: pathlib.Path) -> tokenizers.Tokenizer:
    """Reads `tokenizer.json`, if it splits words as ours does."""
    path = folder / TOKENIZER_FILE
    content = schema.read_object(path, errors.ModelError)
    try:
        found = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:
        # It raises nothing more special.
        raise errors.ModelError(
            f"{path} must describe a tokenizer. Received: {error}. Take the "
            "file again from where it comes from."
        ) from error
    prefix = getattr(found.model, "continuing_subword_prefix", None)
    for name, stage, is_same in (
        ("WordPiece model with ##", found.model, prefix == "##"),
        ("BertNormalizer", found.normalizer, True),
        ("BertPreTokenizer", found.pre_tokenizer, True),
    ):
        if type(stage).__name__ != name.split()[0] or not is_same:
            raise errors.ModelError(
                f"{path} must have a {name}. Received: {stage!r:.80}, which "
                "this tokenizer does not follow."
            )
    ids = found.get_vocab()
    # It numbers added tokens anew, whatever the file says.
    is_kept = all(
        ids[token["content"]] == token["id"]
        for token in content.get("added_tokens", ())
    )
    if not is_kept or sorted(ids.values()) != list(range(len(ids))):
        raise errors.ModelError(
            f"{path} must number its tokens 0 to {len(ids) - 1}. Received: "
            "ids with gaps or repetitions."
        )
    return found


def _read_tokens(
    folder: pathlib.Path, described: tokenizers.Tokenizer | None
) -> tuple[str, ...]:
    """Returns all tokens of a folder in the order of their ids."""
    file = folder / vocabulary_lib.VOCABULARY_FILE
    if described is None:
        listed = vocabulary_lib.read_tokens(file)
        return listed + _read_added_tokens(folder, listed)
    ids = described.get_vocab()
    tokens = tuple(sorted(ids, key=ids.__getitem__))
    added = [t.content for t in described.get_added_tokens_decoder().values()]
    _warn_of_added(added, folder)
    listed = vocabulary_lib.read_tokens(file) if file.is_file() else tokens
    # Added tokens need not be in vocab.txt.
    is_whole = set(added) >= set(tokens[len(listed) :])
    if tokens[: len(listed)] != listed or not is_whole:
        raise errors.ModelError(
            f"{folder}: vocab.txt and {TOKENIZER_FILE} must list the same "
            "tokens. Received: different ones. Remove the wrong file."
        )
    return tokens


def _read_added_tokens(
    folder: pathlib.Path, listed: tuple[str, ...]
) -> tuple[str, ...]:
    """Returns tokens that follow those of vocab.txt, in order."""
    places = _read_object(folder / _ADDED_TOKENS_FILE)
    known = {token: place for place, token in enumerate(listed)}
    new = {t: place for t, place in places.items() if known.get(t) != place}
    expected = range(len(listed), len(listed) + len(new))
    # True and 5.0 would equal numbers.
    is_numbered = all(type(place) is int for place in places.values())
    if not is_numbered or sorted(new.values()) != list(expected):
        raise errors.ModelError(
            f"{folder / _ADDED_TOKENS_FILE} must number its tokens from "
            f"{len(listed)}, where vocab.txt ends, or as vocab.txt does. "
            f"Received: {places!r:.80}."
        )
    _warn_of_added(new, folder)
    return tuple(sorted(new, key=new.__getitem__))


def _warn_of_added(tokens: Iterable[str], folder: pathlib.Path) -> None:
    others = [t for t in tokens if t not in vocabulary_lib.SPECIAL_TOKENS]
    if others:
        logging.warning(
            "%s: %d added tokens keep their rows, %.80r among them. There they "
            "are cut out of the text before anything else; here they are "
            "taken apart like other text.",
            folder,
            len(others),
            others[0],
        )


def _read_settings(
    folder: pathlib.Path,
    stated: Mapping[str, Any],
    described: tokenizers.Tokenizer | None,
) -> dict[str, Any]:
    """Reads the settings off both files, which must agree.

    Which of them Hugging Face follows depends on the tokenizer's class.
    """
    file = folder / vocabulary_lib.SETTINGS_FILE
    known = portable.build_known(_Stated, stated, file)
    lowers, strips = known.do_lower_case, known.strip_accents
    # What Hugging Face's slow tokenizer has, whatever the original had.
    length = 100
    if described is not None:
        normalizer = described.normalizer
        other = normalizer.lowercase, normalizer.strip_accents
        if not normalizer.handle_chinese_chars or not normalizer.clean_text:
            raise errors.ModelError(
                f"{folder / TOKENIZER_FILE} must split ideographs and clean "
                "text, as the original does. Received: one that does not."
            )
        if {strips, other[1]} == {True, False} or (
            "do_lower_case" in stated and lowers != other[0]
        ):
            raise errors.ModelError(
                f"{file} and {TOKENIZER_FILE} must agree. Received: "
                f"do_lower_case={lowers} and {other[0]}, strip_accents="
                f"{strips} and {other[1]}. Remove the wrong file."
            )
        lowers, strips = other
        length = described.model.max_input_chars_per_word
    if strips and not lowers:
        raise errors.ModelError(
            f"{folder}: accents can only be stripped when lower-casing, as in "
            "the original. Received: strip_accents=true, do_lower_case=false."
        )
    # Without lower-casing, strip_accents has no effect.
    return {
        "do_lower_case": lowers,
        "strip_accents": strips is not False or not lowers,
        "max_word_length": length,
    }


def write_hugging_face(
    vocabulary: vocabulary_lib.Vocabulary,
    folder: pathlib.Path,
    num_positions: int,
) -> None:
    """Writes what `AutoTokenizer.from_pretrained` reads."""
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
    for name, text in {
        TOKENIZER_FILE: tokenizer.to_str(pretty=True),
        vocabulary_lib.VOCABULARY_FILE: "".join(
            f"{token}\n" for token in vocabulary.tokens
        ),
        vocabulary_lib.SETTINGS_FILE: schema.to_json(stated),
        "special_tokens_map.json": schema.to_json(_SPECIAL_NAMES),
    }.items():
        # Bytes, because line numbers are ids whatever the system's line end.
        (folder / name).write_bytes(text.encode("utf-8"))


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
    tokenizer.add_special_tokens(list(vocabulary_lib.SPECIAL_TOKENS))
    tokenizer.post_processor = processors.BertProcessing(
        ("[SEP]", vocabulary.sep_id), ("[CLS]", vocabulary.cls_id)
    )
    return tokenizer
