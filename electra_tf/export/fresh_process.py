"""Runs a SavedModel with nothing but TensorFlow and TensorFlow Text.

Run as a file: `python -P fresh_process.py EXPORT_DIR REQUESTS.npz ANSWERS.npz`.
Arrays of requests are named `<number>/<signature>/<input>`, arrays of answers
`<number>/<signature>/<output>`. The file is also the shortest client.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


def main(export_dir: str, requests_path: str, answers_path: str) -> None:
    """Answers every request of a file, and writes the answers."""
    # An import of this package fails: the SavedModel must not need it.
    sys.modules["electra_tf"] = None  # type: ignore[assignment]
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  (registers its operations)

    signatures = tf.saved_model.load(export_dir).signatures
    with np.load(requests_path, allow_pickle=False) as requests:
        answers = run(lambda name, **args: signatures[name](**args), requests)
    np.savez(answers_path, **answers)  # type: ignore[arg-type]


def run(
    model: Callable[..., Mapping[str, Any]], requests: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Answers requests; `model` takes a signature's name and its inputs."""
    import tensorflow as tf

    inputs: dict[str, dict[str, Any]] = {}
    for name, value in requests.items():
        request, _, key = name.rpartition("/")
        inputs.setdefault(request, {})[key] = tf.constant(value)
    answers = {}
    for request, arguments in inputs.items():
        for key, tensor in model(request.split("/")[1], **arguments).items():
            values = tensor.numpy()
            if values.dtype == object:  # strings; a file needs one width
                values = values.astype(np.bytes_)
            answers[f"{request}/{key}"] = values
    return answers


if __name__ == "__main__":
    main(*sys.argv[1:])
