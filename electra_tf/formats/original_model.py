"""The original's TF1 checkpoints as portable models, and back.

    model.ckpt.index, model.ckpt.data-*, checkpoint     the weights
    vocab.txt                                           as in the releases
    hparams.json                                        for `--hparams` there

The released checkpoints hold no sizes; they are read off the tensors. What no
tensor tells, the number of attention heads, follows the original's rule (one
for every 64) unless there is an `hparams.json`.
"""

import dataclasses
import json
import pathlib
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf import errors
from electra_tf.config import original_hparams
from electra_tf.config import schema
from electra_tf.formats import foreign
from electra_tf.formats import layout
from electra_tf.formats import parameter_names
from electra_tf.formats import portable
from electra_tf.formats import tf1
from electra_tf.formats import tokenizer_files

HPARAMS_FILE = "hparams.json"
_CHECKPOINT = "model.ckpt"
_WRITABLE = (
    portable.MAIN,
    portable.GENERATOR,
    *layout.TOWER_PARTS,
    portable.REPLACED_TOKEN_HEAD,
    portable.MASKED_LM_HEAD,
    "cloze_predictions",
    portable.TASK_HEADS,
)
_TASK_KINDS = {
    "stsb": "regression",
    "chunking": "tagging",
    **dict.fromkeys(
        ("squad1", "squad2", "newsqa", "naturalqs", "triviaqa", "searchqa"),
        "qa",
    ),
    **dict.fromkeys(
        ("cola", "mrpc", "mnli", "sst2", "rte", "qnli", "qqp"),
        "classification",
    ),
}
# Of STS-B.
_VALUE_RANGE = (0.0, 5.0)
# Rows in the original's default, where there are as many positions.
_ROW_LENGTH = 128
# Filled in by the original from the rest.
_RESOLVED = ("vocab_size", "embedding_size")
# What a config may say otherwise than tensors: they do not tell it.
_UNTOLD = ("num_attention_heads", "hidden_dropout_prob",
           "attention_probs_dropout_prob", "initializer_range")  # fmt: skip


def read(path: pathlib.Path) -> portable.PortableModel:
    """A checkpoint of the original, pre-trained or fine-tuned.

    Optimizer slots are left out and counted in the notes.

    Args:
        path: its prefix (`model.ckpt-1000`), or a folder with one checkpoint.

    Raises:
        FileNotFoundError: if there is none, or a folder has several.
        ModelError: if it is damaged, partial, or has tensors without a place.
    """
    checkpoint = tf1.read_checkpoint(path)
    folder = pathlib.Path(checkpoint.path).parent
    tensors = foreign.ForeignTensors(
        checkpoint.variables,
        parameter_names.ORIGINAL_RULES,
        f"TF1 checkpoint {checkpoint.path}",
    )
    model = _read_sizes(tensors, folder / HPARAMS_FILE)
    expected: layout.Shapes = {}
    for part in _parts(checkpoint.variables):
        shapes = layout.part_shapes(
            part, model.encoder, model.generator, model.tying
        )
        if part == portable.TASK_HEADS:
            # Of a task that the file does not describe; `check` looks at them.
            shapes = _shapes_there(checkpoint.variables)
        expected |= shapes or {}
    taken = tensors.take(expected)
    taken, task = _name_task(taken, tensors.origin)
    model = dataclasses.replace(
        model,
        tensors=taken,
        task=task,
        vocabulary=tokenizer_files.load_if_there(folder, model.encoder),
        step=checkpoint.global_step or 0,
    )
    layout.check(model)
    model = model.with_notes(*tokenizer_files.notes_of(model.vocabulary))
    num_slots = len(checkpoint.first_moments) + len(checkpoint.second_moments)
    if num_slots:
        model = model.with_notes(f"left out {num_slots} optimizer slots")
    return model


def _parts(variables: portable.Tensors) -> list[str]:
    return sorted({name.split("/")[0] for name in variables})


def _shapes_there(variables: portable.Tensors) -> layout.Shapes:
    return {
        name: value.shape
        for name, value in variables.items()
        if name.startswith(f"{portable.TASK_HEADS}/")
    }


def _read_sizes(
    tensors: foreign.ForeignTensors, hparams_file: pathlib.Path
) -> portable.PortableModel:
    """A model without tensors: sizes and tying."""
    parts = _parts(tensors.tensors)
    encoder = layout.infer_sizes(
        portable.MAIN, tensors.shape_of, origin=tensors.origin
    )
    generator, tying = None, "embeddings"
    proposing = [
        p for p in (portable.GENERATOR, *layout.TOWER_PARTS) if p in parts
    ]
    if proposing:
        name = proposing[0]
        is_own = tensors.has_part(f"{name}/embeddings/word_embeddings")
        tying = "none" if is_own else "embeddings"
        generator = layout.infer_sizes(
            name,
            tensors.shape_of,
            "" if is_own else portable.MAIN,
            origin=tensors.origin,
        )
    elif {portable.REPLACED_TOKEN_HEAD, portable.MASKED_LM_HEAD} <= set(parts):
        generator, tying = encoder, "all"
    model = portable.PortableModel(
        {}, encoder, generator, tying, origin=tensors.origin
    )
    if hparams_file.is_file():
        is_finetuned = portable.TASK_HEADS in parts
        return _read_hparams(hparams_file, model, is_finetuned)
    return model.with_notes(
        f"took {encoder.num_attention_heads} attention heads, one for every "
        f"64 of {encoder.hidden_size}, for want of {HPARAMS_FILE}"
    )


def _read_hparams(
    path: pathlib.Path, model: portable.PortableModel, is_finetuned: bool
) -> portable.PortableModel:
    """The model as its hyperparameters say, which must fit the tensors."""
    hparams = schema.read_object(path, errors.ModelError)
    try:
        settings = original_hparams.from_original_hparams(hparams)
    except errors.ConfigError as error:
        raise errors.ModelError(f"{path}: {error}") from error
    layout.require_sizes(model.encoder, _told(settings.encoder), str(path))
    generator = model.generator
    if generator is not None:
        tying = settings.generator.weight_tying
        if tying != model.tying:
            raise errors.ModelError(
                f"{path} does not describe the tensors beside it: generator "
                f"and main encoder share {tying!r} there, {model.tying!r} by "
                "the tensors. Are both of the same model?"
            )
        stated = settings.generator.encoder_config(settings.encoder)
        layout.require_sizes(generator, _told(stated), f"{path}, generator")
        generator = stated
    return dataclasses.replace(
        model,
        encoder=settings.encoder,
        generator=generator,
        objective="" if is_finetuned else settings.objective.name,
    )


def _told(sizes: config.EncoderConfig) -> dict[str, Any]:
    """The sizes that tensors tell."""
    fields = dataclasses.asdict(sizes)
    return {name: fields[name] for name in fields if name not in _UNTOLD}


def _name_task(
    tensors: dict[str, np.ndarray], origin: str
) -> tuple[dict[str, np.ndarray], portable.PortableTask | None]:
    """The head under our name of its task, and what is known of it."""
    scopes = {
        path.split("/")[1]
        for path in tensors
        if path.startswith(f"{portable.TASK_HEADS}/")
    }
    if not scopes:
        return tensors, None
    if len(scopes) > 1:
        raise errors.ModelError(
            f"{origin} was trained on {len(scopes)} tasks: "
            f"{', '.join(sorted(scopes)):.400}. Models of one task can be "
            "converted; fine-tune on one of them."
        )
    (scope,) = scopes
    name = parameter_names.TASK_ALIASES.get(scope, scope)
    if name not in _TASK_KINDS:
        raise errors.ModelError(
            f"{origin} holds the head of a task {scope!r:.80}, which the "
            f"original does not have. Known: {', '.join(sorted(_TASK_KINDS))}."
        )
    head = f"{portable.TASK_HEADS}/"
    others = {p: v for p, v in tensors.items() if not p.startswith(head)}
    renamed = portable.rename_part(tensors, head + scope, head + name)
    return others | renamed, _known_task(name)


def _known_task(name: str) -> portable.PortableTask:
    task = portable.PortableTask(name, _TASK_KINDS[name])
    if task.kind == "regression":
        task = dataclasses.replace(task, value_range=_VALUE_RANGE)
    return task


def write(
    model: portable.PortableModel, folder: pathlib.Path
) -> portable.PortableModel:
    """Writes a checkpoint that the original restores from.

    Args:
        model: pre-trained or fine-tuned.
        folder: exists and is empty.

    Returns:
        The same model.

    Raises:
        ModelError: for parts or sizes that the original cannot have.
    """
    tensors = dict(model.tensors)
    unknown = [part for part in model.parts if part not in _WRITABLE]
    if unknown:
        raise errors.ModelError(
            "The original has no such parts: "
            f"{', '.join(unknown)} of {model.origin}. Leave them out with "
            f"--drop={unknown[0]}."
        )
    if model.task is not None:
        tensors = _original_task_names(tensors, model.task)
    _write_hparams(model, folder / HPARAMS_FILE)
    variables = parameter_names.split_all(
        tensors, parameter_names.ORIGINAL_RULES
    )
    names = sorted(variables)
    tf.raw_ops.SaveV2(
        prefix=str(folder / _CHECKPOINT),
        tensor_names=[*names, tf1.STEP_NAME],
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


def _original_task_names(
    tensors: dict[str, np.ndarray], task: portable.PortableTask
) -> dict[str, np.ndarray]:
    if task.name not in _TASK_KINDS or (
        dataclasses.replace(task, labels=()) != _known_task(task.name)
    ):
        raise errors.ModelError(
            "The original has one linear layer for each of its tasks "
            f"{', '.join(sorted(_TASK_KINDS))} (stsb: of values {_VALUE_RANGE}"
            f"). Received: {task}. Leave the head out with "
            f"--drop={portable.TASK_HEADS}."
        )
    ours = {name: alias for alias, name in parameter_names.TASK_ALIASES.items()}
    head = f"{portable.TASK_HEADS}/"
    others = {p: v for p, v in tensors.items() if not p.startswith(head)}
    return others | portable.rename_part(
        tensors, head + task.name, head + ours.get(task.name, task.name)
    )


def _write_hparams(model: portable.PortableModel, path: pathlib.Path) -> None:
    """Hyperparameters with which the original builds this model."""
    sizes = dataclasses.asdict(model.encoder)
    sizes["initializer_range"] = model.encoder.initializer_stddev
    hparams: dict[str, Any] = {name: sizes.pop(name) for name in _RESOLVED}
    hparams["model_hparam_overrides"] = sizes
    hparams["max_seq_length"] = min(
        _ROW_LENGTH, model.encoder.max_position_embeddings
    )
    if model.task is None:
        # Fine-tuning there does not know these.
        is_energy = model.objective == "electric"
        hparams["electric_objective"] = is_energy
        hparams["electra_objective"] = (
            portable.REPLACED_TOKEN_HEAD in model.parts and not is_energy
        )
    if model.generator is not None:
        hparams |= {
            "untied_generator": model.tying != "all",
            "untied_generator_embeddings": model.tying == "none",
            "two_tower_generator": layout.TOWER_PARTS[0] in model.parts,
        }
    if model.generator is not None and model.tying != "all":
        width, depth = layout.generator_fractions(
            model.encoder, model.generator
        )
        hparams |= {"generator_hidden_size": width, "generator_layers": depth}
    text = json.dumps(hparams, indent=2) + "\n"
    path.write_text(text, "utf-8")
    derived = original_hparams.from_original_hparams(hparams)
    if model.generator is not None:
        layout.require_sizes(
            derived.generator.encoder_config(derived.encoder),
            dataclasses.asdict(model.generator),
            f"{model.origin}: the original derives its generator's sizes "
            "(heads 64 wide, inner layers four times as wide), which",
        )
