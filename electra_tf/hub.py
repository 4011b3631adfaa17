"""Models of the Hugging Face hub: `owner/name`, or `owner/name@revision`.

`huggingface_hub` asks, downloads and caches. What its users set holds here
too: HF_HOME, HF_HUB_CACHE, HF_HUB_OFFLINE, HF_TOKEN, HF_ENDPOINT.
"""

import importlib.util
import pathlib
import re

from electra_tf import errors

_NAME = re.compile(r"(\w[\w.-]*/\w[\w.-]*)(?:@([^@\s]+))?", re.ASCII)
# Of one network, of both of a pre-trained ELECTRA, or KerasHub's.
_FOLDERS = ("", "discriminator/", "generator/", "assets/tokenizer/")
_DESCRIPTIONS = (
    *("config.json", "tokenizer.json", "tokenizer_config.json"),
    *("added_tokens.json", "vocab.txt", "vocabulary.txt"),
)
# The first that are there.
_WEIGHTS = (
    (
        "model.safetensors",
        "model.safetensors.index.json",
        "model-*.safetensors",
    ),
    ("tf_model.h5",),
    ("model.weights.h5",),
)
# Last, because it is a pickle, and only where PyTorch can read it.
_PICKLES = (("pytorch_model.bin",),)


def is_name(text: str) -> bool:
    """Returns whether a text has the form of a name on the hub."""
    return _NAME.fullmatch(text) is not None


def download(name: str) -> pathlib.Path:
    """Returns the folder in the cache that holds a model's files.

    Those that are missing or of an older commit are downloaded first, or used
    as they are where the hub cannot be reached. Raises `FileNotFoundError` if
    there is no such model, and `ModelError` if its weights cannot be read.
    """
    import huggingface_hub
    from huggingface_hub import constants

    match = _NAME.fullmatch(name)
    model, revision = match.groups() if match else (name, None)
    has_torch = importlib.util.find_spec("torch") is not None
    for weights in _WEIGHTS + _PICKLES * has_torch:
        names = [f + n for f in _FOLDERS for n in (*_DESCRIPTIONS, *weights)]
        try:
            folder = pathlib.Path(
                huggingface_hub.snapshot_download(
                    model, revision=revision, allow_patterns=names
                )
            )
        except Exception as error:
            # Its own, and those of the library that it asks with.
            if getattr(error, "errno", None):
                raise
            message = _explain(name, model, error)
            raise FileNotFoundError(message) from error
        if any(path for n in weights for path in folder.rglob(n)):
            return folder
        # The commit, which needs no second question.
        revision = folder.name
    raise errors.ModelError(
        f"{constants.ENDPOINT}/{model} must have weights in model.safetensors "
        "or tf_model.h5 (or, with pip install 'electra-tf[torch]', in "
        "pytorch_model.bin). Received: none of these. Take another model."
    )


def _explain(name: str, model: str, error: Exception) -> str:
    from huggingface_hub import constants
    from huggingface_hub import errors as hub_errors

    page = f"{constants.ENDPOINT}/{model}"
    if isinstance(error, hub_errors.GatedRepoError):
        return (
            f"{page} must be open to you. Received: no access. Ask for it on "
            "that page, then run `hf auth login` or set HF_TOKEN."
        )
    if isinstance(error, hub_errors.RepositoryNotFoundError):
        return (
            f"{name} must be a folder, or a model of the Hugging Face hub. "
            f"Received: no such folder, and {page} does not exist or is "
            "private. Mind the spelling; for a private model run `hf auth "
            "login` or set HF_TOKEN."
        )
    if isinstance(error, hub_errors.RevisionNotFoundError):
        return (
            f"{name} must name a branch, tag or commit of {page} after the @. "
            "Received: another one. Correct it, or leave it out."
        )
    reason: object = "HF_HUB_OFFLINE is set"
    if not constants.HF_HUB_OFFLINE:
        cause = error.__cause__ or error
        reason = f"{type(cause).__name__}: {cause}".splitlines()[0]
    return (
        f"{name} must be a folder, in the cache {constants.HF_HUB_CACHE}, or "
        f"on the hub {constants.ENDPOINT}. Received: neither folder nor cache "
        f"has it whole, and the hub cannot be asked ({reason}). Connect, or "
        "download config.json, vocab.txt, tokenizer_config.json and "
        f"model.safetensors (or tf_model.h5) of {page} elsewhere into the "
        f"folder {name} here."
    )
