"""The builder on Beam's local runner; needs the extra `beam`."""

import pathlib

import pytest

from electra_tf.records import writer
from tests.records.conftest import folder_bytes

pytest.importorskip("apache_beam", reason="the extra `beam` is not installed")


@pytest.mark.parametrize(
    "options",
    [
        ["--direct_running_mode=in_memory"],
        pytest.param(
            [
                "--direct_running_mode=multi_processing",
                "--direct_num_workers=2",
            ],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_dataset_has_the_same_bytes_as_one_built_locally(
    settings, finished_dataset, options
):
    options = ["--runner=DirectRunner", *options]
    writer.build_dataset(settings, beam_options=options)
    found = folder_bytes(pathlib.Path(settings.output_dir))
    assert found == folder_bytes(finished_dataset)
