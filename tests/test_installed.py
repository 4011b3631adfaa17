"""Console commands and configs of an installed package."""

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv

import pytest

from electra_tf import installed
from tests import tiny_electra

ROOT = pathlib.Path(__file__).parent.parent
# Its checks are in tests/, which a wheel does not carry.
_WITHOUT_COMMAND = {"verify_golden"}


def _commands() -> dict[str, str]:
    """Command to script, as pyproject.toml has them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {
        command: target.removeprefix("electra_tf.installed:")
        for command, target in project["scripts"].items()
    }


def test_every_script_has_a_command_and_every_command_a_script():
    scripts = {path.stem for path in (ROOT / "scripts").glob("*.py")}
    assert set(_commands().values()) == scripts - _WITHOUT_COMMAND
    assert all(name.startswith("electra-") for name in _commands())
    for script in _commands().values():
        assert callable(getattr(installed, script))
    assert not hasattr(installed, "no_such_script")


def test_an_installed_config_is_found_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = ROOT / "configs" / "pretrain" / "tiny.py"
    for name in ("configs/pretrain/tiny.py", "pretrain/tiny.py"):
        assert installed.find_config(f"{name}:arg:x") == f"{found}:arg:x"
        own = tmp_path / name
        own.parent.mkdir(parents=True)
        own.touch()
        assert installed.find_config(name) == name
    for absent in ("configs/pretrain/no.py:a", ""):
        assert installed.find_config(absent) == absent


@pytest.mark.slow
def test_the_wheel_brings_commands_that_work_in_any_folder(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for name in ("electra_tf", "scripts", "configs", "data/pretrained"):
        shutil.copytree(
            ROOT / name, source / name,
            ignore=shutil.ignore_patterns("__pycache__"),
        )  # fmt: skip
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    tiny_electra.write_run(source / "data" / "pretrained" / "stand-in")
    _run([sys.executable, "-m", "build", "--wheel", "--no-isolation"], source)
    (wheel,) = (source / "dist").glob("*.whl")
    programs = _install(wheel, tmp_path / "environment")
    shutil.rmtree(source)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for command, script in _commands().items():
        shown = _run([programs / command, "--help"], elsewhere)
        docstring = (ROOT / "scripts" / f"{script}.py").read_text()
        title = docstring.removeprefix("r").removeprefix('"""').split("\n")[0]
        assert shown.startswith(title), command
        assert "flags:" in shown, command
    counted = _run(
        [programs / "electra-plan", "--operations",
         "--config=configs/pretrain/electra_small.py"],
        elsewhere,
    )  # fmt: skip
    assert "training, a row" in counted
    _run([programs / "electra-new-config", "own.py", "--size=96x2"], elsewhere)
    planned = _run([programs / "electra-plan", "own.py"], elsewhere)
    assert "rows of 32 tokens" in planned
    page = (
        "import pathlib, electra_tf;"
        "home = pathlib.Path(electra_tf.__file__).parent;"
        "assert (home / 'py.typed').exists() and 'source' not in str(home);"
        "print((home / 'export/demo/page.html').stat().st_size)"
    )
    assert int(_run([programs / "python", "-c", page], elsewhere)) > 1000
    load = "import electra_tf; print(electra_tf.load('stand-in'))"
    assert "site-packages" in _run([programs / "python", "-c", load], elsewhere)


def _install(wheel: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """An environment of its own with the wheel; the rest is borrowed."""
    venv.create(folder, with_pip=False)
    programs = folder / "bin"
    _run(
        [sys.executable, "-m", "pip", "--python", programs / "python",
         "install", "--no-deps", "--no-index", wheel],
        folder,
    )  # fmt: skip
    (packages,) = folder.glob("lib/python*/site-packages")
    # A path file of a path file is not read, so the checkout stays out.
    borrowed = packages / "borrowed.pth"
    borrowed.write_text(sysconfig.get_path("purelib"))
    return programs


def _run(command: list, folder: pathlib.Path) -> str:
    environment = {n: v for n, v in os.environ.items() if n != "PYTHONPATH"}
    finished = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True
    )
    assert finished.returncode == 0, finished.stderr[-2000:]
    return finished.stdout
