r"""Recomputes optimizer references with tensorflow-addons itself.

    python tests/golden/recompute_addons.py \
        --golden_dir tests/golden/reference/optimizer

This runs in an environment of its own (requirements-addons.lock). For every
case `<name>.json` that names an optimizer of tensorflow-addons, the
gradients in `<name>.npz` are fed to that optimizer, and the values after every
update are compared with the stored ones. Exits with 1 if one does not agree.
"""

import argparse
import json
import os
import re
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
# Two lines of farewell that tensorflow-addons prints at every import.
warnings.filterwarnings("ignore", category=UserWarning)

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
import tensorflow_addons as tfa  # noqa: E402

Arrays = Mapping[str, np.ndarray]
Config = Mapping[str, Any]

schedules = tf.keras.optimizers.schedules
TOLERANCE = 5e-6  # absolute, along the whole trajectory
OPTIONS = (
    *("beta_1", "beta_2", "epsilon"),
    *("exclude_from_weight_decay", "exclude_from_layer_adaptation"),
)


def build_optimizer(config: Config, factor: float = 1.0) -> Any:
    """The optimizer of a case; `factor` multiplies what it calls `base_`."""
    kind = re.split(r"[. ]", config["optimizer"])[-1]
    options = {key: config[key] for key in OPTIONS if key in config}
    for key in ("learning_rate", "weight_decay"):
        value = config.get(key)
        if f"base_{key}" in config:
            value = config[f"base_{key}"] * factor
        elif isinstance(value, dict):
            # `{class name of a schedule: its arguments}`
            ((name, arguments),) = value.items()
            value = getattr(schedules, name)(**arguments)
        options[key] = value
    return getattr(tfa.optimizers, kind)(**options)


def build_multi_optimizer(config: Config, variables: Mapping[str, Any]) -> Any:
    """One optimizer per depth, as tensorflow-addons' users wrote it."""
    (top,) = re.findall(r"\*\* \((\d+) - d\)", config["rule"])
    pairs = []
    for depth in sorted(set(config["depth"].values())):
        layer = tf.keras.layers.Layer()
        depths = config["depth"].items()
        layer.members = [variables[n] for n, own in depths if own == depth]
        factor = config["layer_decay"] ** (int(top) - depth)
        pairs.append((build_optimizer(config, factor), layer))
    return tfa.optimizers.MultiOptimizer(pairs)


def make_gradient(config: Config, name: str, step: int, stored: Any) -> Any:
    """The stored gradient, or rows of it with the indices the case lists."""
    sentence = config.get("sparse_gradient") or ""
    if not sentence.startswith(f"{name}:"):
        return tf.constant(stored)
    parity = "odd" if step % 2 else "even"
    (rows,) = re.findall(r"rows \[([\d, ]+)\]", sentence)
    (indices,) = re.findall(rf"\[([\d, ]+)\] for {parity} t", sentence)
    return tf.IndexedSlices(
        tf.constant(stored[[int(row) for row in rows.split(",")]]),
        tf.constant([int(index) for index in indices.split(",")]),
        tf.constant(stored.shape),
    )


def recompute(config: Config, arrays: Arrays) -> dict[str, np.ndarray]:
    """The values of every variable before and after every update."""
    variables = {
        name: tf.Variable(arrays[f"values/{name}"][0], name=name)
        for name in config["variables"]
    }
    if "depth" in config:
        optimizer = build_multi_optimizer(config, variables)
    else:
        optimizer = build_optimizer(config)
    values = {name: [v.numpy()] for name, v in variables.items()}
    gradients = {name: arrays[f"gradients/{name}"] for name in variables}
    for step in range(len(next(iter(gradients.values())))):
        fed = [
            make_gradient(config, name, step, stored[step])
            for name, stored in gradients.items()
        ]
        optimizer.apply_gradients(zip(fed, variables.values(), strict=True))
        for name, variable in variables.items():
            values[name].append(variable.numpy())
    return {f"values/{name}": np.stack(v) for name, v in values.items()}


def check_case(path: Path, output_dir: Path | None) -> bool:
    """Recomputes one case and prints its line; whether it agrees."""
    config = json.loads(path.read_text(encoding="utf-8"))
    with np.load(path.with_suffix(".npz")) as archive:
        arrays = {name: archive[name] for name in archive.files}
    values = recompute(config, arrays)
    # NumPy's maximum keeps a NaN, Python's may lose it.
    error = np.max([np.abs(values[k] - arrays[k]).max() for k in values])
    updates = len(next(iter(values.values()))) - 1
    verdict = "pass" if error <= TOLERANCE else "MISS"
    numbers = f"{updates:7}  {error:13.2g}  {TOLERANCE:9.2g}"
    print(f"{path.stem:34}  {numbers}  {verdict}")
    if output_dir is not None:
        output_dir.mkdir(parents=True, exist_ok=True)
        (output_dir / path.name).write_text(json.dumps(config), "utf-8")
        target = output_dir / f"{path.stem}.npz"
        np.savez_compressed(target, **{**arrays, **values})
    return verdict == "pass"


def main() -> int:
    """Compares every case of a folder; the exit status."""
    parser = argparse.ArgumentParser(description="Recomputes references.")
    parser.add_argument("--golden_dir", type=Path, required=True)
    text = "also write the recomputed cases here, in the same layout"
    parser.add_argument("--output_dir", type=Path, help=text)
    flags = parser.parse_args()
    cases = sorted(flags.golden_dir.glob("*.json"))
    paths = [p for p in cases if '"tensorflow_addons.' in p.read_text("utf-8")]
    if not paths:
        sys.exit(
            "Expected cases of tensorflow-addons (*.json with *.npz) in "
            f"{flags.golden_dir}. Received a folder without any."
        )
    print(f"tensorflow {tf.__version__}, tensorflow-addons {tfa.__version__}")
    print(f"{'case':34}  {'updates':>7}  {'largest error':>13}  tolerance")
    results = [check_case(path, flags.output_dir) for path in paths]
    return int(not all(results))


if __name__ == "__main__":
    sys.exit(main())
