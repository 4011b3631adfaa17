"""The original's TF1 checkpoints as portable models, and back.

    model.ckpt.index, model.ckpt.data-*, checkpoint     the weights
    vocab.txt                                           as in the releases
    hparams.json                                        for `--hparams` there

The released checkpoints hold no sizes; they are read off the tensors. What no
tensor tells, the number of attention heads, follows the original's rule (one
for every 64) unless there is an `hparams.json`.
"""

import dataclasses
import pathlib
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf import errors
from electra_tf.config import original_hparams
from electra_tf.config import schema
from electra_tf.formats import layout
from electra_tf.formats import parameter_names
from electra_tf.formats import portable
from electra_tf.formats import tokenizer_files

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
_KINDS = {
    "regression": "stsb",
    "tagging": "chunking",
    "qa": "squad1 squad2 newsqa naturalqs triviaqa searchqa",
    "classification": "cola mrpc mnli sst2 rte qnli qqp",
}
_TASK_KINDS = {
    name: kind for kind, names in _KINDS.items() for name in names.split()
}
# Of STS-B.
_VALUE_RANGE = (0.0, 5.0)
# Rows in the original's default, where there are as many positions.
_ROW_LENGTH = 128
# The original's rule: heads are 64 wide.
_HEAD_WIDTH = 64


class OriginalCheckpoint(NamedTuple):
    """What a checkpoint of the original holds, by the original's names."""

    path: str  # the prefix that it was read from
    variables: parameter_names.Arrays  # float32
    # Adam's m and v; empty in released checkpoints.
    first_moments: parameter_names.Arrays
    second_moments: parameter_names.Arrays
    global_step: int | None  # number of updates made


def read_checkpoint(path: pathlib.Path) -> OriginalCheckpoint:
    """Reads all tensors of a checkpoint.

    Args:
        path: its prefix (`model.ckpt-1000`), or a folder with one checkpoint.
    """
    prefix = _find_prefix(path)
    try:
        reader = tf.train.load_checkpoint(prefix)
        names = reader.get_variable_to_shape_map()
        tensors = {name: reader.get_tensor(name) for name in sorted(names)}
    except (tf.errors.OpError, IndexError, RuntimeError, ValueError) as error:
        raise errors.ModelError(
            f"Expected a readable TensorFlow 1 checkpoint at {prefix}. "
            f"Received: {error}. Copy its .index and .data files again."
        ) from error
    step = _take_step(tensors, prefix)
    first = _take_suffix(tensors, "/adam_m")
    second = _take_suffix(tensors, "/adam_v")
    return OriginalCheckpoint(prefix, tensors, first, second, step)


def _find_prefix(path: pathlib.Path) -> str:
    if not path.is_dir():
        if path.with_name(path.name + ".index").is_file():
            return str(path)
        raise FileNotFoundError(
            f"Expected a checkpoint prefix or its folder. Received: {path}, "
            f"but there is no {path.name}.index."
        )
    found = sorted(path.glob("*.index"))
    if len(found) != 1:
        raise FileNotFoundError(
            f"Expected one checkpoint (*.index) in {path}. Received: "
            f"{[file.name for file in found]}. Name the prefix of one."
        )
    return str(found[0].with_suffix(""))


def _take_step(tensors: parameter_names.Arrays, prefix: str) -> int | None:
    """Moves the number of updates out of `tensors`, if they hold it."""
    if _STEP not in tensors:
        return None
    step = np.asarray(tensors.pop(_STEP))
    if step.dtype.kind not in "iu" or step.ndim or not 0 <= step < 2**63:
        raise errors.ModelError(
            f"`{_STEP}` of {prefix} must be one whole number of updates. "
            f"Received: {step.dtype} {step.shape} {step.flat[:1]!s:.40}. Copy "
            "the checkpoint's files again."
        )
    return int(step)


def _take_suffix(
    tensors: parameter_names.Arrays, suffix: str
) -> parameter_names.Arrays:
    """Moves the tensors of one optimizer slot out of `tensors`."""
    names = [name for name in tensors if name.endswith(suffix)]
    return {name.removesuffix(suffix): tensors.pop(name) for name in names}


def read(path: pathlib.Path) -> portable.PortableModel:
    """Reads a checkpoint of the original, pre-trained or fine-tuned.

    Optimizer slots are left out and counted in the notes.
    """
    checkpoint = read_checkpoint(path)
    origin = f"TF1 checkpoint {checkpoint.path}"
    folder = pathlib.Path(checkpoint.path).parent
    variables, task = _name_task(checkpoint.variables, origin)
    model = _read_sizes(variables, folder / HPARAMS_FILE, origin)
    model = dataclasses.replace(
        model, task=task, objective="" if task else model.objective
    )
    expected = layout.expected_shapes(model)
    if (folder / HPARAMS_FILE).is_file():
        origin += f", by its {HPARAMS_FILE},"
    tensors = parameter_names.take(
        variables, expected, parameter_names.ORIGINAL, origin
    )
    vocabulary = tokenizer_files.load_if_there(folder, model.encoder)
    notes = tokenizer_files.notes_of(vocabulary)
    num_slots = len(checkpoint.first_moments) + len(checkpoint.second_moments)
    if num_slots:
        notes += (f"left out {num_slots} optimizer slots",)
    return dataclasses.replace(
        model,
        tensors=tensors,
        vocabulary=vocabulary,
        step=checkpoint.global_step or 0,
    ).with_notes(*notes)


def _name_task(
    variables: parameter_names.Arrays, origin: str
) -> tuple[parameter_names.Arrays, portable.PortableTask | None]:
    """Returns the variables, the head under our name of its task, and that."""
    head = portable.take_part(variables, portable.TASK_HEADS)
    scopes = sorted({name.split("/")[1] for name in head})
    if not scopes:
        return variables, None
    if len(scopes) > 1:
        raise errors.ModelError(
            f"{origin} was trained on {len(scopes)} tasks: "
            f"{', '.join(scopes)}. Models of one task can be converted; "
            "fine-tune on one of them."
        )
    name = parameter_names.TASK_ALIASES.get(scopes[0], scopes[0])
    if name not in _TASK_KINDS:
        raise errors.ModelError(
            f"{origin} holds the head of a task {scopes[0]!r}, which the "
            f"original does not have. Known: {', '.join(sorted(_TASK_KINDS))}."
        )
    task = _known_task(name)
    scope = f"{portable.TASK_HEADS}/{scopes[0]}"
    others = {n: v for n, v in variables.items() if n not in head}
    return others | portable.rename_part(head, scope, task.head), task


def _known_task(name: str) -> portable.PortableTask:
    kind = _TASK_KINDS[name]
    if kind == "regression":
        return portable.PortableTask(name, kind, value_range=_VALUE_RANGE)
    return portable.PortableTask(name, kind)


def _read_sizes(
    variables: parameter_names.Arrays, hparams_file: pathlib.Path, origin: str
) -> portable.PortableModel:
    """Returns a model of these tensors: sizes, tying and objective."""
    model = portable.PortableModel(
        variables, config.EncoderConfig(), origin=origin
    )
    encoders = [
        part
        for part in (portable.GENERATOR, *portable.TOWER_PARTS)
        if part in model.parts
    ]
    heads = {portable.REPLACED_TOKEN_HEAD, portable.MASKED_LM_HEAD}
    has_generator = bool(encoders) or heads <= set(model.parts)
    if hparams_file.is_file():
        return _read_hparams(hparams_file, model, has_generator)
    encoder = _infer_sizes(variables, portable.MAIN, portable.MAIN, origin)
    generator, tying = encoder if has_generator else None, "embeddings"
    if encoders:
        is_own = f"{encoders[0]}/embeddings/word_embeddings" in variables
        tying = "none" if is_own else "embeddings"
        owner = encoders[0] if is_own else portable.MAIN
        generator = _infer_sizes(variables, encoders[0], owner, origin)
    elif has_generator:
        tying = "all"
    return dataclasses.replace(
        model, encoder=encoder, generator=generator, tying=tying
    ).with_notes(
        f"took {encoder.num_attention_heads} attention heads, one for every "
        f"64 of {encoder.hidden_size}, for want of {HPARAMS_FILE}"
    )


def _read_hparams(
    path: pathlib.Path, model: portable.PortableModel, has_generator: bool
) -> portable.PortableModel:
    hparams = schema.read_object(path, errors.ModelError)
    try:
        settings = original_hparams.from_original_hparams(hparams)
        generator = settings.generator.encoder_config(settings.encoder)
    except errors.ConfigError as error:
        raise errors.ModelError(f"{path}: {error}") from error
    model = dataclasses.replace(
        model, encoder=settings.encoder, objective=settings.objective.name
    )
    if not has_generator:
        return model
    return dataclasses.replace(
        model, generator=generator, tying=settings.generator.weight_tying
    )


def _infer_sizes(
    variables: parameter_names.Arrays, name: str, owner: str, origin: str
) -> config.EncoderConfig:
    """Reads sizes off the tensors; `owner` is whose embeddings it has."""
    tables, blocks = f"{owner}/embeddings", f"{name}/encoder/layer_"
    places = {
        "vocab_size": (f"{tables}/word_embeddings", 0),
        "embedding_size": (f"{tables}/word_embeddings", 1),
        "max_position_embeddings": (f"{tables}/position_embeddings", 0),
        "type_vocab_size": (f"{tables}/token_type_embeddings", 0),
        "hidden_size": (f"{blocks}0/attention/output/dense/kernel", 1),
        "intermediate_size": (f"{blocks}0/intermediate/dense/kernel", 1),
    }
    for path, _ in places.values():
        shape = variables[path].shape if path in variables else None
        if shape is None or len(shape) != 2:
            raise errors.ModelError(
                f"Expected in {origin} a matrix {path}, to read the model's "
                f"sizes off. Received: {shape or 'none of that name'}. Is this "
                "a checkpoint of ELECTRA, and whole?"
            )
    sizes = {
        size: variables[path].shape[axis]
        for size, (path, axis) in places.items()
    }
    layers = {p.split("/")[2] for p in variables if p.startswith(blocks)}
    heads = max(1, sizes["hidden_size"] // _HEAD_WIDTH)
    return config.EncoderConfig(
        **sizes, num_hidden_layers=len(layers), num_attention_heads=heads
    )


def write(
    model: portable.PortableModel, folder: pathlib.Path
) -> portable.PortableModel:
    """Writes a checkpoint that the original restores from."""
    unknown = [part for part in model.parts if part not in _WRITABLE]
    if unknown:
        raise errors.ModelError(
            "The original has no such parts: "
            f"{', '.join(unknown)} of {model.origin}. Leave them out with "
            f"--drop={unknown[0]}."
        )
    tensors = _original_task_names(model.tensors, model.task)
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


def _original_task_names(
    tensors: portable.Tensors, task: portable.PortableTask | None
) -> portable.Tensors:
    if task is None:
        return tensors
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
    scope = f"{portable.TASK_HEADS}/{ours.get(task.name, task.name)}"
    head = portable.take_part(tensors, task.head)
    others = {path: v for path, v in tensors.items() if path not in head}
    return others | portable.rename_part(head, task.head, scope)


def _write_hparams(model: portable.PortableModel, path: pathlib.Path) -> None:
    """Writes hyperparameters with which the original builds this model."""
    sizes = dataclasses.asdict(model.encoder)
    sizes["initializer_range"] = model.encoder.initializer_stddev
    # The original fills these in from the rest.
    hparams: dict[str, Any] = {
        name: sizes.pop(name) for name in ("vocab_size", "embedding_size")
    }
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
        generator = layout.generator_settings(model)
        names = ["untied_generator", "untied_generator_embeddings",
                 "two_tower_generator"]  # fmt: skip
        if generator.untied_generator:
            names += ["generator_hidden_size", "generator_layers"]
        hparams |= {name: getattr(generator, name) for name in names}
    layout.require_generator(
        model,
        original_hparams.from_original_hparams(hparams),
        "The original derives its generator's sizes: heads 64 wide, inner "
        "layers four times as wide as the others",
    )
    path.write_text(schema.to_json(hparams), "utf-8")
