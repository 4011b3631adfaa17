"""What the compilers of TPUs say of a training step; no TPU is needed."""

import json
import os
import pathlib
import subprocess
import tempfile
from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas

from electra_tf import config
from electra_tf.processes import atomic

_SCRIPTS = pathlib.Path(__file__).parents[1]


class Core(NamedTuple):
    """A device as a program sees it, by the vendor's data sheet."""

    topology: str  # the smallest one that has it
    memory: float  # GB
    bandwidth: float  # GB a second
    peak: float  # bfloat16 operations a second


CORES = {
    "v2": Core("v2:2x2", 8, 350, 22.5e12),
    "v3": Core("v3:2x2x1", 16, 450, 61.5e12),
    "v4": Core("v4:2x2x1", 32, 1228, 275e12),
    "v5e": Core("v5e:2x2x1", 16, 819, 197e12),
    "v6e": Core("v6e:2x2", 32, 1640, 918e12),
}


def compile_step(
    settings: config.ExperimentConfig, names: Sequence[str], python: str
) -> list[dict[str, Any]]:
    """Compiles the step of a config for one core of each device.

    Args:
        settings: as `pretrain.prepare` gives them.
        names: of `CORES`.
        python: an interpreter with jax, jaxlib and libtpu.

    Returns:
        For each device the facts of `tpu_compiler`, the `flops` of the products
        and the `least` seconds that these or the memory need; or `error`.
    """
    # Imports TensorFlow, which mistaken flags need not wait for.
    from benchmarks import ours
    from electra_tf.pretraining import cost

    for name in names:
        config.require_choice("--devices", name, tuple(CORES))
    rows = settings.training.train_batch_size
    flops = rows * cost.Cost(settings).row_flops()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "step.hlo"
        ours.write_program(settings, path)
        topologies = [CORES[name].topology for name in names]
        done = subprocess.run(
            [python, "-P", "-m", "benchmarks.tpu_compiler", path, *topologies],
            env=os.environ | {"PYTHONPATH": str(_SCRIPTS)},
            capture_output=True,
            text=True,
        )
    lines = [line for line in done.stdout.splitlines() if line[:1] == "{"]
    if done.returncode or len(lines) != len(names):
        last = done.stderr.strip().rpartition("\n")[2]
        raise ChildProcessError(
            "--peer_python must have jax, jaxlib and libtpu (pip install "
            f"jax==0.10.2 jaxlib==0.10.2 libtpu). Received: {python}: {last}"
        )
    facts = []
    for name, line in zip(names, lines, strict=True):
        fact, core = (
            json.loads(line) | {"name": name, "flops": flops},
            CORES[name],
        )
        if "error" not in fact:
            fact["least"] = max(
                fact["moved"] / 1e9 / core.bandwidth, flops / core.peak
            )
        facts.append(fact)
    return facts


def describe(facts: Sequence[dict[str, Any]]) -> str:
    """A table with a line for each core that can run the step, then errors."""
    rows, errors = [], []
    for fact in facts:
        core = CORES[fact["name"]]
        if "error" in fact:
            errors.append(f"{fact['name']}: {fact['error']}")
            continue
        taken = fact["program"] + fact["temporary"] + fact["arguments"]
        share = fact["flops"] / core.peak / fact["least"]
        rows.append(
            {
                "core": fact["name"],
                "compiled in s": f"{fact['seconds']:.0f}",
                "program MiB": f"{fact['program'] / 2**20:,.0f}",
                "temporary MiB": f"{fact['temporary'] / 2**20:,.0f}",
                "variables MiB": f"{fact['arguments'] / 2**20:,.0f}",
                "% of memory": f"{taken / core.memory / 1e7:.0f}",
                "GB moved": f"{fact['moved'] / 1e9:,.1f}",
                "at least ms": f"{1e3 * fact['least']:,.1f}",
                "% of peak": f"{100 * share:.0f}",
            }
        )
    table = [pandas.DataFrame(rows).to_string(index=False)] if rows else []
    return "\n".join(table + errors)


def write_json(path: pathlib.Path, facts: Sequence[dict[str, Any]]) -> None:
    """Writes all facts."""
    with atomic.replacing_file(path) as partial:
        partial.write_text(json.dumps({"kind": "compile", "cores": facts}))
