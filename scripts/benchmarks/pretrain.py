"""A training step as it is timed: its config, its rows, the sides."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from benchmarks import timing
from electra_tf import config

TORCH_SIDES = ("transformers", "transformers_compiled")
SIDES = ("electra_tf", *TORCH_SIDES, "keras_hub")
# For configs that take the size from their dataset's vocabulary.
VOCAB_SIZE = 30_522


def prepare(
    settings: Any, precision: str, batch_size: int
) -> config.ExperimentConfig:
    """Changes a `ConfigDict` to what is timed, and freezes it."""
    settings.data.phases = ""  # only the last phase is timed
    settings.training.precision = precision
    settings.training.train_batch_size = batch_size
    settings.encoder.vocab_size = settings.encoder.vocab_size or VOCAB_SIZE
    while batch_size % settings.data.num_streams:
        settings.data.num_streams -= 1
    return config.freeze(settings)


def list_sides(
    settings: config.ExperimentConfig,
    names: Sequence[str],
    kind: str = "pretrain",
    attention: str = "",
    peer_python: str = "",
) -> list[timing.Side]:
    """Returns the named sides; `ConfigError` if one lacks the objective."""
    # Imports TensorFlow, which mistaken flags need not wait for.
    from electra_tf.objectives import registry

    settings = registry.complete(settings)
    tying = settings.generator.weight_tying
    is_joint = settings.objective["name"] == "electra" and tying == "embeddings"
    config.require(
        is_joint or kind == "finetune" or {*names} == {"electra_tf"},
        "Only electra_tf has other objectives than ELECTRA with shared "
        f"embeddings. Received: objective {settings.objective['name']}, "
        f"sharing of {tying}. Take --sides=electra_tf, or another config.",
    )
    generator = settings.generator.encoder_config(settings.encoder)
    described = {
        "kind": kind,
        "settings": dataclasses.asdict(settings),
        "generator": dataclasses.asdict(generator),
    }
    group, sides = settings.training.precision, []
    for name in names:
        side = timing.Side(name, group, described)
        if name == "keras_hub":
            side.module = "keras_hub_peer"
        if name in TORCH_SIDES:
            side.module, side.python = "torch_peer", peer_python
            compiles = name == "transformers_compiled"
            options = {"attention": attention, "compiles": compiles}
            side.description = described | options
        sides.append(side)
    return sides


def random_rows(settings: config.ExperimentConfig) -> dict[str, Any]:
    """A batch of random ids without padding, `[B, S]` int32."""
    import tensorflow as tf

    shape = settings.training.train_batch_size, settings.data.max_seq_length
    size, seed = settings.encoder.vocab_size, [1, 2]
    ids = tf.random.stateless_uniform(shape, seed, 5, size, tf.int32)
    rest = {"input_mask": tf.ones_like(ids), "segment_ids": tf.zeros_like(ids)}
    return {"input_ids": ids, **rest}
