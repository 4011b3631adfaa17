"""What the compilers of TPUs and GPUs say of a step; no device is needed."""

import json
import os
import pathlib
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import pandas

from electra_tf import config
from electra_tf import figures

_SCRIPTS = pathlib.Path(__file__).parents[1]
WORKS = ("pretrain", "evaluate", "finetune", "predict")
# A GPU: version and kind of the compute capability, multiprocessors, units of
# each, GHz, bytes of shared memory, of it for a block, of the second cache.
_HOPPER = 9, "ACCELERATED_FEATURES", 132, 128, 1.98, 233472, 232448, 52428800
# A compiler's names of devices; of TPUs, the smallest slice with eight cores.
DEVICES: dict[str, Any] = {
    "v2": "v2:2x2",
    "v3": "v3:2x2x1",
    "v4": "v4:2x2x2",
    "v5e": "v5e:2x4",
    "v6e": "v6e:2x4",
    "A100": (8, "NONE", 108, 64, 1.41, 167936, 166912, 41943040),
    "H100": _HOPPER,
    "H200": _HOPPER,
}
_TARGET = """
gpu_device_info {{
  cuda_compute_capability {{ major: {} feature_extension: {} }}
  core_count: {} fpus_per_core: {} clock_rate_ghz: {}
  shared_memory_per_core: {} shared_memory_per_block_optin: {}
  l2_cache_size: {} memory_bandwidth: {bandwidth} device_memory_size: {memory}
  shared_memory_per_block: 49152 threads_per_core_limit: 2048
  threads_per_block_limit: 1024 threads_per_warp: 32
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535
  block_dim_limit_z: 65535 registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  runtime_version: "13.0.0" compile_time_toolkit_version: "13.0.0"
}}
platform_name: "CUDA" device_description_str: "{name}"
dnn_version_info {{ major: 9 minor: 10 }}
"""
_MEMORY = ("program", "temporary", "arguments")


def compile_step(
    settings: config.ExperimentConfig,
    names: Sequence[str],
    python: str,
    num_replicas: int = 1,
    **work: str,
) -> list[dict[str, Any]]:
    """Compiles a step for one core of each device, or for several together.

    Args:
        settings: as `pretrain.prepare` gives them; the batch is a core's.
        names: of `DEVICES`.
        python: an interpreter with jax and the compilers of the devices.
        num_replicas: 1 or 8; eight add up their gradients.
        work: `work` and `kind` of `programs.write_program`.

    Returns:
        For each `name` the facts of `device_compiler`, the core's `memory` in
        GB, the `flops` of the products, and the least seconds for these and for
        the bytes moved: `product_seconds`, `memory_seconds`. Or `error`.
    """
    for name in names:
        config.require_choice("--devices", name, DEVICES)
    # Imported late, as TensorFlow takes seconds to import.
    from benchmarks import programs
    from electra_tf.training import devices

    known = {
        one.name.removeprefix("TPU"): one
        for one in devices.DEVICES
        if one.precision == "bfloat16"
    }
    by_name: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "step.hlo"
        for kind in ("TPU", "GPU"):
            is_tpu = kind == "TPU"
            own = [n for n in names if isinstance(DEVICES[n], str) == is_tpu]
            if own:
                flops = programs.write_program(
                    settings, path, kind, num_replicas=num_replicas, **work
                )
                topologies = [_describe_topology(n, known[n]) for n in own]
                facts = _run_compilers(python, path, num_replicas, topologies)
                by_name |= zip(own, facts, strict=True)
    for name, fact in by_name.items():
        fact["name"], device = name, known[name]
        if "error" not in fact:
            # A chip's cores have equal shares of all that it has.
            share = 1 / device.num_cores
            peak = device.peak or devices.peak_flops(name, "bfloat16")
            rate = 1e9 * device.bandwidth
            fact |= {"flops": flops, "memory": device.memory * share}
            fact["product_seconds"] = flops / (peak * share)
            fact["memory_seconds"] = fact["moved"] / (rate * share)
    return [by_name[name] for name in names]


def _describe_topology(name: str, device: Any) -> str:
    """Describes an absent device for JAX, as JSON."""
    described = DEVICES[name]
    if isinstance(described, str):
        return json.dumps({"platform": "tpu", "topology_name": described})
    memory = round(1e9 * device.memory)
    rate = round(1e9 * device.bandwidth)
    target = _TARGET.format(
        *described, name=name, bandwidth=rate, memory=memory
    )
    return json.dumps(
        {"platform": "cuda", "topology": "1x1x8", "target_config": target}
    )


def _run_compilers(
    python: str, path: pathlib.Path, num_replicas: int, topologies: list[str]
) -> list[dict[str, Any]]:
    """The facts of each topology."""
    command = [python, "-P", "-m", "benchmarks.device_compiler"]
    done = subprocess.run(
        [*command, path, str(num_replicas), *topologies],
        env=os.environ | {"PYTHONPATH": str(_SCRIPTS)},
        capture_output=True,
        text=True,
    )
    lines = [line for line in done.stdout.splitlines() if line[:1] == "{"]
    if done.returncode or len(lines) != len(topologies):
        last = done.stderr.strip().rpartition("\n")[2]
        raise ChildProcessError(
            "--peer_python must have jax and the compilers of the devices (pip "
            "install jax==0.10.2 jaxlib==0.10.2 libtpu==0.0.52 for TPUs, "
            f"'jax[cuda13]>=0.11' for GPUs). Received: {python}: {last}"
        )
    return [*map(json.loads, lines)]


def tabulate(facts: Sequence[Mapping[str, Any]]) -> pandas.DataFrame:
    """A line for each core that can run the step."""
    rows = {}
    for fact in facts:
        if "error" in fact:
            continue
        taken = sum(fact[part] for part in _MEMORY)
        least = max(fact["product_seconds"], fact["memory_seconds"])
        rows[fact["name"]] = {
            "compiled in s": fact["seconds"],
            **{f"{part} MiB": fact[part] / 2**20 for part in _MEMORY},
            "% of memory": taken / fact["memory"] / 1e7,
            "GB moved": fact["moved"] / 1e9,
            "products ms": 1e3 * fact["product_seconds"],
            "memory ms": 1e3 * fact["memory_seconds"],
            "% of peak": 100 * fact["product_seconds"] / least,
        }
    return pandas.DataFrame.from_dict(rows, orient="index")


def draw(path: pathlib.Path, table: pandas.DataFrame) -> None:
    """Draws the memory of cores, and the least time of a step."""
    size = 12, 1.5 + 0.4 * len(table)
    with figures.saving_figure(path, 1, 2, size) as (_, (memory, time)):
        parts = table[[f"{part} MiB" for part in _MEMORY]]
        parts.plot.barh(stacked=True, ax=memory)
        table[["products ms", "memory ms"]].plot.barh(ax=time)
        for axis in (memory, time):
            axis.invert_yaxis()
