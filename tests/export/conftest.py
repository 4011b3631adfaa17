"""A tiny run with random weights, and its export, made once."""

import dataclasses
import pathlib
from typing import Any
from typing import NamedTuple

import keras
import pytest
import tensorflow as tf

from electra_tf import config
from electra_tf.export import saved_model
from electra_tf.modeling import towers
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import checkpoints

_WORDS = "the cat sat on mat dog table returns number of items in a café"
_PIECES = "un ##aff ##able ##s ##ed . , ! ? ( ) … 東 京"


class TinyRun(NamedTuple):
    """A run's folder and what it was made of."""

    model_dir: pathlib.Path
    settings: config.ExperimentConfig
    vocabulary: vocabulary_lib.Vocabulary
    discriminator: Any


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> TinyRun:
    """A run that 'trained' in bfloat16 and kept averaged weights."""
    settings = config.freeze(
        {
            "encoder": {
                "vocab_size": 0,
                "embedding_size": 16,
                "hidden_size": 32,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
                "intermediate_size": 64,
                "max_position_embeddings": 24,
                # Large, so that probabilities are far from 0.5.
                "initializer_range": 0.5,
            },
            "data": {"max_seq_length": 16},
            "training": {"precision": "bfloat16", "ema_decay": 0.9},
        }
    )
    words = (_WORDS + " " + _PIECES).replace("é", "e").split()
    vocabulary = vocabulary_lib.Vocabulary(
        (*vocabulary_lib.SPECIAL_TOKENS, *words)
    )
    keras.utils.set_random_seed(3)
    discriminator = towers.build_discriminator(
        dataclasses.replace(settings.encoder, vocab_size=vocabulary.size)
    )
    model_dir = tmp_path_factory.mktemp("run")
    vocabulary.save(model_dir)
    (model_dir / "config.json").write_text(config.to_json(settings))
    weights = {f"model/{v.path}": v for v in discriminator.variables}
    averages = {
        f"average/{v.path}": tf.Variable(0.5 * v.value)
        for v in discriminator.variables
    }
    for step in (6, 7):
        checkpoints.save(
            model_dir, step, weights | averages, {"best_step": 6}, keep=2
        )
    return TinyRun(model_dir, settings, vocabulary, discriminator)


@pytest.fixture(scope="session")
def exported(
    tiny_run: TinyRun, tmp_path_factory: pytest.TempPathFactory
) -> pathlib.Path:
    """The exported folder; its own self-check has passed."""
    folder = tmp_path_factory.mktemp("exports") / "tiny"
    result = saved_model.export_run(tiny_run.model_dir, folder)
    assert result.folder == folder
    assert result.checkpoint.name == "step-00000007"
    assert result.largest_difference <= 1e-5
    return folder


@pytest.fixture(scope="session")
def loaded(exported: pathlib.Path) -> Any:
    """Calls a signature by name with arrays, answers with arrays."""
    model = tf.saved_model.load(str(exported))

    def call(signature: str, **arguments: Any) -> dict[str, Any]:
        outputs = model.signatures[signature](
            **{name: tf.constant(value) for name, value in arguments.items()}
        )
        return {name: value.numpy() for name, value in outputs.items()}

    call.signatures = model.signatures
    return call
