"""Which folders a wheel holds; everything else stands in pyproject.toml.

`scripts/`, `configs/` and `data/pretrained/` travel inside the package, so that
the console commands, `--config=configs/...` and `electra_tf.load("tiny-en")`
work from any folder (`electra_tf/installed.py`).
"""

import pathlib

import setuptools

_CONFIGS = pathlib.Path("configs")
_FOLDERS = {
    "electra_tf.commands": "scripts",
    "electra_tf.commands.analyses": "scripts/analyses",
    "electra_tf.commands.benchmarks": "scripts/benchmarks",
    "electra_tf.commands.runtimes": "scripts/runtimes",
    "electra_tf.configs": "configs",
    "electra_tf.pretrained": "data/pretrained",
} | {
    f"electra_tf.configs.{path.name}": str(path)
    for path in sorted(_CONFIGS.iterdir())
    if any(path.glob("*.py"))
}

setuptools.setup(
    packages=[*setuptools.find_packages(include=["electra_tf*"]), *_FOLDERS],
    package_dir=_FOLDERS,
)
