"""Models of Hugging Face's transformers, read and written without it.

A pre-trained ELECTRA is two models there, an `ElectraForPreTraining` and an
`ElectraForMaskedLM` whose encoder has the embeddings once more. We write them
as `folder/discriminator` and `folder/generator`, and read that, or any one of
them, or a fine-tuned model.
"""

import dataclasses
import pathlib
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
import pydantic
import safetensors.numpy

from electra_tf import config
from electra_tf import errors
from electra_tf.config import schema
from electra_tf.formats import parameter_names
from electra_tf.formats import portable
from electra_tf.formats import tensor_files
from electra_tf.formats import tokenizer_files
from electra_tf.formats.portable import KINDS
from electra_tf.formats.portable import Arrays
from electra_tf.formats.portable import PortableModel
from electra_tf.formats.portable import PortableTask
from electra_tf.formats.portable import Tensors

CONFIG_FILE = "config.json"
CLASSES = {name: kind.hugging_face for name, kind in KINDS.items()}
"""Kind of task to the class there."""
PLAIN_QA_HEAD = (
    "--config.qa.joint_prediction=false --config.qa.answerable_classifier=false"
)
"""Flags of a head for questions that its class can hold."""
# Class to the part that it has beside its encoder.
_HEAD_PARTS = {
    "ElectraForPreTraining": portable.REPLACED_TOKEN_HEAD,
    "ElectraForMaskedLM": portable.MASKED_LM_HEAD,
}
_ENCODER = "ElectraModel"
_CLASSES = (*_HEAD_PARTS, _ENCODER, *dict.fromkeys(CLASSES.values()))
# What the layer `outputs` there holds side by side.
_ENDS = ("dense", "dense_1")
_SEGMENTS = f"{portable.MAIN}/embeddings/token_type_embeddings"
# Buffers of older releases, and the tied table that some files repeat.
_NO_WEIGHTS = r"electra\.embeddings\.(position_ids|token_type_ids)"
_TIED_OUTPUT = "generator_lm_head.weight"
_TABLE = "electra.embeddings.word_embeddings.weight"

_Epsilon = Annotated[float, pydantic.Field(ge=1e-12, le=1e-12)]
_Finite = Annotated[float, pydantic.Field(allow_inf_nan=False)]
_Labels = Annotated[Mapping[str, str], pydantic.Field(min_length=1)]
# Of a task, which becomes the name of a layer.
_NAME = re.compile(r"[A-Za-z0-9.][\w.-]*", re.ASCII)
_PROBLEMS = [kind.problem_type for kind in KINDS.values() if kind.problem_type]
_Problem = Annotated[str, schema.one_of(*_PROBLEMS)]


@schema.frozen
class _Config:
    """What a config must say; the last fields are ours alone."""

    model_type: Literal["electra"] = "electra"
    architectures: tuple[Annotated[str, schema.one_of(*_CLASSES)]] | None = None
    hidden_act: Literal["gelu"] = "gelu"
    layer_norm_eps: _Epsilon = 1e-12
    position_embedding_type: Literal["absolute"] = "absolute"
    is_decoder: Literal[False] = False
    add_cross_attention: Literal[False] = False
    finetuning_task: str | None = None
    id2label: _Labels | None = None
    problem_type: _Problem | None = None
    # Of the head of multiple choice.
    summary_type: Literal["first"] = "first"
    summary_use_proj: Literal[True] = True
    summary_activation: Literal["gelu"] = "gelu"
    electra_tf_kind: str = ""  # of what the fields above cannot tell
    label_threshold: Annotated[float, pydantic.Field(gt=0, lt=1)] = 0.5
    text_pairs: bool = False
    tag_scheme: str | None = None
    splits_punctuation: bool = False
    regression_value_range: tuple[_Finite, _Finite] = (0.0, 1.0)


def read(path: pathlib.Path) -> PortableModel:
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
    if architecture in CLASSES.values():
        task = _read_task(known, architecture, file)
        table = parameter_names.hugging_face(task.kind)
        expected |= head_shapes(task, encoder.hidden_size)
    elif architecture != _ENCODER:
        expected |= portable.part_shapes(_HEAD_PARTS[architecture], model)
    arrays, source = tensor_files.read(path)
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
    if task is not None:
        tensors, task = from_class(tensors, task)
        if task.kind == "tagging":
            notes.insert(0, "exchanged segments 0 and 1, words are in 1 here")
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
    known: _Config, architecture: str, file: pathlib.Path
) -> PortableTask:
    """Returns the task of one of `CLASSES` as the class has it."""
    name = known.finetuning_task or ""
    name = name if _NAME.fullmatch(name) else "own"
    # The library's default.
    named = known.id2label or {"0": "LABEL_0", "1": "LABEL_1"}
    kind = _find_kind(known, architecture, len(named))
    labels = tuple(named.get(str(number), "") for number in range(len(named)))
    if KINDS[kind].has_labels:
        _require_labels(labels, f"{file}: id2label")
    return PortableTask(
        name,
        kind,
        labels if KINDS[kind].has_labels else (),
        bool(KINDS[kind].hidden),
        known.regression_value_range,
        known.label_threshold,
        known.text_pairs,
        known.tag_scheme,
        known.splits_punctuation,
    )


def _find_kind(known: _Config, architecture: str, num_outputs: int) -> str:
    kinds = [name for name in KINDS if CLASSES[name] == architecture]
    if known.electra_tf_kind in kinds:
        return known.electra_tf_kind
    usual = "regression" if num_outputs == 1 else KINDS[kinds[0]].problem_type
    problem = known.problem_type or usual
    found = (n for n in kinds if KINDS[n].problem_type == problem)
    return next(found, kinds[0])


def _require_labels(labels: tuple[str, ...], source: str) -> None:
    for number, label in enumerate(labels):
        is_line = label.strip() and label.splitlines() == [label]
        if not is_line or label in labels[:number]:
            raise errors.ModelError(
                f"{source} must give every output a name of one line, and no "
                f"two the same. Received: {label!r:.80} for output {number}. "
                "Rename it."
            )


def head_shapes(task: PortableTask, hidden_size: int) -> portable.Shapes:
    """Returns the shapes of a head as the class there has it."""
    if task.kind == "qa":
        return portable.linear_shapes(f"{task.head}/outputs", hidden_size, 2)
    return portable.task_shapes(task, hidden_size, {})


def from_class(
    tensors: Tensors, task: PortableTask
) -> tuple[Arrays, PortableTask]:
    """Turns a head, among a model's tensors, into ours, as its task."""
    found, head = dict(tensors), task.head
    if task.kind == "tagging":
        return exchange_segments(found), task
    if task.kind == "qa":
        for variable in ("kernel", "bias"):
            both = found.pop(f"{head}/outputs/{variable}")
            for layer, part in zip(_ENDS, np.split(both, 2, -1), strict=True):
                found[f"{head}/{layer}/{variable}"] = part.copy()
        return found, task
    width, outputs = found[f"{head}/dense/kernel"].shape
    kernel = found[f"{head}/hidden/kernel"][:, :outputs].copy()
    twin = _gelu_twin(kernel, head) if 2 * outputs <= width else {}
    is_twin = bool(twin) and all(
        found[path].tobytes() == value.tobytes() for path, value in twin.items()
    )
    if is_twin:
        found = {p: v for p, v in found.items() if p not in twin}
        found[f"{head}/dense/kernel"] = kernel
    return found, dataclasses.replace(task, has_hidden_layer=not is_twin)


def to_class(tensors: Tensors, task: PortableTask) -> Tensors:
    """Turns our head, among a model's tensors, into what the class has."""
    if task.kind == "tagging":
        return exchange_segments(tensors)
    if task.kind == "qa":
        return _join_ends(tensors, task.head)
    if task.has_hidden_layer:
        return tensors
    kernel = tensors[f"{task.head}/dense/kernel"]
    width, outputs = kernel.shape
    if 2 * outputs > width:
        raise errors.ModelError(
            f"{CLASSES['classification']} can stand for a linear layer of up "
            f"to {width // 2} labels, half its width. Received: {outputs}. "
            f"Leave the head out with --drop={portable.TASK_HEADS}."
        )
    return {**tensors, **_gelu_twin(kernel, task.head)}


def exchange_segments(tensors: Tensors) -> Arrays:
    """Exchanges segments 0 and 1 of a tagger; twice changes nothing.

    The original puts the words into segment 1, transformers into segment 0.
    """
    table = tensors[_SEGMENTS]
    if len(table) < 2:
        raise errors.ModelError(
            f"Tagging needs type_vocab_size=2. Received: {len(table)}."
        )
    order = [1, 0, *range(2, len(table))]
    return {**tensors, _SEGMENTS: np.ascontiguousarray(table[order])}


def _join_ends(tensors: Tensors, head: str) -> Arrays:
    """Joins start and end, if they are predicted apart and nothing else is."""
    own = portable.take_part(tensors, head)
    joined = portable.drop_part(tensors, head)
    apart = {f"{head}/{end}/{v}" for end in _ENDS for v in ("kernel", "bias")}
    if own.keys() != apart:
        raise errors.ModelError(
            f"{CLASSES['qa']} predicts start and end apart, each by one linear "
            "layer. Received: a head that has others. Fine-tune with "
            f"{PLAIN_QA_HEAD}, or leave it out with "
            f"--drop={portable.TASK_HEADS}."
        )
    for variable in ("kernel", "bias"):
        joined[f"{head}/outputs/{variable}"] = np.concatenate(
            [own[f"{head}/{end}/{variable}"] for end in _ENDS], axis=-1
        )
    return joined


def _gelu_twin(kernel: np.ndarray, head: str) -> Arrays:
    """Returns the two layers that compute the one linear layer `W h + b`.

    Classification there is `out_proj(gelu(dense(h)))`, D wide inside. With C
    outputs and 2 C <= D, the rows of `dense` are W, -W and zeros, and
    `out_proj` is I, -I and zeros. Because gelu(x) - gelu(-x) =
    x Phi(x) + x Phi(-x) = x, the result is W h + b.
    """
    width, outputs = kernel.shape
    hidden = np.zeros((width, width), np.float32)
    hidden[:, :outputs], hidden[:, outputs : 2 * outputs] = kernel, -kernel
    output = np.zeros((width, outputs), np.float32)
    output[:outputs] = np.eye(outputs)
    output[outputs : 2 * outputs] = -np.eye(outputs)
    return {
        f"{head}/hidden/kernel": hidden,
        f"{head}/hidden/bias": np.zeros(width, np.float32),
        f"{head}/dense/kernel": output,
    }


def write(model: PortableModel, folder: pathlib.Path) -> PortableModel:
    """Writes what `from_pretrained` reads; returns the model as stated."""
    model = portable.state_initializers(model)
    known = {portable.MAIN, portable.GENERATOR, *_HEAD_PARTS.values()}
    if model.task is not None:
        known = {portable.MAIN, portable.TASK_HEADS}
    if model.objective == "electric":
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
        architecture = CLASSES[model.task.kind]
        tensors = to_class(tensors, model.task)
        table = parameter_names.hugging_face(model.task.kind)
        stated = task_fields(model.task, model.origin)
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


def task_fields(task: PortableTask, origin: str) -> dict[str, Any]:
    """Returns what a config must say of a task."""
    fields: dict[str, Any] = {"finetuning_task": task.name}
    if task.kind == "qa":
        return fields
    kind = KINDS[task.kind]
    labels = task.labels if kind.has_labels else ("LABEL_0",)
    if not labels:
        raise errors.ModelError(
            f"The labels of {task.name!r} must be known, in the order of the "
            f"outputs. Received: none in {origin}. Give them with "
            "--labels=NAME,NAME,..."
        )
    _require_labels(labels, f"{origin}: the task {task.name!r}")
    fields["id2label"] = dict(enumerate(labels))
    fields["label2id"] = {label: n for n, label in enumerate(labels)}
    if task.has_pairs:
        fields["text_pairs"] = True
    if kind.problem_type:
        fields["problem_type"] = kind.problem_type
    if task.kind == "regression":
        fields["regression_value_range"] = list(task.value_range)
    if task.kind == "multilabel":
        fields["label_threshold"] = task.threshold
    if task.kind == "tagging" and task.tag_scheme is not None:
        fields["tag_scheme"] = task.tag_scheme
        fields["splits_punctuation"] = task.splits_punctuation
    if task.kind == "ranking":
        fields["electra_tf_kind"] = task.kind
    return fields
