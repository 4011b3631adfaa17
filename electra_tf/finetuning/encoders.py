"""The encoder that a pre-training run leaves, or a random one to compare.

Only the main encoder is taken: the discriminator's, or for the masked-LM
objectives the one that is trained in its place. All of them are named
`electra`, as in the original.
"""

import pathlib
from typing import NamedTuple

import keras

from electra_tf import config
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import layers
from electra_tf.modeling import towers
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import averaging
from electra_tf.training import checkpoints
from electra_tf.training import model_dir as model_dir_lib


class LoadedEncoder(NamedTuple):
    """An encoder and what belongs to it.

    Attributes:
        encoder: with weights; they are float32 whatever its precision.
        vocabulary: what its ids mean.
        settings: its sizes; `vocab_size` is the vocabulary's.
        origin: one line, where the weights come from and how many of the
            encoder's variables were restored.
    """

    encoder: encoder_lib.Encoder
    vocabulary: vocabulary_lib.Vocabulary
    settings: config.EncoderConfig
    origin: str


def load_encoder(
    model_dir: pathlib.Path,
    which: str = "latest",
    precision: str = "float32",
    use_average: bool = False,
) -> LoadedEncoder:
    """The main encoder of a run; its folder is only read.

    Args:
        model_dir: the run's folder.
        which: `latest`, `best` (lowest held-out loss), or the folder of a
            checkpoint.
        precision: of the products, one of `config.PRECISIONS`.
        use_average: take the moving average of the weights.

    Raises:
        FileNotFoundError: if there is no such checkpoint or no vocabulary.
        ModelDirError: if there is no run.
        CheckpointError: unless every variable of the encoder is in the
            checkpoint with its shape (lists those that are not).
        ValueError: if vocabulary and config differ in size, or if the run kept
            no average.
    """
    settings = model_dir_lib.load_settings(model_dir)
    if use_average:
        averaging.require_kept(settings.training.ema_decay)
    vocabulary = vocabulary_lib.Vocabulary.load(model_dir)
    checkpoint = checkpoints.find(model_dir, which)
    sizes = towers.resolve_vocab_size(settings.encoder, vocabulary.size)
    encoder = build_encoder(sizes, precision)
    checkpoints.load_weights(
        checkpoint,
        {variable.path: variable for variable in encoder.variables},
        prefix="average" if use_average else "model",
    )
    count = len(encoder.variables)
    origin = f"{count} of {count} encoder variables restored from {checkpoint}"
    return LoadedEncoder(encoder, vocabulary, sizes, origin)


def random_encoder(
    settings: config.EncoderConfig,
    vocabulary: vocabulary_lib.Vocabulary,
    seed: int,
    precision: str = "float32",
) -> LoadedEncoder:
    """An encoder that has learnt nothing, the baseline of every measure.

    Args:
        settings: its sizes.
        vocabulary: gives the number of entries.
        seed: of the weights. Keras draws them from global generators, so
            these are set.
        precision: of the products.

    Raises:
        ValueError: if vocabulary and config differ in size.
    """
    keras.utils.set_random_seed(seed)
    sizes = towers.resolve_vocab_size(settings, vocabulary.size)
    encoder = build_encoder(sizes, precision)
    origin = (
        f"0 of {len(encoder.variables)} encoder variables restored: random "
        f"weights from seed {seed}"
    )
    return LoadedEncoder(encoder, vocabulary, sizes, origin)


def build_encoder(
    settings: config.EncoderConfig, precision: str = "float32"
) -> encoder_lib.Encoder:
    """A main encoder of these sizes, with fresh weights.

    Args:
        settings: sizes and dropout.
        precision: of the products.
    """
    return encoder_lib.build_encoder(
        settings, towers.MAIN_ENCODER, dtype=layers.dtype_policy(precision)
    )
