"""Scripts as modules, several in one process."""

import importlib
import pathlib
import subprocess
import sys
from types import ModuleType
from typing import Any

from absl import flags

ROOT = pathlib.Path(__file__).parent.parent


def run(
    name: str, *arguments: str, **options: Any
) -> subprocess.CompletedProcess:
    """Runs a script in a process of its own, from the root of the project."""
    command = [sys.executable, ROOT / "scripts" / f"{name}.py", *arguments]
    options = {"cwd": ROOT, "capture_output": True, "text": True} | options
    return subprocess.run(command, **options)


def load(name: str) -> ModuleType:
    """Imports a script, and forgets its flags: another has the same names."""
    module = importlib.import_module(f"scripts.{name}")
    for flag in flags.FLAGS.get_flags_for_module(module.__name__):
        delattr(flags.FLAGS, flag.name)
    return module
