"""Hyperparameters of the original, read into our config."""

import pytest

from electra_tf import config
from electra_tf import errors
from electra_tf.formats.original_hparams import from_original_hparams
from electra_tf.objectives import registry


@pytest.mark.parametrize(
    ("hparams", "sizes"),
    [
        # Width, layers, heads, feed-forward, embeddings, vocabulary.
        ({}, (256, 12, 4, 1024, 128, 30522)),
        ({"model_size": "base"}, (768, 12, 12, 3072, 768, 30522)),
        ({"model_size": "large"}, (1024, 24, 16, 4096, 1024, 30522)),
        ({"embedding_size": None}, (256, 12, 4, 1024, 256, 30522)),
        ({"embedding_size": 64}, (256, 12, 4, 1024, 64, 30522)),
        ({"model_hparam_overrides": {"hidden_size": 640, "vocab_size": 60},
          "vocab_size": 50}, (640, 12, 10, 2560, 128, 60)),
    ],
)  # fmt: skip
def test_sizes_follow_from_the_models_size_and_the_overrides(hparams, sizes):
    names = (
        "hidden_size", "num_hidden_layers", "num_attention_heads",
        "intermediate_size", "embedding_size", "vocab_size",
    )  # fmt: skip
    encoder = config.EncoderConfig(**dict(zip(names, sizes, strict=True)))
    assert from_original_hparams(hparams).encoder == encoder


_DEFAULTS = {
    "optimizer": {"num_warmup_steps": 10_000, "warmup_proportion": 0.0},
    "training": {"steps_per_loop": 200, "keep_checkpoints": 5},
}
_OTHERS = {
    "gen_weight": 2, "disc_weight": 10.0, "temperature": 2,
    "disallow_correct": True, "mask_prob": 0.25, "learning_rate": 1e-4,
    "lr_decay_power": 2.0, "weight_decay_rate": 0.0, "num_warmup_steps": 7,
    "num_train_steps": 9, "train_batch_size": 24, "iterations_per_loop": 3,
    "save_checkpoints_steps": 4, "keep_checkpoint_max": 6,
    "num_eval_steps": 8, "max_seq_length": 64, "generator_hidden_size": 0.5,
    "generator_layers": 0.25, "untied_generator_embeddings": True,
    "use_tpu": True, "tpu_name": "node-1", "do_lower_case": True,
}  # fmt: skip
_FIELDS = {
    "objective": {"gen_weight": 2, "disc_weight": 10, "temperature": 2,
                  "disallow_correct": True},
    "masking": {"mask_prob": 0.25},
    "optimizer": {"learning_rate": 1e-4, "lr_decay_power": 2,
                  "weight_decay_rate": 0, "num_warmup_steps": 7,
                  "warmup_proportion": 0},
    "training": {"num_train_steps": 9, "train_batch_size": 24,
                 "steps_per_loop": 3, "save_checkpoints_steps": 4,
                 "keep_checkpoints": 6, "num_eval_batches": 8,
                 "strategy": "tpu", "tpu": "node-1"},
    "data": {"max_seq_length": 64, "num_streams": 8},
    "generator": {"generator_hidden_size": 0.5, "generator_layers": 0.25,
                  "untied_generator_embeddings": True},
}  # fmt: skip


@pytest.mark.parametrize(
    ("hparams", "fields"), [({}, _DEFAULTS), (_OTHERS, _FIELDS)]
)
def test_each_name_reaches_its_field_or_has_its_default(hparams, fields):
    expected = registry.complete(config.freeze(fields))
    assert from_original_hparams(hparams) == expected


@pytest.mark.parametrize(
    ("hparams", "pattern"),
    [
        ({"learing_rate": 1e-4}, "Did you mean 'learning_rate'"),
        ({"model_hparam_overrides": {"hiden_size": 1}},
         "'hiden_size'. Did you mean 'hidden_size'"),
        ({"model_size": "huge"}, "small, base, large. Received: 'huge'"),
        ({"model_hparam_overrides": {"hidden_act": "relu"}}, "'relu'"),
        ({"vocab_file": "vocab.txt"}, "vocab_file.*dataset folder"),
        ({"do_lower_case": False}, "casing is stored beside the vocabulary"),
        ({"num_train_steps": 200}, r"200 steps\. Set num_warmup_steps=20\.$"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_one_clear_error(hparams, pattern):
    with pytest.raises(errors.ConfigError, match=pattern):
        from_original_hparams(hparams)
