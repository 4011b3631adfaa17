"""Converts hyperparameters of the original ELECTRA code to our config.

The original takes one flat JSON object (`--hparams`), with the names and
defaults of its `configure_pretraining.py`. Two settings keep our defaults on
purpose: positions are drawn without replacement, and means are over the global
batch (`masking.draw_with_replacement`, `objective.means_per_replica`).
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

from electra_tf import config
from electra_tf import errors
from electra_tf.config import schema
from electra_tf.config.schema import require
from electra_tf.objectives import registry

# The values of `model_size`, before `model_hparam_overrides`.
_MODEL_SIZES: Mapping[str, Mapping[str, int]] = {
    "small": {"hidden_size": 256, "num_hidden_layers": 12},
    "base": {"hidden_size": 768, "num_hidden_layers": 12},
    "large": {"hidden_size": 1024, "num_hidden_layers": 24},
}
# The original's hyperparameters that our sections have,
_SECTIONS = {
    "objective": "gen_weight disc_weight temperature disallow_correct",
    "masking": "mask_prob",
    "optimizer": "learning_rate lr_decay_power weight_decay_rate "
    "num_warmup_steps",
    "training": "num_train_steps train_batch_size iterations_per_loop "
    "save_checkpoints_steps keep_checkpoint_max num_eval_steps",
    "data": "max_seq_length",
    "generator": "generator_hidden_size generator_layers untied_generator "
    "untied_generator_embeddings uniform_generator two_tower_generator",
}
# some under another name,
_RENAMED = {
    "iterations_per_loop": "steps_per_loop",
    "keep_checkpoint_max": "keep_checkpoints",
    "num_eval_steps": "num_eval_batches",
}
# and with defaults that differ from ours.
_DEFAULTS = {
    "iterations_per_loop": 200,
    "keep_checkpoint_max": 5,
    "num_warmup_steps": 10_000,
}
_DEBUG_DEFAULTS = {
    "train_batch_size": 8,
    "num_train_steps": 20,
    "iterations_per_loop": 10,
    "num_eval_steps": 2,
    "num_warmup_steps": 0,  # 10,000 of 20 steps in the original
}
# Hyperparameters that the functions below read.
_OTHER_FIELDS = (
    "electra_objective electric_objective debug model_size "
    "model_hparam_overrides embedding_size vocab_size use_tpu tpu_name"
)
# Hyperparameters that are no settings here: default, and what replaces them.
_ELSEWHERE: Mapping[str, tuple[Any, str]] = {
    "do_train": (True, "run_pretraining.py trains and evaluates"),
    "do_eval": (False, "set --config.training.eval_steps"),
    "eval_batch_size": (128, "evaluation uses `train_batch_size`"),
    "do_lower_case": (True, "casing is stored beside the vocabulary"),
    "num_tpu_cores": (1, "all cores that TensorFlow finds are used"),
    "tpu_job_name": (None, "set --config.training.tpu"),
    "tpu_zone": (None, "set --config.training.tpu"),
    "gcp_project": (None, "set --config.training.tpu"),
    "pretrain_tfrecords": (None, "set --config.data.dataset_dir"),
    "vocab_file": (None, "the dataset folder holds its vocabulary"),
    "model_dir": (None, "use the flag --model_dir"),
    "results_txt": (None, "results are written to `model_dir`"),
    "results_pkl": (None, "results are written to `model_dir`"),
}
_MAX_STREAMS = 16


def from_original_hparams(
    hparams: Mapping[str, Any],
) -> config.ExperimentConfig:
    """Returns the config of the original's run with these hyperparameters.

    Absent ones have the original's defaults. Raises `ConfigError` for an
    unknown name or a bad value.
    """
    known = " ".join([*_SECTIONS.values(), _OTHER_FIELDS]).split()
    _refuse_unknown("hyperparameter", hparams, [*known, *_ELSEWHERE])
    for name, (default, place) in _ELSEWHERE.items():
        require(
            hparams.get(name, default) == default,
            f"`{name}` is not a setting of the model or its training here: "
            f"{place}. Received: {name}={hparams.get(name)!r}. Leave it out.",
        )
    debug_defaults = _DEBUG_DEFAULTS if _flag(hparams, "debug") else {}
    given = {**_DEFAULTS, **debug_defaults, **hparams}
    sections: dict[str, dict[str, Any]] = {"encoder": _encoder_fields(hparams)}
    for section, names in _SECTIONS.items():
        own = [name for name in names.split() if name in given]
        sections[section] = {_RENAMED.get(n, n): given[n] for n in own}
    sections["optimizer"]["warmup_proportion"] = 0.0
    sections["training"]["tpu"] = hparams.get("tpu_name") or ""
    if _flag(hparams, "use_tpu"):
        sections["training"]["strategy"] = "tpu"
    batch_size = given.get("train_batch_size", 128)
    if isinstance(batch_size, int):
        sections["data"]["num_streams"] = math.gcd(batch_size, _MAX_STREAMS)
    # Removes the settings that the original reads, but does not use.
    generator, objective = sections["generator"], sections["objective"]
    is_untied = _flag(hparams, "untied_generator", True)
    if _flag(hparams, "electric_objective"):
        objective["name"] = registry.ENERGY
    elif not _flag(hparams, "electra_objective", True):
        objective["name"] = registry.MASKED_LM
    trained_by = registry.find_class(objective.get("name", registry.DETECTION))
    read = {field.name for field in dataclasses.fields(trained_by.Settings)}
    for field in objective.keys() - read:
        del objective[field]
    if not trained_by.has_generator:
        generator.clear()
    # The original turns the two towers of Electric on by itself.
    generator |= trained_by.required_generator
    if _flag(hparams, "uniform_generator") or not is_untied:
        for field in ("generator_hidden_size", "generator_layers"):
            generator.pop(field, None)
    try:
        return registry.complete(config.freeze(sections))
    except errors.ConfigError as error:
        # The remedy is a field of the JSON object, no flag.
        text = str(error).replace("--config.optimizer.", "")
        raise errors.ConfigError(text) from error


def _refuse_unknown(kind: str, given: Iterable[str], known: list[str]) -> None:
    for key in given:
        require(
            key in known,
            f"Unknown {kind} of the original: {key!r}. "
            f"{schema.suggest(str(key), known)}",
        )


def _flag(hparams: Mapping[str, Any], name: str, default: bool = False) -> bool:
    value = hparams.get(name, default)
    require(
        isinstance(value, bool),
        f"`{name}` must be true or false. Received: {value!r}.",
    )
    return value


def _encoder_fields(hparams: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the discriminator's sizes, resolved in the original's order."""
    overrides = hparams.get("model_hparam_overrides", {})
    require(
        isinstance(overrides, Mapping),
        f"`model_hparam_overrides` must be an object. Received: {overrides!r}.",
    )
    known = [field.name for field in dataclasses.fields(config.EncoderConfig)]
    known = [*known, "hidden_act"]
    known.remove("embedding_size")
    _refuse_unknown("model_hparam_overrides field", overrides, known)
    model_size = hparams.get("model_size", "small")
    config.require_choice("model_size", model_size, tuple(_MODEL_SIZES))
    fields: dict[str, Any] = {"vocab_size": hparams.get("vocab_size", 30522)}
    fields |= _MODEL_SIZES[model_size] | overrides
    width, activation = fields["hidden_size"], fields.pop("hidden_act", "gelu")
    require(
        type(width) is int,
        f"`hidden_size` must be a whole number. Received: {width!r:.80}.",
    )
    require(
        activation == "gelu",
        f"`hidden_act` must be 'gelu'. Received: {activation!r}.",
    )
    # For every model size, an explicit null means the hidden size.
    default = 128 if model_size == "small" else None
    given = hparams.get("embedding_size", default)
    fields["embedding_size"] = width if given is None else given
    derived = {"num_attention_heads": max(1, width // 64)}
    return {**derived, "intermediate_size": 4 * width, **fields}
