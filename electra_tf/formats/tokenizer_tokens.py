"""Tokens in Hugging Face's tokenizer files, in the order of their ids.

    vocab.txt           one token a line
    added_tokens.json   what follows them, of older releases
    tokenizer.json      all of them, added ones apart

Where the same tokens are in several files these must agree.
"""

import pathlib
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from absl import logging

from electra_tf import json_files
from electra_tf.formats import portable
from electra_tf.text import vocabulary as vocabulary_lib

TOKENIZER_FILE = "tokenizer.json"
_ADDED_TOKENS_FILE = "added_tokens.json"

Json = Mapping[str, Any]


def read_object(path: pathlib.Path) -> dict[str, Any] | None:
    """The object in a JSON file, None if there is no file.

    Raises:
        FormatError: if it does not hold a JSON object; names the file.
    """
    if not path.is_file():
        return None
    return json_files.read_object(path, portable.FormatError)


def read(folder: pathlib.Path, described: Json | None) -> tuple[str, ...]:
    """All tokens of a folder.

    Args:
        folder: with `vocab.txt`, or with `tokenizer.json`, or both.
        described: content of `tokenizer.json`, None if there is none.

    Raises:
        FormatError: if the files contradict each other, or do not number their
            tokens.
        VocabularyError: if `vocab.txt` is not in UTF-8.
    """
    file = folder / vocabulary_lib.VOCABULARY_FILE
    if described is None:
        listed = vocabulary_lib.read_tokens(file)
        return listed + _added_by_list(folder, listed)
    added = _added_ids(described, folder)
    tokens = _by_id(described, added, folder)
    if not file.is_file():
        return tokens
    listed = vocabulary_lib.read_tokens(file)
    # Added tokens need not be in vocab.txt.
    is_whole = added.keys() >= set(tokens[len(listed) :])
    if tokens[: len(listed)] != listed or not is_whole:
        raise portable.FormatError(
            f"{folder}: vocab.txt and {TOKENIZER_FILE} must list the same "
            "tokens. Received: different ones. Remove the wrong file."
        )
    return tokens


def _by_id(
    described: Json, added: Mapping[str, int], folder: pathlib.Path
) -> tuple[str, ...]:
    """Tokens of a tokenizer.json in the order of their ids."""
    model = described.get("model")
    model = model if isinstance(model, dict) else {}
    expected = {"type": "WordPiece", "continuing_subword_prefix": "##"}
    wrong = {
        key: model.get(key)
        for key, value in expected.items()
        if model.get(key, value) != value
    }
    if wrong or not isinstance(model.get("vocab"), dict):
        raise portable.FormatError(
            f"{folder / TOKENIZER_FILE} must describe a WordPiece tokenizer "
            f"with ##. Received: {str(wrong or 'no vocabulary'):.200}."
        )
    ids = dict(added) | model["vocab"]
    is_numbered = all(type(number) is int for number in ids.values())
    is_numbered &= all(ids[token] == number for token, number in added.items())
    if not is_numbered or sorted(ids.values()) != list(range(len(ids))):
        raise portable.FormatError(
            f"{folder / TOKENIZER_FILE} must number its tokens 0 to "
            f"{len(ids) - 1}. Received: ids with gaps or repetitions."
        )
    return tuple(sorted(ids, key=ids.__getitem__))


def _added_ids(described: Json, folder: pathlib.Path) -> dict[str, int]:
    """Added tokens of a tokenizer.json; special ones are among them."""
    added = described.get("added_tokens")
    added = [] if added is None else added
    entries = added if isinstance(added, list) else [added]
    for entry in entries:
        fields = entry if isinstance(entry, dict) else {}
        is_token = isinstance(fields.get("content"), str)
        if not is_token or type(fields.get("id")) is not int:
            raise portable.FormatError(
                f"{folder / TOKENIZER_FILE} must give every added token a "
                "content, which is a text, and an id, which is a number. "
                f"Received: {entry!r:.200}. Take the file again from where it "
                "comes from."
            )
    ids = {entry["content"]: entry["id"] for entry in entries}
    _warn_of_added(list(ids), folder)
    return ids


def _added_by_list(
    folder: pathlib.Path, listed: Sequence[str]
) -> tuple[str, ...]:
    """Tokens that follow those of vocab.txt, in the order of their ids."""
    places = read_object(folder / _ADDED_TOKENS_FILE) or {}
    is_numbered = all(
        type(place) is int and place >= 0 for place in places.values()
    )
    tokens = sorted(places, key=places.__getitem__) if is_numbered else []
    new = [token for token in tokens if places[token] >= len(listed)]
    is_whole = [places[token] for token in new] == [
        len(listed) + number for number in range(len(new))
    ]
    is_same = all(
        listed[places[token]] == token for token in tokens if token not in new
    )
    if not (is_numbered and is_whole and is_same):
        raise portable.FormatError(
            f"{folder / _ADDED_TOKENS_FILE} must number its tokens from "
            f"{len(listed)}, where vocab.txt ends, or as vocab.txt does. "
            f"Received: {places!r:.80}."
        )
    _warn_of_added(new, folder)
    return tuple(new)


def _warn_of_added(tokens: Sequence[str], folder: pathlib.Path) -> None:
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
