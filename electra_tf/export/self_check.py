"""Checks that a saved model gives the same numbers in a fresh process."""

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

# Largest difference of a float, as `measure_difference` gives it. Lower
# precisions round after every operation, and the graph fuses some that ran
# one by one here.
TOLERANCES = {"float32": 1e-5, "bfloat16": 5e-2, "float16": 5e-3}
# Of a model that magnifies rounding: how often its own grain, see
# `_measure_grain`, and never more than this.
_GRAINS, _COARSEST = 4, 1e-3

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
    """Returns how far the export is from the module that it was made from.

    A model that magnifies rounding, as a collapsed one does, may be further
    from it than the tolerance, by its own measure.
    """
    long_text = "longer than the model " * module.max_length
    batches = [
        np.array([text.encode() for text in texts], dtype=np.bytes_)
        for texts in (_SHORT_TEXTS, (long_text,), ())
    ]
    # `<number>/<signature>/<input>` to array.
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
            # An accelerator may be taken by this process: both use the CPU.
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
        grain = _measure_grain(module, requests, expected)
        allowed = max(tolerance, min(_GRAINS * grain, _COARSEST))
        return compare(expected, received, allowed)


def _measure_grain(
    module: exported_module.ExportedModule,
    requests: Mapping[str, np.ndarray],
    expected: Mapping[str, np.ndarray],
) -> float:
    """Measures how far answers move if weights move by their last bit.

    Rounding does as much to them. Of weights in fewer bits it is 0.
    """
    generator = np.random.default_rng(0)
    variables = [v for v in module.model_variables if v.dtype == tf.float32]
    kept = [variable.numpy() for variable in variables]
    for variable, values in zip(variables, kept, strict=True):
        goals = generator.choice([-np.inf, np.inf], values.shape)
        variable.assign(np.nextafter(values, goals.astype(np.float32)))
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
    """The largest difference of two sets of answers, name to array."""
    differences = {}
    for name, value in expected.items():
        answer, output = received[name], name.rpartition("/")[2]
        if output == _RANKED and answer.shape == value.shape:
            ranked_by = expected[name.removesuffix(_RANKED) + _RANKED_BY]
            is_open = _are_open(ranked_by, 2 * tolerance)
            answer = np.where(is_open, value, answer)
        if tolerance <= _FINE_TOLERANCE or output not in _CHOICES:
            differences[name] = measure_difference(value, answer)
    worst = max(differences, key=lambda name: differences[name])
    if not differences[worst] <= tolerance:
        raise errors.ExportError(
            "The saved model must give the numbers of the model it was saved "
            f"from, within {tolerance:g}. Received a difference of "
            f"{differences[worst]:g} in {worst}. Please report this."
        )
    return differences[worst]


def measure_difference(expected: np.ndarray, received: np.ndarray) -> float:
    """Measures how far two arrays differ.

    For floats it is the largest difference as a share of the largest magnitude
    or of one, whichever is more; for all else 0 or infinity. It is infinity
    too for another shape or dtype, or where a number is not finite.
    """
    is_alike = (expected.shape, expected.dtype) == (
        received.shape, received.dtype,
    )  # fmt: skip
    if is_alike and np.array_equal(expected, received):
        return 0.0
    if not is_alike or expected.dtype.kind != "f":
        return float("inf")
    # The logits of padding say nothing about the size of the others.
    values = np.abs(expected[expected != export_metadata.PADDING_LOGIT])
    scale = max(1.0, float(values.max(initial=0.0)))
    difference = float(np.abs(expected - received).max()) / scale
    return difference if np.isfinite(difference) else float("inf")


def _are_open(probabilities: np.ndarray, margin: float) -> np.ndarray:
    """Marks ids of a ranking `[..., K]` that rounding could reorder.

    The last could be any that did not make it.
    """
    is_open = np.ones(probabilities.shape, bool)
    is_open[..., :-1] = -np.diff(probabilities, axis=-1) <= margin
    is_open[..., 1:] |= is_open[..., :-1]
    return is_open


def build_request(
    module: exported_module.ExportedModule, signature: str, texts: np.ndarray
) -> Arrays:
    """Makes a request of `[B]` texts, name of each input to array.

    A second text is that of another row. Ids are random, as long as the texts.
    """
    names = export_metadata.SIGNATURES[signature].inputs
    if signature.endswith("_text"):
        return dict(zip(names, (texts, texts[::-1]), strict=False))
    pieces = module.tokenizer.tokenize(tf.constant(texts)).row_lengths()
    length = min(max(pieces.numpy(), default=0) + 2, module.max_length)
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

    Returns every input that a signature of ids may have; half of each row is
    in segment 1 where there are two.
    """
    generator = np.random.default_rng(length)
    lengths = generator.integers(2, length + 1, (rows, 1))
    lengths[:1] = length
    places = np.arange(length)
    mask = (places < lengths).astype(np.int32)
    ids = generator.integers(0, vocabulary.size, (rows, length))
    ids[:, 0] = vocabulary.cls_id
    is_second = (places > length // 2) & (num_segments > 1)
    return {
        "input_ids": (ids * mask).astype(np.int32),
        "input_mask": mask,
        "segment_ids": is_second.astype(np.int32) * mask,
        "word_positions": (places * (places < lengths - 1)).astype(np.int32),
    }
