"""Vocabularies: tokens, special ids and tokenizer settings.

On disk a vocabulary is a folder with `vocab.txt`, one token per line in the
order of the ids, and `tokenizer_config.json`, the settings.
"""

import dataclasses
import functools
import hashlib
import os
import pathlib
import re
from collections.abc import Sequence
from typing import Annotated

import pydantic
from absl import logging

from electra_tf import errors
from electra_tf import storage
from electra_tf.config import schema
from electra_tf.processes import atomic

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
VOCABULARY_FILE = "vocab.txt"
SETTINGS_FILE = "tokenizer_config.json"
NO_TOKEN = "[no_token_"
"""Prefix of the names of table rows without a token; no text has them."""
WITHOUT_BLANKS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
)
"""The characters of scripts without blanks between words, for patterns."""
WORD = re.compile(rf"[{WITHOUT_BLANKS}]|[^\s{WITHOUT_BLANKS}]+")
"""A word between blanks, or one character of a script without blanks."""

# A larger share of tokens with capitals means that a vocabulary is cased.
_CASED_SHARE = 0.01
_NUM_SHOWN = 5
_MAX_TOKENS = 1 << 22  # of the tables of tensorflow-text


@schema.frozen
class TokenizerSettings:
    """Settings of the splitting of text into words."""

    do_lower_case: bool = True
    strip_accents: bool = True  # as in the original, only when lower-casing
    # Longer words become [UNK]. The size of the tables grows with it.
    max_word_length: Annotated[int, pydantic.Field(ge=1, le=10_000)] = 200

    @property
    def is_stripping(self) -> bool:
        """Whether accents are stripped; never without lower-casing."""
        return self.do_lower_case and self.strip_accents


def _special_id(token: str) -> property:
    return property(
        lambda vocabulary: vocabulary.id_of(token), doc=f"The id of {token}."
    )


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """Tokens in the order of their ids, with the tokenizer's settings.

    Raises `DataError` for repeated, empty or missing special tokens.
    """

    tokens: tuple[str, ...] = dataclasses.field(repr=False)
    settings: TokenizerSettings = TokenizerSettings()

    pad_id = _special_id("[PAD]")
    unk_id = _special_id("[UNK]")
    cls_id = _special_id("[CLS]")
    sep_id = _special_id("[SEP]")
    mask_id = _special_id("[MASK]")

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", tuple(self.tokens))
        _check_tokens(self.tokens)

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Vocabulary":
        """Loads the vocabulary of a folder, or of a file of tokens.

        `tokenizer_config.json` beside it is optional. Raises
        `FileNotFoundError`, or `DataError` for bad lines or settings.
        """
        path = storage.path(path)
        if path.is_dir():
            path = path / VOCABULARY_FILE
        if not path.exists():
            raise FileNotFoundError(
                f"Expected a vocabulary at {path}, but there is no such file. "
                "Give a folder with vocab.txt, or make one with "
                "electra-train-vocabulary."
            )
        settings = _read_settings(path.with_name(SETTINGS_FILE))
        tokens = read_tokens(path)
        try:
            vocabulary = cls(tokens, settings)
        except errors.DataError as error:
            raise errors.DataError(f"{path}: {error}") from error
        _warn_of_capitals(vocabulary, path)
        return vocabulary

    def save(self, folder: str | os.PathLike) -> None:
        """Writes both files; `FileExistsError` if they exist and differ."""
        folder = storage.path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        contents = {
            folder / SETTINGS_FILE: schema.to_json(self.settings).encode(),
            folder / VOCABULARY_FILE: self._file_bytes(),
        }
        for path, content in contents.items():
            if path.exists() and path.read_bytes() != content:
                raise FileExistsError(
                    f"{path} exists and differs. Name another folder: records "
                    "and models made with it would no longer fit."
                )
        for path, content in contents.items():
            with atomic.replacing_file(path) as partial:
                partial.write_bytes(content)

    @property
    def size(self) -> int:
        """The number of tokens."""
        return len(self.tokens)

    @property
    def special_ids(self) -> tuple[int, ...]:
        """The ids of `SPECIAL_TOKENS`, in their order."""
        return tuple(map(self.id_of, SPECIAL_TOKENS))

    @functools.cached_property
    def sha256(self) -> str:
        """The checksum of `vocab.txt` as `save` writes it."""
        return hashlib.sha256(self._file_bytes()).hexdigest()

    def id_of(self, token: str) -> int:
        """Returns the token's id; raises `DataError` if it is absent."""
        try:
            return self._ids[token]
        except KeyError:
            raise errors.DataError(
                f"Token {token!r} is not among the {self.size} tokens of the "
                "vocabulary. Is this the vocabulary of the model or records?"
            ) from None

    @functools.cached_property
    def _ids(self) -> dict[str, int]:
        return {token: number for number, token in enumerate(self.tokens)}

    def _file_bytes(self) -> bytes:
        return "".join(f"{token}\n" for token in self.tokens).encode("utf-8")


def _check_tokens(tokens: Sequence[str]) -> None:
    if len(tokens) > _MAX_TOKENS:
        raise errors.DataError(
            f"A vocabulary may have at most {_MAX_TOKENS:,} tokens. Received: "
            f"{len(tokens):,}. Give a file with one token per line."
        )
    first_lines: dict[str, int] = {}
    repeated = []
    for line, token in enumerate(tokens, start=1):
        # JSON can spell lone surrogates, which UTF-8 cannot encode.
        is_text = token.encode("utf-8", "ignore").decode("utf-8") == token
        if not token.strip(" \t") or set(token) & set("\r\n") or not is_text:
            raise errors.DataError(
                f"Line {line} must hold one token in UTF-8, and all lines must "
                f"have the same line end. Received: {token!r:.80}. Repair the "
                "line; removing it would shift all later ids."
            )
        first = first_lines.setdefault(token, line)
        if first != line:
            repeated.append(f"{token!r} on lines {first} and {line}")
    if repeated:
        raise errors.DataError(
            f"Tokens must be unique, but {len(repeated)} occur again, such as "
            f"{'; '.join(repeated[:_NUM_SHOWN])}. Replace the earlier lines by "
            "unused names such as [unused0], so that no id shifts."
        )
    missing = [token for token in SPECIAL_TOKENS if token not in first_lines]
    if missing:
        raise errors.DataError(
            f"Special tokens are missing: {', '.join(missing)} among "
            f"{len(tokens)} tokens. Put them on lines of unused tokens, or "
            "train a vocabulary with electra-train-vocabulary."
        )


def read_tokens(path: pathlib.Path) -> tuple[str, ...]:
    """Reads the lines; bytes that are not UTF-8 become lone surrogates.

    A token that occurs again gets a name that no text has. Raises `DataError`
    if `path` is no regular file, or larger than any vocabulary.
    """
    try:
        content = storage.read_bytes(path).removeprefix(b"\xef\xbb\xbf")
    except ValueError as error:
        raise errors.DataError(
            f"{path} must be a file with one token per line. Received: {error}."
            " Give the file of the model."
        ) from error
    text = content.decode("utf-8", "surrogateescape")
    lines = text.removesuffix("\n").split("\n")
    if all(line.endswith("\r") for line in lines):
        lines = [line.removesuffix("\r") for line in lines]
    return _name_repeated(lines, path)


def _name_repeated(lines: list[str], path: pathlib.Path) -> tuple[str, ...]:
    """Gives a repeated token its last id, as transformers and the original."""
    last = {token: number for number, token in enumerate(lines)}
    names, repeated = list[str](), list[str]()
    for number, token in enumerate(lines):
        is_repeated = number != last[token] and token.strip(" \t\r")
        names.append(f"{NO_TOKEN}at_{number}]" if is_repeated else token)
        if is_repeated:
            both = f"{number + 1} and {last[token] + 1}"
            repeated.append(f"{token!r:.80} on lines {both}")
    if repeated:
        logging.warning(
            f"{path}: some tokens are on several lines, for example "
            f"{repeated[0]}. The last line counts, as in transformers and the "
            f"original; {len(repeated)} rows have no token."
        )
    return tuple(names)


def _read_settings(path: pathlib.Path) -> TokenizerSettings:
    if not path.exists():
        return TokenizerSettings()
    try:
        return schema.read_file(TokenizerSettings, path, errors.DataError)
    except errors.DataError as error:
        raise errors.DataError(
            f"{error} If the file is Hugging Face's, convert the model with "
            "electra-convert --to=electra_tf first."
        ) from error


def _warn_of_capitals(vocabulary: Vocabulary, path: pathlib.Path) -> None:
    num_capital = sum(
        token.lower() != token and not token.startswith("[")
        for token in vocabulary.tokens
    )
    is_cased = num_capital > _CASED_SHARE * vocabulary.size
    if vocabulary.settings.do_lower_case and is_cased:
        logging.warning(
            f"{path}: {num_capital} of {vocabulary.size} tokens hold capitals "
            "and can never match, since do_lower_case is true. If the "
            'vocabulary is cased, write {"do_lower_case": false} into '
            f"{SETTINGS_FILE} beside it."
        )
