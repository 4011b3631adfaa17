"""Models of Hugging Face's transformers, read and written without it.

    folder/config.json, model.safetensors, tokenizer files      one model

A pre-trained ELECTRA is two models there: an `ElectraForPreTraining` and an
`ElectraForMaskedLM`, whose encoder has the embeddings once more. We write them
as `folder/discriminator` and `folder/generator`, and read that, or any one of
them, or a fine-tuned model.
"""

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from electra_tf import config
from electra_tf import errors
from electra_tf.config import schema
from electra_tf.formats import foreign
from electra_tf.formats import hugging_face_heads
from electra_tf.formats import layout
from electra_tf.formats import model_pairs
from electra_tf.formats import parameter_names
from electra_tf.formats import portable
from electra_tf.formats import tensor_files
from electra_tf.formats import tokenizer_files

CONFIG_FILE = "config.json"
_DISCRIMINATOR, _GENERATOR = "ElectraForPreTraining", "ElectraForMaskedLM"
_ENCODER = "ElectraModel"
_CLASSES = (_DISCRIMINATOR, _GENERATOR, _ENCODER,
            *dict.fromkeys(hugging_face_heads.CLASSES.values()))  # fmt: skip
# What a config may leave out, and what it then is.
_DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 30522,
    "embedding_size": 128,
    "hidden_size": 256,
    "num_hidden_layers": 12,
    "intermediate_size": 1024,
    "max_position_embeddings": 512,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "initializer_range": 0.02,
    "type_vocab_size": 2,
    "num_attention_heads": 4,
}
# Fields that no tensor tells.
_RATES = ("hidden_dropout_prob", "attention_probs_dropout_prob",
          "initializer_range")  # fmt: skip
# Fields that change what a model computes, and what it must be here.
_REQUIRED: Mapping[str, Any] = {
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
}
# Buffers of older releases, and the tied table that some files repeat.
_NO_WEIGHTS = r"electra\.embeddings\.(position_ids|token_type_ids)"
_TIED_OUTPUT, _TABLE = (
    "generator_lm_head.weight",
    "electra.embeddings.word_embeddings.weight",
)
_HEAD_PARTS = {
    _DISCRIMINATOR: portable.REPLACED_TOKEN_HEAD,
    _GENERATOR: portable.MASKED_LM_HEAD,
}

Json = Mapping[str, Any]


def is_folder(path: pathlib.Path) -> bool:
    """Whether a folder holds a model of Hugging Face's, by its config."""
    folder = path / model_pairs.DISCRIMINATOR if _is_pair(path) else path
    try:
        content = schema.read_object(folder / CONFIG_FILE)
    except (OSError, ValueError):
        return False
    return "architectures" in content or "model_type" in content


def _is_pair(path: pathlib.Path) -> bool:
    """Whether a folder holds a discriminator in a folder of its own."""
    is_model = (path / CONFIG_FILE).exists()
    return _is_there(path / model_pairs.DISCRIMINATOR) and not is_model


def _is_there(path: pathlib.Path) -> bool:
    """Whether there is anything, a link to nothing too."""
    return path.exists() or path.is_symlink()


def read(path: pathlib.Path) -> portable.PortableModel:
    """A model: one folder, or both of a pre-trained ELECTRA under one.

    Args:
        path: the folder.

    Raises:
        FileNotFoundError: if a file is missing.
        ModelError: if the model is damaged, partial, not ELECTRA, or computes
            what ours does not (names what).
    """
    if not _is_pair(path):
        return _read_one(path)
    names = model_pairs.DISCRIMINATOR, model_pairs.GENERATOR
    folders = [path / name for name in names if _is_there(path / name)]
    for folder in folders:
        if not folder.is_dir():
            raise errors.ModelError(
                f"{folder} must be the folder of a model. Received: a file, "
                "or a link to nothing. Restore the folder, or give the other "
                "model's alone."
            )
    main, *generators = map(_read_one, folders)
    return model_pairs.join(main, *generators) if generators else main


def _read_one(path: pathlib.Path) -> portable.PortableModel:
    """One folder; a masked LM's encoder is its main one."""
    stated = _read_config(path / CONFIG_FILE)
    architecture = _architecture(stated, path)
    arrays, file = tensor_files.read_folder(path)
    arrays, notes = _without_tied_output(arrays, str(file))
    arrays = _with_prefix(arrays, architecture)
    task, rules = None, parameter_names.HUGGING_FACE_RULES
    if architecture in hugging_face_heads.CLASSES.values():
        task = hugging_face_heads.read_task(
            stated, architecture, str(path / CONFIG_FILE)
        )
        rules += hugging_face_heads.name_rules(task.kind)
    tensors = foreign.ForeignTensors(arrays, rules, str(file))
    encoder = _sizes(stated, tensors, path)
    expected = layout.encoder_shapes(portable.MAIN, encoder)
    if architecture in _HEAD_PARTS:
        part = _HEAD_PARTS[architecture]
        expected |= layout.part_shapes(part, encoder, None, "none") or {}
    if task is not None:
        expected |= hugging_face_heads.head_shapes(task, encoder.hidden_size)
    taken = tensors.take(expected, may_be_unused=_NO_WEIGHTS)
    if task is not None:
        taken, task = hugging_face_heads.from_hugging_face(taken, task)
        if task.kind == "tagging":
            notes.append("exchanged segments 0 and 1, words are in 1 here")
    vocabulary = tokenizer_files.load_if_there(path, encoder)
    notes += foreign.precision_notes(str(a.dtype) for a in arrays.values())
    notes += tokenizer_files.notes_of(vocabulary)
    model = portable.PortableModel(
        taken,
        encoder,
        vocabulary=vocabulary,
        task=task,
        origin=f"Hugging Face {architecture} {path}",
        notes=tuple(notes),
    )
    layout.check(model)
    return model


def _read_config(path: pathlib.Path) -> Json:
    try:
        stated = schema.read_object(path, errors.ModelError)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"Expected {CONFIG_FILE} of a Hugging Face model in {path.parent}. "
            "Received: a folder without it. Download the model whole."
        ) from error
    kind = stated.get("model_type", "electra")
    if kind != "electra":
        raise errors.ModelError(
            f"{path} must be of the model type 'electra'. Received: "
            f"{kind!r:.80}."
        )
    wrong = {
        name: stated[name]
        for name, value in _REQUIRED.items()
        if name in stated and stated[name] != value
    }
    if wrong:
        expected = {name: _REQUIRED[name] for name in wrong}
        raise errors.ModelError(
            f"{path} must have {expected}, with which ELECTRA was trained. "
            f"Received: {wrong}."
        )
    return stated


def _architecture(stated: Json, path: pathlib.Path) -> str:
    found = stated.get("architectures") or [_ENCODER]
    if (
        not isinstance(found, list)
        or len(found) != 1
        or found[0] not in _CLASSES
    ):
        raise errors.ModelError(
            f"{path / CONFIG_FILE} must name one class of "
            f"{', '.join(_CLASSES)}. Received: {found!r:.200}. Other classes "
            "have heads that there are not here."
        )
    return found[0]


def _with_prefix(
    arrays: dict[str, np.ndarray], architecture: str
) -> dict[str, np.ndarray]:
    """A bare encoder has no prefix of its own there."""
    if architecture != _ENCODER or any(
        name.startswith("electra.") for name in arrays
    ):
        return arrays
    return {f"electra.{name}": value for name, value in arrays.items()}


def _without_tied_output(
    arrays: dict[str, np.ndarray], file: str
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Some files repeat the token table as the output matrix."""
    if _TIED_OUTPUT not in arrays:
        return arrays, []
    if not np.array_equal(arrays[_TIED_OUTPUT], arrays.get(_TABLE, ())):
        raise errors.ModelError(
            f"{file}: {_TIED_OUTPUT} must be the table of word embeddings, "
            "which the output is tied to. Received: another matrix."
        )
    others = {n: arrays[n] for n in arrays if n != _TIED_OUTPUT}
    return others, [f"{_TIED_OUTPUT} is the token table, kept once"]


def _sizes(
    stated: Json, tensors: foreign.ForeignTensors, path: pathlib.Path
) -> config.EncoderConfig:
    """Sizes by the tensors, which the config must confirm."""
    file = path / CONFIG_FILE
    told: dict[str, Any] = {**_DEFAULTS, **stated}
    wrong = {
        name: told[name]
        for name in _DEFAULTS
        if type(told[name]) is not int
        and not (name in _RATES and isinstance(told[name], float))
    }
    if wrong:
        raise errors.ModelError(
            f"{file} must give its sizes as numbers. Received: {wrong}. "
            "Download it again."
        )
    rates: dict[str, Any] = {name: float(told[name]) for name in _RATES}
    try:
        found = layout.infer_sizes(
            portable.MAIN,
            tensors.shape_of,
            num_attention_heads=told["num_attention_heads"],
            origin=tensors.origin,
        )
        sizes = dataclasses.replace(found, **rates)
    except errors.ConfigError as error:
        raise errors.ModelError(
            f"{file} does not describe the tensors beside it: {error}"
        ) from error
    layout.require_sizes(
        sizes, {name: told[name] for name in _DEFAULTS}, str(file)
    )
    return sizes


def write(
    model: portable.PortableModel, folder: pathlib.Path
) -> portable.PortableModel:
    """Writes what `from_pretrained` reads.

    Args:
        model: pre-trained or fine-tuned.
        folder: exists and is empty.

    Returns:
        The same model.

    Raises:
        ModelError: for parts that there is no class for (names them).
    """
    for name, part in model_pairs.split(model).items():
        target = folder / name
        target.mkdir(exist_ok=True)
        _write_one(part, target)
    return model


def _write_one(model: portable.PortableModel, folder: pathlib.Path) -> None:
    architecture, tensors = _ENCODER, model.tensors
    rules = parameter_names.HUGGING_FACE_RULES
    if model.task is not None:
        architecture = hugging_face_heads.CLASSES[model.task.kind]
        tensors = hugging_face_heads.to_hugging_face(tensors, model.task)
        rules += hugging_face_heads.name_rules(model.task.kind)
    for name, part in _HEAD_PARTS.items():
        architecture = name if part in model.parts else architecture
    arrays = parameter_names.split_all(tensors, rules)
    if architecture == _ENCODER:
        arrays = {n.removeprefix("electra."): arrays[n] for n in arrays}
    tensor_files.write_safetensors(
        folder / tensor_files.SAFETENSORS_FILE,
        arrays,
        # transformers refuses files that do not name their framework.
        {"format": "pt"},
    )
    text = json.dumps(_config(model, architecture), indent=2) + "\n"
    (folder / CONFIG_FILE).write_text(text, "utf-8")
    if model.vocabulary is not None:
        tokenizer_files.write_hugging_face(
            model.vocabulary, folder, model.encoder.max_position_embeddings
        )


def _config(model: portable.PortableModel, architecture: str) -> Json:
    special = model.vocabulary.pad_id if model.vocabulary else 0
    content = {
        "architectures": [architecture],
        "model_type": "electra",
        **dataclasses.asdict(model.encoder),
        "initializer_range": model.encoder.initializer_stddev,
        "hidden_act": _REQUIRED["hidden_act"],
        "layer_norm_eps": _REQUIRED["layer_norm_eps"],
        "pad_token_id": special,
        "summary_type": "first",
        "summary_use_proj": True,
        "summary_activation": "gelu",
        "summary_last_dropout": 0.1,
        "tie_word_embeddings": True,
        "dtype": "float32",
    }
    task = model.task
    if task is None:
        return content
    content["finetuning_task"] = task.name
    if task.kind == "qa":
        return content
    portable.require_labels(
        task.labels, f"{model.origin}: the task {task.name!r}"
    )
    labels = task.labels or ("LABEL_0",)
    if task.kind != "regression" and not task.labels:
        raise errors.ModelError(
            f"The labels of {task.name!r} must be known, in the order of the "
            f"outputs. Received: none in {model.origin}. Give them with "
            "--labels=NAME,NAME,..."
        )
    content |= {
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": {label: number for number, label in enumerate(labels)},
    }
    if task.has_pairs:
        content[hugging_face_heads.TEXT_PAIRS] = True
    if task.kind != "tagging":
        is_number = task.kind == "regression"
        content["problem_type"] = (
            "regression" if is_number else "single_label_classification"
        )
        if is_number:
            content[hugging_face_heads.VALUE_RANGE] = list(task.value_range)
    return content
