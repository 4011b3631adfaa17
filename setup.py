"""Which folders a wheel holds; everything else stands in pyproject.toml.

`scripts/` and `configs/` travel inside the package, so that the console
commands and `--config=configs/...` work from any folder
(`electra_tf/installed.py`).
"""

import pathlib

import setuptools

_CONFIGS = pathlib.Path("configs")
_FOLDERS = {
    "electra_tf.commands": "scripts",
    "electra_tf.configs": "configs",
} | {
    f"electra_tf.configs.{path.name}": str(path)
    for path in sorted(_CONFIGS.iterdir())
    if any(path.glob("*.py"))
}

setuptools.setup(
    packages=[*setuptools.find_packages(include=["electra_tf*"]), *_FOLDERS],
    package_dir=_FOLDERS,
)
