"""Hyperparameters written for the original ELECTRA code, as our config.

The original takes one flat JSON object (`--hparams`), whose names and
defaults are those of its `configure_pretraining.py`; sizes of the model come
from `model_size`, changed by `model_hparam_overrides`
(`util/training_utils.py`). Most names live on in our sections. Two things
differ on purpose and keep our defaults: positions are drawn without
replacement and means run over the global batch
(`masking.draw_with_replacement`, `objective.means_per_replica`).
"""

import math
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from electra_tf import config
from electra_tf.config import schema

MODEL_SIZES: Mapping[str, Mapping[str, int]] = {
    "small": {"hidden_size": 256, "num_hidden_layers": 12},
    "base": {"hidden_size": 768, "num_hidden_layers": 12},
    "large": {"hidden_size": 1024, "num_hidden_layers": 24},
}
"""What `model_size` means before `model_hparam_overrides`."""

# Original name: our section and field, and the original's default.
_FIELDS: Mapping[str, tuple[str, Any]] = {
    "gen_weight": ("objective.gen_weight", 1.0),
    "disc_weight": ("objective.disc_weight", 50.0),
    "temperature": ("objective.temperature", 1.0),
    "disallow_correct": ("objective.disallow_correct", False),
    "mask_prob": ("masking.mask_prob", 0.15),
    "learning_rate": ("optimizer.learning_rate", 5e-4),
    "lr_decay_power": ("optimizer.lr_decay_power", 1.0),
    "weight_decay_rate": ("optimizer.weight_decay_rate", 0.01),
    "num_warmup_steps": ("optimizer.num_warmup_steps", 10_000),
    "num_train_steps": ("training.num_train_steps", 1_000_000),
    "train_batch_size": ("training.train_batch_size", 128),
    "iterations_per_loop": ("training.steps_per_loop", 200),
    "save_checkpoints_steps": ("training.save_checkpoints_steps", 1_000),
    "keep_checkpoint_max": ("training.keep_checkpoints", 5),
    "num_eval_steps": ("training.num_eval_batches", 100),
    "max_seq_length": ("data.max_seq_length", 128),
    "generator_hidden_size": ("generator.generator_hidden_size", 0.25),
    "generator_layers": ("generator.generator_layers", 1.0),
    "untied_generator": ("generator.untied_generator", True),
    "untied_generator_embeddings": (
        "generator.untied_generator_embeddings",
        False,
    ),
    "uniform_generator": ("generator.uniform_generator", False),
}
_OBJECTIVE_FIELDS: Mapping[str, bool] = {
    "electra_objective": True,
    "electric_objective": False,
    "two_tower_generator": False,
}
# Read by functions below.
_OTHER_FIELDS = (
    "debug",
    "model_size",
    "model_hparam_overrides",
    "embedding_size",
    "vocab_size",
    "use_tpu",
    "tpu_name",
)
# What has another place here: only the original's default is taken silently.
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
_DEBUG_VALUES: Mapping[str, int] = {
    "train_batch_size": 8,
    "num_train_steps": 20,
    "iterations_per_loop": 10,
    "num_eval_steps": 2,
}
_ENCODER_FIELDS = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "initializer_range",
)
_MAX_STREAMS = 16


def from_original_hparams(
    hparams: Mapping[str, Any],
) -> config.ExperimentConfig:
    """The run that the original would make of these hyperparameters.

    Absent ones keep the original's defaults, which depend on `model_size` and
    `debug`. `ConfigError` for an unknown name (names the closest one), or
    values that cannot work.

    >>> settings = from_original_hparams({"model_size": "base"})
    >>> settings.encoder.hidden_size, settings.encoder.embedding_size
    (768, 768)
    """
    known = [*_FIELDS, *_OBJECTIVE_FIELDS, *_OTHER_FIELDS, *_ELSEWHERE]
    _refuse_unknown("hyperparameter", hparams, known)
    for name, (default, place) in _ELSEWHERE.items():
        config.require(
            hparams.get(name, default) == default,
            f"`{name}` is not a setting of the model or its training here: "
            f"{place}. Received: {name}={hparams.get(name)!r}. Leave it out.",
        )
    sections: dict[str, dict[str, Any]] = {
        "encoder": _encoder_fields(hparams),
        "training": _tpu_fields(hparams),
    }
    debug_values = _DEBUG_VALUES if _flag(hparams, "debug") else {}
    for name, (place, default) in _FIELDS.items():
        section, field = place.split(".")
        value = hparams.get(name, debug_values.get(name, default))
        sections.setdefault(section, {})[field] = value
    generator, objective = sections["generator"], sections["objective"]
    is_electric = _flag(hparams, "electric_objective")
    is_electra = _flag(hparams, "electra_objective")
    has_two_towers = _flag(hparams, "two_tower_generator")
    # Electric turns the two towers on by itself, as in the original.
    generator["two_tower_generator"] = has_two_towers or is_electric
    objective["name"] = "electric" if is_electric else "electra"
    # What the original reads and then does nothing with is taken out.
    if not (is_electric or is_electra):
        objective["name"] = "mlm"
        generator.clear()
        for field in ("disc_weight", "temperature", "disallow_correct"):
            del objective[field]
    elif generator["uniform_generator"] or not generator["untied_generator"]:
        del generator["generator_hidden_size"], generator["generator_layers"]
    batch_size = sections["training"]["train_batch_size"]
    if isinstance(batch_size, int):
        sections["data"]["num_streams"] = math.gcd(batch_size, _MAX_STREAMS)
    return config.freeze(sections)


def _refuse_unknown(
    kind: str, given: Iterable[str], known: Iterable[str]
) -> None:
    for key in given:
        config.require(
            key in known,
            f"Unknown {kind} of the original: {key!r}. "
            f"{schema.suggest(str(key), known)}",
        )


def _flag(hparams: Mapping[str, Any], name: str) -> bool:
    value = hparams.get(name, _OBJECTIVE_FIELDS.get(name, False))
    config.require(
        isinstance(value, bool),
        f"`{name}` must be true or false. Received: {value!r}.",
    )
    return value


def _encoder_fields(hparams: Mapping[str, Any]) -> dict[str, Any]:
    """Sizes of the discriminator, resolved in the original's order."""
    overrides = hparams.get("model_hparam_overrides", {})
    config.require(
        isinstance(overrides, Mapping),
        "`model_hparam_overrides` must be a JSON object. "
        f"Received: {overrides!r}.",
    )
    known = (*_ENCODER_FIELDS, "hidden_act")
    _refuse_unknown("model_hparam_overrides field", overrides, known)
    model_size = hparams.get("model_size", "small")
    config.require_choice("model_size", model_size, tuple(MODEL_SIZES))
    fields: dict[str, Any] = {"vocab_size": hparams.get("vocab_size", 30522)}
    fields |= MODEL_SIZES[model_size] | overrides
    width = fields["hidden_size"]
    config.require(
        type(width) is int,
        f"`hidden_size` must be a whole number. Received: {width!r:.80}.",
    )
    fields.setdefault("num_attention_heads", max(1, width // 64))
    fields.setdefault("intermediate_size", 4 * width)
    activation = fields.pop("hidden_act", "gelu")
    config.require(
        activation == "gelu",
        "`hidden_act` must be 'gelu', the only activation here. "
        f"Received: {activation!r}.",
    )
    # An explicit null is the hidden size for every model.
    embedding_size = hparams.get(
        "embedding_size", 128 if model_size == "small" else None
    )
    fields["embedding_size"] = (
        width if embedding_size is None else embedding_size
    )
    return fields


def _tpu_fields(hparams: Mapping[str, Any]) -> dict[str, Any]:
    name = hparams.get("tpu_name")
    if _flag(hparams, "use_tpu"):
        return {"strategy": "tpu", "tpu": name or ""}
    config.require(
        name is None,
        "`tpu_name` has no effect without `use_tpu`. Received: "
        f"tpu_name={name!r}. Set `use_tpu` too, or leave it out.",
    )
    return {}
