"""Settings and fixtures that every test shares."""

import os
import pathlib
import sys
import types

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Two logical devices need no second machine, but must be asked for before
# TensorFlow starts; the tests that use them say so by the fixture below.
import pytest
import tensorflow as tf

tf.config.experimental.enable_tensor_float_32_execution(False)
_CPUS = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(
    _CPUS[0],
    [tf.config.LogicalDeviceConfiguration()] * 2,
)

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent


_GOLDEN = REPOSITORY / "tests" / "golden" / "reference"
_ORACLES = pathlib.Path(
    os.environ.get(
        "ELECTRA_ORACLES", REPOSITORY.parent / "shared" / "oracles" / "dev"
    )
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """What `tests/golden` compares with."""
    parser.addoption(
        "--golden_dir",
        type=lambda path: [pathlib.Path(path)],
        default=[path for path in (_GOLDEN, _ORACLES) if path.is_dir()],
        metavar="DIR",
        help="the reference folder that tests/golden checks; default: the "
        "embedded one, and $ELECTRA_ORACLES",
    )


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


@pytest.fixture
def two_devices() -> tf.distribute.MirroredStrategy:
    """A MirroredStrategy over two logical CPUs."""
    from electra_tf import config
    from electra_tf.training import distribution

    return distribution.build_strategy(
        config.TrainingConfig(strategy="mirrored")
    )
