"""Scripts in processes, in forks of one process, or as modules."""

import functools
import importlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

from absl import flags

ROOT = pathlib.Path(__file__).parent.parent
# Importing TensorFlow takes five seconds; a fork of a process that has imported
# it, and computed nothing, runs a script at once.
_SERVER = """
import importlib, json, os, runpy, sys
for module in sys.argv[1:]:
    importlib.import_module(module)
for line in sys.stdin:
    (script, *arguments), files, folder, environment = json.loads(line)
    if not os.fork():
        for stream, path in enumerate(files):
            os.dup2(os.open(path, os.O_CREAT | os.O_RDWR), stream)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        paths = environment.get("PYTHONPATH", "").split(os.pathsep)
        sys.path[:1] = os.path.dirname(script), *filter(None, paths)
        sys.argv = [script, *arguments]
        runpy.run_path(script, run_name="__main__")
        sys.exit()
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""
_MODULES = ("electra_tf.pretraining.run", "electra_tf.export.saved_model")


@functools.cache
def _start_server(modules: tuple[str, ...]) -> subprocess.Popen[str]:
    # It ends when this process does, which closes the pipe.
    return subprocess.Popen(
        [sys.executable, "-c", _SERVER, *modules],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def run_in_forks(
    commands: Iterable[Sequence[Any]],
    modules: tuple[str, ...] = ("electra_tf.command_line",),
    cwd: pathlib.Path = ROOT,
    env: Mapping[str, str] | None = None,
) -> list[subprocess.CompletedProcess]:
    """Runs scripts one after another, each in a fork of one process.

    Args:
        commands: name of a script and its arguments, of each.
        modules: what the process imports before it forks.
        cwd: where the scripts run.
        env: their environment; by default that of this process.
    """
    finished, server = [], _start_server(modules)
    for name, *arguments in commands:
        with tempfile.TemporaryDirectory() as folder:
            files = ["/dev/null", f"{folder}/output", f"{folder}/errors"]
            script = (ROOT / "scripts" / name).with_suffix(".py")
            command = [*map(os.fsdecode, (script, *arguments))]
            place = str(cwd), dict(os.environ if env is None else env)
            request = json.dumps([command, files, *place])
            print(request, file=server.stdin, flush=True)
            code = int(server.stdout.readline())
            texts = [
                pathlib.Path(path).read_text("utf-8", "replace")
                for path in files[1:]
            ]
        finished.append(subprocess.CompletedProcess(command, code, *texts))
    return finished


def run(name: str, *arguments: Any) -> subprocess.CompletedProcess:
    """Runs a script in a fork of a process that has imported TensorFlow."""
    return run_in_forks([(name, *arguments)], _MODULES)[0]


def load(name: str) -> ModuleType:
    """Imports a script, and forgets its flags: another has the same names."""
    module = importlib.import_module(f"scripts.{name}")
    for flag in flags.FLAGS.get_flags_for_module(module.__name__):
        delattr(flags.FLAGS, flag.name)
    return module
