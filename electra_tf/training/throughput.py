"""How fast the hardware could be, to say what share of it a run uses."""

import re
import time

import tensorflow as tf

# Dense matrix products per second of one device, from the vendors' data
# sheets: name (as the driver gives it) to (16-bit, 32-bit as TensorFlow runs
# it, TF32 where the device has it).
_PEAKS = {
    "H200": (989e12, 494e12),
    "GH200": (989e12, 494e12),
    "H100 PCIe": (756e12, 378e12),
    "H100": (989e12, 494e12),
    "A100": (312e12, 156e12),
    "L40S": (362e12, 183e12),
    "L4": (121e12, 60e12),
    "A10": (125e12, 62e12),
    "A10G": (70e12, 35e12),
    "V100": (125e12, 15.7e12),
    "T4": (65e12, 8.1e12),
}
_MEASURED_SIZE = 768


def peak_flops(device: str, precision: str) -> float:
    """Matrix-product operations per second of one device.

    Args:
        device: the hardware in words, as `device_description` gives it.
        precision: `float32`, `bfloat16` or `float16`.

    Returns:
        The data sheet's figure for known accelerators, a short measurement
        for CPUs, 0 for what is unknown.
    """
    for name, (half, single) in _PEAKS.items():
        if re.search(rf"\b{name}\b", device):
            return single if precision == "float32" else half
    return _measure_cpu(precision) if "CPU" in device else 0.0


def _measure_cpu(precision: str) -> float:
    """The best of a few products, about a tenth of a second."""
    size = _MEASURED_SIZE
    matrix = tf.ones([size, size], tf.as_dtype(precision)) / size
    best = float("inf")
    for _ in range(6):
        start = time.perf_counter()
        tf.matmul(matrix, matrix).numpy()
        best = min(best, time.perf_counter() - start)
    return 2.0 * size**3 / best
