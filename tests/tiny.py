"""A model small enough to trace in a second, for tests of every stage."""

import contextlib
import dataclasses
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf.config import schema
from electra_tf.modeling import layers
from electra_tf.text import vocabulary as vocabulary_lib

VOCABULARY = vocabulary_lib.Vocabulary(
    vocabulary_lib.SPECIAL_TOKENS + tuple(f"w{i}" for i in range(45)),
    vocabulary_lib.TokenizerSettings(),
)
LENGTH = 16
_PAGE = pathlib.Path(__file__).parent.parent / "docs" / "metrics.md"
DOCUMENTED_METRICS = {*re.findall(r"`(\w+)`", _PAGE.read_text("utf-8"))}
"""Names that the page of all metrics explains."""


def build_settings(**training: object) -> config.ExperimentConfig:
    """A two-layer model on 8 rows of 16 tokens in 4 streams, no dropout."""
    defaults = {
        "num_train_steps": 20, "train_batch_size": 8, "steps_per_loop": 4,
        "log_steps": 5, "eval_steps": 10, "save_checkpoints_steps": 5,
        "deterministic": False, "seed": 7, "peak_flops": 1e9,
    }  # fmt: skip
    encoder = config.EncoderConfig(
        vocab_size=0, embedding_size=12, hidden_size=16, num_hidden_layers=2,
        num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=LENGTH,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return config.ExperimentConfig(
        encoder=encoder,
        generator=config.GeneratorConfig(generator_hidden_size=0.5),
        data=config.DataConfig(
            max_seq_length=LENGTH, num_streams=4, shuffle_block=8
        ),
        optimizer=config.OptimizerConfig(
            learning_rate=1e-3, warmup_proportion=0.1
        ),
        training=config.TrainingConfig(**(defaults | training)),
    )


ENCODER = dataclasses.replace(
    build_settings().encoder, vocab_size=VOCABULARY.size
)
"""Its sizes, for encoders without a run."""


@contextlib.contextmanager
def eagerly() -> Iterator[None]:
    """Makes no traces, each of which costs as much as ten steps or more."""
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(False)


def with_dropout(settings: config.ExperimentConfig) -> config.ExperimentConfig:
    rates = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    return schema.replace_fields(settings, encoder=rates)


_ELECTRA = {"objective": {"name": "electra"}}
_UNTIED = {"untied_generator_embeddings": True}
_DEFAULT_SIZE = {"generator_hidden_size": 0.25}
# Objective, or a name for a variant of one, to the settings that it needs.
OBJECTIVES: dict[str, dict[str, dict[str, Any]]] = {
    "electra": {}, "electra_15": {}, "sentence_order": {}, "replace_mlm": {},
    "all_tokens_mlm": {},
    "mlm": {
        "generator": _DEFAULT_SIZE,
        "masking": {"replace_prob": 0.8, "random_prob": 0.1},
    },
    "electric": {"generator": {"two_tower_generator": True}},
    "two_stage": {
        "encoder": {
            "embedding_size": 16, "num_attention_heads": 1,
            "intermediate_size": 64,
        },
        "generator": {"generator_hidden_size": 1.0} | _UNTIED,
        "objective": {"generator_steps": 4},
    },
    "adversarial": {
        "objective": {"adversarial_start_step": 1, "adversarial_full_step": 5},
    },
    "straight_through": {
        "objective": {
            "name": "adversarial", "adversarial_estimator": "straight_through",
            "final_temperature": 2.0, "temperature_steps": 4,
            "final_gumbel_temperature": 0.5, "gumbel_temperature_steps": 3,
        },
    },
    "fast_electra": {"generator": {"init_from": "elsewhere"} | _UNTIED},
    "disentangled": {"generator": {"disentangled_embeddings": True}} | _ELECTRA,
    "two_tower": {"generator": {"two_tower_generator": True}} | _ELECTRA,
    # Without an encoder of its own, hence without a size of its own.
    "unigram": {
        "generator": {"unigram_generator": True} | _DEFAULT_SIZE,
    } | _ELECTRA,
    "one_encoder": {
        "generator": {"untied_generator": False} | _DEFAULT_SIZE,
    } | _ELECTRA,
}  # fmt: skip

OBJECTIVE_NAMES = tuple(sorted(OBJECTIVES))


def with_objective(
    settings: config.ExperimentConfig, name: str
) -> config.ExperimentConfig:
    """The settings with one of `OBJECTIVE_NAMES`, so that it trains.

    A run of Fast-ELECTRA also wants a run for `generator.init_from`.
    """
    sections = OBJECTIVES[name]
    objective = {"name": name} | sections.get("objective", {})
    settings = dataclasses.replace(settings, objective=objective)
    return schema.replace_fields(settings, **sections)


def build_features(num_rows: int = 8, seed: int = 0) -> dict[str, tf.Tensor]:
    """Random `[num_rows, 16]` rows of different lengths, as records hold."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(6, LENGTH + 1, num_rows)
    input_mask = (np.arange(LENGTH) < lengths[:, None]).astype(np.int32)
    ids = generator.integers(5, VOCABULARY.size, (num_rows, LENGTH))
    ids[:, 0] = VOCABULARY.cls_id
    ids[np.arange(num_rows), lengths - 1] = VOCABULARY.sep_id
    features = {
        "input_ids": ids * input_mask,
        "input_mask": input_mask,
        "segment_ids": (np.arange(LENGTH) > 5) * input_mask,
    }
    return {k: tf.constant(v.astype(np.int32)) for k, v in features.items()}


def watch_dropout(monkeypatch: Any) -> list[tuple[int, ...]]:
    """The seed of every place that draws from now on; nothing is dropped."""
    seeds: list[tuple[int, ...]] = []

    def draw(shape: Any, rate: float, seed: tf.Tensor) -> None:
        seeds.append(tuple(seed.numpy()))

    monkeypatch.setattr(layers, "draw_kept", draw)
    return seeds


def deal(
    features: dict[str, tf.Tensor], num_streams: int = 4
) -> dict[str, tf.Tensor]:
    """Rows dealt to streams, as the input pipeline hands them out."""
    dealt = {
        name: tf.reshape(rows, [num_streams, -1, LENGTH])
        for name, rows in features.items()
    }
    return dealt | {"stream_ids": tf.range(num_streams, dtype=tf.int64)}
