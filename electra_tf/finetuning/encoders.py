"""The encoder that a pre-training run leaves, or a random one to compare.

Only the main encoder is taken: the discriminator's, or for the masked-LM
objectives the one that is trained in its place. All of them are named
`electra`, as in the original.
"""

import dataclasses
import pathlib
from typing import NamedTuple

import keras

from electra_tf import config
from electra_tf.export import trained_run
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import checkpoints
from electra_tf.training import model_dir as model_dir_lib

_NAME = "electra"


class LoadedEncoder(NamedTuple):
    """An encoder and what belongs to it.

    Attributes:
        encoder: float32, with weights.
        vocabulary: what its ids mean.
        settings: of the run; `encoder.vocab_size` is the vocabulary's.
    """

    encoder: encoder_lib.Encoder
    vocabulary: vocabulary_lib.Vocabulary
    settings: config.ExperimentConfig


def load_encoder(
    model_dir: pathlib.Path, which: str = "latest"
) -> LoadedEncoder:
    """The main encoder of a run; its folder is only read.

    Args:
        model_dir: the run's folder.
        which: `latest`, `best` (lowest held-out loss), or the folder of a
            checkpoint.

    Raises:
        FileNotFoundError: if there is no such checkpoint or no vocabulary.
        ModelDirError: if there is no run.
        CheckpointError: unless every variable of the encoder is in the
            checkpoint with its shape (lists those that are not).
        ValueError: if vocabulary and config differ in size.
    """
    settings = model_dir_lib.load_settings(model_dir)
    vocabulary = vocabulary_lib.Vocabulary.load(model_dir)
    checkpoint = trained_run.find_checkpoint(model_dir, which)
    loaded = _build(settings, vocabulary)
    checkpoints.load_weights(
        checkpoint,
        {variable.path: variable for variable in loaded.encoder.variables},
    )
    return loaded


def random_encoder(
    settings: config.ExperimentConfig,
    vocabulary: vocabulary_lib.Vocabulary,
    seed: int,
) -> LoadedEncoder:
    """An encoder that has learnt nothing, the baseline of every measure.

    Args:
        settings: a run's; their `encoder` section says the sizes.
        vocabulary: gives the number of entries.
        seed: of the weights. Keras draws them from global generators, so
            these are set.

    Raises:
        ValueError: if vocabulary and config differ in size.
    """
    keras.utils.set_random_seed(seed)
    return _build(settings, vocabulary)


def _build(
    settings: config.ExperimentConfig, vocabulary: vocabulary_lib.Vocabulary
) -> LoadedEncoder:
    size = settings.encoder.vocab_size
    if size not in (0, vocabulary.size):
        raise ValueError(
            "The vocabulary must be the one that the encoder was trained "
            f"with, of {size} entries. Received: {vocabulary.size} entries. "
            "Put the vocab.txt of its dataset into the run's folder."
        )
    settings = dataclasses.replace(
        settings,
        encoder=dataclasses.replace(
            settings.encoder, vocab_size=vocabulary.size
        ),
    )
    encoder = encoder_lib.build_encoder(settings.encoder, _NAME)
    return LoadedEncoder(encoder, vocabulary, settings)
