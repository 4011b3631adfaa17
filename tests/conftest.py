"""Settings and fixtures that every test shares."""

import os
import pathlib

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


@pytest.fixture(scope="session")
def golden() -> pathlib.Path:
    """The small reference arrays that travel with the project."""
    return REPOSITORY / "tests" / "golden"


@pytest.fixture(scope="session")
def oracles() -> pathlib.Path:
    """The full reference folder; skips where it is absent."""
    default = REPOSITORY.parent / "shared" / "oracles" / "dev"
    folder = pathlib.Path(os.environ.get("ELECTRA_ORACLES", default))
    if not folder.is_dir():
        pytest.skip(f"no reference folder at {folder}; set ELECTRA_ORACLES")
    return folder


@pytest.fixture
def two_devices() -> tf.distribute.MirroredStrategy:
    """A MirroredStrategy over two logical CPUs."""
    from electra_tf import config
    from electra_tf.training import distribution

    return distribution.build_strategy(
        config.TrainingConfig(strategy="mirrored")
    )
