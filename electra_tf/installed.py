"""Scripts, configs and shipped models, wherever this package is installed.

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

_PACKAGE = pathlib.Path(__file__).parent
_MODELS = "data/pretrained"
_IN_WHEEL = {
    "scripts": _PACKAGE / "commands",
    "configs": _PACKAGE / "configs",
    _MODELS: _PACKAGE / "pretrained",
}


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
    """A model's path as given if it exists, else that of the shipped one."""
    given = pathlib.Path(path)
    if str(given) not in model_names():
        return given
    is_there = given.exists() or pathlib.Path(f"{given}.index").exists()
    return given if is_there else _folder(_MODELS) / given


def import_extra(module: str, extra: str) -> Any:
    """Imports a module of an optional extra; `DataError` says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise errors.DataError(
            f"{module} is needed and cannot be imported ({error}). Install it: "
            f"pip install 'electra-tf[{extra}]'."
        ) from error
