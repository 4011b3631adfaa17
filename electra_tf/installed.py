"""Scripts, configs and models, found by the name or path that a user gives.

In a checkout they are `scripts/`, `configs/` and `data/pretrained/` beside the
package; a wheel carries them inside it (`setup.py`). The console commands
(`[project.scripts]` of pyproject.toml) name scripts as attributes of this
module: `electra_tf.installed:score_text` runs `score_text.py`.
"""

import functools
import importlib
import os
import pathlib
import runpy
from collections.abc import Callable
from typing import Any

from electra_tf import errors
from electra_tf import hub

_PACKAGE = pathlib.Path(__file__).parent
_MODELS = "data/pretrained"
_IN_WHEEL = {
    "scripts": _PACKAGE / "commands",
    "configs": _PACKAGE / "configs",
    _MODELS: _PACKAGE / "pretrained",
}
# What TensorFlow calls the graph of an export.
_EXPORTED = "saved_model.pb"
# Of a run or trial, and of a fine-tuning with its trials.
_MODEL_FILES = ("config.json", "trial_*/config.json")
_ON_HUB = "such as google/electra-small-discriminator"


def _folder(name: str) -> pathlib.Path:
    in_wheel = _IN_WHEEL[name]
    return in_wheel if in_wheel.is_dir() else _PACKAGE.parent / name


def __getattr__(name: str) -> Callable[[], None]:
    """What runs a script, for the console commands."""
    script = _folder("scripts") / f"{name}.py"
    if name.startswith("_") or not script.is_file():
        raise AttributeError(f"There is no script {script}.")
    return functools.partial(_run, script)


def _run(script: pathlib.Path) -> None:
    runpy.run_path(str(script), run_name="__main__")


def find_config(path: str) -> str:
    """A config's path as given if it exists, else that of the installed one.

    `path` may end with a colon and an argument. It comes back as it is if there
    is no such config either, so that whoever opens it says so.
    """
    name, colon, argument = path.partition(":")
    if not name or pathlib.Path(name).exists():
        return path
    found = _folder("configs") / name.removeprefix("configs/")
    return f"{found}{colon}{argument}" if found.is_file() else path


def model_names() -> tuple[str, ...]:
    """Names of the models that come with this package."""
    found = _folder(_MODELS).glob("*/config.json")
    return tuple(sorted(path.parent.name for path in found))


def find_model(path: str | os.PathLike[str]) -> pathlib.Path:
    """Returns where a model lies: at a path, in this package, on the hub.

    What lies at that path goes first; of the hub the model is downloaded, see
    `hub.download`. Raises `FileNotFoundError` if it is nowhere, `ModelError`
    if it is an export.
    """
    given = pathlib.Path(path)
    if given.is_dir() or pathlib.Path(f"{given}.index").exists():
        if not is_export(given):
            return given
        raise errors.ModelError(
            "A model must be given whose weights can be read. Received: "
            f"{given}, an export, which can only be run. Give the run or trial "
            f"that it was made from; {given / 'README.md'} names it."
        )
    if str(given) in model_names():
        return _folder(_MODELS) / given
    # A folder is meant that lies beside others.
    is_beside = given.name and pathlib.Path(given.parts[0]).exists()
    if hub.is_name(str(given)) and not is_beside:
        return hub.download(str(given))
    raise FileNotFoundError(
        "A model is a folder, the prefix of a TF1 checkpoint, one that comes "
        f"along ({', '.join(model_names()) or 'none'}), or one of the Hugging "
        f"Face hub ({_ON_HUB}). Received: {given}, which is nothing of these. "
        "Mind its spelling and the folder that you are in."
    )


def is_export(path: str | os.PathLike[str]) -> bool:
    """Returns whether a SavedModel lies at a path."""
    return (pathlib.Path(path) / _EXPORTED).is_file()


def find_export(path: str | os.PathLike[str]) -> pathlib.Path:
    """Returns the folder of an export, or `FileNotFoundError` says why not."""
    given = pathlib.Path(path)
    if is_export(given):
        return given
    source, received = "RUN_OR_TRIAL", "no such folder"
    if given.is_dir():
        received = "a folder without it"
    if str(given) in model_names() or any(
        next(given.glob(pattern), None) for pattern in _MODEL_FILES
    ):
        source, received = str(given), "a model that is not exported"
    raise FileNotFoundError(
        f"An export must be given, a folder with {_EXPORTED}. Received: "
        f"{given}, {received}. Make one: electra-export --model_dir={source} "
        "--export_dir=DIR"
    )


def import_extra(module: str, extra: str) -> Any:
    """Imports a module of an extra; `ImportError` says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{module} is needed and cannot be imported ({error}). Install it: "
            f"pip install 'electra-tf[{extra}]'."
        ) from error
