"""Peak rates of devices."""

import pytest

from electra_tf.training import devices


@pytest.mark.parametrize(
    ("device", "precision", "peak"),
    [
        ("1 x NVIDIA H100 80GB HBM3", "bfloat16", 989e12),
        ("8 x NVIDIA A100-SXM4-40GB", "float16", 312e12),
        ("1 x NVIDIA A100-SXM4-40GB", "float32", 156e12),
        ("1 x NVIDIA H100 PCIe", "bfloat16", 756e12),
        ("1 x NVIDIA A10G", "bfloat16", 70e12),
        ("1 x NVIDIA T400 4GB", "float32", 0.0),
        ("8 x TPU", "bfloat16", 0.0),
    ],
)
def test_known_devices_have_the_peak_of_their_data_sheet(
    device, precision, peak
):
    assert devices.peak_flops(device, precision) == peak


def test_the_peak_of_a_cpu_is_measured():
    # Between a thermostat and a supercomputer.
    assert 1e8 < devices.peak_flops("1 x CPU", "float32") < 1e14
