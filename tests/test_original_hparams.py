"""Hyperparameters of the original, read into our config."""

import json

import pytest

from electra_tf import config
from electra_tf import errors
from electra_tf.config.original_hparams import from_original_hparams


def test_no_hyperparameters_give_the_originals_small_model():
    settings = from_original_hparams({})
    assert settings.encoder == config.EncoderConfig(
        vocab_size=30522,
        embedding_size=128,
        hidden_size=256,
        num_hidden_layers=12,
        num_attention_heads=4,
        intermediate_size=1024,
    )
    assert settings.optimizer.learning_rate == 5e-4
    assert settings.training.num_train_steps == 1_000_000
    assert settings.training.steps_per_loop == 200


@pytest.mark.parametrize(
    ("size", "hidden", "layers", "heads"),
    [("small", 256, 12, 4), ("base", 768, 12, 12), ("large", 1024, 24, 16)],
)
def test_model_size_decides_the_encoder(size, hidden, layers, heads):
    encoder = from_original_hparams({"model_size": size}).encoder
    assert encoder.hidden_size == hidden
    assert encoder.num_hidden_layers == layers
    assert encoder.num_attention_heads == heads
    assert encoder.intermediate_size == 4 * hidden


@pytest.mark.parametrize(
    ("hparams", "expected"),
    [
        ({}, 128),
        ({"model_size": "base"}, 768),
        ({"embedding_size": None}, 256),
        ({"embedding_size": 64}, 64),
        ({"model_size": "base", "embedding_size": 128}, 128),
    ],
)
def test_embedding_size_is_the_hidden_size_unless_given_or_small(
    hparams, expected
):
    assert from_original_hparams(hparams).encoder.embedding_size == expected


def test_overrides_change_the_sizes_that_follow_from_them():
    encoder = from_original_hparams(
        {
            "vocab_size": 50,
            "model_hparam_overrides": {"hidden_size": 640, "vocab_size": 60},
        }
    ).encoder
    assert encoder.num_attention_heads == 10
    assert encoder.intermediate_size == 2560
    assert encoder.vocab_size == 60


def test_every_other_name_reaches_its_field():
    settings = from_original_hparams(
        json.loads(
            """{"gen_weight": 2, "disc_weight": 10.0, "temperature": 2,
            "disallow_correct": true, "mask_prob": 0.25,
            "learning_rate": 1e-4, "lr_decay_power": 2.0,
            "weight_decay_rate": 0.0, "num_warmup_steps": 7,
            "num_train_steps": 9, "train_batch_size": 24,
            "iterations_per_loop": 3, "save_checkpoints_steps": 4,
            "keep_checkpoint_max": 6, "num_eval_steps": 8,
            "max_seq_length": 64, "generator_hidden_size": 0.5,
            "generator_layers": 0.25, "untied_generator_embeddings": true,
            "use_tpu": true, "tpu_name": "node-1", "do_lower_case": true}"""
        )
    )
    assert settings.objective == config.ObjectiveConfig(
        gen_weight=2.0, disc_weight=10.0, temperature=2.0, disallow_correct=True
    )
    assert settings.masking == config.MaskingConfig(mask_prob=0.25)
    assert settings.optimizer == config.OptimizerConfig(
        learning_rate=1e-4,
        lr_decay_power=2.0,
        weight_decay_rate=0.0,
        num_warmup_steps=7,
    )
    assert settings.training == config.TrainingConfig(
        num_train_steps=9,
        train_batch_size=24,
        steps_per_loop=3,
        save_checkpoints_steps=4,
        keep_checkpoints=6,
        num_eval_batches=8,
        strategy="tpu",
        tpu="node-1",
    )
    assert settings.data.max_seq_length == 64
    assert settings.data.num_streams == 8
    assert settings.generator == config.GeneratorConfig(
        generator_hidden_size=0.5,
        generator_layers=0.25,
        untied_generator_embeddings=True,
    )


def test_debug_shrinks_what_is_not_given():
    training = from_original_hparams(
        {"debug": True, "num_train_steps": 30}
    ).training
    assert training.num_train_steps == 30
    assert training.train_batch_size == 8
    assert training.steps_per_loop == 10


@pytest.mark.parametrize(
    ("hparams", "objective", "is_two_tower"),
    [
        ({}, "electra", False),
        ({"electra_objective": False}, "mlm", False),
        ({"two_tower_generator": True}, "electra", True),
        # Electric needs the two towers and brings them.
        ({"electric_objective": True}, "electric", True),
    ],
)
def test_the_objective_flags_name_one_objective(
    hparams, objective, is_two_tower
):
    settings = from_original_hparams(hparams)
    assert settings.objective.name == objective
    assert settings.generator.two_tower_generator == is_two_tower


@pytest.mark.parametrize(
    ("hparams", "pattern"),
    [
        ({"learing_rate": 1e-4}, "Did you mean 'learning_rate'"),
        (
            {"model_hparam_overrides": {"hiden_size": 1}},
            "'hiden_size'. Did you mean 'hidden_size'",
        ),
        ({"model_size": "huge"}, "small, base, large. Received: 'huge'"),
        ({"model_hparam_overrides": {"hidden_act": "relu"}}, "'relu'"),
        ({"model_hparam_overrides": 3}, "JSON object. Received: 3"),
        ({"model_hparam_overrides": {"hidden_size": "x"}}, "whole number"),
        ({"debug": 1}, "`debug` must be true or false"),
        ({"vocab_file": "vocab.txt"}, "vocab_file.*dataset folder"),
        ({"do_lower_case": False}, "casing is stored beside the vocabulary"),
        ({"tpu_name": "node-1"}, "`tpu_name` has no effect"),
        ({"num_train_steps": "many"}, "num_train_steps.*'many'"),
        ({"max_seq_length": 1024}, "max_position_embeddings=512"),
        ({"uniform_generator": True, "electric_objective": True},
         "At most one of"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_one_clear_error(hparams, pattern):
    with pytest.raises(errors.ConfigError, match=pattern):
        from_original_hparams(hparams)
