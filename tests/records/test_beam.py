"""The builder on Beam's local runner; needs the extra `beam`."""

import pathlib

import pytest

from electra_tf.records import writer
from tests.records.conftest import folder_bytes

pytest.importorskip("apache_beam", reason="the extra `beam` is not installed")

OPTIONS = ["--runner=DirectRunner", "--direct_running_mode=in_memory"]


def test_dataset_has_the_same_bytes_as_one_built_locally(
    settings, finished_dataset
):
    writer.build_dataset(settings, beam_options=OPTIONS)
    found = folder_bytes(pathlib.Path(settings.output_dir))
    assert found == folder_bytes(finished_dataset)
