"""Models of Hugging Face's transformers, read and written without it.

A pre-trained ELECTRA is two models there, an `ElectraForPreTraining` and an
`ElectraForMaskedLM` whose encoder has the embeddings once more. We write them
as `folder/discriminator` and `folder/generator`, and read that, or any one of
them, or a fine-tuned model.
"""

import dataclasses
import pathlib
import re
import sys
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
import pydantic
import safetensors.numpy

from electra_tf import config
from electra_tf import errors
from electra_tf.config import schema
from electra_tf.config.finetuning import TASK_KINDS
from electra_tf.formats import hugging_face_heads
from electra_tf.formats import parameter_names
from electra_tf.formats import portable
from electra_tf.formats import tensor_files
from electra_tf.formats import tokenizer_files
from electra_tf.formats.portable import Arrays
from electra_tf.formats.portable import PortableModel
from electra_tf.formats.portable import PortableTask
from electra_tf.modeling import answers
from electra_tf.tasks import base
from electra_tf.tasks import kinds

CONFIG_FILE = "config.json"
# Class to the part that it has beside its encoder.
_HEAD_PARTS = {
    "ElectraForPreTraining": portable.REPLACED_TOKEN_HEAD,
    "ElectraForMaskedLM": portable.MASKED_LM_HEAD,
}
_ENCODER = "ElectraModel"
_CLASSES = (*_HEAD_PARTS, _ENCODER, *hugging_face_heads.CLASSES)
# Buffers of older releases, and the tied table that some files repeat.
_NO_WEIGHTS = r"electra\.embeddings\.(position_ids|token_type_ids)"
_TIED_OUTPUT = "generator_lm_head.weight"
_TABLE = "electra.embeddings.word_embeddings.weight"

_Epsilon = Annotated[float, pydantic.Field(ge=1e-12, le=1e-12)]
_Labels = Annotated[Mapping[str, str], pydantic.Field(min_length=1)]
# Of a task, which becomes the name of a layer.
_NAME = re.compile(r"[A-Za-z0-9.][\w.-]*", re.ASCII)
_REGRESSION = "regression"
_PROBLEMS = (
    *("single_label_classification", "multi_label_classification"),
    _REGRESSION,
)


@schema.frozen
class _Config:
    """Fields of a config that are read, beside a kind's `options_class`."""

    model_type: Literal["electra"] = "electra"
    architectures: tuple[Annotated[str, schema.one_of(*_CLASSES)]] | None = None
    hidden_act: Literal["gelu"] = "gelu"
    layer_norm_eps: _Epsilon = 1e-12
    position_embedding_type: Literal["absolute"] = "absolute"
    is_decoder: Literal[False] = False
    add_cross_attention: Literal[False] = False
    finetuning_task: str | None = None
    id2label: _Labels | None = None
    problem_type: Annotated[str, schema.one_of(*_PROBLEMS)] | None = None
    # Of the head of multiple choice.
    summary_type: Literal["first"] = "first"
    summary_use_proj: Literal[True] = True
    summary_activation: Literal["gelu"] = "gelu"
    # Ours alone.
    electra_tf_kind: str = ""  # where the fields above do not tell the kind
    text_pairs: bool = False


def read_model(path: pathlib.Path) -> PortableModel:
    """Reads a folder with a model, or with both of a pre-trained ELECTRA."""
    main, generator = path / "discriminator", path / "generator"
    if (path / CONFIG_FILE).exists() or not main.exists():
        return _read_one(path)
    model = _read_one(main)
    if generator.exists():
        model = portable.join(model, _read_one(generator))
    return model


def _read_one(path: pathlib.Path) -> PortableModel:
    """Reads one folder; a masked LM's encoder is its main one."""
    file = path / CONFIG_FILE
    stated = schema.read_object(file, errors.ModelError)
    known = portable.build_known(_Config, stated, file)
    architecture = known.architectures[0] if known.architectures else _ENCODER
    # What a config leaves out is the same there as in ours.
    encoder = portable.build_known(config.EncoderConfig, stated, file)
    model = PortableModel({}, encoder)
    expected = portable.part_shapes(portable.MAIN, model)
    task, table = None, parameter_names.HUGGING_FACE
    head = hugging_face_heads.CLASSES.get(architecture)
    if head is not None:
        task = _read_task(known, head, stated, file)
        table = parameter_names.hugging_face(
            head.output_layer, head.hidden_layer
        )
        expected |= head.shapes(task, encoder.hidden_size)
    elif architecture != _ENCODER:
        expected |= portable.part_shapes(_HEAD_PARTS[architecture], model)
    arrays, source = tensor_files.read_tensors(path)
    notes = parameter_names.precision_notes(
        str(value.dtype) for value in arrays.values()
    )
    if _take_tied_output(arrays, source):
        notes.insert(0, f"{_TIED_OUTPUT} is the token table, kept once")
    has_prefix = any(name.startswith("electra.") for name in arrays)
    if architecture == _ENCODER and not has_prefix:
        arrays = {f"electra.{name}": arrays[name] for name in arrays}
    tensors = parameter_names.take(
        arrays, expected, table, f"{source}, by its {CONFIG_FILE},", _NO_WEIGHTS
    )
    if task is not None and head is not None:
        tensors, task = head.read_head(tensors, task)
        notes = [head.note] * bool(head.note) + notes
    vocabulary = tokenizer_files.load_if_there(path, encoder)
    return PortableModel(
        tensors,
        encoder,
        vocabulary=vocabulary,
        task=task,
        origin=f"Hugging Face {architecture} {path}",
        notes=(*notes, *tokenizer_files.notes_of(vocabulary)),
    )


def _take_tied_output(arrays: Arrays, source: pathlib.Path) -> bool:
    """Removes the token table where a file repeats it as output matrix."""
    repeated = arrays.pop(_TIED_OUTPUT, None)
    if repeated is None:
        return False
    if not np.array_equal(repeated, arrays.get(_TABLE, ())):
        raise errors.ModelError(
            f"{source}: {_TIED_OUTPUT} must be the table of word embeddings, "
            "which the output is tied to. Received: another matrix."
        )
    return True


def _read_task(
    known: _Config,
    head: hugging_face_heads.HeadClass,
    stated: Mapping[str, Any],
    file: pathlib.Path,
) -> PortableTask:
    """Returns the task of a class as the class has it."""
    name = known.finetuning_task or ""
    name = name if _NAME.fullmatch(name) else "own"
    # The library's default.
    named = known.id2label or {"0": "LABEL_0", "1": "LABEL_1"}
    kind = _find_kind(known, head.name, len(named), file)
    labels = tuple(named.get(str(number), "") for number in range(len(named)))
    if kind.outputs_are_labels:
        _require_labels(labels, f"{file}: id2label")
    return PortableTask(
        name,
        kind.kind,
        labels if kind.outputs_are_labels else (),
        has_hidden_layer=bool(head.hidden_layer),
        has_pairs=known.text_pairs,
        options=portable.build_known(kind.options_class, stated, file),
    )


def _find_kind(
    known: _Config, class_name: str, num_outputs: int, file: object
) -> type[base.Task]:
    """Finds the kind that a config names, or else that its fields tell."""
    stated = known.electra_tf_kind
    if stated:
        # A file from elsewhere must not choose which code is imported.
        is_here = stated in TASK_KINDS or stated in sys.modules
        kind = kinds.find_kind(stated) if is_here else None
        if kind is None or kind.hugging_face != class_name:
            raise errors.ModelError(
                f"{file}: `electra_tf_kind` must be a kind of task that is a "
                f"{class_name}. Received: {stated!r}. If a module of yours "
                "defines it, import that first."
            )
        return kind
    candidates = [kinds.find_kind(name) for name in TASK_KINDS]
    candidates = [
        kind for kind in candidates if kind.hugging_face == class_name
    ]
    usual = _REGRESSION if num_outputs == 1 else candidates[0].problem_type
    problem = known.problem_type or usual
    alike = (kind for kind in candidates if kind.problem_type == problem)
    return next(alike, candidates[0])


def _require_labels(labels: tuple[str, ...], source: str) -> None:
    for number, label in enumerate(labels):
        is_line = label.strip() and label.splitlines() == [label]
        if not is_line or label in labels[:number]:
            raise errors.ModelError(
                f"{source} must give every output a name of one line, and no "
                f"two the same. Received: {label!r:.80} for output {number}. "
                "Rename it."
            )


def write(model: PortableModel, folder: pathlib.Path) -> PortableModel:
    """Writes what `from_pretrained` reads; returns the model as stated."""
    model = portable.state_initializers(model)
    known = {portable.MAIN, portable.GENERATOR, *_HEAD_PARTS.values()}
    if model.task is not None:
        known = {portable.MAIN, portable.TASK_HEADS}
    if model.trained_by.answer is answers.Answer.ENERGY:
        known -= {portable.REPLACED_TOKEN_HEAD}
    portable.require_parts(
        model,
        known,
        "Hugging Face has a class for an encoder that sees both sides with a "
        "head for replaced or for masked tokens; Electric's are energies.",
    )
    for name, part in portable.split(model).items():
        target = folder / name
        target.mkdir(exist_ok=True)
        _write_one(part, target)
    return model


def _write_one(model: PortableModel, folder: pathlib.Path) -> None:
    architecture, tensors = _ENCODER, model.tensors
    table, stated = parameter_names.HUGGING_FACE, {}
    if model.task is not None:
        head = hugging_face_heads.class_of(model.task)
        architecture = head.name
        tensors = head.write_head(tensors, model.task)
        table = parameter_names.hugging_face(
            head.output_layer, head.hidden_layer
        )
        stated = _task_fields(model.task, head, model.origin)
    for name, part in _HEAD_PARTS.items():
        architecture = name if part in model.parts else architecture
    arrays = table.split_all(tensors)
    if architecture == _ENCODER:
        arrays = {n.removeprefix("electra."): arrays[n] for n in arrays}
    # transformers refuses files that do not name their framework. The library
    # that saves them itself would let only the owner read them.
    content = safetensors.numpy.save(arrays, {"format": "pt"})
    (folder / tensor_files.SAFETENSORS_FILE).write_bytes(content)
    fields = {
        "architectures": [architecture],
        "model_type": "electra",
        **dataclasses.asdict(model.encoder),
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "pad_token_id": model.vocabulary.pad_id if model.vocabulary else 0,
        "tie_word_embeddings": True,
        "dtype": "float32",
    }
    (folder / CONFIG_FILE).write_text(schema.to_json(fields | stated), "utf-8")
    if model.vocabulary is not None:
        tokenizer_files.write_hugging_face(
            model.vocabulary, folder, model.encoder.max_position_embeddings
        )


def _task_fields(
    task: PortableTask, head: hugging_face_heads.HeadClass, origin: str
) -> dict[str, Any]:
    """Returns what a config must say of a task."""
    fields: dict[str, Any] = {"finetuning_task": task.name}
    kind = kinds.find_kind(task.kind)
    if head.names_outputs:
        labels = task.labels if kind.outputs_are_labels else ("LABEL_0",)
        if not labels:
            raise errors.ModelError(
                f"The labels of {task.name!r} must be known, in the order of "
                f"the outputs. Received: none in {origin}. Give them with "
                "--labels=NAME,NAME,..."
            )
        _require_labels(labels, f"{origin}: the task {task.name!r}")
        fields["id2label"] = dict(enumerate(labels))
        fields["label2id"] = {label: n for n, label in enumerate(labels)}
    if task.has_pairs:
        fields["text_pairs"] = True
    if kind.problem_type:
        fields["problem_type"] = kind.problem_type
    options = dataclasses.asdict(task.options)
    fields |= {k: v for k, v in options.items() if v is not None}
    told = _Config(problem_type=kind.problem_type)
    num_outputs = len(fields.get("id2label", ()))
    if _find_kind(told, head.name, num_outputs, CONFIG_FILE) is not kind:
        fields["electra_tf_kind"] = task.kind
    return fields
