"""ELECTRA pre-training in TensorFlow 2 and Keras 3.

CONTRIBUTING.md says how the sub-packages build on one another. Importing this
package does not import TensorFlow; `load` does.
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
    # Without a GPU, TensorFlow would begin with six lines about missing CUDA.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Keras reads this when it is imported, and follows it rather than its own file.
_given = os.environ.get("KERAS_BACKEND") or "tensorflow"
os.environ["KERAS_BACKEND"] = "tensorflow"
if "keras" in sys.modules:
    _given = sys.modules["keras"].config.backend()
    if _given != "tensorflow":
        raise ImportError(
            "electra_tf needs Keras on TensorFlow. Received: Keras that was "
            f"imported before, on {_given}. Import electra_tf first, or set "
            "KERAS_BACKEND=tensorflow before Python starts."
        )
if _given != "tensorflow":
    print(
        f"KERAS_BACKEND={_given} has no effect: electra_tf runs on TensorFlow.",
        file=sys.stderr,
    )
# TensorFlow reads this when it is imported. On CPUs without AVX-512 it would
# leave out oneDNN's products, faster there as well (docs/performance.md).
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")


def load(
    path: str | os.PathLike[str],
    format: str = "",
    generator_path: str | os.PathLike[str] | None = None,
    precision: str = "float32",
    task: str = "",
) -> "PretrainedModel | FinetunedModel":
    """Loads a pre-trained model, or a fine-tuned one that predicts.

    Args:
        path: a folder of this project's (`model_dir` of a pre-training run,
            output_dir of a fine-tuning or search, which means its best trial,
            or a trial), of Hugging Face's or KerasHub's, a TensorFlow 1
            checkpoint of the original's, `tiny-en`, which comes with the
            package, or a name of the Hugging Face hub such as
            `google/electra-small-discriminator`.
        format: `tf1`, `electra_tf`, `huggingface` or `keras_hub`; empty finds
            out.
        generator_path: a second model to take the generator from, of the same
            vocabulary; Hugging Face keeps the two in folders of their own.
        precision: of the products, `float32`, `bfloat16` or `float16`.
        task: of a fine-tuning on several tasks, the one to take.

    Raises `FileNotFoundError` if there is nothing; `ValueError` if it cannot be
    read as a whole, has no vocabulary, or does not fit its generator.
    """
    from electra_tf.loaded_models import pretrained

    return pretrained.load(path, format, generator_path, precision, task)
