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
from electra_tf.processes import atomic

_SCRIPTS = pathlib.Path(__file__).parents[1]
WORKS = ("pretrain", "evaluate", "finetune", "predict")
# The smallest slices that have eight cores, as their compiler names them.
_SLICES = {
    "v2": "v2:2x2",
    "v3": "v3:2x2x1",
    "v4": "v4:2x2x2",
    "v5e": "v5e:2x4",
    "v6e": "v6e:2x4",
}
# Of a GPU beside its memory: the compute capability, multiprocessors, units of
# each, bytes of their shared memory, of the second cache, and GHz.
_HOPPER = 9, 132, 128, 233_472, 52_428_800, 1.98
_GPUS = {
    "A100": (8, 108, 64, 167_936, 41_943_040, 1.41),
    "H100": _HOPPER,
    "H200": _HOPPER,
}
# XLA's description of a GPU that is not there.
_TARGET = """
gpu_device_info {{
  name: "NVIDIA {name}" device_vendor: "NVIDIA Corporation"
  platform_version: "Compute Capability {capability}"
  cuda_compute_capability {{ major: {major} feature_extension: {extension} }}
  core_count: {cores} fpus_per_core: {units} clock_rate_ghz: {clock}
  memory_bandwidth: {bandwidth} device_memory_size: {memory}
  l2_cache_size: {cache} pcie_bandwidth: 34359738368 device_address_bits: 64
  shared_memory_per_core: {shared} shared_memory_per_block_optin: {most}
  shared_memory_per_block: 49152 threads_per_core_limit: 2048
  threads_per_block_limit: 1024 threads_per_warp: 32
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535
  block_dim_limit_z: 65535 thread_dim_limit_x: 1024 thread_dim_limit_y: 1024
  thread_dim_limit_z: 64 registers_per_core_limit: 65536
  registers_per_block_limit: 65536 driver_version: "13.0.0"
  runtime_version: "13.0.0" compile_time_toolkit_version: "13.0.0"
  dnn_version: "9.10.0" cub_version: "3.1.2"
}}
platform_name: "CUDA" device_description_str: "{name}"
dnn_version_info {{ major: 9 minor: 10 }}
"""
DEVICES = (*_SLICES, *_GPUS)
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
        For each device its `name`, its `memory` in GB, the facts of
        `device_compiler`, the `flops` of the products, and the least seconds
        that these and the bytes moved need, `product_seconds` and
        `memory_seconds`; or `error`.
    """
    for name in names:
        config.require_choice("--devices", name, DEVICES)
    # They import TensorFlow, which mistaken flags need not wait for.
    from benchmarks import programs
    from electra_tf.training import devices

    known = {
        one.name.removeprefix("TPU"): one
        for one in devices.DEVICES
        if one.precision == "bfloat16"
    }
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "step.hlo"
        flops = programs.write_program(
            settings, path, num_replicas=num_replicas, **work
        )
        topologies = [
            json.dumps(_describe_topology(known[name])) for name in names
        ]
        found = _run_compilers(python, path, num_replicas, topologies)
    facts = []
    for name, fact in zip(names, found, strict=True):
        device = known[name]
        peak = device.peak or devices.peak_flops(name, "bfloat16")
        fact |= {"name": name, "flops": flops}
        fact["memory"] = device.memory / device.num_cores
        if "error" not in fact:
            bandwidth = 1e9 * device.bandwidth
            fact["product_seconds"] = device.num_cores * flops / peak
            fact["memory_seconds"] = (
                device.num_cores * fact["moved"] / bandwidth
            )
        facts.append(fact)
    return facts


def _describe_topology(device: Any) -> dict[str, str]:
    """What JAX asks of a device that is not there."""
    short = device.name.removeprefix("TPU")
    if short in _SLICES:
        return {"platform": "tpu", "topology_name": _SLICES[short]}
    major, cores, units, shared, cache, clock = _GPUS[short]
    target = _TARGET.format(
        name=short,
        capability=f"{major}.0{'a' if major > 8 else ''}",
        extension="ACCELERATED_FEATURES" if major > 8 else "NONE",
        bandwidth=round(1e9 * device.bandwidth),
        memory=round(1e9 * device.memory),
        most=shared - 1024,
        major=major,
        cores=cores,
        units=units,
        shared=shared,
        cache=cache,
        clock=clock,
    )
    return {"platform": "cuda", "topology": "1x1x8", "target_config": target}


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


def describe(facts: Sequence[Mapping[str, Any]]) -> str:
    """A table with a line for each core that can run the step, then errors."""
    rows, errors = [], []
    for fact in facts:
        if "error" in fact:
            errors.append(f"{fact['name']}: {fact['error']}")
            continue
        taken = sum(fact[part] for part in _MEMORY)
        least = max(fact["product_seconds"], fact["memory_seconds"])
        rows.append(
            {
                "core": fact["name"],
                "compiled in s": f"{fact['seconds']:.0f}",
                "program MiB": f"{fact['program'] / 2**20:,.0f}",
                "temporary MiB": f"{fact['temporary'] / 2**20:,.0f}",
                "variables MiB": f"{fact['arguments'] / 2**20:,.0f}",
                "% of memory": f"{taken / fact['memory'] / 1e7:.0f}",
                "GB moved": f"{fact['moved'] / 1e9:,.1f}",
                "at least ms": f"{1e3 * least:,.1f}",
                "% of peak": f"{100 * fact['product_seconds'] / least:.0f}",
            }
        )
    table = [pandas.DataFrame(rows).to_string(index=False)] if rows else []
    return "\n".join(table + errors)


def write_json(path: pathlib.Path, facts: Sequence[Mapping[str, Any]]) -> None:
    """Writes all facts."""
    with atomic.replacing_file(path) as partial:
        partial.write_text(json.dumps({"kind": "compile", "cores": facts}))


def draw(path: pathlib.Path, facts: Sequence[Mapping[str, Any]]) -> None:
    """Draws the share of a core's memory, and the least time of a step."""
    fitting = [fact for fact in facts if "error" not in fact]
    names = [fact["name"] for fact in fitting]
    size = 12, 1.5 + 0.4 * len(names)
    with figures.saving_figure(path, 1, 2, size) as (_, (memory, time)):
        left = [0.0] * len(fitting)
        for part in _MEMORY:
            widths = [fact[part] / fact["memory"] / 1e7 for fact in fitting]
            memory.barh(names, widths, left=left, label=part)
            left = [a + b for a, b in zip(left, widths, strict=True)]
        memory.set_xlabel("% of a core's memory")
        for part, height in (("product", -0.4), ("memory", 0.4)):
            least = [1e3 * fact[f"{part}_seconds"] for fact in fitting]
            time.barh(names, least, height, align="edge", label=part)
        time.set_xlabel("ms a step at least")
        for axis in (memory, time):
            axis.invert_yaxis()
            axis.legend()
