"""Converts the original's TF1 checkpoints to portable models, and back.

The sizes come from `hparams.json` (the original's `--hparams`), if it exists.
Released checkpoints lack it: their sizes are inferred from the shapes of the
tensors, and the number of attention heads by the original's rule, one for every
64 of the width.
"""

import dataclasses
import glob
import operator
import pathlib
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf import errors
from electra_tf import storage
from electra_tf.config import EncoderConfig
from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import schema
from electra_tf.formats import original_hparams
from electra_tf.formats import parameter_names
from electra_tf.formats import portable
from electra_tf.formats import tokenizer_files
from electra_tf.formats.portable import Arrays
from electra_tf.formats.portable import PortableModel
from electra_tf.formats.portable import PortableTask
from electra_tf.modeling import networks
from electra_tf.tasks import catalog
from electra_tf.training import checkpoints

HPARAMS_FILE = "hparams.json"
_CHECKPOINT = "model.ckpt"
_STEP = "global_step"
_WRITABLE = (
    portable.MAIN,
    portable.GENERATOR,
    *portable.TOWER_PARTS,
    portable.REPLACED_TOKEN_HEAD,
    portable.MASKED_LM_HEAD,
    "cloze_predictions",
    portable.TASK_HEADS,
)
_TASKS = (
    *("cola", "mrpc", "mnli", "sst2", "rte", "qnli", "qqp", "stsb"),
    *("chunking", "squad1", "squad2", "newsqa", "naturalqs", "triviaqa"),
    "searchqa",
)
_ROW_LENGTH = 128  # the original's default
_HEAD_WIDTH = 64  # the original's rule
# TensorFlow's errors for damaged files; TypeError is for a bad step.
_READ_ERRORS = (tf.errors.OpError, IndexError, OSError, RuntimeError,
                TypeError, ValueError)  # fmt: skip


class OriginalCheckpoint(NamedTuple):
    """Tensors of a checkpoint, by the original's names."""

    path: str  # the prefix of the checkpoint's files
    variables: Arrays  # float32
    # Adam's m and v; empty in released checkpoints.
    first_moments: Arrays
    second_moments: Arrays
    global_step: int | None  # number of updates made


def read_checkpoint(
    path: pathlib.Path, read: Callable[[str], Arrays] = checkpoints.read_tensors
) -> OriginalCheckpoint:
    """Reads all tensors of a checkpoint, given its prefix or folder.

    If a folder has several, its file `checkpoint` names the one to read. Raises
    `OSError` if there is no checkpoint, `ModelError` for a damaged one.
    """
    pattern, folder = "*", path
    if not path.is_dir():
        pattern, folder = glob.escape(path.name), path.parent
    indices = sorted(folder.glob(f"{pattern}.index"))
    if len(indices) > 1 and (named := _find_newest(folder)) in indices:
        indices = [named]
    if len(indices) != 1:
        raise FileNotFoundError(
            f"Expected one checkpoint (*.index) at {path}, or a file "
            "`checkpoint` that names one of several. Received: "
            f"{', '.join(file.name for file in indices) or 'none'}. Name the "
            "prefix of one, such as DIR/model.ckpt-1000."
        )
    prefix, step = str(indices[0].with_suffix("")), None
    try:
        tensors = read(prefix)
        if _STEP in tensors:
            step = operator.index(tensors.pop(_STEP)[()])
    except _READ_ERRORS as error:
        raise errors.ModelError(
            "Expected a readable TensorFlow 1 checkpoint, with one whole "
            f"number as {_STEP}, at {prefix}. Received: {error}. Copy its "
            ".index and .data files again; one that TensorFlow 2 saved by "
            "`tf.train.Checkpoint` has no names of variables."
        ) from error
    moments: dict[str, Arrays] = {"adam_m": {}, "adam_v": {}}
    for full_name in list(tensors):
        name, _, slot = full_name.rpartition("/")
        if slot in moments:
            moments[slot][name] = tensors.pop(full_name)
    first, second = moments.values()
    return OriginalCheckpoint(prefix, tensors, first, second, step)


def _find_newest(folder: pathlib.Path) -> pathlib.Path | None:
    try:
        text = storage.read_bytes(folder / "checkpoint").decode("utf-8")
    except (FileNotFoundError, ValueError):
        return None
    # The name may have the folder of another machine.
    newest = r'(?m)^model_checkpoint_path: "(?:.*[/\\])?(.+)"'
    named = re.search(newest, text)
    return folder / f"{named[1]}.index" if named else None


def read_model(path: pathlib.Path) -> PortableModel:
    """Reads a pre-trained or fine-tuned checkpoint, without its optimizer."""
    # The index first, which tells the shapes: a damaged file may be huge.
    model = _describe(read_checkpoint(path, checkpoints.read_shapes))
    expected = portable.expected_shapes(model)
    table, origin = parameter_names.ORIGINAL, model.origin
    portable.require_shapes(model.tensors, table.all_shapes(expected), origin)
    checkpoint = read_checkpoint(path)
    variables, _ = _name_task(checkpoint.variables, origin)
    tensors = parameter_names.take(variables, expected, table, origin)
    folder = storage.path(checkpoint.path).parent
    vocabulary = tokenizer_files.load_if_there(folder, model.encoder)
    kinds = (f"{value.dtype}" for value in variables.values())
    notes = (
        *parameter_names.precision_notes(kinds),
        *tokenizer_files.notes_of(vocabulary),
    )
    num_slots = len(checkpoint.first_moments) + len(checkpoint.second_moments)
    if num_slots:
        notes += (f"left out {num_slots} optimizer slots",)
    return dataclasses.replace(
        model,
        tensors=tensors,
        vocabulary=vocabulary,
        step=checkpoint.global_step or 0,
        origin=f"TF1 checkpoint {checkpoint.path}",
    ).with_notes(*notes)


def _describe(checkpoint: OriginalCheckpoint) -> PortableModel:
    origin = f"TF1 checkpoint {checkpoint.path}"
    variables, task = _name_task(checkpoint.variables, origin)
    model = PortableModel(variables, EncoderConfig(), task=task, origin=origin)
    hparams_file = storage.path(checkpoint.path).with_name(HPARAMS_FILE)
    if not hparams_file.exists():
        return _infer_sizes(model)
    model = _read_hparams(hparams_file, model)
    origin += f", by its {HPARAMS_FILE},"
    return dataclasses.replace(model, origin=origin)


def _name_task(variables: Arrays, origin: str) -> tuple[Arrays, Any]:
    """Renames a head's scope to our name of its task; returns the task too."""
    heads = portable.take_part(variables, portable.TASK_HEADS)
    scopes = sorted({name.split("/")[1] for name in heads})
    if not scopes:
        return variables, None
    name = catalog.ALIASES.get(scopes[0], scopes[0])
    if len(scopes) > 1 or name not in _TASKS:
        raise errors.ModelError(
            f"{origin} must be fine-tuned on one task of the original: "
            f"{', '.join(sorted(_TASKS))}. Received: {', '.join(scopes)}."
        )
    scope = f"{portable.TASK_HEADS}/{scopes[0]}"
    task = _build_task(name)
    return portable.replace_part(variables, scope, task.head), task


def _build_task(name: str) -> PortableTask:
    task = catalog.build_task(name, finetuning_config.FinetuningConfig())
    return portable.describe_task(task, ())


def _read_hparams(path: pathlib.Path, model: PortableModel) -> PortableModel:
    hparams = schema.read_object(path, errors.ModelError)
    try:
        settings = original_hparams.from_original_hparams(hparams)
        if model.has_both_heads or model.generator_parts:
            generator = settings.generator.encoder_config(settings.encoder)
            tying = settings.generator.weight_tying
            model = dataclasses.replace(model, generator=generator, tying=tying)
    except errors.ConfigError as error:
        raise errors.ModelError(f"{path}: {error}") from error
    objective = "" if model.task else settings.objective["name"]
    encoder = settings.encoder
    return dataclasses.replace(model, encoder=encoder, objective=objective)


def _infer_sizes(model: PortableModel) -> PortableModel:
    main, tensors = portable.MAIN, model.tensors
    encoder = _infer_sizes_of(model, main, main)
    generator, tying = None, model.tying
    if encoders := model.generator_parts:
        is_own = f"{encoders[0]}/embeddings/word_embeddings" in tensors
        tying = "none" if is_own else "embeddings"
        owner = encoders[0] if is_own else main
        generator = _infer_sizes_of(model, encoders[0], owner)
    elif model.has_both_heads:
        generator, tying = encoder, "all"
    return dataclasses.replace(
        model, encoder=encoder, generator=generator, tying=tying
    ).with_notes(
        f"assumed {encoder.num_attention_heads} attention heads, one for every "
        f"64 of {encoder.hidden_size}, as there is no {HPARAMS_FILE}"
    )


def _infer_sizes_of(model: PortableModel, name: str, owner: str) -> Any:
    """Infers an encoder's sizes from shapes; `owner` has its embeddings."""
    tables, blocks = f"{owner}/embeddings", f"{name}/encoder/layer_"
    sizes = {}
    for size, path, axis in (
        ("vocab_size", f"{tables}/word_embeddings", 0),
        ("embedding_size", f"{tables}/word_embeddings", 1),
        ("max_position_embeddings", f"{tables}/position_embeddings", 0),
        ("type_vocab_size", f"{tables}/token_type_embeddings", 0),
        ("hidden_size", f"{blocks}0/attention/output/dense/kernel", 1),
        ("intermediate_size", f"{blocks}0/intermediate/dense/kernel", 1),
    ):
        shape = model.tensors[path].shape if path in model.tensors else ()
        if len(shape) != 2:
            raise errors.ModelError(
                f"Expected in {model.origin} a matrix {path}, which tells the "
                f"model's sizes. Received: {shape or 'none of that name'}. Is "
                "this a complete checkpoint of ELECTRA?"
            )
        sizes[size] = shape[axis]
    layers = {p.split("/")[2] for p in model.tensors if p.startswith(blocks)}
    return EncoderConfig(
        **sizes,
        num_hidden_layers=len(layers),
        num_attention_heads=max(1, sizes["hidden_size"] // _HEAD_WIDTH),
    )


def write(model: PortableModel, folder: pathlib.Path) -> PortableModel:
    """Writes a checkpoint for the original; returns the written model."""
    model = portable.state_initializers(model, is_shared=True)
    why = "The original has encoders, heads of ELECTRA, and tasks."
    portable.require_parts(model, _WRITABLE, why)
    tensors, task = model.tensors, model.task
    if task is not None:
        unnamed = dataclasses.replace(task, labels=())
        if task.name not in _TASKS or unnamed != _build_task(task.name):
            raise errors.ModelError(
                "The original has one linear layer for each of its tasks "
                f"{', '.join(sorted(_TASKS))} (stsb: with values 0 to 5). "
                f"Received: {task}. Leave the head out: "
                f"{portable.without(portable.TASK_HEADS)}."
            )
        ours = {name: alias for alias, name in catalog.ALIASES.items()}
        scope = f"{portable.TASK_HEADS}/{ours.get(task.name, task.name)}"
        tensors = portable.replace_part(tensors, task.head, scope)
    _write_hparams(model, folder / HPARAMS_FILE)
    variables = parameter_names.ORIGINAL.split_all(tensors)
    names = sorted(variables)
    tf.raw_ops.SaveV2(
        prefix=str(folder / _CHECKPOINT),
        tensor_names=[*names, _STEP],
        shape_and_slices=[""] * (len(names) + 1),
        tensors=[*(variables[n] for n in names), np.int64(model.step)],
    )
    (folder / "checkpoint").write_text(
        f'model_checkpoint_path: "{_CHECKPOINT}"\n'
        f'all_model_checkpoint_paths: "{_CHECKPOINT}"\n',
        "utf-8",
    )
    if model.vocabulary is not None:
        model.vocabulary.save(folder)
    return model


def _write_hparams(model: PortableModel, path: pathlib.Path) -> None:
    sizes = dataclasses.asdict(model.encoder)
    length = min(_ROW_LENGTH, model.encoder.max_position_embeddings)
    # The original derives the other hyperparameters.
    hparams: dict[str, Any] = {
        "vocab_size": sizes.pop("vocab_size"),
        "embedding_size": sizes.pop("embedding_size"),
        "model_hparam_overrides": sizes,
        "max_seq_length": length,
    }
    if model.task is None:  # the original's fine-tuning refuses them
        is_energy = model.trained_by.answer is networks.Answer.ENERGY
        hparams["electric_objective"] = is_energy
        hparams["electra_objective"] = (
            portable.REPLACED_TOKEN_HEAD in model.parts and not is_energy
        )
    if model.generator is not None:
        generator = portable.generator_settings(model)
        names = ["untied_generator", "untied_generator_embeddings",
                 "two_tower_generator"]  # fmt: skip
        if generator.untied_generator:
            names += ["generator_hidden_size", "generator_layers"]
        hparams |= {name: getattr(generator, name) for name in names}
    portable.require_generator(
        model,
        original_hparams.from_original_hparams(hparams),
        "The original derives its generator's sizes: attention heads of 64 "
        "units, and feed-forward layers four times as wide as the others",
    )
    path.write_text(schema.to_json(hparams), "utf-8")
