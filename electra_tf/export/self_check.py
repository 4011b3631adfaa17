"""Checks that an export gives the same numbers in a fresh process."""

import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from electra_tf import errors
from electra_tf.export import export_metadata
from electra_tf.export import fresh_process
from electra_tf.export.models import exported_module
from electra_tf.text import vocabulary as vocabulary_lib

# Maximum of `measure_difference`. Lower precisions round after every operation,
# and the exported graph fuses operations that this process runs one by one.
TOLERANCES = {"float32": 1e-5, "bfloat16": 5e-2, "float16": 5e-3}
# A model that magnifies rounding may differ by this multiple of its rounding
# noise (`_measure_noise`), up to a maximum.
_NOISE_FACTOR, _MAX_NOISE_TOLERANCE = 4, 1e-3

_SHORT_TEXTS = (
    "The function returns the number of items in a container.",
    "",
    "  Ünïcödé, accents & 東京 — “quotes”, 3.14!\n",
    "unaffable",
)

# Ids in the order of their probabilities; rounding can exchange neighbours.
_RANKED, _RANKED_BY = "top_ids", "top_probabilities"

# Outputs that depend on the largest of several numbers. Coarse rounding may
# exchange these, so only the numbers themselves are compared.
_CHOICES = {
    *("label", "label_index", "labels", "tags", "answers", "answer_starts"),
    *("answer_ends", "answer_byte_starts", "answer_byte_ends"),
    *("start_positions", "end_positions"),
}
_FINE_TOLERANCE = 1e-4

Arrays = dict[str, np.ndarray]


def check(
    export_dir: pathlib.Path,
    module: exported_module.ExportedModule,
    tolerance: float,
) -> float:
    """Returns the largest difference between an export and its module.

    Raises `ExportError` if it exceeds the tolerance. A model that magnifies
    rounding, for example a collapsed one, gets a larger tolerance.
    """
    long_text = "longer than the model " * module.max_length
    batches = [
        np.array([text.encode() for text in texts], dtype=np.bytes_)
        for texts in (_SHORT_TEXTS, (long_text,), ())
    ]
    # Keys are `<number>/<signature>/<input>`.
    requests = {
        f"{number}/{signature}/{name}": value
        for signature in module.signature_names
        for number, texts in enumerate(batches)
        if number == 0 or signature.endswith("_text")
        for name, value in build_request(module, signature, texts).items()
    }
    with tf.device("/CPU:0"):
        expected = fresh_process.run(module.run, requests)
    with tempfile.TemporaryDirectory() as folder:
        inputs = pathlib.Path(folder) / "requests.npz"
        outputs = pathlib.Path(folder) / "answers.npz"
        np.savez(inputs, **requests)  # type: ignore[arg-type]
        script = fresh_process.__file__
        finished = subprocess.run(
            [sys.executable, "-P", script, export_dir, inputs, outputs],
            # On the CPU: this process may hold the accelerator's memory.
            env=os.environ | {"CUDA_VISIBLE_DEVICES": "-1"},
            capture_output=True,
            text=True,
            check=False,
        )
        if finished.returncode != 0:
            raise errors.ExportError(
                f"{export_dir} must load and answer in a process that has only "
                "TensorFlow and TensorFlow Text. It ended with exit code "
                f"{finished.returncode}; -9 often means that memory ran out. "
                "Nothing was kept: start the same command again.\n"
                f"{finished.stderr[-2000:]}"
            )
        with np.load(outputs, allow_pickle=False) as answers:
            received = dict(answers)
    try:
        return compare(expected, received, tolerance)
    except errors.ExportError:
        noise = _NOISE_FACTOR * _measure_noise(module, requests, expected)
        tolerance = max(tolerance, min(noise, _MAX_NOISE_TOLERANCE))
        return compare(expected, received, tolerance)


def _measure_noise(
    module: exported_module.ExportedModule,
    requests: Mapping[str, np.ndarray],
    expected: Mapping[str, np.ndarray],
) -> float:
    """Measures how answers change if the last bit of every weight changes."""
    generator = np.random.default_rng(0)
    variables = [v for v in module.model_variables if v.dtype == tf.float32]
    kept = [variable.numpy() for variable in variables]
    for variable, values in zip(variables, kept, strict=True):
        directions = generator.choice([-np.inf, np.inf], values.shape)
        variable.assign(np.nextafter(values, directions.astype(np.float32)))
    with tf.device("/CPU:0"):
        moved = fresh_process.run(module.run, requests)
    for variable, values in zip(variables, kept, strict=True):
        variable.assign(values)
    floats = [name for name in expected if expected[name].dtype.kind == "f"]
    return max(measure_difference(expected[n], moved[n]) for n in floats)


def compare(
    expected: Mapping[str, np.ndarray],
    received: Mapping[str, np.ndarray],
    tolerance: float,
) -> float:
    """Returns the largest difference of answers; see `check` for the error."""
    differences = {}
    for name, value in expected.items():
        answer, output = received[name], name.rpartition("/")[2]
        if output == _RANKED and answer.shape == value.shape:
            ranked_by = expected[name.removesuffix(_RANKED) + _RANKED_BY]
            is_uncertain = _find_uncertain(ranked_by, 2 * tolerance)
            answer = np.where(is_uncertain, value, answer)
        if tolerance <= _FINE_TOLERANCE or output not in _CHOICES:
            differences[name] = measure_difference(value, answer)
    worst = max(differences, key=lambda name: differences[name])
    if not differences[worst] <= tolerance:
        raise errors.ExportError(
            "The saved model must give the original model's numbers within "
            f"{tolerance:g}. Received a difference of {differences[worst]:g} "
            f"in {worst}. Please report this."
        )
    return differences[worst]


def measure_difference(expected: np.ndarray, received: np.ndarray) -> float:
    """Returns the relative difference of two arrays.

    For floats it is the largest difference, divided by the largest magnitude
    (at least by 1); for other dtypes 0 or infinity. It is infinity if shapes or
    dtypes differ, or if a number is not finite.
    """
    is_alike = (expected.shape, expected.dtype) == (
        received.shape, received.dtype,
    )  # fmt: skip
    if is_alike and np.array_equal(expected, received):
        return 0.0
    if not is_alike or expected.dtype.kind != "f":
        return float("inf")
    # The logits of padding are constants of another magnitude.
    values = np.abs(expected[expected != export_metadata.PADDING_LOGIT])
    scale = max(1.0, float(values.max(initial=0.0)))
    difference = float(np.abs(expected - received).max()) / scale
    return difference if np.isfinite(difference) else float("inf")


def _find_uncertain(probabilities: np.ndarray, margin: float) -> np.ndarray:
    """Marks the ranks of `[..., K]` that rounding could exchange."""
    # The last rank could be exchanged with the next one, K + 1.
    is_uncertain = np.ones(probabilities.shape, bool)
    is_uncertain[..., :-1] = -np.diff(probabilities, axis=-1) <= margin
    is_uncertain[..., 1:] |= is_uncertain[..., :-1]
    return is_uncertain


def build_request(
    module: exported_module.ExportedModule, signature: str, texts: np.ndarray
) -> Arrays:
    """Makes a request of `[B]` texts: an array for each input's name.

    The second text of a pair comes from another row. Signatures of ids get
    random ids, as many as the texts' tokens.
    """
    names = export_metadata.SIGNATURES[signature].inputs
    if signature.endswith("_text"):
        return dict(zip(names, (texts, texts[::-1]), strict=False))
    lengths = module.tokenizer.tokenize(tf.constant(texts)).row_lengths()
    length = min(max(lengths.numpy(), default=0) + 2, module.max_length)
    vocabulary = module.tokenizer.vocabulary
    rows = build_rows(len(texts), length, vocabulary, module.num_segments)
    return {name: rows[name] for name in names}


def build_rows(
    rows: int,
    length: int,
    vocabulary: vocabulary_lib.Vocabulary,
    num_segments: int,
) -> Arrays:
    """Makes random rows of ids, int32 `[rows, S]`, the first without padding.

    Returns all inputs that signatures of ids may have. If there are two
    segments, half of each row is in segment 1.
    """
    generator = np.random.default_rng(length)
    lengths = generator.integers(2, length + 1, (rows, 1))
    lengths[:1] = length
    positions = np.arange(length)
    mask = (positions < lengths).astype(np.int32)
    ids = generator.integers(0, vocabulary.size, (rows, length))
    ids[:, 0] = vocabulary.cls_id
    is_second = (positions > length // 2) & (num_segments > 1)
    word_positions = positions * (positions < lengths - 1)
    return {
        "input_ids": (ids * mask).astype(np.int32),
        "input_mask": mask,
        "segment_ids": is_second.astype(np.int32) * mask,
        "word_positions": word_positions.astype(np.int32),
    }
