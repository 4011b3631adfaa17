"""Runs a SavedModel where only TensorFlow and TensorFlow Text exist.

Run as a file, so that nothing of this project is imported:

    python -P fresh_process.py EXPORT_DIR REQUESTS.npz ANSWERS.npz

Arrays of requests are named `<number>/<signature>/<input>`, those of answers
`<number>/<signature>/<output>`. It is also the shortest example of a client.
"""

import sys
from typing import Any

import numpy as np


def run(export_dir: str, requests_path: str, answers_path: str) -> None:
    """Answers every request of a file, and writes the answers."""
    # Whatever this project's model needs must have been saved with it.
    sys.modules["electra_tf"] = None  # type: ignore[assignment]
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  (registers its operations)

    signatures = tf.saved_model.load(export_dir).signatures
    requests: dict[str, dict[str, tf.Tensor]] = {}
    with np.load(requests_path, allow_pickle=False) as inputs:
        for name in inputs.files:
            request, _, key = name.rpartition("/")
            requests.setdefault(request, {})[key] = tf.constant(inputs[name])
    answers = {
        f"{request}/{key}": as_array(value)
        for request, arguments in requests.items()
        for key, value in signatures[request.split("/")[1]](**arguments).items()
    }
    np.savez(answers_path, **answers)  # type: ignore[arg-type]


def as_array(tensor: Any) -> np.ndarray:
    """A tensor's values; strings become bytes of one width, for files."""
    values = tensor.numpy()
    return values.astype(np.bytes_) if values.dtype == object else values


if __name__ == "__main__":
    run(*sys.argv[1:])
