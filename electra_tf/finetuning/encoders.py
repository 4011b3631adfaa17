"""The encoder of a pre-trained model, or a random one to compare.

Only the main encoder is taken: the discriminator's, or for the masked-LM
objectives the one that is trained in its place. All of them are named
`electra`, as in the original.
"""

import pathlib
from typing import NamedTuple

import keras

from electra_tf import config
from electra_tf import installed
from electra_tf.formats import own_run
from electra_tf.formats import portable
from electra_tf.formats import reading
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import layers
from electra_tf.modeling import networks
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import checkpoints


class LoadedEncoder(NamedTuple):
    """An encoder and what belongs to it."""

    encoder: encoder_lib.Encoder  # weights are float32 at any precision
    vocabulary: vocabulary_lib.Vocabulary
    settings: config.EncoderConfig  # its `vocab_size` is the vocabulary's
    origin: str  # where the weights come from, and how many were restored


def load_encoder(
    path: pathlib.Path,
    which: str = "latest",
    precision: str = "float32",
    use_average: bool = False,
) -> LoadedEncoder:
    """Loads the main encoder of a model of any format; see `read_model`."""
    model = read_model(path, which, use_average)
    vocabulary = require_vocabulary(model)
    encoder = build_encoder(model.encoder, precision)
    weights = portable.take_part(model.tensors, portable.MAIN)
    variables = {variable.path: variable for variable in encoder.variables}
    checkpoints.require_equal_layout(model.origin, weights, variables)
    for name, variable in variables.items():
        variable.assign(weights[name])
    count = len(variables)
    restored = f"{count} of {count} encoder variables restored from "
    origin = "; ".join([f"{restored}{model.origin}", *model.notes])
    return LoadedEncoder(encoder, vocabulary, model.encoder, origin)


def read_model(
    path: pathlib.Path, which: str = "latest", use_average: bool = False
) -> portable.PortableModel:
    """Reads a model of any format.

    Args:
        path: a run's folder, a Hugging Face model, a KerasHub preset, the
            prefix or folder of a TF1 checkpoint, or the name of a model that
            comes along.
        which: of a run: `latest`, `best` (lowest held-out loss), or the folder
            of a checkpoint.
        use_average: of a run: take the moving average of the weights.
    """
    path = installed.find_model(path)
    format_name = reading.detect(path)
    if format_name == reading.OURS:
        return own_run.read(path, which, use_average)
    if which != "latest" or use_average:
        raise ValueError(
            "--checkpoint and --use_average choose among the weights of a run. "
            f"Received: one of them for {path}, a model of the format "
            f"{format_name}. Leave it out."
        )
    return reading.read(path, format_name)


def require_vocabulary(
    model: portable.PortableModel,
) -> vocabulary_lib.Vocabulary:
    """Returns the model's vocabulary, or raises `FileNotFoundError`."""
    if model.vocabulary is None:
        raise FileNotFoundError(
            f"The vocabulary of {model.origin} must lie beside it. Received: "
            "none. Put its vocab.txt there (and tokenizer_config.json, if it "
            "is cased)."
        )
    return model.vocabulary


def random_encoder(
    settings: config.EncoderConfig,
    vocabulary: vocabulary_lib.Vocabulary,
    seed: int,
    precision: str = "float32",
) -> LoadedEncoder:
    """Builds an encoder that has learned nothing, the baseline of any measure.

    Keras draws the weights from global generators, so `seed` sets these.
    """
    keras.utils.set_random_seed(seed)
    sizes = networks.resolve_vocab_size(settings, vocabulary.size)
    encoder = build_encoder(sizes, precision)
    origin = (
        f"0 of {len(encoder.variables)} encoder variables restored: random "
        f"weights from seed {seed}"
    )
    return LoadedEncoder(encoder, vocabulary, sizes, origin)


def build_encoder(
    settings: config.EncoderConfig, precision: str = "float32"
) -> encoder_lib.Encoder:
    """Builds a main encoder of these sizes, with fresh weights."""
    return encoder_lib.build_encoder(
        settings, networks.MAIN_ENCODER, dtype=layers.dtype_policy(precision)
    )
