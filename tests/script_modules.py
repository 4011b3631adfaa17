"""Scripts in processes, in forks of one process, or as modules."""

import importlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence
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


# Importing TensorFlow takes five seconds; a fork of a process that has imported
# it, and computed nothing, runs a script at once.
_IN_FORKS = """
import importlib, json, os, runpy, sys
folder, modules, commands = json.load(sys.stdin)
for module in modules:
    importlib.import_module(module)
for number, (script, *arguments) in enumerate(commands):
    if not os.fork():
        for stream in (1, 2):
            path = f"{folder}/{number}-{stream}"
            os.dup2(os.open(path, os.O_CREAT | os.O_WRONLY), stream)
        sys.argv, sys.path[0] = [script, *arguments], os.path.dirname(script)
        runpy.run_path(script, run_name="__main__")
        sys.exit()
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""


def run_in_forks(
    commands: Sequence[Sequence[str]],
    modules: Sequence[str] = ("electra_tf.command_line",),
    **options: Any,
) -> list[subprocess.CompletedProcess]:
    """Runs scripts one after another, each in a fork of one process.

    Args:
        commands: name of a script and its arguments, of each.
        modules: what the process imports before it forks.
        **options: of `subprocess.run`.
    """
    paths = [
        [f"{ROOT / 'scripts' / name}.py", *rest] for name, *rest in commands
    ]
    own = {"PYTHONPATH": str(ROOT)}
    options = {"cwd": ROOT, "env": os.environ | own, "check": True} | options
    with tempfile.TemporaryDirectory() as folder:
        codes = subprocess.run(
            [sys.executable, "-c", _IN_FORKS],
            input=json.dumps([folder, modules, paths]),
            stdout=subprocess.PIPE,
            text=True,
            **options,
        ).stdout.split()
        return [
            subprocess.CompletedProcess(
                command,
                int(code),
                *(
                    pathlib.Path(folder, f"{number}-{stream}").read_text()
                    for stream in (1, 2)
                ),
            )
            for number, (command, code) in enumerate(
                zip(commands, codes, strict=True)
            )
        ]


def load(name: str) -> ModuleType:
    """Imports a script, and forgets its flags: another has the same names."""
    module = importlib.import_module(f"scripts.{name}")
    for flag in flags.FLAGS.get_flags_for_module(module.__name__):
        delattr(flags.FLAGS, flag.name)
    return module
