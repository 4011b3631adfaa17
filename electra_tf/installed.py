"""Finds scripts, configs and models by the name or path that a user gives.

In a checkout they are in `scripts/`, `configs/` and `data/pretrained/` beside
the package; in a wheel they are inside it (`setup.py`). The console commands
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
# TensorFlow's name of the file with the graph of an export.
EXPORTED = "saved_model.pb"
# What the names of a TF1 checkpoint's files add to its prefix.
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

    `path` may end with a colon and an argument. It is returned unchanged if
    there is no such config.
    """
    name, colon, argument = path.partition(":")
    if pathlib.Path(name).exists():
        return path
    config = _folder("configs") / name.removeprefix("configs/")
    return f"{config}{colon}{argument}" if config.is_file() else path


def config_names(folder: str = "*") -> list[str]:
    """Returns the names of the configs that come along, or of one folder's."""
    top, pattern = _folder("configs"), f"{folder}/*.py"
    return [f"configs/{p.relative_to(top)}" for p in sorted(top.glob(pattern))]


def model_names() -> tuple[str, ...]:
    """Returns the names of the models that come with this package."""
    paths = _folder(_MODELS).glob("*/config.json")
    return tuple(sorted(path.parent.name for path in paths))


def find_model(path: str | os.PathLike[str]) -> pathlib.Path:
    """Returns the path of a model: as given, in this package, of the hub.

    Raises `FileNotFoundError` if there is none, `ModelError` for an export.
    """
    given = storage.path(path)
    storage.require_unicode(given)
    if is_export(given):
        raise errors.ModelError(
            "A model must be given whose weights can be read. Received: the "
            f"export {given}. Give the run or trial that its README.md names."
        )
    if given.is_dir():
        return given
    prefix = _CHECKPOINT_FILE.sub("", f"{given}")
    if storage.path(f"{prefix}.index").exists():
        return storage.path(prefix)
    if str(given) in model_names():
        return _folder(_MODELS) / given
    # If its first folder exists, no model of the hub is meant.
    is_local = pathlib.Path(given.parts[0]).exists()
    folder = None if is_local else hub.download(str(given))
    if folder is None:
        raise FileNotFoundError(
            "A model is a folder, the prefix of a TF1 checkpoint, one that "
            f"comes along ({', '.join(model_names()) or 'none'}), or one of "
            "the Hugging Face hub, such as google/electra-small-discriminator. "
            f"Received: {given}, which is nothing of these. Mind its spelling "
            "and the folder that you are in."
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
            f"An export must be given, a folder with {EXPORTED}. Received: "
            f"{given}, which is none. Make one: electra-export --model_dir="
            "RUN_OR_TRIAL --export_dir=DIR"
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
