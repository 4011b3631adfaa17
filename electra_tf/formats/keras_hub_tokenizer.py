"""The tokenizer of a preset of KerasHub's.

folder/tokenizer.json                       class and settings
folder/assets/tokenizer/vocabulary.txt      one token a line
"""

import pathlib

from electra_tf import config
from electra_tf import json_files
from electra_tf.formats import portable
from electra_tf.formats import tokenizer_files
from electra_tf.text import vocabulary as vocabulary_lib

# Options of its tokenizer that change the ids, and what they must be.
_OPTIONS = {
    "split": True,
    "split_on_cjk": True,
    "suffix_indicator": "##",
    "oov_token": "[UNK]",
    "special_tokens_in_strings": False,
}


def read(
    path: pathlib.Path,
    encoder: config.EncoderConfig,
    settings: vocabulary_lib.TokenizerSettings | None,
) -> tuple[vocabulary_lib.Vocabulary | None, tuple[str, ...]]:
    """The vocabulary of a preset, with a token for every row of the table.

    Args:
        path: the preset's folder.
        encoder: the model's sizes.
        settings: of our files, which say more; None if they are not there.

    Returns:
        The vocabulary, None for a preset without a tokenizer; and notes.

    Raises:
        FormatError: if a file is missing or damaged, if the tokenizer does
            what ours does not, or if it is another model's.
    """
    file = path / "assets" / "tokenizer" / "vocabulary.txt"
    described = path / tokenizer_files.TOKENIZER_FILE
    if not file.is_file():
        parts = (file, described)
        is_named = settings is not None or any(
            part.exists() or part.is_symlink() for part in parts
        )
        if is_named:
            raise portable.FormatError(
                f"{file} must hold the tokens of the preset's tokenizer. "
                "Received: no such file. Restore it."
            )
        return None, ("there is no vocabulary in the preset",)
    stated = _read_settings(described)
    try:
        vocabulary = vocabulary_lib.Vocabulary(
            vocabulary_lib.read_tokens(file), settings or stated
        )
    except vocabulary_lib.VocabularyError as error:
        raise portable.FormatError(f"{file}: {error}") from error
    fitted = tokenizer_files.fit_rows(vocabulary, encoder, file)
    missing = fitted.size - vocabulary.size
    note = f"{missing} rows of the token table have no token in the vocabulary"
    return fitted, (note,) if missing else ()


def _read_settings(
    file: pathlib.Path,
) -> vocabulary_lib.TokenizerSettings:
    """What the preset's tokenizer does, if ours does the same."""
    if not file.is_file():
        raise portable.FormatError(
            f"{file} must describe the preset's tokenizer, whose tokens there "
            "are. Received: no such file. Restore it."
        )
    content = json_files.read_object(file, portable.FormatError)
    stated = content.get("config")
    names = ("lowercase", "strip_accents")
    if not isinstance(stated, dict) or any(
        not isinstance(stated.get(name, False), bool) for name in names
    ):
        raise portable.FormatError(
            f"{file} must have `config`, with true or false for "
            f"{' and '.join(names)}. Received: {stated!r:.80}. Take the file "
            "again from where it comes from."
        )
    other = {
        name: stated[name]
        for name, value in _OPTIONS.items()
        if name in stated and stated[name] != value
    }
    is_lower = stated.get("lowercase", False)
    strips = stated.get("strip_accents", False)
    if strips and not is_lower:
        other["strip_accents"] = True
    if other:
        raise portable.FormatError(
            f"The tokenizer of {file} must split and match as the original's. "
            f"Received: {other}, which this one does not follow."
        )
    return vocabulary_lib.TokenizerSettings(
        do_lower_case=is_lower, strip_accents=strips
    )


def write(vocabulary: vocabulary_lib.Vocabulary, folder: pathlib.Path) -> None:
    """Writes what `ElectraTokenizer.from_preset` reads.

    Args:
        vocabulary: of the model.
        folder: of the preset; exists.
    """
    # Takes seconds to import.
    import keras_hub

    settings = vocabulary.settings
    keras_hub.models.ElectraTokenizer(
        vocabulary=list(vocabulary.tokens),
        lowercase=settings.do_lower_case,
        strip_accents=settings.do_lower_case and settings.strip_accents,
    ).save_to_preset(str(folder))
