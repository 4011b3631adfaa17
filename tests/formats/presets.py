"""A KerasHub preset that tests damage."""

import json
import shutil

import pytest

from electra_tf import errors
from electra_tf.formats import keras_hub_preset
from tests.formats import tiny_models


@pytest.fixture(scope="session")
def written_preset(tmp_path_factory):
    """An encoder's."""
    folder = tmp_path_factory.mktemp("keras_hub") / "preset"
    folder.mkdir()
    keras_hub_preset.write(tiny_models.build("encoder"), folder)
    return folder


@pytest.fixture
def preset(written_preset, tmp_path):
    """A copy of it."""
    return shutil.copytree(written_preset, tmp_path / "preset")


def change(folder, name, **fields):
    """Puts fields into one of its JSON files."""
    path = folder / name
    content = json.loads(path.read_text()) | fields
    path.write_text(json.dumps(content))


def refuses(folder, message):
    """Checks that it is not read, and why."""
    with pytest.raises(errors.ModelError, match=message):
        keras_hub_preset.read(folder)
