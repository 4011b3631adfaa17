"""Reads and writes models of Hugging Face's transformers, without that library.

There, a pre-trained ELECTRA is two models, in `folder/discriminator` and
`folder/generator`; both have the embeddings. A single one is read too.
"""

import dataclasses
import itertools
import pathlib
import re
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import numpy as np
import pydantic
import safetensors.numpy

from electra_tf import config
from electra_tf import errors
from electra_tf.config import schema
from electra_tf.config.finetuning import TASK_KINDS
from electra_tf.formats import pairs
from electra_tf.formats import parameter_names
from electra_tf.formats import portable
from electra_tf.formats import tensor_files
from electra_tf.formats import tokenizer_files
from electra_tf.formats.portable import Arrays
from electra_tf.formats.portable import PortableModel
from electra_tf.formats.portable import PortableTask
from electra_tf.formats.portable import Tensors
from electra_tf.modeling import networks
from electra_tf.tasks import base
from electra_tf.tasks.question_answering import answering_task

CONFIG_FILE = "config.json"
_ENCODER = "ElectraModel"
# Buffers in files of older releases, which are not read.
_NO_WEIGHTS = r"electra\.embeddings\.(position_ids|token_type_ids)"
# Some files repeat the table of word embeddings as the tied output.
_TIED_OUTPUT = "generator_lm_head.weight"
_TABLE = "electra.embeddings.word_embeddings.weight"
_SEGMENTS = f"{portable.MAIN}/embeddings/token_type_embeddings"
# Our two layers, which their layer `qa_outputs` concatenates.
_ENDS = ("dense", "dense_1")


def _read_sentence_head(tensors: Tensors, head: str) -> Arrays:
    """Restores a single layer that `_write_sentence_head` wrote as two."""
    width, outputs = tensors[f"{head}/dense/kernel"].shape
    kernel = tensors[f"{head}/hidden/kernel"][:, :outputs].copy()
    twin = _gelu_twin(kernel, head) if 2 * outputs <= width else {}
    if not twin or any(tensors[p].tobytes() != twin[p].tobytes() for p in twin):
        return dict(tensors)
    arrays = {p: v for p, v in tensors.items() if p not in twin}
    return arrays | {f"{head}/dense/kernel": kernel}


def _write_sentence_head(tensors: Tensors, head: str) -> Tensors:
    """Replaces a head's single layer by the two of `_gelu_twin`."""
    if f"{head}/hidden/kernel" in tensors:
        return tensors
    kernel = tensors[f"{head}/dense/kernel"]
    width, outputs = kernel.shape
    if 2 * outputs > width:
        raise errors.ModelError(
            "A class of Hugging Face can represent a linear layer of up to "
            f"{width // 2} labels, half its width. Received: {outputs}. "
            f"Leave the head out: {portable.without(portable.TASK_HEADS)}."
        )
    return {**tensors, **_gelu_twin(kernel, head)}


def _gelu_twin(kernel: np.ndarray, head: str) -> Arrays:
    """Returns two layers that together compute one linear layer `W h + b`.

    transformers classifies by `out_proj(gelu(dense(h)))`, with D units in
    `dense`. With C outputs and 2 C <= D, the rows of `dense` are W, -W and
    zeros, `out_proj` is I, -I and zeros, and
    gelu(x) - gelu(-x) = x Phi(x) + x Phi(-x) = x.
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


def exchange_segments(tensors: Tensors) -> Arrays:
    """Exchanges the embeddings of segments 0 and 1 of a tagger.

    The words are in segment 1 in the original, in segment 0 in transformers.
    """
    table = tensors[_SEGMENTS]
    if len(table) < 2:
        raise errors.ModelError(
            f"Tagging needs type_vocab_size=2. Received: {len(table)}."
        )
    order = [1, 0, *range(2, len(table))]
    return {**tensors, _SEGMENTS: np.ascontiguousarray(table[order])}


def _read_span_head(tensors: Tensors, head: str) -> Arrays:
    arrays = dict(tensors)
    for variable in ("kernel", "bias"):
        both = arrays.pop(f"{head}/outputs/{variable}")
        for layer, part in zip(_ENDS, np.split(both, 2, -1), strict=True):
            arrays[f"{head}/{layer}/{variable}"] = part.copy()
    return arrays


def _write_span_head(tensors: Tensors, head: str) -> Arrays:
    """Concatenates the start and end layers, if the head has no others."""
    paths = {
        variable: [f"{head}/{end}/{variable}" for end in _ENDS]
        for variable in ("kernel", "bias")
    }
    own = portable.take_part(tensors, head)
    if own.keys() != {*paths["kernel"], *paths["bias"]}:
        raise errors.ModelError(
            "ElectraForQuestionAnswering predicts start and end independently, "
            "each by one linear layer. Received: a head with other layers. "
            f"Fine-tune with {answering_task.PLAIN_HEAD}, or leave the head "
            f"out: {portable.without(portable.TASK_HEADS)}."
        )
    joined = {
        f"{head}/outputs/{variable}": np.concatenate([own[p] for p in ends], -1)
        for variable, ends in paths.items()
    }
    return portable.drop_part(tensors, head) | joined


_names = parameter_names.hugging_face
_SENTENCE: Any = {
    "read": _read_sentence_head,
    "write": _write_sentence_head,
    "has_hidden_layer": True,
}


@dataclasses.dataclass(frozen=True)
class HeadClass:
    """A class of transformers: an encoder, perhaps with a head.

    `read` and `write` convert the head of a task from their layout to ours and
    back. They take a model's tensors, and the prefix of the head's paths.
    """

    name: str
    tensor_prefix: str  # of tensors that only this class has
    part: str = ""  # the head's part of a pre-trained `PortableModel`
    table: parameter_names.NameTable = parameter_names.HUGGING_FACE
    read: Callable[[Tensors, str], Arrays] | None = None
    write: Callable[[Tensors, str], Tensors] | None = None
    has_hidden_layer: bool = False  # before the output layer
    names_outputs: bool = True  # whether its config lists labels
    note: str = ""  # on changes made by `read`


_CLASSES = (
    HeadClass(
        "ElectraForPreTraining",
        "discriminator_predictions.",
        portable.REPLACED_TOKEN_HEAD,
    ),
    HeadClass(
        "ElectraForMaskedLM", "generator_predictions.", portable.MASKED_LM_HEAD
    ),
    HeadClass(
        "ElectraForMultipleChoice",
        "sequence_summary.",
        table=_names("classifier", "sequence_summary.summary"),
        **_SENTENCE,
    ),
    HeadClass(
        "ElectraForSequenceClassification",
        "classifier.out_proj.",
        table=_names("classifier.out_proj", "classifier.dense"),
        **_SENTENCE,
    ),
    HeadClass(
        "ElectraForTokenClassification",
        "classifier.",
        table=_names("classifier"),
        read=lambda tensors, _: exchange_segments(tensors),
        write=lambda tensors, _: exchange_segments(tensors),
        note="exchanged segments 0 and 1, words are in 1 here",
    ),
    HeadClass(
        "ElectraForQuestionAnswering",
        "qa_outputs.",
        table=_names("qa_outputs"),
        read=_read_span_head,
        write=_write_span_head,
        names_outputs=False,
    ),
    HeadClass("ElectraModel", ""),
)
HEAD_CLASSES: Mapping[str, HeadClass] = {each.name: each for each in _CLASSES}
_WRAPPERS = r"((module|_orig_mod|model)\.)+"

_MAX_LABELS = 100_000
_Labels = Annotated[Mapping[str, str], pydantic.Field(min_length=1)]
_Architectures = Annotated[
    tuple[Annotated[str, schema.one_of(*HEAD_CLASSES)], ...],
    pydantic.Field(max_length=1),
]
_Epsilon = Annotated[float, pydantic.Field(ge=1e-12, le=1e-12)]
# The name of a task, which becomes the name of a layer.
_NAME = re.compile(r"[A-Za-z0-9.][\w.-]*", re.ASCII)
_REGRESSION = "regression"
_PROBLEMS = ("single_label_classification", "multi_label_classification",
             _REGRESSION)  # fmt: skip


@schema.frozen
class _Config:
    """Fields of their config; a kind's `options_class` reads further ones."""

    model_type: Literal["electra"] = "electra"
    architectures: _Architectures | None = None
    hidden_act: Literal["gelu"] = "gelu"
    layer_norm_eps: _Epsilon = 1e-12
    position_embedding_type: Literal["absolute"] = "absolute"
    is_decoder: Literal[False] = False
    add_cross_attention: Literal[False] = False
    finetuning_task: str | None = None
    id2label: _Labels | None = None
    problem_type: Annotated[str, schema.one_of(*_PROBLEMS)] | None = None
    # The head of multiple choice.
    summary_type: Literal["first"] = "first"
    summary_use_proj: Literal[True] = True
    summary_activation: Literal["gelu"] = "gelu"
    # Fields that only this project writes.
    electra_tf_kind: str = ""  # if the other fields leave the kind open
    text_pairs: bool = False


def read_model(path: pathlib.Path) -> PortableModel:
    """Reads a folder of one model, or of a discriminator and a generator."""
    main, generator = path / "discriminator", path / "generator"
    if (path / CONFIG_FILE).exists() or not main.exists():
        return _read_one(path)
    model = _read_one(main)
    if generator.exists():
        model = pairs.join(model, _read_one(generator))
    return model


def _read_one(path: pathlib.Path) -> PortableModel:
    file = path / CONFIG_FILE
    config_fields = _read_config(file)
    known = portable.build_known(_Config, config_fields, file)
    # Fields that the config lacks have the same defaults here.
    encoder = portable.build_known(config.EncoderConfig, config_fields, file)
    model = PortableModel({}, encoder)
    expected = portable.part_shapes(portable.MAIN, model)
    arrays, source = tensor_files.read_tensors(path, expected)
    arrays, notes = _remove_wrapper_prefix(arrays)
    if known.architectures:
        head = HEAD_CLASSES[known.architectures[0]]
    else:
        head = next(
            each
            for each in _CLASSES
            if any(n.startswith(each.tensor_prefix) for n in ("", *arrays))
        )
        notes.append(f"{CONFIG_FILE} names no class, read as {head.name}")
    task = None
    if head.read is not None:
        task = _read_task(known, head, config_fields, file)
        width, outputs = encoder.hidden_size, f"{task.head}/outputs"
        expected |= (
            portable.task_shapes(task, width, {})
            if head.names_outputs
            else portable.linear_shapes(outputs, width, 2)
        )
    elif head.part:
        expected |= portable.part_shapes(head.part, model)
    kinds = (str(value.dtype) for value in arrays.values())
    notes += parameter_names.precision_notes(kinds)
    if (repeated := arrays.pop(_TIED_OUTPUT, None)) is not None:
        if not np.array_equal(repeated, arrays.get(_TABLE, ())):
            raise errors.ModelError(
                f"{source}: {_TIED_OUTPUT} must equal the word embeddings, to "
                "which the output is tied. Received: another matrix."
            )
        notes.insert(0, f"{_TIED_OUTPUT} repeats the word embeddings, left out")
    has_prefix = any(name.startswith("electra.") for name in arrays)
    if head.name == _ENCODER and not has_prefix:
        arrays = {f"electra.{name}": arrays[name] for name in arrays}
    origin = f"{source}, by its {CONFIG_FILE},"
    tensors = parameter_names.take(
        arrays, expected, head.table, origin, _NO_WEIGHTS
    )
    if task is not None and head.read is not None:
        tensors = head.read(tensors, task.head)
        has_hidden = f"{task.head}/hidden/kernel" in tensors
        task = dataclasses.replace(task, has_hidden_layer=has_hidden)
        notes = [head.note] * bool(head.note) + notes
    vocabulary = tokenizer_files.load_if_there(path, encoder)
    return PortableModel(
        tensors,
        encoder,
        vocabulary=vocabulary,
        task=task,
        origin=f"Hugging Face {head.name} {path}",
        notes=(*notes, *tokenizer_files.notes_of(vocabulary)),
    )


def _read_config(file: pathlib.Path) -> dict[str, Any]:
    if not file.exists():
        raise FileNotFoundError(
            f"Expected {CONFIG_FILE} beside the weights in {file.parent}. "
            "Received: none. Give the complete folder of a model."
        )
    fields = schema.read_object(file, errors.ModelError)
    names = fields.get("id2label")
    if isinstance(names, dict) and len(names) > _MAX_LABELS:
        raise errors.ModelError(
            f"{file}: id2label must name the model's outputs, {_MAX_LABELS:,} "
            f"at most. Received: {len(names):,} names. Copy the files again."
        )
    return fields


def _remove_wrapper_prefix(arrays: Arrays) -> tuple[Arrays, list[str]]:
    """Removes the prefix of PyTorch's and Lightning's wrappers; adds a note."""
    ends = zip(min(arrays, default=""), max(arrays, default=""), strict=False)
    common = itertools.takewhile(lambda pair: pair[0] == pair[1], ends)
    match = re.match(_WRAPPERS, "".join(letter for letter, _ in common))
    if not match:
        return arrays, []
    prefix = match[0]
    arrays = {n.removeprefix(prefix): arrays[n] for n in arrays}
    return arrays, [f"removed {prefix} from the names of all tensors"]


def _read_task(
    known: _Config,
    head: HeadClass,
    config_fields: Mapping[str, Any],
    file: pathlib.Path,
) -> PortableTask:
    name = known.finetuning_task or ""
    name = name if _NAME.fullmatch(name) else "own"
    # transformers' default.
    named = known.id2label or {"0": "LABEL_0", "1": "LABEL_1"}
    kind = _find_kind(known, head.name, len(named), file)
    labels = tuple(named.get(str(number), "") for number in range(len(named)))
    if kind.outputs_are_labels:
        _require_labels(labels, f"{file}: id2label")
    return PortableTask(
        name,
        kind.kind,
        labels if kind.outputs_are_labels else (),
        has_hidden_layer=head.has_hidden_layer,
        has_pairs=known.text_pairs,
        options=portable.build_known(kind.options_class, config_fields, file),
    )


def _find_kind(
    known: _Config, class_name: str, num_outputs: int, file: object
) -> type[base.Task]:
    """Returns the kind that a config names, or infers it from other fields."""
    if name := known.electra_tf_kind:
        # A downloaded file must not choose which code is imported.
        is_imported = name in TASK_KINDS or name in sys.modules
        kind = base.find_kind(name) if is_imported else None
        if kind is None or kind.hugging_face != class_name:
            raise errors.ModelError(
                f"{file}: `electra_tf_kind` must be a kind of task for "
                f"{class_name}. Received: {name!r}. If a module of yours "
                "defines this kind, import the module first."
            )
        return kind
    known_kinds = map(base.find_kind, TASK_KINDS)
    candidates = [k for k in known_kinds if k.hugging_face == class_name]
    usual = _REGRESSION if num_outputs == 1 else candidates[0].problem_type
    problem = known.problem_type or usual
    alike = (kind for kind in candidates if kind.problem_type == problem)
    return next(alike, candidates[0])


def _require_labels(labels: tuple[str, ...], source: str) -> None:
    known = set[str]()
    for number, label in enumerate(labels):
        is_line = label.strip() and label.splitlines() == [label]
        if not is_line or label in known:
            raise errors.ModelError(
                f"{source} must give every output a different name of one "
                f"line. Received: {label!r:.80} for output {number}."
            )
        known.add(label)


def write(model: PortableModel, folder: pathlib.Path) -> PortableModel:
    """Writes a folder for `from_pretrained`; returns the written model."""
    model = portable.state_initializers(model)
    heads = {each.part for each in _CLASSES}
    known = {portable.MAIN, portable.GENERATOR, *heads}
    if model.task is not None:
        known = {portable.MAIN, portable.TASK_HEADS}
    if model.trained_by.answer is networks.Answer.ENERGY:
        known -= {portable.REPLACED_TOKEN_HEAD}
    portable.require_parts(
        model,
        known,
        "Hugging Face has classes for bidirectional encoders with a head for "
        "replaced or for masked tokens, but none for Electric's energies.",
    )
    for name, part in pairs.split(model).items():
        target = folder / name
        target.mkdir(exist_ok=True)
        _write_one(part, target)
    return model


def _write_one(model: PortableModel, folder: pathlib.Path) -> None:
    tensors, task, task_fields = model.tensors, model.task, {}
    if task is not None:
        head = HEAD_CLASSES.get(base.find_kind(task.kind).hugging_face)
        if head is None or head.write is None:
            raise errors.ModelError(
                f"Hugging Face has no class for a task of {task.kind!r}. Leave "
                f"the head out: {portable.without(portable.TASK_HEADS)}."
            )
        tensors = head.write(tensors, task.head)
        task_fields = _task_fields(task, head, model.origin)
    else:
        own = (each for each in _CLASSES if each.part in model.parts)
        head = next(own, HEAD_CLASSES[_ENCODER])
    arrays = head.table.split_all(tensors)
    if head.name == _ENCODER:
        arrays = {n.removeprefix("electra."): arrays[n] for n in arrays}
    # transformers refuses files that do not name their framework.
    # `safetensors.save_file` would make a file that only its owner can read.
    content = safetensors.numpy.save(arrays, {"format": "pt"})
    (folder / tensor_files.SAFETENSORS_FILE).write_bytes(content)
    fields = {
        "architectures": [head.name],
        "model_type": "electra",
        **dataclasses.asdict(model.encoder),
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "pad_token_id": model.vocabulary.pad_id if model.vocabulary else 0,
        "tie_word_embeddings": True,
        "dtype": "float32",
    }
    text = schema.to_json(fields | task_fields)
    (folder / CONFIG_FILE).write_text(text, "utf-8")
    if model.vocabulary is not None:
        tokenizer_files.write_hugging_face(
            model.vocabulary, folder, model.encoder.max_position_embeddings
        )


def _task_fields(task: PortableTask, head: HeadClass, origin: str) -> Any:
    fields: dict[str, Any] = {"finetuning_task": task.name}
    kind = base.find_kind(task.kind)
    if head.names_outputs:
        labels = task.labels if kind.outputs_are_labels else ("LABEL_0",)
        portable.require_labels(task.name, labels, origin)
        _require_labels(labels, f"{origin}: the task {task.name!r}")
        fields["id2label"] = dict(enumerate(labels))
        fields["label2id"] = {label: n for n, label in enumerate(labels)}
    if task.has_pairs:
        fields["text_pairs"] = True
    if kind.problem_type:
        fields["problem_type"] = kind.problem_type
    options = dataclasses.asdict(task.options)
    fields |= {k: v for k, v in options.items() if v is not None}
    written = _Config(problem_type=kind.problem_type)
    num_outputs = len(fields.get("id2label", ()))
    if _find_kind(written, head.name, num_outputs, CONFIG_FILE) is not kind:
        fields["electra_tf_kind"] = task.kind
    return fields
