"""ELECTRA pre-training in TensorFlow 2 and Keras 3.

CONTRIBUTING.md describes the sub-packages and the order of their imports.
Importing this package does not import TensorFlow; `load` does.
"""

import os
import pathlib
import sys
import typing

from electra_tf import version

if typing.TYPE_CHECKING:
    from electra_tf.loaded_models.finetuned import FinetunedModel
    from electra_tf.loaded_models.pretrained import PretrainedModel

__version__ = version.VERSION

if not pathlib.Path("/dev/nvidiactl").exists():
    # Without a GPU, TensorFlow would print six lines about missing CUDA.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Keras reads this variable at its import; it outranks Keras' config file.
_given = os.environ.get("KERAS_BACKEND") or "tensorflow"
os.environ["KERAS_BACKEND"] = "tensorflow"
if "keras" in sys.modules:
    _given = sys.modules["keras"].config.backend()
    if _given != "tensorflow":
        raise ImportError(
            "electra_tf needs Keras on TensorFlow. Received: Keras was already "
            f"imported, on {_given}. Import electra_tf first, or set "
            "KERAS_BACKEND=tensorflow before Python starts."
        )
if _given != "tensorflow":
    print(
        f"KERAS_BACKEND={_given} has no effect: electra_tf runs on TensorFlow.",
        file=sys.stderr,
    )
# TensorFlow reads this variable at its import. Without it, CPUs without AVX-512
# do not use oneDNN's matrix products, which are faster (docs/performance.md).
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")


def load(
    path: str | os.PathLike[str],
    format: str = "",
    generator_path: str | os.PathLike[str] | None = None,
    precision: str = "float32",
    task: str = "",
) -> "PretrainedModel | FinetunedModel":
    """Loads a pre-trained or fine-tuned model.

    Args:
        path: a pre-training run, a trial, a fine-tuning or a search (of which
            the best trial is loaded), a folder of Hugging Face or KerasHub, a
            TensorFlow 1 checkpoint of the original, `tiny-en`, which the
            package contains, or a name on the Hugging Face hub such as
            `google/electra-small-discriminator`.
        format: `tf1`, `electra_tf`, `huggingface` or `keras_hub`; empty:
            detected.
        generator_path: a second model of the same vocabulary with a generator;
            Hugging Face keeps discriminator and generator separately.
        precision: of matrix products: `float32`, `bfloat16` or `float16`.
        task: the task to take of a fine-tuning on several tasks.

    Raises:
        FileNotFoundError: if there is no such model.
        ValueError: if the model is damaged, incomplete or without vocabulary,
            or does not fit its generator.
    """
    from electra_tf.loaded_models import pretrained

    return pretrained.load(path, format, generator_path, precision, task)
