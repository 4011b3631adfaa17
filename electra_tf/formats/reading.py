"""Reads and writes models of any format; builds networks; warm-starts runs."""

import collections
import dataclasses
import pathlib
import types
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from electra_tf import errors
from electra_tf import installed
from electra_tf import storage
from electra_tf.config import EncoderConfig
from electra_tf.config import schema
from electra_tf.formats import hugging_face
from electra_tf.formats import keras_hub_preset
from electra_tf.formats import original_model
from electra_tf.formats import own_run
from electra_tf.formats import pairs
from electra_tf.formats import portable
from electra_tf.formats import tensor_files
from electra_tf.formats import tokenizer_files
from electra_tf.formats.portable import PortableModel
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import layers
from electra_tf.modeling import networks
from electra_tf.text.vocabulary import Vocabulary
from electra_tf.training import checkpoints

MODULES: dict[str, Any] = {
    "tf1": original_model,
    "electra_tf": own_run,
    "huggingface": hugging_face,
    "keras_hub": keras_hub_preset,
}
FORMATS = tuple(MODULES)
TF1, OURS, HUGGING_FACE, KERAS_HUB = FORMATS
# Tables and vectors with a row for each token.
_TOKEN_TABLES = ("word_embeddings", "output_bias")
_POSITION_TABLE = "position_embeddings"
_NO_ROW = -1
_NUM_SHOWN = 8
# Sizes that a run must share with the model that it starts from, and the fields
# of the config that set a generator's sizes.
_SIZES = ("embedding_size", "hidden_size", "num_hidden_layers",
          "num_attention_heads", "intermediate_size",
          "type_vocab_size")  # fmt: skip
_GENERATOR_FLAGS = ("generator_hidden_size", "generator_layers",
                    "num_attention_heads", "intermediate_size")  # fmt: skip


def detect(path: str | pathlib.Path) -> str:
    """Detects the format of a model; `ModelError` if there is no model."""
    path = storage.path(path)
    if (path.parent / f"{path.name}.index").is_file():
        return TF1
    own, pair = path / "config.json", path / "discriminator/config.json"
    content = portable.peek(own) or portable.peek(pair)
    is_trial = content.keys() >= own_run.TRIAL_FIELDS
    if is_trial or any(path.glob("trial_*/config.json")):
        raise errors.ModelError(
            f"{path} must hold a pre-trained model. Received: a fine-tuned one."
            f" Use it by electra_tf.load({f'{path}'!r}).predict(TEXTS), or "
            f"take its encoder: electra-convert --to={OURS} --input={path} "
            f"--drop={portable.TASK_HEADS} --output_dir=DIR"
        )
    for name, matches in {
        OURS: own.is_file() and checkpoints.all_checkpoints(path),
        KERAS_HUB: str(content.get("module")).split(".")[0] == "keras_hub",
        HUGGING_FACE: content.keys() & {"architectures", "model_type"}
        or any((path / name).exists() for name in tensor_files.FILES),
        TF1: any(path.glob("*.index")),
    }.items():
        if matches:
            return name
    if own.exists():
        schema.read_object(own, errors.ModelError)  # raises if it is damaged
    raise errors.ModelError(
        f"{path} must hold a model: a run of ours (config.json, checkpoints/), "
        "a Hugging Face model (config.json, model.safetensors), a KerasHub "
        "preset (config.json, model.weights.h5) or a TF1 checkpoint (*.index). "
        f"Received: {', '.join(sorted(p.name for p in path.iterdir())[:8])}."
    )


def read_model(
    path: str | pathlib.Path,
    format_name: str = "",
    which: str = "latest",
    use_average: bool = False,
) -> PortableModel:
    """Reads a pre-trained model.

    Args:
        path: a folder, the prefix of a TF1 checkpoint, or the name of a model
            that the package contains or that is on the hub.
        format_name: one of `FORMATS`; empty: detected.
        which: of a run, `latest`, `best`, or the folder of a checkpoint.
        use_average: of a run, whether to take the moving average.

    Raises:
        FileNotFoundError: if there is no such path or name.
        ModelError: if the model is damaged, or not pre-trained.
    """
    source = installed.find_model(path)
    format_name = format_name or detect(source)
    schema.require_choice("format", format_name, FORMATS)
    if format_name == OURS:
        return own_run.read_model(source, which, use_average)
    if which != "latest" or use_average:
        raise ValueError(
            "--checkpoint and --use_average are for runs. Received: one of "
            f"these flags for {source}, of the format {format_name}."
        )
    if format_name == TF1:
        return original_model.read_model(source)
    with storage.local_copy(source) as folder:
        model: PortableModel = MODULES[format_name].read_model(folder)
    origin = model.origin.replace(str(folder), str(source))
    return dataclasses.replace(model, origin=origin)


def build_networks(
    model: PortableModel, precision: str = "float32"
) -> networks.Networks:
    """Builds the networks of a pre-trained model, with their weights.

    Without its head, `main` has only an `encoder`.
    """
    dtype, objective = layers.dtype_policy(precision), model.trained_by
    if next(iter(objective.heads)) not in model.parts:
        encoder = build_encoder(model, precision)
        own = {"encoder": encoder, "variables": encoder.variables}
        return networks.Networks(None, types.SimpleNamespace(**own))
    main = objective.build_main(model.encoder, dtype)
    generator, variables = None, {v.path: v for v in main.variables}
    if model.generator is not None:
        generator = networks.build_sized_generator(
            model.generator,
            main.encoder,
            model.tying,
            is_two_tower=portable.TOWER_PARTS[0] in model.parts,
            dtype=dtype,
        )
        variables |= {v.path: v for v in generator.variables}
    assign(variables, model)
    return networks.Networks(generator, main)


def build_encoder(
    model: PortableModel, precision: str = "float32"
) -> encoder_lib.Encoder:
    """Builds only the main encoder of a model, with its weights."""
    dtype = layers.dtype_policy(precision)
    main = networks.MAIN_ENCODER
    encoder = encoder_lib.build_encoder(model.encoder, main, dtype=dtype)
    assign({v.path: v for v in encoder.variables}, model)
    return encoder


def assign(variables: Mapping[str, Any], model: PortableModel) -> None:
    """Assigns the weights of complete parts of a model to variables by path."""
    values = _take_parts(model.tensors, set(map(portable.part_of, variables)))
    checkpoints.assign(model.origin, values, variables)


def _take_parts(named: Mapping[str, Any], parts: set[str]) -> dict[str, Any]:
    return {n: v for n, v in named.items() if portable.part_of(n) in parts}


class Target(NamedTuple):
    """The model of a new run."""

    variables: Mapping[str, Any]  # by `variable.path`
    encoder: EncoderConfig  # the main one
    generator: EncoderConfig  # used if the model has a generator
    vocabulary: Vocabulary  # of the run's dataset


def warm_start(
    path: str | pathlib.Path, target: Target, as_generator: bool = False
) -> str:
    """Sets the variables of a run to the weights of a model of any format.

    Each part (main encoder, heads, generator) is restored completely or keeps
    its initial values. Two tables may differ in their number of rows: of
    position embeddings the first rows are copied; a token's row goes to the row
    that the token has in the new vocabulary.

    Args:
        path: the model, see `read_model`.
        target: the model of the run, whose vocabulary has all tokens of `path`.
        as_generator: whether to copy only a masked LM, to the generator.

    Returns:
        A paragraph on the restored, resized, initial and unused parts.

    Raises:
        ModelError: if sizes or vocabularies do not fit. No variable is changed.
    """
    model = read_model(path)
    if as_generator:
        model = _as_generator(model, target.encoder)
    rows = _token_rows(model, target.vocabulary)
    shared = set(model.parts) & set(map(portable.part_of, target.variables))
    _require_sizes(model, target, shared)
    wanted = _take_parts(target.variables, shared)
    count = f"{len(wanted)} of {len(target.variables)} variables"
    notes = [f"restored {count} from {model.origin}"]
    values = {}
    for name, saved in model.tensors.items():
        values[name] = saved
        if name in wanted:
            values[name] = _fit(name, saved, np.asarray(wanted[name]), rows)
        if (num_rows := len(values[name])) != len(saved):
            notes.append(f"{name}: {len(saved)} rows became {num_rows}")
    assign(wanted, dataclasses.replace(model, tensors=values))
    for by_path, note in (
        (target.variables, "{} ({} variables) keeps its initial values"),
        (model.tensors, "its {} ({} tensors) is not used"),
    ):
        counts = collections.Counter(map(portable.part_of, by_path))
        others = sorted(counts.keys() - shared)
        notes += [note.format(part, counts[part]) for part in others]
    return "; ".join([*notes, *model.notes])


def _as_generator(model: PortableModel, main: EncoderConfig) -> PortableModel:
    """Turns a model's masked language model into a generator for `main`."""
    masked_lm = pairs.split(model).get("generator", model)
    if set(masked_lm.parts) != {portable.MAIN, portable.MASKED_LM_HEAD}:
        raise errors.ModelError(
            "A generator starts from a masked language model or a generator. "
            f"Received: {model.origin} with {', '.join(model.parts)}."
        )
    return dataclasses.replace(
        masked_lm,
        tensors=portable.replace_part(
            masked_lm.tensors, portable.MAIN, portable.GENERATOR
        ),
        encoder=main,
        generator=masked_lm.encoder,
        tying="none",
    )


def _token_rows(model: PortableModel, vocabulary: Vocabulary) -> np.ndarray:
    """Returns the row of each of the model's tokens in a new vocabulary."""
    own = model.require_vocabulary()
    effective = tokenizer_files.effective
    if effective(own.settings) != effective(vocabulary.settings):
        raise errors.ModelError(
            f"{model.origin} must have the tokenizer settings of the dataset, "
            f"{vocabulary.settings}. Received: {own.settings}. Build the "
            "dataset with the model's settings."
        )
    rows = {token: row for row, token in enumerate(vocabulary.tokens)}
    missing = [token for token in own.tokens if token not in rows]
    if lost := [t for t in missing if not tokenizer_files.is_no_token(t)]:
        raise errors.ModelError(
            "The dataset's vocabulary must have every token of "
            f"{model.origin}, in any order. Received: a vocabulary without "
            f"{len(lost)} of them, such as {lost[:_NUM_SHOWN]}. Build the "
            "dataset with the model's vocabulary, or with an extension of it."
        )
    return np.array([rows.get(token, _NO_ROW) for token in own.tokens])


def _require_sizes(
    model: PortableModel, target: Target, parts: set[str]
) -> None:
    both = [("encoder", model.encoder, target.encoder, model.encoder, _SIZES)]
    if model.generator and parts.intersection(model.generator_parts):
        flags: Any = portable.generator_settings(model), _GENERATOR_FLAGS
        both.append(("generator", model.generator, target.generator, *flags))
    for section, own, wanted, settings, names in both:
        wrong = [
            f"{name}: {getattr(own, name)}, {getattr(wanted, name)}"
            for name in _SIZES
            if getattr(own, name) != getattr(wanted, name)
        ]
        flag = f"--config.{section}"
        remedy = [f"{flag}.{name}={getattr(settings, name)}" for name in names]
        if wrong:
            raise errors.ModelError(
                f"The config's {section} must have the sizes of {model.origin}."
                f" Received (the model's, the config's): {'; '.join(wrong)}. "
                f"Set {' '.join(remedy)}"
            )


def _fit(
    name: str, saved: np.ndarray, fresh: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    if saved.shape[1:] != fresh.shape[1:]:
        return saved  # `assign` refuses it
    if name.endswith(_POSITION_TABLE):
        shared = min(len(saved), len(fresh))
        return np.concatenate([saved[:shared], fresh[shared:]])
    if name.endswith(_TOKEN_TABLES):
        moved = fresh.copy()
        has_row = rows != _NO_ROW
        moved[rows[has_row]] = saved[has_row]
        return moved
    return saved
