"""Finds scripts, configs and models by name or path.

A checkout has them in `scripts/`, `configs/` and `data/pretrained/` beside the
package, a wheel inside of the package (`setup.py`). The console commands
(`[project.scripts]` of pyproject.toml) name scripts as attributes of this
module: `electra_tf.installed:score_text` runs `score_text.py`.
"""

import importlib
import os
import pathlib
import re
import runpy
import sys
from collections.abc import Callable
from typing import Any

from electra_tf import errors
from electra_tf import hub
from electra_tf import storage

_PACKAGE = pathlib.Path(__file__).parent
_MODELS = "data/pretrained"
_IN_WHEEL = {
    "scripts": _PACKAGE / "commands",
    "configs": _PACKAGE / "configs",
    _MODELS: _PACKAGE / "pretrained",
}
EXPORTED = "saved_model.pb"  # TensorFlow's name of an export's graph
# The suffix that a TF1 checkpoint's files add to its prefix.
_CHECKPOINT_FILE = re.compile(r"\.(index|meta|data-\d{5}-of-\d{5})$")


def _folder(name: str) -> pathlib.Path:
    in_wheel = _IN_WHEEL[name]
    return in_wheel if in_wheel.is_dir() else _PACKAGE.parent / name


def __getattr__(name: str) -> Callable[[], None]:
    """Returns a function that runs a script, for the console commands."""
    script = _folder("scripts") / f"{name}.py"
    if name.startswith("_") or not script.is_file():
        raise AttributeError(f"There is no script {script}.")

    def run() -> None:
        sys.path.insert(0, str(script.parent))
        runpy.run_path(str(script), run_name="__main__")

    return run


def find_config(path: str) -> str:
    """Returns the path of an installed config, unless the given path exists.

    `path` may end with a colon and an argument. If there is no such config,
    `path` is returned unchanged.
    """
    name, colon, argument = path.partition(":")
    if pathlib.Path(name).exists():
        return path
    config = _folder("configs") / name.removeprefix("configs/")
    return f"{config}{colon}{argument}" if config.is_file() else path


def config_names(folder: str = "*") -> list[str]:
    """Returns the names of the package's configs, or of one folder's."""
    top, pattern = _folder("configs"), f"{folder}/*.py"
    return [f"configs/{p.relative_to(top)}" for p in sorted(top.glob(pattern))]


def model_names() -> tuple[str, ...]:
    """Returns the names of the package's models."""
    paths = _folder(_MODELS).glob("*/config.json")
    return tuple(sorted(path.parent.name for path in paths))


def find_model(path: str | os.PathLike[str]) -> pathlib.Path:
    """Returns the path of a model: a path, or a name in the package or hub.

    Raises `FileNotFoundError` if there is no model, `ModelError` for an export.
    """
    given = storage.path(path)
    storage.require_unicode(given)
    if is_export(given):
        raise errors.ModelError(
            "A model must have weights that can be read. Received: the export "
            f"{given}. Give the run or trial that its README.md names."
        )
    if given.is_dir():
        return given
    prefix = _CHECKPOINT_FILE.sub("", f"{given}")
    if storage.path(f"{prefix}.index").exists():
        return storage.path(prefix)
    if str(given) in model_names():
        return _folder(_MODELS) / given
    # If the first folder of the path exists, it is no name on the hub.
    is_local = pathlib.Path(given.parts[0]).exists()
    folder = None if is_local else hub.download(str(given))
    if folder is None:
        raise FileNotFoundError(
            "A model is a folder, the prefix of a TF1 checkpoint, a model of "
            f"the package ({', '.join(model_names()) or 'none'}), or a name on "
            "the Hugging Face hub such as google/electra-small-discriminator. "
            f"Received: {given}, none of these. Check the spelling."
        )
    return folder


def is_export(path: str | os.PathLike[str]) -> bool:
    """Returns whether there is a SavedModel at a path."""
    return (storage.path(path) / EXPORTED).is_file()


def find_export(path: str | os.PathLike[str]) -> pathlib.Path:
    """Returns the path of an export; raises `FileNotFoundError` for others."""
    given = storage.path(path)
    if not is_export(given):
        raise FileNotFoundError(
            f"An export is a folder with {EXPORTED}. Received: {given}, no "
            "export. Make one: electra-export --model_dir=RUN_OR_TRIAL "
            "--export_dir=DIR"
        )
    return given


def import_extra(module: str, extra: str) -> Any:
    """Imports a module of an extra; the error says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{module} is needed and cannot be imported ({error}). Install it: "
            f"pip install 'electra-tf[{extra}]'."
        ) from error
