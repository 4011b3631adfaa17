"""Downloads models of the Hugging Face hub: `owner/name[@revision]`.

The environment variables of `huggingface_hub` apply, such as HF_HOME, HF_TOKEN.
"""

import importlib.util
import pathlib
import re

from electra_tf import errors

_NAME = re.compile(r"(\w[\w.-]*/\w[\w.-]*)(?:@((?!.*\.\.)[^@\s]+))?", re.ASCII)
# Folders of a repository: of one network, of a pair, of KerasHub.
_FOLDERS = ("", "discriminator/", "generator/", "assets/tokenizer/")
_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json",
          "added_tokens.json", "vocab.txt", "vocabulary.txt")  # fmt: skip
_WEIGHTS = ("model*.safetensors*", "tf_model.h5", "model.weights.h5")


def download(name: str) -> pathlib.Path | None:
    """Downloads a model's files; returns their folder in the cache.

    Returns None if `name` has not the form of a model's name. Without a
    connection, files in the cache are used. Raises `FileNotFoundError` if there
    is no such model, `ModelError` if it has no weights.
    """
    import huggingface_hub

    match = _NAME.fullmatch(name)
    if match is None:
        return None
    model, revision = match.groups()
    # In order of preference; a pickle is last and needs torch.
    has_torch = importlib.util.find_spec("torch") is not None
    for weights in (*_WEIGHTS, *["pytorch_model.bin"] * has_torch):
        wanted = [f + n for f in _FOLDERS for n in (*_FILES, weights)]
        try:
            path = huggingface_hub.snapshot_download(
                model, revision=revision, allow_patterns=wanted
            )
        except Exception as error:
            # The errors of huggingface_hub and of its HTTP client.
            if getattr(error, "errno", None):
                raise
            raise FileNotFoundError(_explain(name, error)) from error
        folder = pathlib.Path(path)
        if next(folder.rglob(weights), None):
            return folder
        # With the commit as revision, the hub is not asked again.
        revision = folder.name
    raise errors.ModelError(
        f"{name} must have model.safetensors or tf_model.h5 (pytorch_model.bin "
        "takes pip install 'electra-tf[torch]'). Received: none of these."
    )


def _explain(name: str, error: Exception) -> str:
    from huggingface_hub import constants
    from huggingface_hub import errors as hub_errors

    page = f"{constants.ENDPOINT}/{name.partition('@')[0]}"
    known = hub_errors.RepositoryNotFoundError, hub_errors.RevisionNotFoundError
    if isinstance(error, known):
        received = (
            "neither, or no such revision. Check the spelling; for a private "
            "or gated model get access, and use `hf auth login` or HF_TOKEN."
        )
    else:
        cause = error.__cause__ or error
        reason = f"{type(cause).__name__}: {cause}".splitlines()[0].rstrip(".")
        received = (
            "no folder, no complete copy in the cache "
            f"{constants.HF_HUB_CACHE}, and no answer of the hub ({reason}). "
            "Connect, or put config.json, vocab.txt, tokenizer_config.json and "
            f"model.safetensors or tf_model.h5 into a folder {name} here."
        )
    return (
        f"{name} must be a folder, or a model of the Hugging Face hub, {page}. "
        f"Received: {received}"
    )
