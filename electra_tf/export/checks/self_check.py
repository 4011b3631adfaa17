"""Whether a saved model gives, in a fresh process, the numbers of this one."""

import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from electra_tf import errors
from electra_tf.export import signature_module
from electra_tf.export import signatures
from electra_tf.export.checks import fresh_process
from electra_tf.export.checks import sample_requests

# Largest difference of a float, as a share of the tensor's largest magnitude
# or of one, whichever is more. Probabilities are below one: for them it is
# absolute. Lower precisions round after every operation, and the graph fuses
# some that ran one by one here.
TOLERANCES = {"float32": 1e-5, "bfloat16": 5e-2, "float16": 5e-3}

_SHORT_TEXTS = (
    "The function returns the number of items in a container.",
    "",
    "  Ünïcödé, accents & 東京 — “quotes”, 3.14!\n",
    "unaffable",
)

# Ids in the order of their probabilities, which rounding can exchange.
_RANKED, _RANKED_BY = "top_ids", "top_probabilities"

# What is read off the largest of several numbers. Where rounding is coarse it
# may exchange them; the numbers themselves are compared.
_CHOICES = ("label", "label_index", "tags", "answers", "answer_starts",
            "answer_ends", "answer_byte_starts", "answer_byte_ends",
            "start_positions", "end_positions")  # fmt: skip
_FINE_TOLERANCE = 1e-4

Arrays = dict[str, np.ndarray]


def check(
    export_dir: pathlib.Path,
    module: signature_module.SignatureModule,
    tolerance: float,
) -> float:
    """Compares every signature with the module it was made from.

    Args:
        export_dir: folder of the SavedModel.
        module: runs here operation by operation, without the saved graphs.
        tolerance: one of `TOLERANCES`.

    Returns:
        The largest difference found, as `TOLERANCES` measures it.

    Raises:
        ExportError: if the folder does not load with TensorFlow and
            TensorFlow Text alone, or if an answer differs.
    """
    requests = _build_requests(module)
    expected: Arrays = {}
    with tf.device("/CPU:0"):
        for request, arguments in requests.items():
            outputs = module.answer(
                request.split("/")[1],
                **{k: tf.constant(v) for k, v in arguments.items()},
            )
            expected |= {
                f"{request}/{key}": fresh_process.as_array(value)
                for key, value in outputs.items()
            }
    received = _answers_of_fresh_process(export_dir, requests)
    return compare(expected, received, tolerance)


def compare(
    expected: Mapping[str, np.ndarray],
    received: Mapping[str, np.ndarray],
    tolerance: float,
) -> float:
    """The largest difference of two sets of answers.

    Args:
        expected: name to array; floats may differ by `tolerance`, all else
            must be equal, except for choices where the tolerance is coarse.
        received: the same names.
        tolerance: see `TOLERANCES`.

    Raises:
        ExportError: naming what is missing, unknown or different.
    """
    if set(expected) != set(received):
        raise errors.ExportError(
            "The saved model must answer with the documented names. Missing: "
            f"{sorted(set(expected) - set(received))}, unknown: "
            f"{sorted(set(received) - set(expected))}."
        )
    differences = {
        name: _difference(expected[name], received[name])
        for name in expected
        if not name.endswith(_RANKED)
        and (
            tolerance <= _FINE_TOLERANCE
            or name.rpartition("/")[2] not in _CHOICES
        )
    } | {
        name: _rank_difference(
            expected[name],
            received[name],
            expected[name.removesuffix(_RANKED) + _RANKED_BY],
            tolerance,
        )
        for name in expected
        if name.endswith(_RANKED)
    }
    worst = max(differences, key=lambda name: differences[name])
    if not differences[worst] <= tolerance:
        raise errors.ExportError(
            "The saved model must give the numbers of the model it was saved "
            f"from, within {tolerance:g}. Received a difference of "
            f"{differences[worst]:g} in {worst}. Do not use the export; this "
            "is a defect of electra_tf or of the installed TensorFlow."
        )
    return differences[worst]


def _difference(expected: np.ndarray, received: np.ndarray) -> float:
    if expected.shape != received.shape or expected.dtype != received.dtype:
        return float("inf")
    if np.array_equal(expected, received):
        return 0.0
    if expected.dtype.kind != "f":
        return float("inf")
    # The logits of padding say nothing about the size of the others.
    values = np.abs(expected[expected != signatures.PADDING_LOGIT])
    scale = max(1.0, float(values.max(initial=0.0)))
    difference = float(np.abs(expected - received).max()) / scale
    return difference if np.isfinite(difference) else float("inf")


def _rank_difference(
    expected: np.ndarray,
    received: np.ndarray,
    probabilities: np.ndarray,
    tolerance: float,
) -> float:
    """0 if two rankings differ only among what is equally probable.

    Args:
        expected: `[B, S, K]` ids, best first.
        received: the same.
        probabilities: `[B, S, K]` of the expected ids. Those that are closer
            than what rounding may do to both can stand in any order, and the
            last can be any that did not make it.
        tolerance: see `TOLERANCES`.
    """
    if expected.shape != received.shape or expected.dtype != received.dtype:
        return float("inf")
    gaps = -np.diff(probabilities, axis=-1) <= 2 * tolerance
    is_open = np.ones(expected.shape, bool)
    is_open[..., :-1] = gaps
    is_open[..., 1:] |= gaps
    is_equal = (expected == received) | is_open
    return 0.0 if is_equal.all() else float("inf")


def _build_requests(
    module: signature_module.SignatureModule,
) -> dict[str, dict[str, np.ndarray]]:
    """`<number>/<signature>` to arguments: short, one too long, none."""
    long_text = "longer than the model " * module.max_length
    batches = [
        np.array([text.encode() for text in texts], dtype=np.bytes_)
        for texts in (_SHORT_TEXTS, (long_text,), ())
    ]
    requests: dict[str, dict[str, np.ndarray]] = {}
    for signature in module.signature_names:
        takes_text = signature.endswith("_text")
        for number, texts in enumerate(batches if takes_text else batches[:1]):
            requests[f"{number}/{signature}"] = sample_requests.build_request(
                module, signature, texts
            )
    return requests


def _answers_of_fresh_process(
    export_dir: pathlib.Path, requests: Mapping[str, Mapping[str, np.ndarray]]
) -> Arrays:
    with tempfile.TemporaryDirectory() as folder:
        inputs = pathlib.Path(folder) / "requests.npz"
        outputs = pathlib.Path(folder) / "answers.npz"
        flat = {
            f"{request}/{key}": value
            for request, arguments in requests.items()
            for key, value in arguments.items()
        }
        np.savez(inputs, **flat)  # type: ignore[arg-type]
        script = fresh_process.__file__
        command = [sys.executable, "-P", script, export_dir, inputs, outputs]
        # An accelerator may be taken by this process, so both use the CPU.
        environment = os.environ | {"CUDA_VISIBLE_DEVICES": "-1"}
        finished = subprocess.run(
            list(map(str, command)),
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if finished.returncode != 0:
            raise errors.ExportError(
                f"{export_dir} must load and answer in a process that has only "
                "TensorFlow and TensorFlow Text. It ended with "
                f"{finished.returncode}:\n{finished.stderr[-2000:]}"
            )
        with np.load(outputs, allow_pickle=False) as answers:
            return {name: answers[name] for name in answers.files}
